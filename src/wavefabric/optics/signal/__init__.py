"""Signals: WDM grid, constellations, transmitter, amplifier, receiver.

Imports devices, and of the other packages of optics only `ModeMixing`.
"""
