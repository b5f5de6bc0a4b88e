"""Integrate the multimode nonlinear Schrödinger equation with the operators L̂ and N̂; see `INTEGRATORS`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # avoid a slow import: run files need only the names of integrators
    from wavefabric.optics.propagation.operators import FibreOperators

# S6, order 4, of Blanes & Moan 2002, doi 10.1016/S0377-0427(01)00492-7, table 2.
_A = (0.0792036964311957, 0.353172906049774, -0.0420650803577195)
_B = (0.209515106613362, -0.143851773179818)
LINEAR = (*_A, 1 - 2 * sum(_A), *reversed(_A))
KERR = (*_B, 0.5 - sum(_B), 0.5 - sum(_B), *reversed(_B))


class Integrator:
    """Advances a field in place by whole steps.

    A *check interval* is a call of ``begin``, any number of calls of ``step``, and a call of ``end``, all
    with the same h. In between, the field may be in the integrator's internal representation (``strang``
    advances the field by half a linear step), so read the field only after ``end``.
    """

    #: Name in run files.
    name: str
    #: Global order in h.
    order: int
    #: (FFTs of the field, exchanges of powers) per step, and per check interval in addition to its steps.
    cost_per_step = (0, 0)
    cost_per_interval = (0, 0)
    #: Number of fields, and of arrays of Kerr phase rates, in addition to A.
    extra_fields = 0
    rate_arrays = 0
    #: Whether the integrator estimates local errors: it then has ``trial`` and ``reject``.
    adaptive = False
    #: Whether ``step`` does nothing but launch kernels.
    kernels_alone = True

    def __init__(self, operators: FibreOperators):
        self.operators = operators

    @classmethod
    def lengths(cls, h: float) -> tuple[float, ...]:
        """Return the lengths (m) over which the field propagates linearly in steps of ``h`` m."""
        return (h / 2,)

    def begin(self, A, h: float) -> None:
        """Prepare the field ``A`` for steps of ``h`` m."""

    def step(self, A, h: float) -> None:
        """Advance the field ``A`` by one step of ``h`` m."""
        raise NotImplementedError

    def end(self, A, h: float) -> None:
        """Convert ``A`` from the internal representation to the field itself."""

    def last(self, A, h: float) -> None:
        """Take the last step before a check of the field: ``step`` and ``end`` at once."""
        self.step(A, h)
        self.end(A, h)

    def advance(self, A, h: float, steps: int = 1) -> None:
        """Advance the field ``A`` by ``steps`` steps of ``h`` m: call ``begin``, take them, call ``end``."""
        self.begin(A, h)
        for _ in range(steps):
            self.step(A, h)
        self.end(A, h)


class RK4IP(Integrator):
    r"""Implements RK4IP: 8 FFTs and 4 evaluations of N̂ per step, locally fifth, globally fourth order.

    With :math:`E = \exp(\frac h2 \hat L)`, eq. (6a–f) of Brehler et al. after Hult 2007
    (doi 10.1109/JLT.2007.909373):

    .. math::
        A_I = E A, \quad k_1 = E\,h\hat N(A)A, \quad
        k_2 = h\hat N(A_I + \tfrac{k_1}2)[A_I + \tfrac{k_1}2], \quad
        k_3 = h\hat N(A_I + \tfrac{k_2}2)[A_I + \tfrac{k_2}2],

        k_4 = h\hat N(E[A_I + k_3])\,E[A_I + k_3], \quad
        A(z+h) = E[A_I + \tfrac{k_1}6 + \tfrac{k_2}3 + \tfrac{k_3}3] + \tfrac{k_4}6 .
    """

    name, order, extra_fields = "rk4ip", 4, 1
    cost_per_step, cost_per_interval = (8, 2), (0, 1)

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
    r"""Implements ERK4(3)-IP of Balac & Mahé 2013, doi 10.1016/j.cpc.2012.12.020.

    The step is that of RK4IP. Since :math:`\hat N(A)A` of the new field is known (it starts the next step), a
    third-order solution costs nothing extra; the two solutions differ by
    :math:`\frac h{10}(k_4/h - \hat N(A)A)`, whose norm is the local error.
    """

    name, extra_fields, adaptive = "erk43ip", 3, True

    def __init__(self, operators):
        super().__init__(operators)
        self._last_accepted = operators.empty(), operators.empty()

    def trial(self, A, h: float) -> float:
        """Take one step of ``h`` m; return its absolute local error ‖error‖₂, in √(W × samples)."""
        self._last_accepted[0][...] = A
        self._last_accepted[1][...] = self.K
        self.step(A, h, measure=True)
        return math.sqrt(self.operators.squared_error())

    def reject(self, A) -> None:
        """Restore the field ``A`` as it was before the last ``trial``."""
        A[...] = self._last_accepted[0]
        self.K[...] = self._last_accepted[1]


class Strang(Integrator):
    r"""Implements Strang splitting: 2 FFTs and one evaluation of N̂ per step, globally second order.

    .. math:: A(z+h) = e^{\frac h2\hat L}\,e^{h\hat N}\,e^{\frac h2\hat L} A(z)

    :math:`|A|^2` is invariant under :math:`\hat N` (κ is real), so :math:`e^{h\hat N}` is the exact rotation
    :math:`\exp(i h γκ|A|^2)`. Consecutive half steps are merged.
    """

    name, order = "strang", 2
    cost_per_step, cost_per_interval = (2, 1), (4, 0)
    #: Lengths of the alternating flows of L̂ and N̂, as fractions of a step.
    linear, kerr = (0.5, 0.5), (1.0,)

    @classmethod
    def pairs(cls, h: float) -> list[tuple[float, float]]:
        """Return for each Kerr flow in a step of ``h`` m its length and that of the linear flow after it."""
        behind = *cls.linear[1:-1], 2 * cls.linear[0]
        return [(b * h, a * h) for b, a in zip(cls.kerr, behind, strict=True)]

    @classmethod
    def lengths(cls, h: float) -> tuple[float, ...]:
        first = cls.linear[0] * h
        return tuple(dict.fromkeys((first, *(length for _, length in cls.pairs(h)), -first)))

    def rotate(self, A, h: float) -> None:
        """Apply the nonlinear sub-step of ``h`` m to the field ``A``."""
        self.operators.kerr_rotate(A, h)

    def begin(self, A, h: float) -> None:
        self.operators.linear(A, self.linear[0] * h)

    def step(self, A, h: float) -> None:
        for kerr, linear in self.pairs(h):
            self.rotate(A, kerr)
            self.operators.linear(A, linear)

    def end(self, A, h: float) -> None:
        self.operators.linear(A, -self.linear[0] * h)

    def last(self, A, h: float) -> None:
        self.rotate(A, h)
        self.operators.linear(A, h / 2)


class SSFMRK4(Strang):
    """Implements SSFM-RK4: Strang splitting with RK4 for the nonlinear sub-step; second order."""

    name = "ssfm_rk4"

    def rotate(self, A, h: float) -> None:
        self.operators.kerr_rotate_rk4(A, h)


class SSFMAgrawal(Integrator):
    r"""Implements SSFM-Agrawal: symmetric split step with trapezoidal iteration of N̂; second order.

    .. math::
        A(z+h) ≈ e^{\frac h2\hat L} \exp\!\Big(\tfrac h2[\hat N(z) + \hat N(z+h)]\Big) e^{\frac h2\hat L} A(z)

    starting from :math:`\hat N(z+h) = \hat N(z)`; Agrawal, Nonlinear Fiber Optics, section 2.4. Two passes
    over the nonlinear step reach second order.
    """

    name, order, extra_fields, rate_arrays = "ssfm_agrawal", 2, 1, 2
    cost_per_step = (6, 2)
    kernels_alone = False

    def __init__(self, operators):
        super().__init__(operators)
        self.H = operators.empty()
        self.rate0, self.rate1 = operators.empty_rates(), operators.empty_rates()

    def step(self, A, h: float) -> None:
        operators, H = self.operators, self.H
        operators.kerr_phase_rate(A, self.rate0)
        operators.linear(A, h / 2)
        H[...] = A
        operators.rotate_mean(H, A, self.rate0, self.rate0, h)
        operators.linear(A, h / 2)
        operators.kerr_phase_rate(A, self.rate1)
        operators.rotate_mean(H, A, self.rate0, self.rate1, h)
        operators.linear(A, h / 2)


class BlanesMoan(Strang):
    r"""Implements the splitting S6 of Blanes & Moan 2002: 12 FFTs, 6 evaluations of N̂, fourth order.

    .. math::
        A(z+h) = e^{a_1 h\hat L} e^{b_1 h\hat N} e^{a_2 h\hat L} \cdots e^{b_1 h\hat N} e^{a_1 h\hat L} A(z)

    The error constant is about a hundred times smaller than with Yoshida's triple jump. Every flow is
    exact, so the energy of every mode is conserved to round-off; :math:`a_3 < 0` means that a short piece
    runs backwards, where loss is gain. The first and last pieces of neighbouring steps merge.
    """

    name, order = "blanes_moan", 4
    cost_per_step, cost_per_interval = (12, 6), (4, 0)
    linear, kerr, last = LINEAR, KERR, Integrator.last


#: Integrator classes by the name used in run files and on the command line; the only list of integrators.
INTEGRATORS: dict[str, type[Integrator]] = {
    kind.name: kind for kind in (SSFMAgrawal, SSFMRK4, RK4IP, Strang, BlanesMoan, ERK43IP)
}
