"""Fourier methods that solvers share."""
