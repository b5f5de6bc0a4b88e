"""Provide what fibre and ultrasound runs share: checks across ranks, status, checkpoints, reversal.

This package may import `exchange`, `device`, `results`, `files` and `system`; solvers import this package.
"""
