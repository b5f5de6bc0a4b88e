"""Signals: WDM grid, constellations, transmitter, amplifier, receiver.

Imports devices, and of the other rooms of optics only `ModeMixing`.
"""
