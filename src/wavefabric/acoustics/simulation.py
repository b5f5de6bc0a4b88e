"""From a grid, a medium, a source and a sensor to numbers: `simulate`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

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
from wavefabric.results.agree import agree
from wavefabric.results.file import ResultWriter
from wavefabric.units import quantity, show

if TYPE_CHECKING:
    from wavefabric.acoustics.decomposition import Options
    from wavefabric.exchange import Communicator


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
    comm: Communicator | None = None,
    decomposition: Options | None = None,
) -> Results:
    """Simulate the propagation of sound.

    A script that calls this runs unchanged under ``mpiexec -n K``: its ranks share the grid.

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
    comm : Communicator, optional
        Ranks that share the grid; by default all that were started together. Give `exchange.solo()` to let
        each rank run a simulation of its own.
    decomposition : Options, optional
        How they share it; a global decomposition by default.

    Returns
    -------
    Results
        The same on all ranks, each of which needs memory for all that was recorded. Only rank 0 writes files.

    Raises
    ------
    InputError
        If an argument is wrong, or the time step is not stable; on all ranks alike.
    """
    from wavefabric.acoustics.run import communicator

    # First: what goes wrong on one rank alone then ends the others too.
    comm = comm or communicator(device, threads)
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
        comm=comm,
        decomposition=decomposition,
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
    comm: Communicator | None = None,
    **options: Any,
) -> Results:
    """Check, run and hand back: the last part of `simulate`, whose options it takes.

    ``adapt`` may rename and rework what was recorded before it is handed back and written.
    """
    # Late: building a problem should not pay for Numba.
    from wavefabric.acoustics.check import check, check_recording
    from wavefabric.acoustics.gather import spread
    from wavefabric.acoustics.run import Checkpoints, communicator, run
    from wavefabric.acoustics.series_files import SeriesFiles
    from wavefabric.acoustics.sinks import Memory

    comm = comm or communicator(options.get("device", "auto"), options.get("threads"))
    check(problem)
    check_recording(problem, recording)
    if check_stability:
        found = stability(problem)
        if found.warning:
            raise InputError(f"{found.warning}, or check_stability=False")
    if checkpoint is not None and output is not None and Path(checkpoint).resolve() == Path(output).resolve():
        raise InputError(f"checkpoint: {checkpoint} is the output too; allowed: another file")
    writers: list[ResultWriter] = []

    def open_output() -> None:
        if output is not None:
            writers.append(ResultWriter(output, force))

    agree(comm, open_output)
    sink = Memory() if checkpoint is None else SeriesFiles(checkpoint)
    plan = None if checkpoint is None else Checkpoints(Path(checkpoint))
    report = run(problem, recording, sink, checkpoints=plan, comm=comm, **options)
    arrays = sink.arrays if comm.size == 1 else spread(comm, sink.arrays)
    results = Results(
        arrays if adapt is None else adapt(arrays), problem, recording, grid, report, writes=comm.rank == 0
    )

    def write_output() -> None:
        for writer in writers:
            results.write(writer)

    agree(comm, write_output)
    return results
