"""From a grid, a medium, a source and a sensor to numbers: `simulate`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np

from wavefabric.acoustics.answers import Results
from wavefabric.acoustics.grid import Grid
from wavefabric.acoustics.medium import Medium
from wavefabric.acoustics.problem import Problem, Recording
from wavefabric.acoustics.sensor import Sensor
from wavefabric.acoustics.source import Source
from wavefabric.acoustics.stability import stability
from wavefabric.errors import InputError
from wavefabric.progress import Progress
from wavefabric.results.file import ResultWriter
from wavefabric.units import quantity, show


def to_problem(
    grid: Grid, medium: Medium, source: Source, sensor: Sensor, dt: float | str, steps: int
) -> tuple[Problem, Recording]:
    """The numbers the solver takes.

    Parameters
    ----------
    grid, medium, source, sensor
        What is simulated.
    dt : float or str
        Time step, s.
    steps : int
        Number of time steps.

    Raises
    ------
    InputError
        If shapes, words or values are wrong.
    """
    dt = quantity(dt, "s", "dt")
    if dt <= 0:
        raise InputError(f"dt: {show(dt)}; allowed: above 0")
    if isinstance(steps, bool) or not isinstance(steps, int | np.integer) or steps < 1:
        raise InputError(f"steps: {show(steps)}; allowed: a whole number from 1")
    for key, value, kind in (("source", source, "Source"), ("sensor", sensor, "Sensor")):
        if not hasattr(value, "on"):
            raise InputError(f"{key}: {value!r} given; allowed: a {kind}, such as {kind}()")
    recording = sensor.on(grid)
    facts = medium.on(grid)
    x, y, *z = grid.spacing
    problem = Problem(
        shape=grid.total_shape,
        spacing=(x, y, *(z or [x])),  # type: ignore[arg-type]
        dt=dt,
        steps=int(steps),
        pml_size=(*grid.pml_size, 0)[:3],  # type: ignore[arg-type]
        pml_alpha=(*grid.pml_alpha, 0.0)[:3],  # type: ignore[arg-type]
        **facts,
        **source.on(grid, facts["sound_speed"], dt),
    )
    return problem, recording


def simulate(
    grid: Grid,
    medium: Medium,
    source: Source,
    sensor: Sensor,
    *,
    dt: float | str | None = None,
    steps: int | None = None,
    t_end: float | str | None = None,
    cfl: float = 0.3,
    device: str = "auto",
    threads: int | None = None,
    precision: Literal["single", "double"] = "single",
    progress: Progress | None = None,
    output: str | Path | None = None,
    force: bool = False,
    checkpoint: str | Path | None = None,
    check_stability: bool = True,
) -> Results:
    """Simulate the propagation of sound.

    Parameters
    ----------
    grid, medium, source, sensor
        What is simulated.
    dt : float or str, optional
        Time step, s. Default: from `cfl`.
    steps : int, optional
        Number of time steps. Default: from `t_end`.
    t_end : float or str, optional
        Time of the last step, s. Default: the time to cross the grid's diagonal at the smallest sound speed.
    cfl : float
        c_max Δt / min Δx, if no `dt` is given.
    device : str
        ``"auto"``, ``"cpu"`` or ``"cuda"``.
    threads : int, optional
        Threads on the CPU.
    precision : str
        ``"single"`` or ``"double"``.
    progress : Progress, optional
        Told where the run is.
    output : path, optional
        Result file to write; looked at before the run.
    force : bool
        Replace an output file that is there.
    checkpoint : path, optional
        File that is saved every ten minutes. The same call goes on from it; it is removed at the end. Time
        series are kept in files beside it until then.
    check_stability : bool
        False runs a time step that `wavefabric.acoustics.stability` calls unstable.

    Raises
    ------
    InputError
        If an argument is wrong, or the time step is not stable.
    """
    if steps is not None and t_end is not None:
        raise InputError("steps: is given along with t_end; allowed: one of them")
    step = grid.time_step(medium, cfl) if dt is None else quantity(dt, "s", "dt")
    if steps is None:
        steps = grid.steps(medium, step, t_end)
    problem, recording = to_problem(grid, medium, source, sensor, step, steps)
    return solve(
        problem,
        recording,
        grid,
        device=device,
        threads=threads,
        precision=precision,
        progress=progress,
        output=output,
        force=force,
        checkpoint=checkpoint,
        check_stability=check_stability,
    )


def solve(
    problem: Problem,
    recording: Recording,
    grid: Grid,
    *,
    output: str | Path | None = None,
    force: bool = False,
    checkpoint: str | Path | None = None,
    check_stability: bool = True,
    adapt: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]] | None = None,
    **options: Any,
) -> Results:
    """Check, run and hand back: the last part of `simulate`, whose options it takes.

    ``adapt`` may rename and rework what was recorded before it is handed back and written.
    """
    # Late: building a problem should not pay for Numba.
    from wavefabric.acoustics.check import check, check_recording
    from wavefabric.acoustics.run import Checkpoints, run
    from wavefabric.acoustics.series_files import SeriesFiles
    from wavefabric.acoustics.sinks import Memory

    check(problem)
    check_recording(problem, recording)
    if check_stability:
        found = stability(problem)
        if found.warning:
            raise InputError(f"{found.warning}, or check_stability=False")
    if checkpoint is not None and output is not None and Path(checkpoint).resolve() == Path(output).resolve():
        raise InputError(f"checkpoint: {checkpoint} is the output too; allowed: another file")
    writer = None if output is None else ResultWriter(output, force)
    if checkpoint is None:
        sink = Memory()
        report = run(problem, recording, sink, **options)
    else:
        sink = SeriesFiles(checkpoint)
        report = run(problem, recording, sink, checkpoints=Checkpoints(Path(checkpoint)), **options)
    arrays = sink.arrays if adapt is None else adapt(sink.arrays)
    results = Results(arrays, problem, recording, grid, report)
    if writer is not None:
        results.write(writer)
    return results
