"""Acoustic energy of the fields of a run, and what its sources may put in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wavefabric.acoustics.problem import PressureSource, Problem, TransducerSource, VelocitySource
from wavefabric.acoustics.solver.operators import absorption_factors, wavenumber_range

if TYPE_CHECKING:
    from wavefabric.acoustics.solver.stages import Stages

#: Points that are summed at a time, on a CPU and on a GPU: temporary arrays stay small.
_CHUNK = {True: 1 << 16, False: 1 << 22}
#: Samples of a signal that are squared at a time.
_SAMPLES = 1 << 20


class Energy:
    """Sums the energy of the fields as they are.

    Parameters
    ----------
    stages : Stages
    owned : tuple of slice, optional
        The block (z, y, x) that counts here; all of it by default.

    Notes
    -----
    Twice the energy over the volume of a cell: Σ (|p Σρ_ξ|/ρ₀ + ρ₀|u|²), J/m³. Without absorption p is
    c₀² Σρ_ξ, and the first term p²/(ρ₀c₀²). With dispersion p Σρ_ξ is what the scheme conserves, p² is not.
    """

    def __init__(self, stages: Stages, owned: tuple[slice, slice, slice] | None = None):
        c, self._fields = stages.constants, stages.fields
        self._xp = c.device.xp
        owned = owned or (slice(None), slice(None), slice(None))
        self._blocks = [[field[owned] for field in group] for group in ([self._fields.p], self._fields.rho)]
        self._u = [field[owned] for field in self._fields.u]
        self._density = self._cut(c.density, owned)
        self._staggered = [self._cut(rho, owned) for rho in c.staggered]
        self._planes = self._slices(_CHUNK[c.device.name == "cpu"])

    @staticmethod
    def _cut(medium, owned):
        """A parameter of the medium on the block; one row ``(1, 1, Nx)`` stays one."""
        z, y, x = owned
        return medium[:, :, x] if medium.shape[:2] == (1, 1) else medium[z, y, x]

    def _slices(self, chunk: int) -> list[tuple[slice, slice]]:
        """Runs of planes, or of rows of one plane, of about so many points."""
        nz, ny, nx = self._blocks[0][0].shape
        rows = max(1, chunk // max(nx, 1))
        if rows < ny:
            return [(slice(z, z + 1), slice(y, y + rows)) for z in range(nz) for y in range(0, ny, rows)]
        planes = max(1, rows // max(ny, 1))
        return [(slice(z, z + planes), slice(None)) for z in range(0, nz, planes)]

    def __call__(self) -> float:
        """The energy now; it waits for the device. Not finite if the fields are not."""
        xp = self._xp
        (p,), rho = self._blocks
        total: Any = 0.0
        # What overflows is lost, and the sum says so.
        with np.errstate(over="ignore", invalid="ignore"):
            for z, y in self._planes:
                part = sum((field[z, y] for field in rho[1:]), rho[0][z, y])
                part = xp.abs(part * p[z, y]) / _at(self._density, z, y)
                total = total + xp.sum(part, dtype=np.float64)
                for component, density in zip(self._u, self._staggered, strict=True):
                    part = component[z, y] * component[z, y] * _at(density, z, y)
                    total = total + xp.sum(part, dtype=np.float64)
        return float(total)


def _at(medium, z: slice, y: slice):
    return medium if medium.shape[:2] == (1, 1) else medium[z, y]


def source_strength(problem: Problem) -> np.ndarray:
    """Square root of the energy that each time step's sources have by themselves, shape (steps,).

    A step of the scheme without sources cannot raise the energy, whose square root is a norm. With sources it
    grows by no more than this in each step, whatever field they meet; a Dirichlet source, which replaces
    what is there, included. In the units of `Energy`. Initial pressure is not counted.

    Parameters
    ----------
    problem : Problem
        Of the whole grid.
    """
    strength = np.zeros(problem.steps)
    p, u, transducer = problem.pressure_source, problem.velocity_source, problem.transducer
    if p is not None:
        strength += np.sqrt(_squares(problem.steps, p.signal, _pressure_weights(problem, p)))
    if u is not None:
        for signal, density in zip(u.signals, problem.density_staggered, strict=True):
            if signal is not None:
                strength += np.sqrt(_squares(problem.steps, signal, _velocity_weights(u, density)))
    if transducer is not None:
        strength += np.sqrt(_delayed(problem, transducer))
    return strength


def _taken(value, index: np.ndarray) -> np.ndarray:
    """A parameter of the medium at flat indices, double precision."""
    if np.ndim(value) == 0:
        return np.full(index.shape, float(value))
    return np.asarray(value).reshape(-1)[index].astype(np.float64)


def _pressure_weights(problem: Problem, source: PressureSource) -> np.ndarray:
    """c₀² D²/ρ₀: the signal goes into each of D split densities."""
    c, rho = _taken(problem.sound_speed, source.index), _taken(problem.density, source.index)
    weights = c * c / rho
    if source.mode == "additive":
        # The k-space correction spreads it over neighbours, among which the medium may change.
        low, high = float(np.min(problem.density)), float(np.max(problem.sound_speed))
        weights = np.full(source.index.shape, high * high / low)
    return problem.dimensions**2 * _stiffening(problem) * weights


def _stiffening(problem: Problem) -> float:
    """Largest 1 − η k^(y−1): with dispersion an element of fluid may be stiffer than ρ₀c₀²."""
    if problem.absorption != "power_law" or not problem.dispersion:
        return 1.0
    y, (_, b) = problem.alpha_power, absorption_factors(problem)
    eta = abs(b) * np.max(np.asarray(problem.alpha_coeff) * np.asarray(problem.sound_speed, np.float64) ** y)
    return 1.0 + float(eta) * max(k ** (y - 1) for k in wavenumber_range(problem))


def _velocity_weights(source: VelocitySource, density) -> np.ndarray:
    if source.mode == "additive":
        return np.full(source.index.shape, float(np.max(density)))
    return _taken(density, source.index)


def _squares(steps: int, signal: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Σ over points of weight × signal², of each step."""
    squares = np.zeros(steps)
    steps = min(len(signal), steps)
    rows = max(1, _SAMPLES // max(signal.shape[1], 1))
    for first in range(0, steps, rows):
        part = np.asarray(signal[first : min(first + rows, steps)], np.float64)
        sums = part[:, 0] ** 2 * weights.sum() if part.shape[1] == 1 else part**2 @ weights
        squares[first : first + len(part)] += sums
    return squares


def _delayed(problem: Problem, source: TransducerSource) -> np.ndarray:
    """The same of a transducer: each point takes the signal from its delay on."""
    steps = min(source.steps, problem.steps)
    weights = np.bincount(source.delay, _taken(problem.density_staggered[0], source.index))
    signal = np.asarray(source.signal, np.float64) ** 2
    squares = np.zeros(problem.steps)
    for delay in np.flatnonzero(weights):
        part = signal[delay : delay + steps]
        squares[: len(part)] += weights[delay] * part
    return squares
