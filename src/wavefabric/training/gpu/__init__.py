"""Count the work (FLOPs, bytes) of a GPU for a layer, and compute its time by a roofline or measured times.

Of training, imports only `models.graph`. `operator_times` also imports runtime devices, to measure on them.
"""
