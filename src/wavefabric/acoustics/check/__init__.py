"""Checks whether the numbers of a problem are valid: rules, frequencies of sources, dispersion.

May import `grid`, `medium`, `problem`, `recording.quantities` and the formulas of `solver`.
"""
