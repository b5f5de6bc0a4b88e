"""Run solvers and schedules: devices, kernels, transforms, exchange between ranks, checkpoints.

May import ``collectives`` and ``base``.
"""
