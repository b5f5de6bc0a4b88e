"""Imports fabrics from descriptions made by machines: NCCL, nvidia-smi, rocm-smi, ASTRA-sim.

May import `electrical`, `fabric.io`, `files` and `system`.
"""
