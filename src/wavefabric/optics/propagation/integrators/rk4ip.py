"""Fourth-order Runge–Kutta in the interaction picture, and its form with an embedded third order."""

from __future__ import annotations

import math

from wavefabric.optics.propagation.integrators.base import Integrator


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

    Two fields are enough: k2 and k3 are formed in one kernel, and the kernel that adds k4 also forms
    :math:`\hat N(A)A` of the next step.
    """

    name, order, extra_fields = "rk4ip", 4, 1

    def __init__(self, operators):
        super().__init__(operators)
        self.K = operators.empty()

    def begin(self, A, h: float) -> None:
        self.operators.kerr_derivative(A, self.K)

    def step(self, A, h: float, measure: bool = False) -> None:
        operators, K = self.operators, self.K  # K = N̂(A)A
        operators.linear(A, h / 2)  # A = A_I                                        (6a)
        operators.linear(K, h / 2)  # K = k1/h                                       (6b)
        operators.rk4ip_middle(A, K, h)  # A = A_I + k3, K = A_I + k1/6 + k2/3 + k3/3  (6c, 6d)
        operators.linear(A, h / 2)  # A = E[A_I + k3]                                (6e)
        operators.linear(K, h / 2)  # K = E[A_I + k1/6 + k2/3 + k3/3]                (6f)
        operators.rk4ip_last(A, K, h, measure)  # A = K + k4/6, K = N̂(A)A


class ERK43IP(RK4IP):
    r"""ERK4(3)-IP of Balac & Mahé 2013, doi 10.1016/j.cpc.2012.12.020.

    The step is RK4IP's. Since :math:`\hat N(A)A` of the new field is known (it starts the next
    step), a third-order solution comes free; the two differ by
    :math:`\frac h{10}(k_4/h - \hat N(A)A)`, whose norm is the local error.
    """

    name, extra_fields, adaptive = "erk43ip", 3, True

    def __init__(self, operators):
        super().__init__(operators)
        self._kept = operators.empty(), operators.empty()

    def trial(self, A, h: float) -> float:
        """One step of h; returns the absolute local error ‖error‖₂, in √(W × samples)."""
        self._kept[0][...] = A
        self._kept[1][...] = self.K
        self.step(A, h, measure=True)
        return math.sqrt(self.operators.squared_error())

    def reject(self, A) -> None:
        """Undo the last ``trial``."""
        A[...] = self._kept[0]
        self.K[...] = self._kept[1]
