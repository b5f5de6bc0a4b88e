"""Propagation through one fibre: operators, integrators, step control, ranks; kernels for each device.

Imports the fibre, devices and exchange; knows no signals and no run file.
"""
