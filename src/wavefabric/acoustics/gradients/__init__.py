"""Derivatives of a simulation: of any objective of what it records, with respect to medium and sources.

May import all of `acoustics` but `reconstruction`, `heating` and `transcranial`. The adjoint of the time step
is in `solver`, beside the step.
"""
