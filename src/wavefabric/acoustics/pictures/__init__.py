"""Draws acoustic fields: from memory (`fields`), from result files (`plot_recorded`), as a `movie`.

May import `grid`, `result` and the reader of k-Wave's files; Matplotlib is imported when a figure is drawn.
"""
