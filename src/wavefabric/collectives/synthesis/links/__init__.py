"""Electrical links: what they carry in a step, schedules known beforehand, and the model for the solvers."""
