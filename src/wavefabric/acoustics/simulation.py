"""Provides `simulate` and `prepare`, which check the arguments, run a simulation and return its results."""

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from wavefabric.acoustics.check.rules import MOST_STEPS, check, check_recording
from wavefabric.acoustics.choose_stages import begin_compiling
from wavefabric.acoustics.grid import Grid
from wavefabric.acoustics.materials.find import find_materials
from wavefabric.acoustics.medium import Medium
from wavefabric.acoustics.problem import Problem, Recording
from wavefabric.acoustics.recording.delivery import broadcast
from wavefabric.acoustics.recording.sinks import DeviceSink, MemorySink, SeriesFiles
from wavefabric.acoustics.recording.tones import broken_periods, with_tones
from wavefabric.acoustics.result import Results
from wavefabric.acoustics.run import Observer, run
from wavefabric.acoustics.run_checks import check_run
from wavefabric.acoustics.run_settings import RunSettings
from wavefabric.acoustics.sensor import Sensor
from wavefabric.acoustics.setup import Setup
from wavefabric.acoustics.source import ContinuousWave, Source
from wavefabric.acoustics.stability.stable_time_step import stable_step
from wavefabric.acoustics.stack import (
    empty_stack,
    in_batches,
    of_plane,
    planes_together,
    stack_recording,
    stack_sources,
)
from wavefabric.base.arguments import instance, is_whole, positive
from wavefabric.base.errors import InputError, choice, ensure, require
from wavefabric.base.results.file import ResultWriter
from wavefabric.runtime.device.base import Device
from wavefabric.runtime.lifecycle.collective_checks import locked_by_first_rank, on_first_rank

#: Free bytes per grid point with which a GPU prepares an initial pressure.
_FREE_PER_POINT = 128
#: Quantities recorded if there is no sensor.
WITHOUT_SENSOR = ("p_max_all", "p_final")


@dataclass(frozen=True, kw_only=True)
class ResultSettings(RunSettings):
    """Holds the settings of a run that returns results, and writes them to ``output`` if this is set."""

    output: str | Path | None = None
    force: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_files("output")
        self._require_flags("force")
        saved = self.checkpoints and self.checkpoints.path
        if saved and self.output is not None and saved.resolve() == Path(self.output).resolve():
            raise InputError(f"checkpoint: {saved} is the output too; allowed: another file")

    def sink(self) -> MemorySink:
        """Return the sink that stores recorded arrays: in memory, or beside a checkpoint."""
        return MemorySink() if self.checkpoints is None else SeriesFiles(self.checkpoints.path)


@dataclass(frozen=True, kw_only=True)
class SimulateSettings(ResultSettings):
    """Holds the keywords of `simulate`."""

    on_gpu: bool = False
    record: str | Sequence[str] | None = None
    dt: float | str | None = None
    steps: int | None = None
    t_end: float | str | None = None
    cfl: float = 0.3

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_flags("on_gpu")
        saves = self.on_gpu and self.checkpoint is not None
        ensure(not saves, "on_gpu", "is given with a checkpoint, whose rows are in files", "one of them")

    def sink(self) -> MemorySink:
        """Return the sink that stores recorded arrays where these settings want them."""
        if not self.on_gpu:
            return super().sink()
        ranks = self.ranks.size
        ensure(ranks == 1, "on_gpu", f"is given for {ranks} ranks", "one rank")
        return DeviceSink(self.ranks.device)


SettingsType = TypeVar("SettingsType", bound=SimulateSettings)


def to_problem(
    grid: Grid, medium: Medium, source: Source, sensor: Sensor | None, dt: float | str, steps: int
) -> tuple[Problem, Recording]:
    """Return the problem and the recording that the solver needs, for ``steps`` time steps of ``dt``, s.

    Without a sensor ``p_max_all`` and ``p_final`` are recorded. `InputError`: an argument is wrong.
    """
    check_inputs(grid, medium, source, sensor)
    return _with_source(grid, grid.silent_problem(medium, positive(dt, "s", "dt")), source, sensor, steps)


def _with_source(
    grid: Grid,
    silent: Problem,
    source: Any,
    sensor: Sensor | None,
    steps: int,
    device: Device | None = None,
) -> tuple[Problem, Recording]:
    """Return the problem ``silent`` with a source and a number of steps, and the `Recording` of a sensor.

    With ``device`` the initial pressure of a `Source` is an array on this GPU.
    """
    right = is_whole(steps) and 1 <= steps <= MOST_STEPS
    require(right, "steps", steps, f"a whole number from 1, up to {MOST_STEPS}")
    recording = (Sensor(record=WITHOUT_SENSOR) if sensor is None else sensor).on(grid)
    where = grid, silent.sound_speed, silent.dt
    if isinstance(source, Source):
        sources = source.lasting(silent.dt, int(steps)).on(*where, device)
    else:
        sources = source.on(*where)
    return silent.with_medium(steps=int(steps), **sources), recording


def check_inputs(grid: Any, medium: Any, source: Any, sensor: Any) -> None:
    """Raise `InputError` for an object of a wrong class; a source may be of any class with `Source.on`."""
    instance("grid", grid, Grid)
    instance("medium", medium, Medium)
    instance("sensor", sensor, Sensor, type(None))
    if not hasattr(source, "on") or isinstance(source, Medium | Sensor | ContinuousWave):
        instance("source", source, Source)


def simulate(
    grid: Grid, medium: Medium, source: Source, sensor: Sensor | None = None, **options: Any
) -> Results:
    """Simulate the propagation of sound.

    A script that calls this runs unchanged under ``mpiexec -n K``: its ranks share the grid.

    Parameters
    ----------
    grid, medium, source
        Grid, medium and source of the simulation.
    sensor : Sensor, optional
        Quantities to record, and where; by default ``p_max_all`` and ``p_final``, in the whole domain.

    Other Parameters
    ----------------
    on_gpu : bool
        True: recorded arrays stay on the GPU of the run, as CuPy arrays that other libraries take without a
        copy (DLPack). One rank, no checkpoint.
    record : str or sequence of str, optional
        Instead of a sensor: other quantities of the whole domain, such as ``"u_max_all"``.
    dt : float or str, optional
        Time step, s. Default: that with the CFL number ``cfl`` = c_max Δt / min Δx, 0.3 unless set, or a
        shorter one if that is not stable (`Grid.time_step`).
    steps, t_end : int; float or str, optional
        Number of time steps, or the time of the last one, s. Default: the time to cross the grid's diagonal
        at the smallest sound speed.
    output : path, optional
        Result file to write, checked before the run. ``force=True`` replaces an existing file.
    device, threads, precision, progress, checkpoint, check_stability, comm, decomposition : optional
        As in `RunSettings`. Until the run is complete, time series are stored in files beside the checkpoint.

    Returns
    -------
    Results
        Identical on all ranks, each of which needs memory for all recorded data. Only rank 0 writes files.

    Raises
    ------
    InputError
        If an argument is wrong, or the time step is not stable; on all ranks alike.
    FieldLost
        If the field exceeds what its sources can supply, or is no longer finite.

    Warns
    -----
    UserWarning
        If more than 1 % of the energy of a source's signals lies above the highest frequency that the grid
        carries, c_min / (2 max Δ): `wavefabric.acoustics.check.warnings`.
    """
    check_inputs(grid, medium, source, sensor)
    prepared = PreparedSimulation(grid, medium, SimulateSettings(**options))
    return solve(*prepared.problem(source, sensor, prepared.settings, on_device=True), grid)


def solve(
    problem: Problem,
    recording: Recording,
    options: ResultSettings,
    grid: Grid,
    adapt: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]] | None = None,
    observer: Observer | None = None,
    setup: Setup | None = None,
    **naming: Any,
) -> Results:
    """Check and run a problem, write its results and return them: the last part of `simulate`.

    ``adapt`` converts the recorded arrays to those that are returned and written. ``observer`` reads the
    fields during the run; ``setup`` keeps stages of earlier runs for reuse. ``naming`` are the arguments
    ``names`` and ``first_index`` of `check`, for errors: the names of the problem's numbers, and the number
    of its first grid point.
    """
    options = options.with_ranks(problem.shape)
    comm, output = options.ranks, options.output
    sink = options.sink()  # it has arrays on rank 0 only
    check(problem, **naming)
    check_recording(problem, recording, **naming)
    writer = None
    if output is not None:
        writer = on_first_rank(comm, lambda: ResultWriter(output, options.force))
    check_run(problem, options, naming.get("names"))
    for line in broken_periods(problem, recording) if comm.rank == 0 else ():
        warnings.warn(line, stacklevel=3)
    with locked_by_first_rank(comm, output, "output"):
        report = run(problem, recording, sink, options, observer=observer, setup=setup)
        arrays = with_tones(broadcast(comm, sink.arrays), recording)
        arrays = arrays if adapt is None else adapt(arrays)
        results = Results(arrays, problem, recording, grid, report, writes=comm.rank == 0)
        if writer:
            on_first_rank(comm, lambda: results.write(writer))
        return results


class PreparedSimulation:
    """Simulates several sources on one grid and medium, which are set up once: see `prepare`.

    ``settings`` are defaults that each simulation can override. Do not change the medium's arrays meanwhile.
    """

    def __init__(self, grid: Grid, medium: Medium, settings: SimulateSettings):
        self.grid, self.medium = grid, medium
        # First, so that a later error on one rank ends the others too.
        self.settings = settings.with_ranks(grid.total_shape)
        begin_compiling(self.settings.ranks.device, self.settings.dtype)  # while arrays are checked
        self._setup = Setup(self.settings)
        #: Problem with the grid and the medium, without sources; None until it is needed.
        self._silent: Problem | None = None
        #: Whether the time step is known to be stable, or is not to be checked.
        self.stable = not settings.check_stability
        #: The last stack of planes, without sources, and its `Setup`; None until `stack` is called.
        self._stack: tuple[Problem, Setup] | None = None

    @property
    def dt(self) -> float:
        """Return the time step of all simulations, s: ``dt`` if given, else a stable one from ``cfl``."""
        return self._medium().dt

    def simulate(self, source: Source, sensor: Sensor | None = None, **options: Any) -> Results:
        """Simulate a source, as `wavefabric.acoustics.simulate` does, collective over the ranks.

        ``options`` may be ``record``, ``steps``, ``t_end``, ``output``, ``force``, ``progress`` and
        ``checkpoint`` and ``on_gpu`` of `simulate`, in place of those of `prepare`.
        """
        for name in options:
            choice("prepared.simulate", name, _OF_A_SOURCE)
        stated = self.problem(source, sensor, replace(self.settings, **options), on_device=True)
        results = solve(*stated, self.grid, setup=self.setup())
        self.stable = True
        return results

    def simulate_all(
        self, sources: Iterable[Source], sensor: Sensor | None = None, **options: Any
    ) -> list[Results]:
        """Simulate many sources, several at a time where one alone does not fill a GPU.

        On one GPU, Cartesian 2-D grids of up to two million points are simulated several at a time; elsewhere
        this is a loop over `simulate`, whose results are the same to round-off. Sources that are simulated
        together share one report.

        ``options`` may be ``record``, ``steps``, ``t_end``, ``progress`` and ``on_gpu`` of `simulate`.
        """
        for name in options:
            choice("prepared.simulate_all", name, _OF_ALL_SOURCES)
        settings = replace(self.settings, **options)
        for key in ("output", "checkpoint"):
            ensure(getattr(settings, key) is None, key, "is given for many sources", "simulate, one by one")
        sources = list(sources)
        count = self.planes_together() if len(sources) > 1 else 1
        if count == 1:
            return [self.simulate(source, sensor, **options) for source in sources]
        stated = [self._checked(source, sensor, settings) for source in sources]

        def simulate_one(number: int) -> Results:
            return solve(*stated[number], self.grid, setup=self.setup())

        def simulate_stack(numbers: list[int]) -> list[Results]:
            (_, recording, how), some = stated[numbers[0]], [stated[number][0] for number in numbers]
            return self.run_stack(some, recording, self.stack(some, recording), how)

        return in_batches([problem for problem, *_ in stated], count, simulate_one, simulate_stack)

    def _checked(
        self, source: Source, sensor: Sensor | None, settings: SimulateSettings
    ) -> tuple[Problem, Recording, SimulateSettings]:
        """Return problem, recording and settings of a simulation, after all checks of `simulate`."""
        stated = self.problem(source, sensor, settings)
        self.check(*stated)
        return stated

    def check(self, problem: Problem, recording: Recording, settings: RunSettings) -> None:
        """Check a run as `simulate` does: raise `InputError`, or warn. Mark the time step as stable."""
        check(problem)
        check_recording(problem, recording)
        check_run(problem, settings)
        self.stable = True
        for line in broken_periods(problem, recording):
            warnings.warn(line, stacklevel=3)

    def planes_together(self) -> int:
        """Return how many sources may be simulated at once: more than one only on a GPU."""
        return planes_together(self._medium(), self.settings)

    def stack(
        self, problems: Sequence[Problem], recording: Recording, indexed: bool = True
    ) -> tuple[Problem, Recording, Setup]:
        """Combine 2-D problems into a stack; return the stack, its recording and its `Setup`.

        The stack is one `Problem` that has each of ``problems`` as a plane; each plane is recorded by
        ``recording``. With ``indexed`` the medium may be stored by material number.
        """
        silent, planes = self._medium(), len(problems)
        if self._stack is None or (self._stack[0].shape[2], self._stack[1].indexed) != (planes, indexed):
            if indexed:
                find_materials(silent, self.settings.dtype)  # search one plane; the stack shares the result
            self._stack = None  # free the memory of the last stack first
            self._stack = empty_stack(silent, planes), Setup(self.settings, indexed)
        empty, setup = self._stack
        return stack_sources(empty, problems), stack_recording(recording, empty), setup

    def run_stack(
        self,
        problems: Sequence[Problem],
        recording: Recording,
        stack: tuple[Problem, Recording, Setup],
        settings: ResultSettings,
        observer: Observer | None = None,
    ) -> list[Results]:
        """Run the ``stack`` that `stack` made of ``problems``; return the results of each problem."""
        (problem, together, setup), sink = stack, settings.sink()
        report = run(problem, together, sink, settings, observer=observer, setup=setup)
        report.notes.append(f"one of {len(problems)} sources that were simulated together")
        arrays = with_tones(sink.arrays, recording)
        return [
            Results(of_plane(arrays, plane, len(problems)), each, recording, self.grid, report)
            for plane, each in enumerate(problems)
        ]

    def problem(
        self, source: Any, sensor: Sensor | None, settings: SettingsType, on_device: bool = False
    ) -> tuple[Problem, Recording, SettingsType]:
        """Return problem, recording and settings of a run with these arguments and the settings ``settings``.

        The returned settings skip the stability check if the time step is known to be stable. Without a
        sensor the quantities ``how.record`` are recorded, by default ``p_max_all`` and ``p_final``. With
        ``on_device`` an initial pressure is an array on the GPU of the run, if this has one to itself and no
        checkpoint.
        """
        check_inputs(self.grid, self.medium, source, sensor)
        right = settings.steps is None or settings.t_end is None
        ensure(right, "steps", "is given along with t_end", "one of them")
        if settings.record is not None:
            ensure(sensor is None, "record", "is given along with a sensor", "Sensor(record=...) instead")
            sensor = Sensor(record=settings.record)
        silent = self._medium()
        steps = settings.steps
        steps = self.grid.steps(self.medium, silent.dt, settings.t_end) if steps is None else steps
        device = self._device_of_fields(settings) if on_device else None
        problem, recording = _with_source(self.grid, silent, source, sensor, steps, device)
        return problem, recording, replace(settings, check_stability=not self.stable)

    def _device_of_fields(self, settings: RunSettings) -> Device | None:
        """Return the GPU on which an initial pressure may be prepared; None if it is to stay on the host."""
        comm, device = settings.ranks, settings.ranks.device
        apart = comm.size > 1 or settings.checkpoints is not None or self.grid.axisymmetric
        if device.name == "cpu" or apart:
            return None
        # The pressure, its copy with a PML and its spectrum must fit beside the fields.
        return device if device.memory()[0] > _FREE_PER_POINT * math.prod(self.grid.total_shape) else None

    def _medium(self) -> Problem:
        """Return the problem without sources; its time step is stable if it was derived from ``cfl``."""
        if self._silent is None:
            dt, settings = self.settings.dt, self.settings
            step = self.grid.cfl_step(self.medium, settings.cfl) if dt is None else positive(dt, "s", "dt")
            silent = self.grid.silent_problem(self.medium, step)
            if dt is None:
                check(silent)
                step, stable = stable_step(silent, settings)
                silent, self.stable = silent.with_medium(dt=step), self.stable or stable
            self._silent = silent
        return self._silent

    def setup(self, indexed: bool = True) -> Setup:
        """Return the `Setup` for runs of one source; with ``indexed`` the medium may be stored by index."""
        if self._setup.indexed != indexed:
            self.close()
            self._setup = Setup(self.settings, indexed)
        return self._setup

    def close(self) -> None:
        """Free the memory of fields and operators; the next simulation allocates them again."""
        self._setup.close()
        self._stack = None

    def close_if_large(self) -> None:
        """Free fields and operators if a second set would not fit on a device; all ranks must call this."""
        comm, nbytes = self.settings.ranks, self._setup.nbytes + (self._stack[1].nbytes if self._stack else 0)
        if comm.control.max(float(nbytes > comm.device.memory()[0])):
            self.close()


#: Settings that `PreparedSimulation.simulate` can override.
_OF_A_SOURCE = ("record", "steps", "t_end", "output", "force", "progress", "checkpoint", "on_gpu")
#: Settings that `PreparedSimulation.simulate_all` can override.
_OF_ALL_SOURCES = ("record", "steps", "t_end", "progress", "on_gpu")


def prepare(grid: Grid, medium: Medium, **options: Any) -> PreparedSimulation:
    """Prepare simulations of many sources on one grid and medium: shots, scan lines, elements.

    The time step is determined and checked, the medium is read, and fields and operators are created on the
    device, once. Each simulation takes only the time of its steps. Results are those of `simulate`, exactly.

    ``options`` are those of `simulate`.

    >>> prepared = prepare(grid, medium, device="cuda", t_end="60 us")
    >>> shots = [prepared.simulate(source, sensor)["p"] for source in sources]
    """
    instance("grid", grid, Grid)
    instance("medium", medium, Medium)
    return PreparedSimulation(grid, medium, SimulateSettings(**options))
