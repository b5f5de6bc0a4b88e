"""Compute wavenumbers and Fourier transforms: in blocks of CUDA threads, of symmetric fields, over ranks.

This package may import ``exchange``, ``device`` and the packages below them.
"""
