"""Split-step Fourier methods: Strang's, the paper's two variants of it, and one of fourth order."""

from __future__ import annotations

from wavefabric.optics.propagation.integrators.base import Integrator

# S6, order 4, of Blanes & Moan 2002, doi 10.1016/S0377-0427(01)00492-7, table 2.
_A = (0.0792036964311957, 0.353172906049774, -0.0420650803577195)
_B = (0.209515106613362, -0.143851773179818)
LINEAR = (*_A, 1 - 2 * sum(_A), *reversed(_A))
KERR = (*_B, 0.5 - sum(_B), 0.5 - sum(_B), *reversed(_B))


class Strang(Integrator):
    r"""Strang splitting: 2 FFTs and one evaluation of N̂ a step, globally second order.

    .. math:: A(z+h) = e^{\frac h2\hat L}\,e^{h\hat N}\,e^{\frac h2\hat L} A(z)

    :math:`|A|^2` is invariant under :math:`\hat N` (κ is real), so :math:`e^{h\hat N}` is the exact
    rotation :math:`\exp(i h γκ|A|^2)`. Half steps that follow one another are merged.
    """

    name, order = "strang", 2

    @staticmethod
    def lengths(h: float) -> tuple[float, ...]:
        return (h / 2, h, -h / 2)

    def begin(self, A, h: float) -> None:
        self.operators.linear(A, h / 2)

    def step(self, A, h: float) -> None:
        self.operators.kerr_rotate(A, h)
        self.operators.linear(A, h)

    def end(self, A, h: float) -> None:
        self.operators.linear(A, -h / 2)


class SSFMRK4(Strang):
    r"""SSFM-RK4: Strang splitting with RK4 for the nonlinear sub-step; second order.

    The stages of RK4 are multiples of A by one number a phase group, so the kernel reads the field once.
    """

    name = "ssfm_rk4"

    def step(self, A, h: float) -> None:
        self.operators.kerr_rotate_rk4(A, h)
        self.operators.linear(A, h)


class SSFMAgrawal(Integrator):
    r"""SSFM-Agrawal: symmetric split step with trapezoidal iteration of N̂; second order.

    .. math::
        A(z+h) ≈ e^{\frac h2\hat L} \exp\!\Big(\tfrac h2[\hat N(z) + \hat N(z+h)]\Big) e^{\frac h2\hat L} A(z)

    starting from :math:`\hat N(z+h) = \hat N(z)`; Agrawal, Nonlinear Fiber Optics, section 2.4. Two
    ``iterations``, passes over the nonlinear step, reach second order.
    """

    name, order, extra_fields, rate_arrays = "ssfm_agrawal", 2, 1, 2

    def __init__(self, operators, iterations: int = 2):
        super().__init__(operators)
        self.iterations = iterations
        self.H = operators.empty()
        self.rate0, self.rate1 = operators.empty_rates(), operators.empty_rates()

    def step(self, A, h: float) -> None:
        operators, H = self.operators, self.H
        operators.kerr_phase_rate(A, self.rate0)
        operators.linear(A, h / 2)
        H[...] = A
        after = self.rate0
        for last in reversed(range(self.iterations)):
            operators.rotate_mean(H, A, self.rate0, after, h)
            operators.linear(A, h / 2)
            if last:
                after = self.rate1
                operators.kerr_phase_rate(A, after)


class BlanesMoan(Integrator):
    r"""Symmetric splitting S6 of Blanes & Moan 2002: 12 FFTs, 6 evaluations, fourth order.

    .. math::
        A(z+h) = e^{a_1 h\hat L} e^{b_1 h\hat N} e^{a_2 h\hat L} \cdots e^{b_1 h\hat N} e^{a_1 h\hat L} A(z)

    Its error constant is about a hundred times smaller than that of Yoshida's triple jump. Every flow
    is exact, so energy of every mode is conserved to round-off; :math:`a_3 < 0` means that a short
    piece runs backwards, where loss is gain. The first and last pieces of neighbouring steps merge.
    """

    name, order = "blanes_moan", 4

    @staticmethod
    def lengths(h: float) -> tuple[float, ...]:
        first = LINEAR[0]
        return (first * h, *(a * h for a in LINEAR[1:4]), 2 * first * h, -first * h)

    def begin(self, A, h: float) -> None:
        self.operators.linear(A, LINEAR[0] * h)

    def step(self, A, h: float) -> None:
        for a, b in zip((*LINEAR[1:-1], 2 * LINEAR[0]), KERR, strict=True):
            self.operators.kerr_rotate(A, b * h)
            self.operators.linear(A, a * h)

    def end(self, A, h: float) -> None:
        self.operators.linear(A, -LINEAR[0] * h)
