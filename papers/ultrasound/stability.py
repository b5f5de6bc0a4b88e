"""Validation of the stability check: random media at random time steps, against eigenvalues of the step."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2]))

from papers.common import Json, Output, run, show
from papers.ultrasound.step_matrix import spectral_radius
from wavefabric.acoustics.grid import Grid
from wavefabric.acoustics.medium import Medium
from wavefabric.acoustics.problem import Problem, Recording
from wavefabric.acoustics.recording.sinks import MemorySink
from wavefabric.acoustics.run import run as run_problem
from wavefabric.acoustics.run_settings import RunSettings
from wavefabric.acoustics.sensor import Sensor
from wavefabric.acoustics.simulation import to_problem
from wavefabric.acoustics.source import Source
from wavefabric.acoustics.stability.energy import TOLERANCE
from wavefabric.acoustics.stability.stable_time_step import Stability, stability
from wavefabric.base.errors import FieldLost, InputError
from wavefabric.cli.common.options import option
from wavefabric.cli.common.show import status_line
from wavefabric.fabric.execution import report, timing
from wavefabric.runtime.device import get_device
from wavefabric.runtime.exchange.communicator import Communicator, solo

#: A spectral radius above 1 by this is growth; a double eigenvalue 1 comes out with 1e-7.
_GROWS = 1e-6
#: What is offered in place of a time step that is refused may be shorter than need be by this factor.
FACTOR = 1.3
_SHORTER = (1.0, 1.07, 1.14, 1.22)


def study(
    media: int = 10_000,
    seed: int = 1,
    steps: int = 5000,
    points: int = 40,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Draw media and time steps, run them, and compare what was refused with eigenvalues.

    Density varies by up to 1000, sound speed by up to 4, from point to point, in layers, in inclusions or
    smoothly; half of the media absorb, 30 % are nonlinear; the CFL number is from 0.02 to 3. Sources are
    initial pressures, bursts, and tones that last for the whole run.

    Parameters
    ----------
    media : int
        How many.
    seed : int
    steps : int
        Time steps of a run.
    points : int
        Grid points at most.
    progress : callable, optional

    Returns
    -------
    dict
        ``refused``, ``stopped`` and ``returned`` count media. ``needless``: stopped, but the medium is linear
        and its spectral radius at most 1. ``grown``: returned with more than `TOLERANCE` times the energy put
        in; ``largest_energy``: the most that was returned, as a part of what was put in. ``too_short``:
        refused, and offered a time step that is shorter by more than 1.3 than the one given and than the
        shortest that grows. ``offered_grows``: a time step that was offered has a spectral radius above
        1 + 1e-3.
    """
    if media < 1 or steps < 1 or points < 16:
        raise InputError(f"--media {media} --steps {steps} --points {points}; allowed: from 1, 1 and 16 on")
    say = progress or (lambda line: None)
    comm = solo(get_device("cpu", threads=1))  # more would only wait for one another
    cases = []
    for number in range(media):
        cases.append(_case(np.random.default_rng([seed, number]), comm, steps, points))
        if number % 100 == 99:
            say(f"{number + 1} of {media} media")
    kinds = [case["kind"] for case in cases]
    returned = [case for case in cases if case["kind"] == "returned"]
    refused = [case for case in cases if case["kind"] == "refused"]
    return {
        "benchmark": "stability",
        "media": media, "seed": seed, "steps": steps, "points": points,
        **{kind: kinds.count(kind) for kind in ("refused", "stopped", "returned")},
        "needless": sum(case.get("steady", False) for case in cases),
        "grown": sum(case["energy"] > TOLERANCE for case in returned),
        "largest_energy": max((case["energy"] for case in returned), default=0.0),
        "too_short": sum(case["too_short"] for case in refused),
        "offered_grows": sum(case["offered"] > 1 + 1e-3 for case in refused),
        "none_offered": sum(case["limit"] == 0 for case in refused),
        "cases": cases,
        "machine": timing.machine(comm.device),
    }  # fmt: skip


def table(result: dict[str, Any]) -> list:
    """How many media were refused, stopped and returned."""
    rows = (
        ("refused", result["refused"]),
        ("… with no time step offered", result["none_offered"]),
        ("… and what is offered is needlessly shorter by more than 1.3", result["too_short"]),
        ("… and what is offered grows by more than 0.1 % in a step", result["offered_grows"]),
        ("stopped during the run", result["stopped"]),
        ("… of a linear medium whose fields do not grow", result["needless"]),
        ("returned", result["returned"]),
        (f"… with more than {TOLERANCE:g} times the energy put in", result["grown"]),
    )
    return [
        report.table(
            f"{result['media']} random media of up to {result['points']} points, seed {result['seed']}, "
            f"{result['steps']} steps",
            ("<what became of them", "media"),
            [(words, str(value)) for words, value in rows],
            f"largest energy returned, over that put in: {result['largest_energy']:.3g}",
        )
    ]


def _case(rng: np.random.Generator, comm: Communicator, steps: int, points: int) -> dict[str, Any]:
    problem, recording = draw(rng, steps, points)
    verdict = stability(problem, RunSettings(comm=comm, precision="double"))
    case: dict[str, Any] = {
        "cfl": verdict.cfl, "limit": verdict.max_dt, "dt": problem.dt, "absorption": problem.absorption,
        "nonlinear": problem.nonlinearity is not None, "pml": any(problem.pml_size),
    }  # fmt: skip
    if verdict.warning:
        return {**case, "kind": "refused", **_refused(problem, verdict)}
    sink = MemorySink()
    try:
        run_problem(problem, recording, sink, RunSettings(comm=comm, precision="double"))
    except FieldLost:
        steady = not case["nonlinear"] and spectral_radius(problem, problem.dt) <= 1 + _GROWS
        return {**case, "kind": "stopped", "steady": steady}
    return {**case, "kind": "returned", "energy": _energy(problem, sink.arrays)}


def _refused(problem: Problem, verdict: Stability) -> dict[str, Any]:
    """Whether what is offered is shorter by more than 1.3 than what was given, and than what grows."""
    limit = verdict.max_dt
    if not limit:
        return {"too_short": spectral_radius(problem, problem.dt) <= 1 + _GROWS, "offered": 1.0}
    longer = () if problem.dt <= limit * FACTOR else (limit * FACTOR / part for part in _SHORTER)
    right = not longer or any(spectral_radius(problem, step) > 1 + _GROWS for step in longer)
    return {"too_short": not right, "offered": spectral_radius(problem, limit)}


def _energy(problem: Problem, arrays: dict[str, np.ndarray]) -> float:
    """Energy of the last fields, as a part of the square of all √energy that the sources have."""
    rho, c = np.asarray(problem.density), np.asarray(problem.sound_speed)
    d = problem.dimensions
    squares = float(np.sum(arrays["p_final"] ** 2 / (rho * c * c)))
    for axis, density in zip("xyz"[:d], problem.density_staggered, strict=True):
        squares += float(np.sum(arrays[f"u{axis}_final"] ** 2 * np.asarray(density)))
    put = 0.0
    if problem.initial_pressure is not None:
        put += math.sqrt(float(np.sum(problem.initial_pressure**2 / (rho * c * c))))
    if problem.pressure_source is not None:
        source = problem.pressure_source
        at = np.broadcast_to(d * c / np.sqrt(rho), problem.array_shape).reshape(-1)[source.index]
        put += float(np.sum(np.abs(source.signal[:, 0]))) * math.sqrt(float(np.sum(at**2)))
    return squares / put**2


def draw(rng: np.random.Generator, steps: int, points: int) -> tuple[Problem, Recording]:
    """A random medium with a source, at a random time step."""
    grid = _grid(rng, points)
    shape = grid.shape
    ratio = 10 ** rng.uniform(0, 3 if rng.random() < 0.7 else 0.3)
    faster = rng.uniform(1, 4) if rng.random() < 0.7 else 1.0
    heavy = _pattern(rng, shape)
    fast = heavy if rng.random() < 0.6 else _pattern(rng, shape)
    density = 1000.0 / ratio ** (heavy if rng.random() < 0.5 else 1 - heavy)
    speed = 1500.0 * faster ** (fast if rng.random() < 0.5 else 1 - fast)
    more: dict[str, Any] = {}
    if rng.random() < 0.5:
        y = float(rng.choice([0.6, 1.1, 1.5, 1.9, 2.0]))
        # Loss in a wavelength of two points, Np; bone at 3 points per wavelength has some 0.3.
        loss = 10 ** rng.uniform(-4, -0.3)
        hertz = 1500.0 / (2 * max(grid.spacing))
        alpha = loss / (2 * max(grid.spacing)) * 20 * math.log10(math.e) / 100 / (hertz / 1e6) ** y
        more = {
            "alpha_coeff": alpha * (_pattern(rng, shape) if rng.random() < 0.5 else 1.0),
            "alpha_power": y,
        }
        more["dispersion"] = bool(rng.random() < 0.5)
        if y == 2 and rng.random() < 0.5:
            more["absorption"] = "stokes"
    if rng.random() < 0.3:
        more["nonlinearity"] = 5.0
    top = float(speed.max())
    if rng.random() < 0.25:
        more["reference_speed"] = float(rng.uniform(speed.min(), 1.2 * top))
    medium = Medium(speed, density, **more)
    dt = 10 ** rng.uniform(math.log10(0.02), math.log10(3)) * min(grid.spacing) / top
    amplitude = 10 ** rng.uniform(3, 6)
    sensor = Sensor(record=("p_final", "u_final"))
    return to_problem(grid, medium, _source(rng, shape, amplitude, steps), sensor, dt, steps)


def _grid(rng: np.random.Generator, points: int) -> Grid:
    """Two or three dimensions, or a strip two points wide."""
    kind = rng.integers(3)
    if kind == 0:
        side = int(points ** (1 / 3) + 1e-9)
        shape = tuple(int(n) for n in rng.integers(2, side + 1, 3))
    elif kind == 1:
        side = int(points**0.5)
        shape = tuple(int(n) for n in rng.integers(4, side + 1, 2))
    else:
        shape = (int(rng.integers(8, points // 2 + 1)), 2)
    spacing = tuple(1e-4 * rng.uniform(0.5, 2, len(shape))) if rng.random() < 0.4 else 1e-4
    thickest = min(shape) // 2 - 1
    layer = int(rng.integers(0, thickest + 1)) if thickest > 0 and rng.random() < 0.5 else 0
    return Grid(shape, spacing, pml_size=layer)


def _pattern(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Values from 0 to 1: noise, a layer, inclusions, or smooth."""
    kind = rng.integers(4)
    noise = rng.random(shape)
    if kind == 0:
        return noise
    if kind == 1:
        axis = int(rng.integers(len(shape)))
        ends = np.sort(rng.integers(0, shape[axis] + 1, 2))
        along = np.arange(shape[axis])
        inside = (along >= ends[0]) & (along < max(ends[1], ends[0] + 1))
        return (
            np.broadcast_to(inside.reshape([-1 if i == axis else 1 for i in range(len(shape))]), shape) * 1.0
        )
    if kind == 2:
        return (noise < rng.uniform(0.1, 0.9)) * 1.0
    for axis in range(len(shape)):
        noise = (noise + np.roll(noise, 1, axis) + np.roll(noise, -1, axis)) / 3
    return (noise - noise.min()) / max(float(np.ptp(noise)), 1e-12)


def _source(rng: np.random.Generator, shape: tuple[int, ...], amplitude: float, steps: int) -> Source:
    if rng.random() < 0.3:
        return Source(p0=amplitude * rng.standard_normal(shape), smooth=bool(rng.random() < 0.5))
    mask = np.zeros(shape, bool)
    mask[tuple(int(rng.integers(n)) for n in shape)] = True
    period = rng.uniform(4, 40)
    if rng.random() < 0.5:
        t = np.arange(60)
        envelope = np.hanning(60)
    else:
        t = np.arange(steps)
        envelope = np.minimum(t / 30, 1)
    tone = amplitude * np.sin(2 * np.pi * t / period) * envelope
    mode = str(rng.choice(["additive", "additive_no_correction", "dirichlet"]))
    return Source(p_mask=mask, p=tone, p_mode=mode)  # type: ignore[arg-type]


def main(
    media: Annotated[int, option("How many random media.")] = 10_000,
    seed: Annotated[int, option("Of the media.")] = 1,
    steps: Annotated[int, option("Time steps of each run.")] = 5000,
    points: Annotated[int, option("Grid points at most, from 16.")] = 40,
    as_json: Json = False,
    output: Output = None,
) -> None:
    """Random media at random time steps: what is refused, stopped and returned, against eigenvalues (CPU)."""
    with status_line(as_json) as say:
        result = study(media, seed, steps, points, say)
    if not as_json:
        del result["cases"]
    show(__name__, result, as_json, output, False)


if __name__ == "__main__":
    run(main)
