"""k-Wave's files and k-wave-python's objects: read as a `Problem`, and written.

`input` reads and writes input files, `output` writes a run's output file, `objects` takes
k-wave-python's objects. May import what users meet, `recording` and `check`; the solver only through these.
"""
