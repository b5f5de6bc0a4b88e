"""Fabrics from what machines say about themselves: topology files of NCCL, tables of nvidia-smi.

May import `electrical`, `fabric.io`, `files` and `system`.
"""
