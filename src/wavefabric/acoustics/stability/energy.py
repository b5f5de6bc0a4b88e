"""Acoustic energy of the fields of a run, what its sources may put in, and whether it grows beyond that."""

import math
from typing import Any

import numpy as np

from wavefabric.acoustics.problem import Problem, Signal, TransducerSource
from wavefabric.acoustics.solver.formulas import absorption_factors, disperses, wavenumber_range
from wavefabric.acoustics.solver.stages import Stages

#: Parts of a field that are summed by themselves: enough for a GPU, and for the threads of a CPU.
_PARTS = 1024
#: Samples of a signal that are squared at a time.
_SAMPLES = 1 << 20
#: The energy may be so many times what the sources can have put in. `Energy` takes p and u half a step
#: apart, so that it moves up and down about what the scheme conserves, most for the shortest waves.
TOLERANCE = 16.0
#: What is left of a field is not looked at below this share of the largest √energy: round-off lives there.
_FLOOR = 1e-3


def box_of(stages: Stages, planes: int = 1, rows: int = 1) -> tuple[Any, tuple[int, int, int]]:
    """Return the block that this rank owns as kernels read it, and its shape (z, y, x).

    ``planes`` and ``rows``: of every so many only the first is taken.
    """
    c = stages.coefficients
    _, ny, nx = c.shape
    (z, z_end), (y, y_end), (x, x_end) = ((part.start, part.stop) for part in c.subdomain.owned)
    shape = -(-(z_end - z) // planes), -(-(y_end - y) // rows), x_end - x
    words = (z * ny + y) * nx + x, *shape, planes * ny * nx, rows * nx, x
    return c.device.asarray(np.array(words, np.int64)), shape


def partial_sums(stages: Stages, shape: tuple[int, int, int], columns: int) -> Any:
    """Return an array for sums of the parts of a block: (parts, columns), double precision."""
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
        """The energy now; it waits for the device. Not finite if the fields are not."""
        return self.with_peak()[0]

    def with_peak(self) -> tuple[float, float]:
        """Return the energy, and the largest magnitude of the pressure, Pa, now."""
        self._sum(self._sums, *self._arguments)
        energy, high, low = self._device.to_host(self._sums).T
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is lost, and the sum says so
            return float(energy.sum()), max(float(high.max()), -float(low.min()))


def row_weights(problem: Problem, rows: np.ndarray) -> list[np.ndarray]:
    """Volume of a ring over Δr, (rows, 1), at the points of the pressure and u_x, and of u_r.

    Empty for a Cartesian grid, where all are 1.
    """
    if not problem.axisymmetric:
        return []
    whole = np.where(rows > 0, rows, 0.125)[:, None]
    return [whole, rows[:, None] + 0.5]


def source_strength(problem: Problem) -> np.ndarray:
    """Square root of the energy that each time step's sources have by themselves, shape (steps,).

    A step of the scheme without sources cannot raise the energy, whose square root is a norm. With sources it
    grows by no more than this in each step, whatever field they meet; a Dirichlet source, which replaces
    what is there, included. In the units of `Energy`. Initial pressure is not counted.
    """
    strength = np.zeros(problem.steps)
    p, u, transducer = problem.pressure_source, problem.velocity_source, problem.transducer
    if p is not None:
        # The signal goes into each of D split densities: c₀² D²/ρ₀.
        c, rho = _at_points(problem.sound_speed, p.index), _at_points(problem.density, p.index)
        weights = c * c / rho
        if p.mode == "additive":
            # The k-space correction spreads it over neighbours, among which the medium may change.
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
    """`row_weights` at flat indices. The k-space correction spreads a source to the rings beside it."""
    weights = row_weights(problem, index // problem.shape[0] + (mode == "additive"))
    return weights[axis][:, 0] if weights else 1.0


def _at_points(value, index: np.ndarray) -> np.ndarray:
    """A parameter of the medium at flat indices, double precision."""
    if np.ndim(value) == 0:
        return np.full(index.shape, float(value))
    return np.asarray(value).reshape(-1)[index].astype(np.float64)


def _squares(problem: Problem, signal: Signal, weights: np.ndarray) -> np.ndarray:
    """Σ over points of weight × signal², of each step."""
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
    """The same of a transducer: each point takes the signal from its delay on."""
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
    """Keeps account of the energy, look by look: every so many time steps, at the first and at the last.

    √energy may rise by the strength of the sources (`source_strength`), and falls where the field is absorbed
    or leaves the grid; from there on it may only rise with the sources again.
    """

    def __init__(self, problem: Problem, every: int):
        self.every, self.steps = every, problem.steps
        self._sum = np.concatenate([[0.0], np.cumsum(source_strength(problem))])
        self._allowed = self._largest = 0.0
        self._at = 0

    def due(self, done: int) -> bool:
        """Whether to look after ``done`` steps."""
        return done == 1 or done % self.every == 0 or done == self.steps

    def steps_left(self, done: int) -> int:
        """Time steps from ``done`` to the next look, 0 if it is now; the first step's look is left out."""
        return min(-done % self.every, self.steps - done)

    def excess(self, done: int, energy: float) -> float:
        """Energy over what there can be, after ``done`` steps; 0 while it is within `TOLERANCE`."""
        root = math.sqrt(energy)
        allowed = self._allowed + float(self._sum[done] - self._sum[self._at])
        if self._at == 0:
            # An initial pressure is in the field now, and nowhere else.
            allowed = max(allowed, root)
        self._at = done
        excess = energy / allowed**2 if allowed else math.inf * bool(energy)
        self._largest = max(self._largest, allowed)
        self._allowed = max(min(allowed, root), _FLOOR * self._largest)
        return excess if excess > TOLERANCE else 0.0

    def state(self) -> list[float]:
        """For a checkpoint."""
        return [self._at, self._allowed, self._largest]

    def restore(self, state: list[float]) -> None:
        """Go on from a checkpoint's."""
        at, self._allowed, self._largest = state
        self._at = int(at)
