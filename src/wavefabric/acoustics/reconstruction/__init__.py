"""Images from what sensors have recorded: time reversal and its iterations.

May import `acoustics.simulation` and what it imports.
"""
