"""Schedules of collective operations, built: one module for each family of algorithms."""
