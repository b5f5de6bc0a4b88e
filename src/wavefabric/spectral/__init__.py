"""Wavenumbers, transforms of one axis inside a CUDA block, and real transforms distributed over ranks.

May import ``exchange``, ``device`` and what is below them.
"""
