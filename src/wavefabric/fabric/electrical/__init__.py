"""Describes electrical fabrics: GPUs, switches and links; families such as rings and tori; static routes.

Imports collectives for schedules, and no other package of `wavefabric.fabric`.
"""
