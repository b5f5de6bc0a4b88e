"""Runs parameter sweeps of a link: axes, grid points, runs, one result. May import all of optics."""
