"""Divides a time step among several ranks, which exchange overlaps of blocks or transpose spectra.

May import `acoustics.problem`, `acoustics.solver`, `spectral` and `exchange`.
"""
