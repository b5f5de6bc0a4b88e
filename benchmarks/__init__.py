"""All measurements of a machine in sequence, with one report: `python benchmarks/suite.py`."""
