"""Parameter sweeps of a link: axes, points of their grid, runs, one result. May import all of optics."""
