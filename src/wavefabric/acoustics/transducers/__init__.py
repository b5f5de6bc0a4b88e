"""Defines transducers whose surface lies anywhere in the grid, without staircases: bowls, discs, arrays.

`elements` has their shapes, `mask` their weights on the grid. May import `grid`, `source`,
`focused_bowl` and `arguments`.
"""
