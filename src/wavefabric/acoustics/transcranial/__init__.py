"""Simulates ultrasound through the skull, from a CT of a head to a medium, a focal field and its measures.

`ct` reads CTs and resamples them onto a grid, `hounsfield` converts them to media, `phantom` is a synthetic
head, `sonication` and `plan` simulate, `focus` measures a focal field. May import everything in `acoustics`.
"""
