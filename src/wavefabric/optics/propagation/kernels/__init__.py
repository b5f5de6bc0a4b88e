"""Contains the kernels of the propagation on one device, for CPU (C++) and GPU (CUDA).

A Kerr operator is described twice: by a `KerrOperator` in ``operators.py``, and by its formulas for one
sample in ``wavefabric/runtime/kernels/kerr.h``. All kernels are made from these two.
"""

from typing import NamedTuple

#: Operators whose adjoints `kerr_adjoint` applies.
ADJOINTS = ("derivative", "rotate", "phase_rate", "turn")


class KerrOperator(NamedTuple):
    """Describes a Kerr operator: powers of phase groups give phase rates, and these update the field rows.

    A phase group is a set of rows with the same Kerr phase. The operator computes phase rates ``stages``
    times, each time from the powers that the rates before lead to. From one stage to the next ``numbers``
    values per phase group and sample are stored.
    """

    name: str
    stages: int = 1
    numbers: int = 0
