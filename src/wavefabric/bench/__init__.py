"""Benchmarks: one module per table or figure of the papers, and the limits of the machine."""
