"""Circuits of light: what is free in a round, schedules known beforehand, and the models for the solvers.

May import what lies above it in `synthesis`, but not `links`.
"""
