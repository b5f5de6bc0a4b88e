"""From values as users have them to recorded results, in plain NumPy or JAX, without the package's solver.

`PlainSolver` takes the steps. Of the package come the indices of sources and sensors, the layers and what
has no derivative; scaling (Cox, Martin & Treeby 2018, doi:10.1109/ULTSYM.2018.8579896), padding, staggering,
smoothing and recording are written here again. Fields are ``(Nz, Ny, Nx)``.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
from gradient_cases import Case, objective
from plain_solver import PlainSolver

from wavefabric.acoustics import ContinuousWave
from wavefabric.acoustics.problem import Cuboids, Elements, Interpolation, Problem, Recording


def plain_problem(case: Case, values: dict[str, Any], xp: Any) -> tuple[Problem, Recording]:
    """A problem whose arrays are functions of ``values`` that ``xp`` can differentiate."""
    base, recording = case.problem(case.values)
    grid, dims, dt, dx = case.grid, case.grid.dimensions, base.dt, case.grid.spacing
    before = grid.margin
    after = [total - n - m for total, n, m in zip(base.shape, (*grid.shape, 1, 1), before, strict=False)]

    def memory(value: Any, mode: str = "edge") -> Any:
        if xp.ndim(value) == 0:
            return value
        solid = xp.reshape(value, (*grid.shape, 1, 1)[:3]).transpose(2, 1, 0)
        return xp.pad(solid, list(zip(before, after, strict=True))[::-1], mode=mode)

    names = ("sound_speed", "density", "alpha_coeff", "nonlinearity")
    new: dict[str, Any] = {name: memory(values[name]) for name in names if name in values}
    c, rho = new["sound_speed"], new["density"]
    if "density_staggered" in values:
        new["density_staggered"] = tuple(memory(each) for each in values["density_staggered"])
    else:
        new["density_staggered"] = tuple(_halfway(rho, 2 - axis, xp) for axis in range(dims))
    if "p0" in values:
        p0 = memory(values["p0"], "constant")
        new["initial_pressure"] = _smoothed(p0, xp) if case.source.get("smooth", True) else p0

    def at(index: np.ndarray) -> Any:
        return c if xp.ndim(c) == 0 else c.reshape(-1)[index]

    if base.pressure_source is not None:
        source, c_p = base.pressure_source, at(base.pressure_source.index)
        scale = 1 / (dims * c_p**2) if source.mode == "dirichlet" else 2 * dt / (dims * c_p * dx[0])
        signal = _pressure(case, values, base.steps, dt)
        new["pressure_source"] = replace(source, signal=xp.atleast_2d(signal).T * scale)
    if base.velocity_source is not None:
        source, c_u = base.velocity_source, at(base.velocity_source.index)
        signals = [
            None
            if f"u{axis}" not in values
            else xp.atleast_2d(values[f"u{axis}"]).T
            * (1.0 if source.mode == "dirichlet" else 2 * c_u * dt / d)
            for axis, d in zip("xyz", dx, strict=False)
        ]
        new["velocity_source"] = replace(source, signals=tuple(signals))
    if base.transducer is not None:
        scale = 2 * xp.mean(at(base.transducer.index)) * dt / dx[0]
        new["transducer"] = replace(base.transducer, signal=values["transducer"] * scale)
    return replace(base, **new), recording


def _pressure(case: Case, values: dict[str, Any], steps: int, dt: float) -> Any:
    """Signals of the mass source, Pa, (steps,) or (points, steps)."""
    if case.elements is not None:
        return case.elements.weights.toarray() @ values["elements"]
    wave = case.source.get("p")
    if not isinstance(wave, ContinuousWave):
        return values["p"]
    turns = wave.frequency * dt * np.arange(steps)
    rise = np.where(turns < wave.ramp, 0.5 - 0.5 * np.cos(np.pi * turns / wave.ramp), 1.0)
    return rise * wave.amplitude[:, None] * np.cos(2 * np.pi * turns + wave.phase[:, None])


def _halfway(field: Any, axis: int, xp: Any) -> Any:
    """Means of neighbours; the last value stays."""
    if xp.ndim(field) == 0:
        return field
    along = xp.moveaxis(field, axis, 0)
    return xp.moveaxis(xp.concatenate([(along[:-1] + along[1:]) / 2, along[-1:]]), 0, axis)


def _smoothed(field: Any, xp: Any) -> Any:
    """By k-Wave's rotated Blackman window, a table with linear interpolation, to the same peak."""
    radius = max(field.shape) // 2
    axes = [np.fft.fftfreq(n, 1 / n) / max(1, n // 2) for n in field.shape]
    distance = radius * np.sqrt(sum(m**2 for m in np.meshgrid(*axes, indexing="ij")))
    table = np.arange(radius + 1) / radius
    window = 0.42 + 0.5 * np.cos(np.pi * table) + 0.08 * np.cos(2 * np.pi * table)
    window[-1] = 0
    operator = np.interp(distance, np.arange(radius + 1), window)
    smooth = xp.fft.ifftn(operator * xp.fft.fftn(field)).real
    return smooth * (abs(field).max() / abs(smooth).max())


def plain_results(case: Case, values: dict[str, Any], xp: Any = np) -> dict[str, Any]:
    """What `simulate` returns: series (points, rows), fields as the grid, tones (frequencies, …)."""
    problem, recording = plain_problem(case, values, xp)
    grid, solver = case.grid, PlainSolver(problem, xp)
    names = ["p", *("u" + axis for axis in "xyz"[: grid.dimensions])]
    rows: dict[str, list] = {name: [] for name in (*names, "domain")}
    for number in range(problem.steps):
        solver.step()
        if number >= recording.start:
            rows["domain"].append(_domain(grid, solver.p, xp))
            for name, values_now in zip(names, (solver.p, *solver.u), strict=True):
                rows[name].append(_sensed(recording.where, values_now, grid.dimensions, xp))
    out: dict[str, Any] = {}
    if "p_raw" in recording.quantities:
        out["p"] = _stacked(rows["p"], xp)
    if "u_raw" in recording.quantities:
        out |= {name: _stacked(rows[name], xp) for name in names[1:]}
    if "p_final" in recording.quantities:
        out["p_final"] = _domain(grid, solver.p, xp)
    if "u_final" in recording.quantities:
        out |= {f"{n}_final": _domain(grid, u, xp) for n, u in zip(names[1:], solver.u, strict=True)}
    t = problem.dt * np.arange(recording.start, problem.steps)
    for name in recording.tones:
        series = _stacked(rows["domain" if name == "p_amp_all" else "p"], xp)
        boxes = series if isinstance(series, list) else [series]
        every = [[_tone(box, f, t, xp) for box in boxes] for f in recording.frequencies]
        for part, key in enumerate((name, name.replace("amp", "phase"))):
            each = [[tone[part] for tone in tones] for tones in every]
            out[key] = each if isinstance(series, list) else xp.stack([one for (one,) in each])
    return out


def gradient_by_jax(case: Case, jax: Any) -> dict[str, np.ndarray]:
    """The objective, ``value``, and its derivatives by the names of the case's values; by the module JAX."""

    def evaluate(values: dict[str, Any]) -> Any:
        return objective(plain_results(case, values, jax.numpy), jax.numpy)

    with jax.enable_x64(True):
        value, gradient = jax.value_and_grad(evaluate)(case.values)
        return {name: np.asarray(each) for name, each in ({"value": value} | gradient).items()}


def _tone(series: Any, frequency: float, time: np.ndarray, xp: Any) -> tuple[Any, Any]:
    """Amplitude and phase of (…, rows) over whole periods: 2/N Σ p e^{−iωt} = A e^{iφ}."""
    complex_amplitude = series @ (np.exp(-2j * math.pi * frequency * time) * 2 / time.size)
    return abs(complex_amplitude), xp.angle(complex_amplitude)


def _stacked(rows: list, xp: Any) -> Any:
    """Time last; box by box."""
    if isinstance(rows[0], list):
        return [xp.stack(box, axis=-1) for box in zip(*rows, strict=True)]
    return xp.stack(rows, axis=-1)


def _domain(grid: Any, field: Any, xp: Any) -> Any:
    """[x, y, z] without a PML that is outside."""
    inner = tuple(slice(m, m + n) for m, n in zip(grid.margin, (*grid.shape, 1, 1), strict=False))
    return xp.transpose(field, (2, 1, 0))[inner].reshape(grid.shape)


def _sensed(where: Any, field: Any, dims: int, xp: Any) -> Any:
    """Values (points,) at a sensor, or of each box."""
    flat = field.reshape(-1)
    if where is None:
        return flat[:0]
    if isinstance(where, Interpolation):
        return (flat[where.corners] * where.weights).sum(axis=1)
    if isinstance(where, Elements):
        ends = zip(where.bounds[:-1], where.bounds[1:], strict=True)
        return xp.stack([flat[where.points[a:b]] @ where.weights[a:b] for a, b in ends])
    if isinstance(where, Cuboids):
        solid, corners = field.transpose(2, 1, 0), zip(where.first, where.last + 1, strict=True)
        boxes = [tuple(slice(*ends) for ends in zip(low, high, strict=True)) for low, high in corners]
        return [solid[box].reshape(solid[box].shape[:dims]) for box in boxes]
    return flat[where]
