"""Imports fabrics from descriptions made by machines: topology files of NCCL, tables of nvidia-smi.

May import `electrical`, `fabric.io`, `files` and `system`.
"""
