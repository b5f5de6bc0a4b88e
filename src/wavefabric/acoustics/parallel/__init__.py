"""Shares a time step among several ranks: parts of the grid, overlaps of blocks, transposes of spectra.

May import `acoustics.problem`, `acoustics.solver`, `spectral` and `exchange`.
"""
