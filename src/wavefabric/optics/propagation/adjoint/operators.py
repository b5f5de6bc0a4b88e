"""Operators of single steps with their parameters, and the adjoints of these operators.

The adjoint of linear propagation is linear propagation with the conjugate transfer function. Kerr operators
have kernels of their own (``kernels/kerr_adjoint.py``).
"""

import numpy as np

from wavefabric.errors import InputError
from wavefabric.optics.propagation.kernels import KerrOperator
from wavefabric.optics.propagation.linear_propagation import LinearPropagation, TransformsAndTable
from wavefabric.optics.propagation.operators import FibreOperators

PHASE_RATE, TURN = KerrOperator("phase_rate"), KerrOperator("turn")


class PhasedTransforms(TransformsAndTable):
    """Linear propagation that may add a phase of its own to each row and frequency."""

    #: exp(i phase), (rows, N) complex128, of the next propagation; None for none.
    turn = None
    #: Of an adjoint: the spectrum before the propagation, and where the gradient for the phase goes.
    spectrum = phase_gradient = None

    def __init__(self, device, kernels, coefficients, table_row, *rest):
        super().__init__(device, kernels, coefficients, table_row, *rest)
        self._rows = device.asarray(np.arange(len(table_row), dtype=np.int32))

    def transform(self, field) -> None:
        """``field`` (rows, N) ← its spectrum, in place."""
        self._device.map_rows(len(field), lambda span: self._fft.forward(field[span]))

    def _multiply(self, spectrum, table, span):
        super()._multiply(spectrum, table, span)
        if self.turn is not None:
            self._kernels.apply_transfer(spectrum, self.turn, self._rows[span])
        if self.spectrum is not None:
            self.phase_gradient[span] = (self.spectrum[span].conj() * spectrum).imag


class StepOperators:
    """Operators of steps that each have a nonlinear phase factor and a linear phase, and their adjoints.

    A *factor* multiplies the Kerr phase of a step, in all phase groups or each by its own; a *phase*, rad, is
    added to that of the last linear propagation of a step, in all rows or each by its own. `select` names the
    step. ``phased`` says whether there may be phases.
    """

    def __init__(self, operators: FibreOperators, steps: int, phased: bool):
        self.forward, self.steps, self.phased = operators, steps, phased
        self.device = operators.device
        device, coupling = self.device, operators.coupling
        self._kernels = device.kernels("wavefabric.optics.propagation.kernels.kerr_adjoint")
        self._layout = self._kernels.KerrAdjointLayout(device, coupling, operators.n, operators.dtype)
        kind = PhasedTransforms if phased else None
        if kind:
            operators.propagation = operators.linear_propagation(by_table=kind)
            self._turn = device.empty(operators.shape, np.complex128)
            self._phase_gradient = device.empty(operators.shape, np.float64)
        self.conjugate: LinearPropagation = operators.linear_propagation(True, kind)
        matrices = operators.layout.matrices
        self._plain = [(matrix, matrix.copy()) for matrix in matrices[:2] if matrix.size]
        self.rates = operators.empty_rates()
        self.set_parameters(None, None)

    def set_parameters(self, factors, phases) -> None:
        """Begin with factors (steps,) or (steps, groups), and phases (steps, N) or (steps, rows, N).

        ``None`` for factors of 1 and no phases. Gradients are 0. `InputError` for other shapes.
        """
        steps, operators = self.steps, self.forward
        (rows, n), groups = operators.shape, operators.coupling.groups
        self._selected = -1
        for propagation in (operators.propagation, self.conjugate):
            if isinstance(propagation, PhasedTransforms):  # a call that was interrupted may have left them
                propagation.turn = propagation.spectrum = None
        self.factors = self._checked("nonlinear_factors", factors, [(steps,), (steps, groups)])
        self.phases = self._checked("linear_phases", phases, [(steps, n), (steps, rows, n)])
        #: ∂f/∂ factors and ∂f/∂ phases, float64 on the device, of the shapes of these; None without.
        self.factor_gradient, self.phase_gradient = map(self._zeros, (self.factors, self.phases))
        self._factor = self.device.zeros((groups,), operators.real)
        self._factor[...] = 1
        self._scale_coupling()

    def _checked(self, key: str, values, shapes):
        if values is None:
            return None
        values = np.asarray(values, float)
        if values.shape not in shapes or not np.isfinite(values).all():
            allowed = " or ".join(map(str, shapes))
            raise InputError(f"{key}: shape {values.shape} given; allowed: finite numbers of shape {allowed}")
        return self.device.asarray(values)

    def _zeros(self, like):
        return None if like is None else self.device.zeros(like.shape, np.float64)

    def _scale_coupling(self) -> None:
        for matrix, plain in self._plain:
            self.device.xp.multiply(plain, self._factor[:, None], out=matrix)

    def select(self, step: int) -> None:
        """Take the parameters of a step."""
        if step == self._selected:
            return
        self._selected = step
        if self.factors is not None:
            self._factor[...] = self.factors[step]
            self._scale_coupling()
        if self.phases is not None:
            self._turn[...] = 1j * self.phases[step]
            self.device.xp.exp(self._turn, out=self._turn)

    def linear_behind(self, A, length: float) -> None:
        """A ← exp(length · L̂ + i phase) A."""
        propagation = self.forward.propagation
        assert isinstance(propagation, PhasedTransforms)
        propagation.turn = self._turn
        self.forward.linear(A, length)
        propagation.turn = None

    # --- adjoints: Y, the gradient for the output of an operator, becomes that for its input -------

    def linear_adjoint(self, Y, length: float) -> None:
        """Of linear propagation."""
        self.conjugate.propagate(Y, length)
        self.forward.counts.ffts += 2

    def linear_behind_adjoint(self, A, Y, length: float) -> None:
        """Of `linear_behind` on ``A``, which becomes its spectrum."""
        conjugate = self.conjugate
        assert isinstance(conjugate, PhasedTransforms)
        conjugate.transform(A)
        conjugate.turn, conjugate.spectrum = self._turn.conj(), A
        conjugate.phase_gradient = self._phase_gradient
        self.linear_adjoint(Y, length)
        conjugate.turn = conjugate.spectrum = None
        own = self._phase_gradient
        self.phase_gradient[self._selected] += own.sum(axis=0) if self.phases.ndim == 2 else own
        self.forward.counts.ffts += 1

    def kerr_adjoint(self, operator: KerrOperator, A, Y, h: float, rates=None) -> None:
        """Of a Kerr operator; ``rates`` holds the gradient that `PHASE_RATE` takes, and is spoilt."""
        rates = self.rates if rates is None else rates
        self._kernels.kerr_adjoint(operator, A, Y, h, self._factor, rates, self._layout)
        self.forward.counts.exchanges += 1
        if self.factors is not None:
            by_group = rates.sum(axis=1, dtype=np.float64)
            whole = self.factors.ndim == 1
            self.factor_gradient[self._selected] += by_group.sum() if whole else by_group

    def turn_gradient(self, A, Y, rates) -> None:
        """``rates`` ← gradient with respect to φ of exp(i φ) A, from ``Y``, that with respect to A."""
        self._kernels.kerr_adjoint(TURN, A, Y, 0.0, self._factor, rates, self._layout)
