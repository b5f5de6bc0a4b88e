"""Provide kernels for CPUs and GPUs: shared formulas, drivers that loop over arrays, a table of arguments.

``*.h`` are formulas at one point, without loops over points. ``cpu/`` has the drivers for CPUs, C++ compiled
to a library with a C interface; CUDA sources include the same formulas. `table` explains the tables of
kernels and their arguments, from which both launchers are made (`cpu_launch`, `cuda_launch`). `build_cpu`
compiles the library, `library` loads it.
"""
