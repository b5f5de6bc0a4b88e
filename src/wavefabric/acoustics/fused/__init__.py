"""Stages of a 3-D time step whose transforms and pointwise work are fused, for CPUs and GPUs.

May import what `acoustics.solver` may, and that.
"""
