"""Electrical links: what they carry in a step, schedules known beforehand, and the model for the solvers.

May import what lies above it in `synthesis`, and the heuristics of `circuits`.
"""
