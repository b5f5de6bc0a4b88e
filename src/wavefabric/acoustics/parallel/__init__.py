"""Layouts of the time step over several ranks: decompositions, overlaps, transposes.

May import `acoustics.problem`, `acoustics.solver`, `spectral` and `exchange`.
"""
