"""Computes lower bounds on the time of any schedule: number of rounds, and bytes over the tightest cut.

Imports the fabrics (electrical, photonic) and collectives.
"""
