"""Start ranks with mpiexec (`wavefabric run --ranks`), and read and report a rank's environment and status.

This package may import ``system``, ``files`` and ``errors``.
"""
