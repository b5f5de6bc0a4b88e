"""Models optical fibres: index profile → LP modes → dispersion, Kerr coupling κ → `Fibre`; presets, CSV.

This package imports no other package of optics.
"""
