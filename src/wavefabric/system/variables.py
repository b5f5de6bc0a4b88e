"""Environment variables that several packages read."""

#: The plan that a run follows, JSON; its result keeps it.
PLAN = "WAVEFABRIC_PLAN"
#: What runs exchanges over p2p of which nothing else is said, as ``NCCL_PROTO`` for NCCL.
PROTOCOL = "WAVEFABRIC_PROTOCOL"
