"""Start ranks with mpiexec (`wavefabric run --ranks`), and read and report a rank's environment and status.

May import ``system``, ``files`` and ``errors``.
"""
