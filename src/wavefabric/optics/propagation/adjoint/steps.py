"""Steps of each integrator and their adjoints: the gradient of the discrete steps, exactly.

A *stage* is what is taken again and reversed at once: a Kerr flow and the linear propagation behind it for
split steps, a whole step for others. Between stages the field is as the integrator holds it.
"""

from typing import Any

from wavefabric.optics.propagation.adjoint.operators import StepOperators
from wavefabric.optics.propagation.integrators import KERR


class AdjointSteps:
    """Stages of one integrator with steps of ``h`` m, forward and in reverse.

    ``Y`` is a gradient ∂f/∂Re A + i ∂f/∂Im A, and changes from that behind a stage to that before it.
    """

    #: Fields and arrays of phase rates held beside those of the integrator, and stages of a step.
    extra_fields, rate_arrays, stages_of_step = 0, 0, 1
    #: Length of linear propagation that the begin takes ahead; whether steps may have linear phases.
    first, phased = 0.0, False

    def __init__(self, operators: StepOperators, integrator: Any, h: float):
        self.operators, self.forward, self.integrator, self.h = operators, operators.forward, integrator, h
        self.fields = [self.forward.empty() for _ in range(self.extra_fields)]

    def stage(self, A, number: int) -> None:
        """Take a stage; a field that was restored has nothing prepared."""
        self.operators.select(number)
        self.integrator.advance(A, self.h)

    def stage_adjoint(self, A, Y, number: int) -> None:
        """Of `stage` on ``A``, the field before it."""
        raise NotImplementedError

    def runge_kutta_adjoint(self, A, Y, half: float) -> None:
        """Of a step of RK4IP, whose names these are, with linear propagation over ``half`` a step, or 0.

        B2 = A_I + k1/2, B3 = A_I + k2/2, B4 = E[A_I + k3] are what k2, k3 and k4 are formed from.
        """
        h, own, forward, add = self.h, self.operators, self.forward, self._add
        A_I, B2, B3, B4, R = self.fields

        def linear(*fields, adjoint=True) -> None:
            for field in fields if half else ():
                (own.linear_adjoint if adjoint else forward.linear)(field, half)

        own.device.copy(A_I, A)
        forward.kerr_derivative(A, B2)
        linear(A_I, B2, adjoint=False)
        add(B2, h / 2, A_I, 1)
        forward.kerr_derivative(B2, B3)
        add(B3, h / 2, A_I, 1)
        forward.kerr_derivative(B3, B4)
        add(B4, h, A_I, 1)
        linear(B4, adjoint=False)
        # Gradients: R for the sum that k4/6 goes to, Y for B4, k3, B3, k2, B2, k1 and A in turn.
        own.device.copy(R, Y)
        linear(R)
        own.device.copy(A_I, R)
        for B, length, factor, after in ((B4, h / 6, 1, 1 / 3), (B3, h, 0.5, 1 / 3), (B2, h, 0.5, 1 / 6)):
            own.kerr_adjoint("derivative", B, Y, length)
            if B is B4:
                linear(Y)
            add(A_I, 1, Y, 1)
            add(Y, factor, R, after)
        linear(Y)
        own.kerr_adjoint("derivative", A, Y, h)
        linear(A_I)
        add(Y, 1, A_I, 1)

    def _add(self, out, factor: float, other, scale: float) -> None:
        """out ← factor out + scale other."""

        def rows(span: slice) -> None:
            out[span] = factor * out[span] + scale * other[span]

        self.operators.device.map_rows(len(out), rows)


class AdjointStrangSteps(AdjointSteps):
    """Of ``strang``, and of its subclasses by the fractions of a step of their flows."""

    phased = True

    def __init__(self, operators, integrator, h):
        super().__init__(operators, integrator, h)
        self.first, self.pairs = integrator.linear[0] * h, integrator.pairs(h)

    def rotate_adjoint(self, A, Y, h: float) -> None:
        self.operators.kerr_adjoint("rotate", A, Y, h)

    def _select(self, number: int) -> tuple[float, float, bool]:
        """Lengths of a stage, and whether the phase of its step acts behind it."""
        step, pair = divmod(number, self.stages_of_step)
        self.operators.select(step)
        return *self.pairs[pair], pair + 1 == self.stages_of_step and self.operators.phases is not None

    def stage(self, A, number):
        kerr, linear, phased = self._select(number)
        self.integrator.rotate(A, kerr)
        self.forward.linear(A, linear)
        if phased:
            self.operators.phase(A)

    def stage_adjoint(self, A, Y, number):
        kerr, linear, phased = self._select(number)
        if phased:
            behind = self.operators.behind
            self.operators.device.copy(behind, A)
            self.integrator.rotate(behind, kerr)
            self.forward.linear(behind, linear)
            self.operators.phase(Y, adjoint_of=behind)
        self.operators.linear_adjoint(Y, linear)
        self.rotate_adjoint(A, Y, kerr)


class AdjointSSFMRK4Steps(AdjointStrangSteps):
    """Of ``ssfm_rk4``: the nonlinear sub-step is RK4IP's without linear propagation."""

    extra_fields = 5

    def rotate_adjoint(self, A, Y, h):
        self.runge_kutta_adjoint(A, Y, 0.0)


class AdjointBlanesMoanSteps(AdjointStrangSteps):
    """Of ``blanes_moan``."""

    stages_of_step = len(KERR)


class AdjointRK4IPSteps(AdjointSteps):
    """Of ``rk4ip``."""

    extra_fields = 5

    def stage_adjoint(self, A, Y, number):
        self.operators.select(number)
        self.runge_kutta_adjoint(A, Y, self.h / 2)


class AdjointAgrawalSteps(AdjointSteps):
    """Of ``ssfm_agrawal``: H = E A, B = E exp(ih rate0) H, A(z+h) = E exp(ih (rate0 + rate1)/2) H."""

    extra_fields, rate_arrays = 3, 4

    def stage_adjoint(self, A, Y, number):
        h, half, own, forward = self.h, self.h / 2, self.operators, self.forward
        H, B, Z = self.fields
        rate0, rate1, by_rate0, by_rate1 = (forward.empty_rates() for _ in range(4))
        own.select(number)
        forward.kerr_phase_rate(A, rate0)
        own.device.copy(H, A)
        forward.linear(H, half)
        forward.rotate_mean(H, B, rate0, rate0, h)
        forward.linear(B, half)
        forward.kerr_phase_rate(B, rate1)
        own.linear_adjoint(Y, half)
        forward.rotate_mean(Y, Y, rate0, rate1, -h)
        own.kerr_adjoint("turn", H, Y, half, by_rate1)
        by_rate0[...] = by_rate1
        Z[...] = 0
        own.kerr_adjoint("phase_rate", B, Z, 0, by_rate1)
        own.linear_adjoint(Z, half)
        forward.rotate_mean(Z, Z, rate0, rate0, -h)
        own.kerr_adjoint("turn", H, Z, h, by_rate1)
        by_rate0 += by_rate1
        self._add(Y, 1, Z, 1)
        own.linear_adjoint(Y, half)
        own.kerr_adjoint("phase_rate", A, Y, 0, by_rate0)


#: By the integrator's name; what is not here has no steps of fixed length.
ADJOINT_STEPS: dict[str, type[AdjointSteps]] = {
    "strang": AdjointStrangSteps,
    "ssfm_rk4": AdjointSSFMRK4Steps,
    "blanes_moan": AdjointBlanesMoanSteps,
    "rk4ip": AdjointRK4IPSteps,
    "ssfm_agrawal": AdjointAgrawalSteps,
}
