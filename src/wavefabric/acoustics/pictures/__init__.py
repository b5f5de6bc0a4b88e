"""Draws acoustic fields: `fields` those in memory, `plot_recorded` those in a result file.

May import `grid`, `result` and the reader of k-Wave's files; Matplotlib is imported when a figure is drawn.
"""
