"""Models signals: WDM grid, constellations, transmitter, amplifier, receiver.

This package imports devices and, of the other packages of optics, only `ModeMixing`.
"""
