"""Compute wavenumbers, transforms of one axis inside a CUDA block, and real transforms over several ranks.

May import ``exchange``, ``device`` and the packages below them.
"""
