"""Converts derivatives with respect to a problem's arrays to those with respect to a user's arguments."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from wavefabric.acoustics.grid import Grid
from wavefabric.acoustics.medium import Medium
from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.solver.adjoint.sources import SOURCES
from wavefabric.acoustics.source import Source, at_points


class ParameterGradients:
    """Converts the solver's derivatives for one simulation to those with respect to a user's arguments.

    ``names`` are these arguments, such as ``"sound_speed"``. Two attributes tell `AdjointRun` what to
    compute: ``wrt`` names the parameters and sources to differentiate by, ``scaled`` the sources, except the
    transducer, with signals scaled by the sound speed. ``points`` maps names of sources to their grid points.
    """

    def __init__(self, grid: Grid, medium: Medium, source: Any, problem: Problem, names: tuple[str, ...]):
        self._grid, self._medium, self._source, self._problem = grid, medium, source, problem
        self._names = names
        p, u, transducer = problem.pressure_source, problem.velocity_source, problem.transducer
        signals = () if u is None else zip(SOURCES[1:], u.signals, strict=False)
        sources: dict[str, Any] = {name: u for name, signal in signals if signal is not None}
        sources |= {"p": p, "transducer": transducer}
        self.points = {name: each.index for name, each in sources.items() if each is not None}
        #: Sources whose signals are scaled by the sound speed; sorted, so that all ranks have the same order.
        self._scaled: tuple[str, ...] = ()
        if "sound_speed" in names and isinstance(source, Source):
            moved = {name: name == "transducer" or source.scale_power(name) for name in self.points}
            self._scaled = tuple(name for name in sorted(moved) if moved[name])
        called = {"p0": "initial_pressure", "density_staggered": "density"}
        wrt = frozenset(called.get(name, name) for name in names)
        scaled = frozenset(self._scaled)
        if "transducer" in scaled:  # the derivative for its scale follows from that for its signal
            wrt, scaled = wrt | {"transducer"}, scaled - {"transducer"}
        self.wrt, self.scaled = wrt, scaled

    def from_grid(
        self, medium: Mapping[str, np.ndarray], signals: Mapping[str, Any], products: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the derivatives with respect to the user's arguments, by name.

        ``medium`` is the result of `AdjointRun.medium`, ``signals`` and ``products`` are those of
        `AdjointRun.signals`. ``products`` is a dictionary from source to the derivative with respect to a
        relative change of its signal at each point.
        """
        staggered = [medium[name] for name in ("density_x", "density_y", "density_z") if name in medium]

        def of(name: str) -> Any:
            if name == "p0":
                return self._source.p0_gradient(medium["initial_pressure"], self._grid)
            if name == "transducer":
                scale = self._source.scale(name, self._grid, self._speed_at(name), self._problem.dt)
                return self._transducer_sums(signals[name]) * scale
            if name in SOURCES:
                return self._signal(name, signals[name])
            if name == "density_staggered":
                pairs = zip(staggered, self._medium.density_staggered, strict=True)
                return tuple(self._summed_like(*pair) for pair in pairs)
            field = medium[name]
            if name == "density" and self._medium.density_staggered is None:
                for axis, along in enumerate(staggered):
                    field = field + transposed_stagger(along, axis, self._grid.periodic[axis])
            if name == "sound_speed":
                field = self._with_scales(field, signals, products)
            return self._summed_like(field, getattr(self._medium, name))

        return {name: of(name) for name in self._names}

    def _summed_like(self, field: np.ndarray, parameter: Any) -> Any:
        """Convert derivatives at grid points to those for a user's parameter; for a number, sum them."""
        whole = field.astype(np.float64)
        return float(whole.sum()) if np.ndim(parameter) == 0 else self._grid.from_edges(whole)

    def _speed_at(self, name: str) -> np.ndarray:
        return at_points(self._problem.sound_speed, self.points[name])

    def _signal(self, name: str, derivative: np.ndarray) -> np.ndarray:
        """Convert derivatives for a solver's signal (steps, points or 1) to those for the user's signal."""
        values = np.asarray(getattr(self._source, name))
        scale = self._source.scale(name, self._grid, self._speed_at(name), self._problem.dt)
        scaled = (derivative * scale).T
        if values.ndim == 1 or values.shape[0] == 1:
            scaled = scaled.sum(axis=0, keepdims=True)
        out = np.zeros((scaled.shape[0], values.shape[-1]))
        steps = min(values.shape[-1], scaled.shape[1])
        out[:, :steps] = scaled[:, :steps]
        return out.reshape(values.shape)

    def _transducer_sums(self, derivative: np.ndarray) -> np.ndarray:
        """Return derivatives with respect to the samples of a transducer's signal.

        ``derivative`` (steps, points) is with respect to the delayed signals of its points, which share these
        samples.
        """
        transducer: Any = self._problem.transducer
        at, size = transducer.delay + np.arange(len(derivative))[:, None], transducer.signal.size
        pushes = derivative.ravel().astype(np.float64)
        return np.bincount(at.ravel(), pushes, max(size, int(at.max()) + 1))[:size]

    def _with_scales(self, field: np.ndarray, signals: Mapping, products: Mapping) -> np.ndarray:
        """Return derivatives with respect to sound speed, including the scaling of the sources' signals.

        ``field`` are those without this scaling. ``signals`` and ``products`` are as in `from_grid`.
        """
        total = field.astype(np.float64)
        flat = total.reshape(-1)
        for name in self._scaled:
            index, c = self.points[name], self._speed_at(name)
            if name == "transducer":
                transducer: Any = self._problem.transducer
                sums = float(np.sum(self._transducer_sums(signals[name]) * transducer.signal))
                flat[index] += sums / (index.size * c.mean())
            else:
                flat[index] += products[name] * self._source.scale_power(name) / c
        return total


def transposed_stagger(field: np.ndarray, axis: int, wrap: bool = False) -> np.ndarray:
    """Apply the transpose of `medium.stagger`, means of neighbours along an axis, to a field (Nz, Ny, Nx)."""
    out = field / 2
    along, half = np.moveaxis(out, 2 - axis, 0), np.moveaxis(field / 2, 2 - axis, 0)
    along[1:] += half[:-1]
    along[0 if wrap else -1] += half[-1]
    return out
