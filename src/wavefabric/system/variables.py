"""Environment variables that several packages read."""

#: The plan that a run follows, JSON; its result keeps it.
PLAN = "WAVEFABRIC_PLAN"
