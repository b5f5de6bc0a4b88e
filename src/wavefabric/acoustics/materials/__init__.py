"""Media of few materials: which parameters may be held as an index into a table, found on the host; how a GPU
reads them.

May import `acoustics.problem` and `system`.
"""
