"""Divides a grid among ranks into slabs, pencils or overlapping blocks, and defines the blocks' windows.

May import `spectral` and `exchange`, and no other package of acoustics.
"""
