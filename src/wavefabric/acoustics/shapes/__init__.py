"""Media given finer than the grid: as shapes, as layers, as finer arrays; their boundaries lie anywhere.

`material` has the materials, `averaging` what a grid point gets of what surrounds it, `media` the media.
May import `acoustics.grid`, `acoustics.medium`, `acoustics.arguments` and the formulas of `acoustics.solver`.
"""
