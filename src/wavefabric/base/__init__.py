"""Provide what all other packages use: errors, units, arguments, files, results, facts about the machine.

This package imports no other package of wavefabric.
"""
