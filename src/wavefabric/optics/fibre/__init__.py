"""The fibre: index profile → LP modes → dispersion and Kerr coupling κ → `Fibre`; presets, CSV tables.

Imports nothing else of optics.
"""
