"""The work of a GPU for a layer and its time: FLOPs and bytes, roofline or measured times, precisions, files.

Imports the graph of `wavefabric.training.models`; `operator_times` also devices.
"""
