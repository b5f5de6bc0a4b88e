"""Fourth-order Runge–Kutta in the interaction picture."""

from __future__ import annotations

from wavefabric.optics.propagation.integrators.base import Integrator
from wavefabric.optics.propagation.operators import Stages


class RK4IP(Integrator):
    r"""RK4IP: 8 FFTs and 4 evaluations of N̂ a step, locally fifth, globally fourth order.

    With :math:`E = \exp(\frac h2 \hat L)`, eq. (6a–f) of Brehler et al. after Hult 2007
    (doi 10.1109/JLT.2007.909373):

    .. math::
        A_I = E A, \quad k_1 = E\,h\hat N(A)A, \quad
        k_2 = h\hat N(A_I + \tfrac{k_1}2)[A_I + \tfrac{k_1}2], \quad
        k_3 = h\hat N(A_I + \tfrac{k_2}2)[A_I + \tfrac{k_2}2],

        k_4 = h\hat N(E[A_I + k_3])\,E[A_I + k_3], \quad
        A(z+h) = E[A_I + \tfrac{k_1}6 + \tfrac{k_2}3 + \tfrac{k_3}3] + \tfrac{k_4}6 .

    Two fields are enough: k2 and k3 are formed in one sweep, and the sweep that adds k4 also forms
    :math:`\hat N(A)A` of the next step.
    """

    name, order, extra_fields = "rk4ip", 4, 1

    def __init__(self, stages: Stages):
        super().__init__(stages)
        self.K = stages.empty()

    def begin(self, A, h: float) -> None:
        self.stages.kerr_derivative(A, self.K)

    def step(self, A, h: float, measure: bool = False) -> None:
        stages, K = self.stages, self.K  # K = N̂(A)A
        stages.linear(A, h / 2)  # A = A_I                                        (6a)
        stages.linear(K, h / 2)  # K = k1/h                                       (6b)
        stages.rk4ip_middle(A, K, h)  # A = A_I + k3, K = A_I + k1/6 + k2/3 + k3/3  (6c, 6d)
        stages.linear(A, h / 2)  # A = E[A_I + k3]                                (6e)
        stages.linear(K, h / 2)  # K = E[A_I + k1/6 + k2/3 + k3/3]                (6f)
        stages.rk4ip_last(A, K, h, measure)  # A = K + k4/6, K = N̂(A)A
