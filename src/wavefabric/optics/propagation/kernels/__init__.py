"""Kernels of the propagation on one device, for CPU (C++) and GPU (CUDA).

A Kerr operator is described twice: by a `KerrOperator` in ``operators.py``, and by its formulas on one sample
in ``wavefabric/kernels/kerr.h``. All kernels are made of these.
"""

from typing import NamedTuple

#: What `kerr_adjoint` is the adjoint of.
ADJOINTS = ("derivative", "rotate", "phase_rate", "turn")


class KerrOperator(NamedTuple):
    """A chain of sums over the rows of phase groups, phase rates from these sums, and an update of the rows.

    ``stages`` phase rates follow one another, each from the powers that the rate before leads to;
    ``numbers`` are kept for each group and sample between them.
    """

    name: str
    stages: int = 1
    numbers: int = 0
