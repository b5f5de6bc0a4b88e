"""Embedded Runge–Kutta in the interaction picture, for local-error control."""

from __future__ import annotations

import math

from wavefabric.optics.propagation.integrators.rk4ip import RK4IP
from wavefabric.optics.propagation.operators import Stages


class ERK43IP(RK4IP):
    r"""ERK4(3)-IP of Balac & Mahé 2013, doi 10.1016/j.cpc.2012.12.020.

    The step is RK4IP's. Since :math:`\hat N(A)A` of the new field is known (it starts the next
    step), a third-order solution comes free; the two differ by
    :math:`\frac h{10}(k_4/h - \hat N(A)A)`, whose norm is the local error.
    """

    name, extra_fields, adaptive = "erk43ip", 3, True

    def __init__(self, stages: Stages):
        super().__init__(stages)
        self._kept = stages.empty(), stages.empty()

    def trial(self, A, h: float) -> float:
        """One step of h; returns the absolute local error ‖error‖₂, in √(W × samples)."""
        self._kept[0][...] = A
        self._kept[1][...] = self.K
        self.step(A, h, measure=True)
        return math.sqrt(self.stages.squared_error())

    def reject(self, A) -> None:
        """Undo the last ``trial``."""
        A[...] = self._kept[0]
        self.K[...] = self._kept[1]
