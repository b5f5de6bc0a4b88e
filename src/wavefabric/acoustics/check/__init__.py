"""Whether the numbers of a problem make sense: rules, frequencies of sources, dispersion.

May import `grid`, `medium`, `problem`, `recording.quantities` and the formulas of `solver`.
"""
