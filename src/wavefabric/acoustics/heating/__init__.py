"""What ultrasound heats: absorbed power, temperature by Pennes's equation, thermal dose.

May import `acoustics.simulation` and what it imports. The transforms are those of the plain stages, so that
temperatures lie over ranks as pressures do.
"""
