"""Computes time steps by kernels that fuse Fourier transforms with pointwise work, for CPUs and GPUs.

May import `acoustics.solver`, and what that package may import.
"""
