"""Models the fibre: index profile → LP modes → dispersion and Kerr coupling κ → `Fibre`; presets, CSV tables.

This package imports no other package of optics.
"""
