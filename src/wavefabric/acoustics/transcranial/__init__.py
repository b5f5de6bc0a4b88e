"""Ultrasound through the skull: from a CT of a head to a medium, and from a field to the figures reported.

`ct` reads CTs and brings them onto a simulation grid, `hounsfield` makes media of them, `phantom` is a head
of our own, `focus` measures a focal field. May import everything in `acoustics`.
"""
