"""Division of a grid among ranks: slabs, pencils or blocks with overlaps, and the windows of blocks.

May import `spectral` and `exchange`, and no other package of acoustics.
"""
