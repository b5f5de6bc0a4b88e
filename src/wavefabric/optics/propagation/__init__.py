"""Propagation through one fibre: operators, integrators, step control, ranks; kernels for each device.

Imports the fibre, devices, collectives, exchange and lifecycle; knows no signals and no run file.
"""
