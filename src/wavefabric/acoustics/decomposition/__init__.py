"""How ranks share a grid: slabs, pencils or blocks with overlaps, and the windows of these.

May import `spectral` and `exchange`, and no other package of acoustics.
"""
