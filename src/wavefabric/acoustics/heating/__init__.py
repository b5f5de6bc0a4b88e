"""Computes heating by ultrasound: absorbed power, temperature by Pennes's equation, thermal dose.

May import `acoustics.simulation` and its imports. The transforms are those of the acoustic solver, which
divides temperatures among ranks like pressures.
"""
