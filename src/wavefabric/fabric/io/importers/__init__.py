"""Fabrics from what machines say about themselves: topology files of NCCL, tables of nvidia-smi."""
