"""Whether the numbers of a problem make sense: rules, frequencies of sources, dispersion.

May import `acoustics.problem` and `acoustics.solver.operators`.
"""
