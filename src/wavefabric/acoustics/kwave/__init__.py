"""Reads and writes k-Wave's files, and reads k-wave-python's objects as a `Problem`.

`input` reads and writes input files, `output` writes a run's output file, `objects` reads k-wave-python's
objects. May import the public modules, `recording` and `check`, and the solver only through these.
"""
