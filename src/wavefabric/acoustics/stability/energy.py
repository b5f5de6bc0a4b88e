"""Computes the acoustic energy of a run, and checks that it grows no more than its sources can add."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from wavefabric.acoustics.problem import Problem, Signal, TransducerSource
from wavefabric.acoustics.solver.formulas import absorption_factors, disperses, wavenumber_range
from wavefabric.acoustics.solver.stages import Stages

#: Number of partial sums of a field: enough for a GPU, and for the threads of a CPU.
_PARTS = 1024
#: Number of samples of a signal that are squared at once.
_SAMPLES = 1 << 20
#: Largest allowed ratio of the energy to what the sources can have added. `Energy` uses p and u half a step
#: apart, so it oscillates about the energy that the scheme conserves, most for the shortest waves.
TOLERANCE = 16.0
#: The allowed √energy stays above this fraction of its maximum, because of round-off.
_FLOOR = 1e-3


def box_of(stages: Stages, planes: int = 1, rows: int = 1) -> tuple[Any, tuple[int, int, int]]:
    """Return the block of points that this rank owns as an int64 array for kernels, and its shape (z, y, x).

    Only every ``planes``-th plane and every ``rows``-th row is included.
    """
    c = stages.coefficients
    _, ny, nx = c.shape
    (z, z_end), (y, y_end), (x, x_end) = ((part.start, part.stop) for part in c.subdomain.owned)
    shape = -(-(z_end - z) // planes), -(-(y_end - y) // rows), x_end - x
    words = (z * ny + y) * nx + x, *shape, planes * ny * nx, rows * nx, x
    return c.device.asarray(np.array(words, np.int64)), shape


def partial_sums(stages: Stages, shape: tuple[int, int, int], columns: int) -> Any:
    """Return an array of zeros, float64 (parts, columns), to which kernels write the sums over a block.

    A block of ``shape`` (z, y, x) is divided into parts, with ``columns`` sums for each.
    """
    return stages.coefficients.device.zeros((min(shape[0] * shape[1], _PARTS), columns), np.float64)


class Energy:
    """Computes the acoustic energy of the current fields in the block (z, y, x) that this rank owns.

    Notes
    -----
    The result is twice the energy divided by the cell volume: Σ (|p ρ|/ρ₀ + ρ₀|u|²), J/m³. Without absorption
    p = c₀² ρ, so the first term is p²/(ρ₀c₀²). With dispersion the scheme conserves p ρ, not p².
    """

    def __init__(self, stages: Stages):
        c, fields = stages.coefficients, stages.fields
        self._device, self._sum = c.device, c.kernels.field_sums
        box, shape = box_of(stages)
        self._sums = partial_sums(stages, shape, 3)
        weights = row_weights(c.problem, c.subdomain.indices(1)[c.subdomain.owned[1]])
        rings = c.device.asarray(np.hstack(weights) if weights else np.zeros((0, 2)), np.float64)
        medium = c.density, *fields.three(c.staggered)
        self._arguments = fields.p, fields.rho, *fields.three(fields.u), *medium, rings, box, c.axes

    def __call__(self) -> float:
        """Return the energy of the current fields on this rank; not finite if the fields are not."""
        return self.launch()()[0]

    def launch(self) -> Callable[[], tuple[float, float]]:
        """Start to compute the sums over the current fields; return a function that waits for them.

        The function returns the energy and the maximum |p|, Pa. Call it before the next launch.
        """
        self._sum(self._sums, *self._arguments)
        fetch = self._device.export(self._sums)

        def result() -> tuple[float, float]:
            energy, high, low = fetch().T
            with np.errstate(over="ignore", invalid="ignore"):  # the sum is not finite after an overflow
                return float(energy.sum()), max(float(high.max()), -float(low.min()))

        return result


def row_weights(problem: Problem, rows: np.ndarray) -> list[np.ndarray]:
    """Return relative volumes of the rings that the points of an axisymmetric grid represent.

    There are two arrays (rows, 1) for the radial indices ``rows``: at the points of p and u_x, and of u_r. A
    volume is r/Δr, on the axis 1/8. On a Cartesian grid the list is empty: all volumes are equal.
    """
    if not problem.axisymmetric:
        return []
    whole = np.where(rows > 0, rows, 0.125)[:, None]
    return [whole, rows[:, None] + 0.5]


def source_strength(problem: Problem) -> np.ndarray:
    """Return the square root of the energy that the sources alone add in each time step, shape (steps,).

    A step of the scheme without sources cannot raise the energy, whose square root is a norm. With sources
    √energy grows by at most this strength per step, whatever the field; that includes a Dirichlet source,
    which replaces field values. The units are those of `Energy`. Initial pressure is not counted.
    """
    strength = np.zeros(problem.steps)
    p, u, transducer = problem.pressure_source, problem.velocity_source, problem.transducer
    if p is not None:
        # The signal goes into each of D split densities: c₀² D²/ρ₀.
        c, rho = _at_points(problem.sound_speed, p.index), _at_points(problem.density, p.index)
        weights = c * c / rho
        if p.mode == "additive":
            # The k-space correction spreads the source to neighbours, where the medium may differ.
            low, high = float(np.min(problem.density)), float(np.max(problem.sound_speed))
            weights = np.full(p.index.shape, high * high / low)
        weights = weights * _rings(problem, p.index, 0, p.mode)
        stiffening = 1.0
        if disperses(problem):  # largest 1 − η k^(y−1): an element of fluid may be stiffer than ρ₀c₀²
            y, (_, b) = problem.alpha_power, absorption_factors(problem)
            speed = np.asarray(problem.sound_speed, np.float64)
            eta = abs(b) * float(np.max(np.asarray(problem.alpha_coeff) * speed**y))
            stiffening += eta * max(k ** (y - 1) for k in wavenumber_range(problem))
        weights = problem.dimensions**2 * stiffening * weights
        strength += np.sqrt(_squares(problem, p.signal, weights))
    if u is not None:
        for axis, (signal, density) in enumerate(zip(u.signals, problem.density_staggered, strict=True)):
            if signal is not None:
                spread = np.max(density) if u.mode == "additive" else density
                weights = _at_points(spread, u.index) * _rings(problem, u.index, axis, u.mode)
                strength += np.sqrt(_squares(problem, signal, weights))
    if transducer is not None:
        strength += np.sqrt(_delayed(problem, transducer))
    return strength


def _rings(problem: Problem, index: np.ndarray, axis: int, mode: str) -> np.ndarray | float:
    """Return the ring volumes at source points; ``axis`` 0 is for p and u_x, 1 for u_r.

    An additive source spreads to adjacent rings, so each point gets the volume of the next larger ring.
    """
    weights = row_weights(problem, index // problem.shape[0] + (mode == "additive"))
    return weights[axis][:, 0] if weights else 1.0


def _at_points(value, index: np.ndarray) -> np.ndarray:
    """Return a medium parameter at flat indices, in double precision."""
    if np.ndim(value) == 0:
        return np.full(index.shape, float(value))
    return np.asarray(value).reshape(-1)[index].astype(np.float64)


def _squares(problem: Problem, signal: Signal, weights: np.ndarray) -> np.ndarray:
    """Return the sum over points of weight × signal², for each step."""
    squares = np.zeros(problem.steps)
    steps = min(len(signal), problem.steps)
    rows = max(1, _SAMPLES // max(signal.shape[1], 1))
    for first in range(0, steps, rows):
        block = np.asarray(signal[first : min(first + rows, steps)], np.float64)
        # No product of matrices: the threads of NumPy's BLAS spin for 0.1 s after one.
        each = weights.sum(keepdims=True) if block.shape[1] == 1 else weights
        squares[first : first + len(block)] += np.einsum("ij,ij,j->i", block, block, each)
    return squares


def _delayed(problem: Problem, source: TransducerSource) -> np.ndarray:
    """Return for each time step the sum of weight × signal² over a transducer's points, (steps,).

    In step n a point gets sample n + delay of the signal. Weights are densities, times ring volumes.
    """
    steps = min(source.steps, problem.steps)
    mass = _at_points(problem.density_staggered[0], source.index)
    weights = np.bincount(source.delay, mass * _rings(problem, source.index, 0, "dirichlet"))
    signal = np.asarray(source.signal, np.float64) ** 2
    squares = np.zeros(problem.steps)
    for delay in np.flatnonzero(weights):
        heard = signal[delay : delay + steps]
        squares[: len(heard)] += weights[delay] * heard
    return squares


class EnergyWatch:
    """Checks the energy every ``every`` time steps, and after the first and the last step.

    √energy may rise by the strength of the sources (`source_strength`). It falls where the field is absorbed
    or leaves the grid; from the lower value it may again rise only by the strength of the sources.
    """

    def __init__(self, problem: Problem, every: int):
        self.every, self.steps = every, problem.steps
        self._sum = np.concatenate([[0.0], np.cumsum(source_strength(problem))])
        self._allowed = self._largest = 0.0
        self._last_step = 0

    def due(self, done: int) -> bool:
        """Return whether the energy is checked after ``done`` steps."""
        return done == 1 or done % self.every == 0 or done == self.steps

    def steps_left(self, done: int) -> int:
        """Return the steps from ``done`` to the next check of the energy, not counting that after step 1."""
        return min(-done % self.every, self.steps - done)

    def excess(self, done: int, energy: float) -> float:
        """Return the ratio of the energy after ``done`` steps to the allowed one; 0 up to `TOLERANCE`."""
        root = math.sqrt(energy)
        allowed = self._allowed + float(self._sum[done] - self._sum[self._last_step])
        if self._last_step == 0:
            # The energy of an initial pressure is in the field, but not in the strength of the sources.
            allowed = max(allowed, root)
        self._last_step = done
        excess = energy / allowed**2 if allowed else math.inf * bool(energy)
        self._largest = max(self._largest, allowed)
        self._allowed = max(min(allowed, root), _FLOOR * self._largest)
        return excess if excess > TOLERANCE else 0.0

    def state(self) -> list[float]:
        """Return the state of the checks for a checkpoint."""
        return [self._last_step, self._allowed, self._largest]

    def restore(self, state: list[float]) -> None:
        """Restore a state that `state` saved in a checkpoint."""
        last_step, self._allowed, self._largest = state
        self._last_step = int(last_step)
