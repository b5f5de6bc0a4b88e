"""Kernels of the operators, each written for Numba (the reference) and CUDA; ``*_cuda.py`` launch the latter.

`wavefabric.device` picks one of the two by the name of the module. Imports `device` and `system` alone.
"""
