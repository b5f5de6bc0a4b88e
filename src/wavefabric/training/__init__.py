"""Training of neural networks simulated on a fabric: one iteration, from layers to the time it takes.

Rooms: models (layer graphs), communication (calls on fabrics), search (strategies), traces (in and out).
Imports collectives, fabric, execution, files and system; optics and acoustics for their exchanges alone.
"""
