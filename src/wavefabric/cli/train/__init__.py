"""`wavefabric train`: a model's iteration on a fabric, models by name, and operators measured.

A module for each command, imported when one is asked for; no other command imports them.
"""
