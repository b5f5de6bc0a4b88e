"""Fabrics from what machines say about themselves: NCCL's topology files, tables of nvidia-smi."""
