"""Defines transducers whose surface lies anywhere in the grid, without staircases: bowls, discs, arrays.

`elements` and `arrays` build them, `mask` computes their weights on the grid, `beamforming` forms images. May
import `grid`, `source`, `focused_bowl` and `arguments`.
"""
