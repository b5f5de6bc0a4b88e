"""Stages of a time step whose transforms and pointwise work are fused, for CPUs and GPUs.

May import `acoustics.solver`, and what that package may import.
"""
