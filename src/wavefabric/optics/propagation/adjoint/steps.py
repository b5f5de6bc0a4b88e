"""Implement the steps of each integrator and their adjoints, for exact gradients of the discrete steps.

A *stage* is the unit of recomputation and reversal: for split steps a Kerr flow and the linear propagation
after it, for other integrators a whole step. Between stages the field is in the integrator's representation.
"""

from typing import Any

import numpy as np

from wavefabric.base.arguments import numbers
from wavefabric.base.errors import InputError
from wavefabric.optics.propagation.operators import FibreOperators
from wavefabric.runtime.lifecycle.collective_checks import check_memory


class StepOperators:
    """Applies the operators of integration steps, each step with two parameters, and their adjoints.

    A factor multiplies the Kerr phase of a step; a phase is added to the step's last linear propagation.
    """

    def __init__(self, operators: FibreOperators, steps: int):
        device, coupling = operators.device, operators.coupling
        self.forward, self.steps, self.device = operators, steps, device
        make, shape = operators.kernels.KerrLayout, (operators.n, operators.dtype)
        self._layouts = [make(device, each, *shape) for each in (coupling, coupling.transposed)]
        self._conjugate = operators.linear_propagation(conjugate=True)
        self._phase_factor: Any = None  # exp(i phase)/N of the step; None, as `behind`, until phases are set
        self.behind: Any = None
        self._matrices = [(matrix, matrix.copy()) for matrix in operators.layout.matrices[:2] if matrix.size]
        self._slope, self._factor = operators.empty_rates(), device.empty((coupling.groups,), operators.real)
        self.begin(None, None)

    def begin(self, factors, phases) -> None:
        """Set the parameters of all steps, and clear their gradients.

        ``factors`` of the Kerr phase are (steps,) or (steps, phase groups), None for 1. ``phases`` of the
        linear propagation, rad, are (steps, N) or (steps, rows, N), None for 0. `InputError` for other shapes
        and too little memory.
        """
        steps, (rows, n), groups = self.steps, self.forward.shape, self._factor.size
        if phases is not None and self._phase_factor is None:
            needed, advice = (96 + 16 * steps) * rows * n, "fewer steps or samples need less"
            check_memory(None, self.device, needed, "what linear_phases take", advice)
            self._fft = self.device.row_fft(rows, n, self.forward.dtype)
            self._phase_factor, self.behind = self.forward.empty(), self.forward.empty()
        #: Pairs of values and gradients, float64 on the device; None if not set.
        self.factors: Any = self._with_gradient("nonlinear_factors", factors, (steps,), (steps, groups))
        self.phases: Any = self._with_gradient("linear_phases", phases, (steps, n), (steps, rows, n))
        self._selected = -1
        self._scale(1.0)

    def _with_gradient(self, key: str, values, *shapes):
        if values is None:
            return None
        values = numbers(values, "", key)
        if values.shape not in shapes or not np.isfinite(values).all():
            allowed = " or ".join(map(str, shapes))
            raise InputError(f"{key}: shape {values.shape} given; allowed: finite numbers of shape {allowed}")
        return self.device.asarray(values), self.device.zeros(values.shape, np.float64)

    def _scale(self, factor) -> None:
        self._factor[...] = factor
        for matrix, plain in self._matrices:
            self.device.xp.multiply(plain, self._factor[:, None], out=matrix)

    def select(self, step: int) -> None:
        """Make the operators use the two parameters of step ``step``: its Kerr factor and its phase."""
        if step == self._selected:
            return
        self._selected = step
        if self.factors:
            self._scale(self.factors[0][step])
        if self.phases:
            self._phase_factor[...] = self.device.xp.exp(1j * self.phases[0][step]) / self.forward.n

    def phase(self, A, adjoint_of=None) -> None:
        """Multiply the spectrum of ``A`` by exp(i phase), with the phase of the selected step.

        With ``adjoint_of``, the field before this product (it is overwritten), ``A`` is a gradient: apply the
        adjoint to it, and add to the gradient for the phase.
        """
        factor, spectrum, values = self._phase_factor, adjoint_of, np.empty(0)
        if spectrum is not None:
            factor, values = factor.conj(), self.device.empty(A.shape, np.float64)

        def rows(span: slice) -> None:
            A[span] *= factor[span]
            if spectrum is not None:
                values[span] = (spectrum[span].conj() * A[span]).imag

        for field in (A,) if spectrum is None else (A, spectrum):
            self._fft.forward(field)
        self.device.map_rows(len(A), rows)
        self._fft.backward(A)
        self.forward.counts.ffts += 2 if spectrum is None else 3
        if spectrum is not None:
            gradient = self.phases[1][self._selected]
            gradient += values.sum(axis=0) if gradient.ndim == 1 else values

    def linear_adjoint(self, Y, length: float) -> None:
        """Apply to a gradient ``Y`` the adjoint of linear propagation over ``length`` m, in place."""
        self._conjugate.propagate(Y, length)
        self.forward.counts.ffts += 2

    def kerr_adjoint(self, name: str, A, Y, h: float, slope=None) -> None:
        """Apply to a gradient ``Y`` the adjoint of a Kerr operator at the field ``A``, in place.

        Arguments are those of `CpuKerrKernels.kerr_adjoint`.
        """
        slope = self._slope if slope is None else slope
        self.forward.kernels.kerr_adjoint(name, A, Y, h, self._factor, slope, *self._layouts)
        self.forward.counts.exchanges += 1
        if self.factors and name != "turn":
            by_group, gradient = slope.sum(axis=1, dtype=np.float64), self.factors[1]
            gradient[self._selected] += by_group.sum() if gradient.ndim == 1 else by_group


class AdjointSteps:
    """Takes the stages of one integrator with steps of ``h`` m, and applies their adjoints in reverse order.

    A stage is a whole step or a part of it. Its adjoint converts ``Y``, ∂f/∂Re A + i ∂f/∂Im A of a real
    function f, from the field after the stage to the field before it.
    """

    #: Fields and arrays of phase rates in addition to the integrator's, and stages per step.
    extra_fields, rate_arrays, stages_of_step = 0, 0, 1
    #: Length of linear propagation before the first stage; whether steps may have linear phases.
    first, phased = 0.0, False

    def __init__(self, operators: StepOperators, integrator: Any, h: float):
        self.operators, self.forward, self.integrator, self.h = operators, operators.forward, integrator, h
        self.fields = [self.forward.empty() for _ in range(self.extra_fields)]

    def stage(self, A, number: int) -> None:
        """Advance the field ``A`` by stage ``number``, which needs nothing else from earlier stages."""
        self.operators.select(number)
        self.integrator.advance(A, self.h)

    def stage_adjoint(self, A, Y, number: int) -> None:
        """Apply the adjoint of `stage` to ``Y``; ``A`` is the field before the stage."""
        raise NotImplementedError

    def runge_kutta_adjoint(self, A, Y, half: float) -> None:
        """Convert ``Y`` from the gradient for the field after a step of `RK4IP` to that for ``A``, before it.

        E is half a step of linear propagation, ``half`` m long: h/2, or 0 for none. With A_I = E A the stages
        k2, k3, k4 are evaluated at B2 = A_I + k1/2, B3 = A_I + k2/2, B4 = E[A_I + k3].
        """
        h, operators, forward, add = self.h, self.operators, self.forward, self._add
        A_I, B2, B3, B4, R = self.fields

        def linear(*fields, adjoint=True) -> None:
            for field in fields if half else ():
                (operators.linear_adjoint if adjoint else forward.linear)(field, half)

        operators.device.copy(A_I, A)
        forward.kerr_derivative(A, B2)
        linear(A_I, B2, adjoint=False)
        add(B2, h / 2, A_I, 1)
        forward.kerr_derivative(B2, B3)
        add(B3, h / 2, A_I, 1)
        forward.kerr_derivative(B3, B4)
        add(B4, h, A_I, 1)
        linear(B4, adjoint=False)
        # Gradients: R for the sum to which k4/6 is added; Y for B4, k3, B3, k2, B2, k1 and A in turn.
        operators.device.copy(R, Y)
        linear(R)
        operators.device.copy(A_I, R)
        for B, length, factor, after in ((B4, h / 6, 1, 1 / 3), (B3, h, 0.5, 1 / 3), (B2, h, 0.5, 1 / 6)):
            operators.kerr_adjoint("derivative", B, Y, length)
            if B is B4:
                linear(Y)
            add(A_I, 1, Y, 1)
            add(Y, factor, R, after)
        linear(Y)
        operators.kerr_adjoint("derivative", A, Y, h)
        linear(A_I)
        add(Y, 1, A_I, 1)

    def _add(self, out, factor: float, other, scale: float) -> None:
        """Set out ← factor · out + scale · other."""

        def rows(span: slice) -> None:
            out[span] = factor * out[span] + scale * other[span]

        self.operators.device.map_rows(len(out), rows)


class AdjointStrangSteps(AdjointSteps):
    """Takes stages of ``strang`` and ``blanes_moan``: each is a Kerr flow and then linear propagation."""

    phased = True

    def __init__(self, operators, integrator, h):
        super().__init__(operators, integrator, h)
        self.first, self.pairs = integrator.linear[0] * h, integrator.pairs(h)
        self.stages_of_step = len(self.pairs)

    def rotate_adjoint(self, A, Y, h: float) -> None:
        self.operators.kerr_adjoint("rotate", A, Y, h)

    def _select(self, number: int) -> tuple[float, float, bool]:
        """Load the parameters of the step to which stage ``number`` belongs; return what the stage does.

        That is the length (m) of its Kerr flow, the length (m) of its linear propagation, and whether a
        linear phase follows.
        """
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
    """Takes stages of ``ssfm_rk4``: the nonlinear sub-step is a step of RK4IP without linear propagation."""

    extra_fields = 5

    def rotate_adjoint(self, A, Y, h):
        self.runge_kutta_adjoint(A, Y, 0.0)


class AdjointRK4IPSteps(AdjointSteps):
    """Computes the adjoint of a step of ``rk4ip``, from k4 back to k1."""

    extra_fields = 5

    def stage_adjoint(self, A, Y, number):
        self.operators.select(number)
        self.runge_kutta_adjoint(A, Y, self.h / 2)


class AdjointAgrawalSteps(AdjointSteps):
    """Computes the adjoint of a step of ``ssfm_agrawal``.

    With E = exp(h/2 L̂) and the Kerr phase rates rate0 of A and rate1 of B, the step is
    H = E A, B = E exp(ih rate0) H, A(z+h) = E exp(ih (rate0 + rate1)/2) H.
    """

    extra_fields, rate_arrays = 3, 4

    def stage_adjoint(self, A, Y, number):
        h, half, operators, forward = self.h, self.h / 2, self.operators, self.forward
        H, B, Z = self.fields
        rate0, rate1, by_rate0, by_rate1 = (forward.empty_rates() for _ in range(4))
        operators.select(number)
        forward.kerr_phase_rate(A, rate0)
        operators.device.copy(H, A)
        forward.linear(H, half)
        forward.rotate_mean(H, B, rate0, rate0, h)
        forward.linear(B, half)
        forward.kerr_phase_rate(B, rate1)
        operators.linear_adjoint(Y, half)
        forward.rotate_mean(Y, Y, rate0, rate1, -h)
        operators.kerr_adjoint("turn", H, Y, half, by_rate1)
        by_rate0[...] = by_rate1
        Z[...] = 0
        operators.kerr_adjoint("phase_rate", B, Z, 0, by_rate1)
        operators.linear_adjoint(Z, half)
        forward.rotate_mean(Z, Z, rate0, rate0, -h)
        operators.kerr_adjoint("turn", H, Z, h, by_rate1)
        by_rate0 += by_rate1
        self._add(Y, 1, Z, 1)
        operators.linear_adjoint(Y, half)
        operators.kerr_adjoint("phase_rate", A, Y, 0, by_rate0)


#: Adjoint steps by integrator name; integrators without steps of fixed length are not included.
ADJOINT_STEPS: dict[str, type[AdjointSteps]] = {
    "strang": AdjointStrangSteps,
    "ssfm_rk4": AdjointSSFMRK4Steps,
    "blanes_moan": AdjointStrangSteps,
    "rk4ip": AdjointRK4IPSteps,
    "ssfm_agrawal": AdjointAgrawalSteps,
}
