"""Predicts the time of a schedule on a fabric; `cost` picks a model: alpha-beta, flow, kernel or photonic.

Imports the fabrics, bounds and collectives.
"""
