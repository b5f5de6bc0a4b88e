"""Simulates a whole link from a run file: parts, warnings, run, result file. May import all of optics."""
