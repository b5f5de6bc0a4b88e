"""Operators of single steps with their parameters, and the adjoints of these operators."""

from typing import Any

import numpy as np

from wavefabric.errors import InputError
from wavefabric.lifecycle.agreement import check_memory
from wavefabric.optics.propagation.operators import FibreOperators
from wavefabric.quantities import numbers


class StepOperators:
    """Operators of steps that each have a nonlinear phase factor and a linear phase, and their adjoints.

    A factor multiplies the Kerr phase of a step, a phase is added to its last linear propagation.
    """

    def __init__(self, operators: FibreOperators, steps: int):
        device, coupling = operators.device, operators.coupling
        self.forward, self.steps, self.device = operators, steps, device
        make, shape = operators.kernels.KerrLayout, (operators.n, operators.dtype)
        self._layouts = [make(device, each, *shape) for each in (coupling, coupling.transposed)]
        self._conjugate = operators.linear_propagation(conjugate=True)
        self._turn: Any = None  # exp(i phase)/N of the step; neither is there before there are phases
        self.behind: Any = None
        self._matrices = [(matrix, matrix.copy()) for matrix in operators.layout.matrices[:2] if matrix.size]
        self._slope, self._factor = operators.empty_rates(), device.empty((coupling.groups,), operators.real)
        self.begin(None, None)

    def begin(self, factors, phases) -> None:
        """Begin with factors (steps,) or (steps, groups), and phases (steps, N) or (steps, rows, N).

        None for factors of 1 and no phases. Gradients are 0. `InputError` for other shapes and little memory.
        """
        steps, (rows, n), groups = self.steps, self.forward.shape, self._factor.size
        if phases is not None and self._turn is None:
            needed, advice = (96 + 16 * steps) * rows * n, "fewer steps or samples need less"
            check_memory(None, self.device, needed, "what linear_phases take", advice)
            self._fft = self.device.row_fft(rows, n, self.forward.dtype)
            self._turn, self.behind = self.forward.empty(), self.forward.empty()
        #: Both with their gradients, float64 on the device; None without.
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
        """Take the parameters of a step."""
        if step == self._selected:
            return
        self._selected = step
        if self.factors:
            self._scale(self.factors[0][step])
        if self.phases:
            self._turn[...] = self.device.xp.exp(1j * self.phases[0][step]) / self.forward.n

    def phase(self, A, adjoint_of=None) -> None:
        """A ← exp(i phase) A of the step; or the adjoint of that on the field ``adjoint_of``, which is
        spoilt."""
        turn, spectrum, values = self._turn, adjoint_of, np.empty(0)
        if spectrum is not None:
            turn, values = turn.conj(), self.device.empty(A.shape, np.float64)

        def rows(span: slice) -> None:
            A[span] *= turn[span]
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
        """The adjoint of linear propagation: that by the conjugate transfer function."""
        self._conjugate.propagate(Y, length)
        self.forward.counts.ffts += 2

    def kerr_adjoint(self, name: str, A, Y, h: float, slope=None) -> None:
        """The adjoint of a Kerr operator, see `kernels.kerr.kerr_adjoint`; ``slope`` is what that takes."""
        slope = self._slope if slope is None else slope
        self.forward.kernels.kerr_adjoint(name, A, Y, h, self._factor, slope, *self._layouts)
        self.forward.counts.exchanges += 1
        if self.factors and name != "turn":
            by_group, gradient = slope.sum(axis=1, dtype=np.float64), self.factors[1]
            gradient[self._selected] += by_group.sum() if gradient.ndim == 1 else by_group
