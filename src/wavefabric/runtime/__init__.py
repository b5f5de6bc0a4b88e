"""Provide what solvers run on: devices, kernels, transforms, exchange between ranks, checkpoints.

This package may import ``collectives`` and ``base``.
"""
