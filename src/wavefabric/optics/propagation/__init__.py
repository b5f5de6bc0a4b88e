"""Propagates fields through one fibre: operators, integrators, step control, ranks; kernels for each device.

This package imports the fibre, devices, collectives, exchange and lifecycle, but no signals and no run file.
"""
