"""Pictures of acoustic fields: `fields` draws what is in memory, `plot_recorded` what is in a result file.

May import `grid`, `result` and the reader of k-Wave's files; Matplotlib is imported when a figure is drawn.
"""
