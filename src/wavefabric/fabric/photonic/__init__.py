"""Photonic fabrics: tiles joined by waveguides; circuits planned round by round and proved; link budgets.

`planning` plans with `routing` (routes), `wavelengths` (wavelengths, waveguides) and `splitting` (parts).
Imports collectives, and no other package of `wavefabric.fabric`.
"""
