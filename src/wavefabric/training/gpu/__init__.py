"""Count the work (FLOPs, bytes) of a GPU for a layer, and compute its time by a roofline or measured times.

Imports the graph of `wavefabric.training.models`; `operator_times`, which measures, also runtime devices.
"""
