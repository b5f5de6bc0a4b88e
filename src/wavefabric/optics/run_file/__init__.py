"""The run file: its tables and their rules, and what a fault in it reads like.

Imports lists of names and the WDM grid from ``propagation`` and ``signal``; needs no device.
"""
