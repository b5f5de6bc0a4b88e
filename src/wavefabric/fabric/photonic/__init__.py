"""Models photonic fabrics (tiles joined by waveguides): plans and checks circuits per round; link budgets.

`planning` plans with `routing` (routes), `wavelengths` (wavelengths, waveguides) and `splitting` (parts).
Imports collectives, and no other package of `wavefabric.fabric`.
"""
