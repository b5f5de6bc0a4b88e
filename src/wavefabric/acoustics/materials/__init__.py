"""Media of few materials: finds the parameters to store as an index into a table; reads them on a GPU.

May import `acoustics.problem` and `system`.
"""
