"""Stores medium parameters that take few different values as an index into a table of materials.

May import `acoustics.problem` and `system`.
"""
