"""Predicts link performance without simulation: nonlinear interference, noise, Q² by mode, channel and span.

This package may import ``fibre``, ``signal`` and ``propagation``.
"""
