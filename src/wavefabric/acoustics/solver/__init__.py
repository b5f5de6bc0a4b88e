"""Takes k-space pseudospectral time steps: coefficients, stages, and kernels for CPUs and GPUs.

May import `acoustics.problem`, `acoustics.materials`, `spectral`, `device`, `exchange` and `system`; no
other package of acoustics.
"""
