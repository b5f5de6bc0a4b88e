"""What a GPU does for a layer and how long that takes: work, roofline or measured times, precisions, files.

Imports the graph of `wavefabric.training.models`; `operator_times` also devices.
"""
