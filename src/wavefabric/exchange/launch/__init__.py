"""Starting ranks with mpiexec (`wavefabric run --ranks`), and what a rank finds and reports about itself.

May import ``system``, ``files`` and ``errors``.
"""
