"""Averages media given as shapes, layers or finer arrays onto a grid; boundaries may lie anywhere.

`material` defines materials, `averaging` averages around grid points, `media` builds media. May import
`acoustics.grid`, `acoustics.medium`, `acoustics.arguments` and the formulas of `acoustics.solver`.
"""
