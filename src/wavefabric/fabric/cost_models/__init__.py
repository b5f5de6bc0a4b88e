"""Time of a schedule on a fabric: `cost` picks a model: alpha-beta, flow or photonic.

Imports the fabrics, bounds and collectives.
"""
