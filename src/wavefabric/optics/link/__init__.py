"""A whole link from a run file: its parts, warnings, the run, the result file. May import all of optics."""
