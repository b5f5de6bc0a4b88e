"""Steps of each integrator and their adjoints, the discrete gradient exactly.

A *stage* is what is taken again and reversed at once: a Kerr flow and the linear propagation behind it for
split steps, a whole step for others. Between stages the field is as the integrator holds it.
"""

from wavefabric.optics.propagation.adjoint.operators import PHASE_RATE, StepOperators
from wavefabric.optics.propagation.integrators import SSFMRK4, Integrator, SplitStep
from wavefabric.optics.propagation.operators import DERIVATIVE, ROTATE, ROTATE_RK4


class AdjointSteps:
    """Stages of one integrator with steps of ``h`` m, forward and in reverse.

    ``Y`` is the gradient ∂f/∂Re A + i ∂f/∂Im A, and changes from that after to that before.
    """

    #: Fields and arrays of phase rates held beside those of the integrator, and stages of a step.
    extra_fields, rate_arrays = 0, 0
    stages_of_step = 1

    def __init__(self, operators: StepOperators, integrator: Integrator, h: float):
        self.operators, self.integrator, self.h = operators, integrator, h
        self.fields = [operators.forward.empty() for _ in range(self.extra_fields)]

    def begin(self, A) -> None:
        """Prepare the launched field."""

    def stage(self, A, number: int) -> None:
        """Take a stage; a field that was restored has nothing prepared."""
        self.operators.select(number)
        self.integrator.advance(A, self.h)

    def end(self, A) -> None:
        """Leave the field itself."""

    def end_adjoint(self, Y) -> None:
        """Of `end`."""

    def stage_adjoint(self, A, Y, number: int) -> None:
        """Of `stage` on ``A``, the field before it."""
        raise NotImplementedError

    def begin_adjoint(self, Y) -> None:
        """Of `begin`."""

    def _add(self, out, factor: float, other, scale: float) -> None:
        """out ← factor out + scale other."""

        def rows(span: slice) -> None:
            out[span] *= factor
            out[span] += scale * other[span]

        self.operators.device.map_rows(len(out), rows)


class AdjointSplitSteps(AdjointSteps):
    """Of `SplitStep`."""

    integrator: SplitStep

    def __init__(self, operators, integrator, h):
        super().__init__(operators, integrator, h)
        self.pairs = integrator.pairs(h)
        self.stages_of_step = len(self.pairs)
        self.kerr = ROTATE_RK4 if isinstance(integrator, SSFMRK4) else ROTATE
        self.first = integrator.linear[0] * h
        self.turned = operators.forward.empty() if operators.phased else None

    def begin(self, A):
        self.integrator.begin(A, self.h)

    def _select(self, number: int) -> tuple[float, float, bool]:
        """Lengths of a stage, and whether the phase of its step acts in it."""
        step, pair = divmod(number, self.stages_of_step)
        self.operators.select(step)
        return *self.pairs[pair], pair + 1 == self.stages_of_step and self.operators.phases is not None

    def stage(self, A, number):
        kerr, linear, phased = self._select(number)
        self.integrator.rotate(A, kerr)
        (self.operators.linear_behind if phased else self.operators.forward.linear)(A, linear)

    def end(self, A):
        self.integrator.end(A, self.h)

    def end_adjoint(self, Y):
        self.operators.linear_adjoint(Y, -self.first)

    def stage_adjoint(self, A, Y, number):
        kerr, linear, phased = self._select(number)
        if phased:
            self.turned[...] = A
            self.integrator.rotate(self.turned, kerr)
            self.operators.linear_behind_adjoint(self.turned, Y, linear)
        else:
            self.operators.linear_adjoint(Y, linear)
        self.operators.kerr_adjoint(self.kerr, A, Y, kerr)

    def begin_adjoint(self, Y):
        self.operators.linear_adjoint(Y, self.first)


class AdjointAgrawalSteps(AdjointSteps):
    """Of ``ssfm_agrawal``."""

    extra_fields, rate_arrays = 3, 2

    def __init__(self, operators, integrator, h):
        super().__init__(operators, integrator, h)
        self.rates = [operators.forward.empty_rates() for _ in range(4)]

    def stage_adjoint(self, A, Y, number):
        half, own, forward = self.h / 2, self.operators, self.operators.forward
        H, B, Z = self.fields
        rate0, rate1, by_rate0, by_rate1 = self.rates
        own.select(number)
        forward.kerr_phase_rate(A, rate0)
        H[...] = A
        forward.linear(H, half)
        forward.rotate_mean(H, B, rate0, rate0, self.h)
        forward.linear(B, half)
        forward.kerr_phase_rate(B, rate1)
        # The second pass: A(z+h) = E exp(ih (rate0 + rate1)/2) H.
        own.linear_adjoint(Y, half)
        forward.rotate_mean(Y, Y, rate0, rate1, -self.h)
        own.turn_gradient(H, Y, by_rate0)
        by_rate0 *= half
        by_rate1[...] = by_rate0
        # The first pass, of which rate1 alone goes on: rate1 = |B|², B = E exp(ih rate0) H.
        Z[...] = 0
        own.kerr_adjoint(PHASE_RATE, B, Z, self.h, by_rate1)
        own.linear_adjoint(Z, half)
        forward.rotate_mean(Z, Z, rate0, rate0, -self.h)
        own.turn_gradient(H, Z, by_rate1)
        by_rate1 *= self.h
        by_rate0 += by_rate1
        self._add(Y, 1, Z, 1)
        own.linear_adjoint(Y, half)
        own.kerr_adjoint(PHASE_RATE, A, Y, self.h, by_rate0)


class AdjointRK4IPSteps(AdjointSteps):
    r"""Of ``rk4ip``, whose names these are: with :math:`B_j` the argument of stage j,

    .. math::
        B_2 = A_I + \tfrac{k_1}2, \quad B_3 = A_I + \tfrac{k_2}2, \quad B_4 = E[A_I + k_3] .
    """

    extra_fields = 5

    def stage_adjoint(self, A, Y, number):
        h, half, own, forward, add = self.h, self.h / 2, self.operators, self.operators.forward, self._add
        B2, B3, B4, R, I = self.fields  # noqa: E741 - A_I of the equations
        own.select(number)
        I[...] = A
        forward.kerr_derivative(A, B2)
        forward.linear(I, half)
        forward.linear(B2, half)
        add(B2, half, I, 1)
        forward.kerr_derivative(B2, B3)
        add(B3, half, I, 1)
        forward.kerr_derivative(B3, B4)
        add(B4, h, I, 1)
        forward.linear(B4, half)
        # Gradients: R for the sum that k4/6 goes to, I for A_I, Y for B_4, k3, B_3, k2, B_2, k1, A in turn.
        R[...] = Y
        own.linear_adjoint(R, half)
        own.kerr_adjoint(DERIVATIVE, B4, Y, h / 6)
        own.linear_adjoint(Y, half)
        I[...] = R
        add(I, 1, Y, 1)
        add(Y, 1, R, 1 / 3)
        for B, after in ((B3, 1 / 3), (B2, 1 / 6)):
            own.kerr_adjoint(DERIVATIVE, B, Y, h)
            add(I, 1, Y, 1)
            add(Y, 0.5, R, after)
        own.linear_adjoint(Y, half)
        own.kerr_adjoint(DERIVATIVE, A, Y, h)
        own.linear_adjoint(I, half)
        add(Y, 1, I, 1)


#: By the integrator's name; what is not here has no steps of fixed length.
ADJOINT_STEPS: dict[str, type[AdjointSteps]] = {
    "strang": AdjointSplitSteps,
    "ssfm_rk4": AdjointSplitSteps,
    "blanes_moan": AdjointSplitSteps,
    "ssfm_agrawal": AdjointAgrawalSteps,
    "rk4ip": AdjointRK4IPSteps,
}
