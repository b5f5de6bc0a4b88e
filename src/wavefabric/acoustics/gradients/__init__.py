"""Computes derivatives of an objective of recorded data with respect to medium and sources.

May import all of `acoustics` but `reconstruction`, `heating` and `transcranial`. The adjoint of the time step
is in `solver`, beside the step.
"""
