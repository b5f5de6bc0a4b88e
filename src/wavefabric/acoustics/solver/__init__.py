"""The k-space pseudospectral time step: its coefficients, its stages, and their kernels for CPUs and GPUs.

May import `acoustics.problem`, `acoustics.materials`, `spectral`, `device`, `exchange` and `system`; no
other package of acoustics.
"""
