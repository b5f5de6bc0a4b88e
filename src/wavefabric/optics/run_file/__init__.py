"""Defines the run file: its tables, their rules, and the messages about faults in it.

This package imports lists of names and the WDM grid from ``propagation`` and ``signal``; it needs no device.
"""
