"""The paper's two symmetric split-step Fourier methods."""

from __future__ import annotations

from wavefabric.optics.propagation.integrators.base import Integrator
from wavefabric.optics.propagation.integrators.strang import Strang
from wavefabric.optics.propagation.operators import Stages


class SSFMRK4(Strang):
    r"""SSFM-RK4: Strang splitting with RK4 for the nonlinear sub-step; second order.

    The stages of RK4 are multiples of A by one number a cell, so one round of cell powers serves
    all four.
    """

    name = "ssfm_rk4"

    def step(self, A, h: float) -> None:
        self.stages.kerr_rotate_rk4(A, h)
        self.stages.linear(A, h)


class SSFMAgrawal(Integrator):
    r"""SSFM-Agrawal: symmetric split step with trapezoidal iteration of N̂; second order.

    .. math::
        A(z+h) ≈ e^{\frac h2\hat L} \exp\!\Big(\tfrac h2[\hat N(z) + \hat N(z+h)]\Big) e^{\frac h2\hat L} A(z)

    starting from :math:`\hat N(z+h) = \hat N(z)`; Agrawal, Nonlinear Fiber Optics, section 2.4.

    Parameters
    ----------
    iterations : int
        Passes over the nonlinear step. Two reach second order.
    """

    name, order, extra_fields = "ssfm_agrawal", 2, 1

    def __init__(self, stages: Stages, iterations: int = 2):
        super().__init__(stages)
        self.iterations = iterations
        self.H = stages.empty()
        self.rate0, self.rate1 = stages.rates(), stages.rates()

    def step(self, A, h: float) -> None:
        stages, H = self.stages, self.H
        stages.kerr_phase_rate(A, self.rate0)
        stages.linear(A, h / 2)
        H[...] = A
        after = self.rate0
        for last in reversed(range(self.iterations)):
            stages.rotate_mean(H, A, self.rate0, after, h)
            stages.linear(A, h / 2)
            if last:
                after = self.rate1
                stages.kerr_phase_rate(A, after)
