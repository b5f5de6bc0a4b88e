"""Kernels of CPUs and GPUs: formulas that stand once, drivers that loop over arrays, a table of what they
take.

``*.h`` are formulas at one point, without loops. ``cpu/`` has the drivers for CPUs, C++ compiled to a library
with a C interface; CUDA sources include the same formulas. `table` names each kernel with its arguments, from
which both launchers are made (`cpu_launch`, and `wavefabric.device.cuda`). `build` compiles the library,
`library` loads it.
"""
