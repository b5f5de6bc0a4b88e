"""Computes images from recorded data: time reversal and its iterations.

May import `acoustics.simulation` and its imports.
"""
