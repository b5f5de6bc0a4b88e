"""`simulate`: from a grid, a medium, a source and a sensor to numbers; the steps are taken by `run`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from wavefabric.acoustics.arguments import is_whole, positive, require
from wavefabric.acoustics.check.rules import check, check_recording
from wavefabric.acoustics.check.warnings import problem_warnings
from wavefabric.acoustics.decomposition.decompose import Options
from wavefabric.acoustics.grid import Grid
from wavefabric.acoustics.medium import Medium
from wavefabric.acoustics.problem import Problem, Recording
from wavefabric.acoustics.recording.delivery import broadcast
from wavefabric.acoustics.recording.sinks import MemorySink, SeriesFiles
from wavefabric.acoustics.result import Results
from wavefabric.acoustics.run import PRECISIONS, Checkpoints, communicator, run
from wavefabric.acoustics.run_options import check_options
from wavefabric.acoustics.sensor import Sensor
from wavefabric.acoustics.source import Source
from wavefabric.acoustics.stability.stable_time_step import refuse_unstable, stable_step
from wavefabric.errors import InputError
from wavefabric.exchange import Communicator
from wavefabric.lifecycle.agreement import locked_by_first_rank, on_first_rank
from wavefabric.results.file import ResultWriter
from wavefabric.system.progress import Progress

#: What is recorded where no sensor is given.
WITHOUT_SENSOR = ("p_max_all", "p_final")


def to_problem(
    grid: Grid, medium: Medium, source: Source, sensor: Sensor | None, dt: float | str, steps: int
) -> tuple[Problem, Recording]:
    """The numbers the solver takes, of so many time steps of ``dt``, s.

    Without a sensor ``p_max_all`` and ``p_final`` are recorded. `InputError` if shapes, names or values are
    wrong.
    """
    dt = positive(dt, "s", "dt")
    require(is_whole(steps) and steps >= 1, "steps", steps, "a whole number from 1")
    sensor = Sensor(record=WITHOUT_SENSOR) if sensor is None else sensor
    for key, value, kind in (("source", source, "Source"), ("sensor", sensor, "Sensor")):
        if not hasattr(value, "on"):
            raise InputError(f"{key}: {value!r} given; allowed: a {kind}, such as {kind}()")
    recording = sensor.on(grid)
    problem = grid.silent_problem(medium, dt, int(steps))
    return replace(problem, **source.on(grid, problem.sound_speed, dt)), recording


def simulate(
    grid: Grid,
    medium: Medium,
    source: Source,
    sensor: Sensor | None = None,
    *,
    record: str | Sequence[str] | None = None,
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
    grid, medium, source
        What is simulated.
    sensor : Sensor, optional
        What is recorded, and where; by default ``p_max_all`` and ``p_final``, of the whole domain.
    record : str or sequence of str, optional
        Instead of a sensor: other quantities of the whole domain, such as ``"u_max_all"``.
    dt : float or str, optional
        Time step, s. Default: from `cfl`, c_max Δt / min Δx; less if that is not stable (`Grid.time_step`).
    steps, t_end : int; float or str, optional
        Number of time steps, or the time of the last one, s. Default: the time to cross the grid's diagonal
        at the smallest sound speed.
    device, precision : str
        ``"auto"``, ``"cpu"`` or ``"cuda"``; ``"single"`` or ``"double"``.
    threads : int, optional
        Threads on the CPU. By default as many as suit the grid (one below some 10⁵ points in 3-D and 2·10⁶ in
        2-D), at most all; under ``mpiexec`` one a rank.
    progress : Progress, optional
        Is shown where the run is.
    output : path, optional
        Result file to write; looked at before the run. `force` replaces one that is there.
    checkpoint : path, optional
        File that is saved every ten minutes. The same call goes on from it; it is removed at the end. Time
        series are kept in files beside it until then.
    check_stability : bool
        False runs a time step that is not stable (`acoustics.stability`) until the field has grown.
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
    FieldLost
        If the field has grown beyond what its sources can have put in, or is no longer finite.

    Warns
    -----
    UserWarning
        If more than 1 % of the energy of a source's signals lies above the highest frequency that the grid
        carries, c_min / (2 max Δ): `wavefabric.acoustics.check.warnings`.
    """
    options: dict[str, Any] = dict(
        device=device, threads=threads, precision=precision, progress=progress, output=output, force=force,
        checkpoint=checkpoint, check_stability=check_stability, comm=comm, decomposition=decomposition,
    )  # fmt: skip
    check_options(**options)
    # First: what goes wrong on one rank alone then ends the others too.
    comm = comm or communicator(device, threads, getattr(grid, "total_shape", None))
    if steps is not None and t_end is not None:
        raise InputError("steps: is given along with t_end; allowed: one of them")
    if record is not None:
        if sensor is not None:
            raise InputError("record: is given along with a sensor; allowed: Sensor(record=...) instead")
        sensor = Sensor(record=record)
    if dt is None:
        silent = grid.silent_problem(medium, grid.cfl_step(medium, cfl))
        dt, stable = stable_step(silent, comm, PRECISIONS.get(precision, np.float32), decomposition)
        check_stability = check_stability and not stable
    if steps is None:
        steps = grid.steps(medium, dt, t_end)
    problem, recording = to_problem(grid, medium, source, sensor, dt, steps)
    options |= {"check_stability": check_stability, "comm": comm}
    return solve(problem, recording, grid, **options)


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
    """Check, run, and return and write results: the last part of `simulate`, whose options it takes.

    ``adapt`` may rename and rework what was recorded before it is returned and written.
    """
    comm = comm or communicator(options.get("device", "auto"), options.get("threads"), problem.shape)
    check(problem)
    check_recording(problem, recording)
    if check_stability:
        dtype = PRECISIONS.get(options.get("precision", "single"), np.float32)
        saved = None if checkpoint is None else Path(checkpoint)
        shared = options.get("decomposition")
        refuse_unstable(problem, comm, dtype, shared, saved, ", or check_stability=False")
    if comm.rank == 0:
        advice = "; dispersion=False leaves that out, or give a sound speed that makes up for it"
        for line in problem_warnings(problem, advice=advice):
            warnings.warn(line, stacklevel=3)
    if checkpoint is not None and output is not None and Path(checkpoint).resolve() == Path(output).resolve():
        raise InputError(f"checkpoint: {checkpoint} is the output too; allowed: another file")
    # Of rank 0 alone, as are the sink's arrays.
    writer: list[ResultWriter] = []
    if output is not None:
        on_first_rank(comm, lambda: writer.append(ResultWriter(output, force)))
    with locked_by_first_rank(comm, output, "output"):
        sink = MemorySink() if checkpoint is None else SeriesFiles(checkpoint)
        checkpoints = None if checkpoint is None else Checkpoints(Path(checkpoint))
        report = run(problem, recording, sink, checkpoints=checkpoints, comm=comm, **options)
        arrays = broadcast(comm, sink.arrays)
        arrays = arrays if adapt is None else adapt(arrays)
        results = Results(arrays, problem, recording, grid, report, writes=comm.rank == 0)
        if output is not None:
            on_first_rank(comm, lambda: bool(results.write(writer[0])))
        return results
