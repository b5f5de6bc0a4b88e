"""Run a problem: time steps, recording, checkpoints, blow-up detection; on one rank or on several."""

from __future__ import annotations

import math
import secrets
import socket
import time
from contextlib import ExitStack
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from wavefabric.acoustics.checkpoint import Checkpoints, Saves, compare, identity, in_words
from wavefabric.acoustics.lockstep import Lockstep, Word
from wavefabric.acoustics.problem import Problem, Recording
from wavefabric.acoustics.recording.sinks import Report, Sink
from wavefabric.acoustics.stability.energy import Energy, EnergyWatch
from wavefabric.acoustics.stability.time_step import suspects
from wavefabric.acoustics.threads import default_threads
from wavefabric.device import get_device
from wavefabric.errors import InputError
from wavefabric.exchange import Communicator, world
from wavefabric.exchange.binding import threads as rank_threads
from wavefabric.exchange.launch.environment import ranks as ranks_started
from wavefabric.results.agree import agree
from wavefabric.results.lock import FileLock, check_locks, locked_by_first
from wavefabric.system.interrupt import Deferred
from wavefabric.system.machine import peak_memory
from wavefabric.system.progress import Progress, Silent

if TYPE_CHECKING:
    from wavefabric.acoustics.parallel.decomposition import Decomposition, Options

__all__ = ["PRECISIONS", "SMALL", "Checkpoints", "FieldLost", "communicator", "dtype_of", "run"]

#: What single precision cannot hold is lost in double precision too.
_LOST = float(np.finfo(np.float32).max)
#: Fewest time steps from one look at the energy to the next.
_WATCH = 32
PRECISIONS = {"single": np.float32, "double": np.float64}
#: Up to so many points ``"auto"`` means double precision on a CPU: a few milliseconds a step keep round-off
#: out of sight even where a field has decayed to a hundredth of what it was.
SMALL = 1 << 18


class FieldLost(RuntimeError):
    """The field is no longer finite, or holds more energy than its sources can have put in."""


def run(
    problem: Problem,
    recording: Recording,
    sink: Sink | None,
    *,
    device: Any = "auto",
    threads: int | None = None,
    precision: str = "single",
    progress: Progress | None = None,
    checkpoints: Checkpoints | None = None,
    loading_seconds: float = 0.0,
    comm: Communicator | None = None,
    decomposition: Options | None = None,
) -> Report:
    """Simulate. Collective where several ranks were started.

    Parameters
    ----------
    problem : Problem
        Of the whole grid, the same on all ranks.
    recording : Recording
    sink : Sink or None
        Takes what is recorded, on rank 0; not used on other ranks.
    device : str or Device
        ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:K"``, or one that is open. Each rank has a GPU of its own
        with ``"auto"`` and ``"cuda"``. Not used with `comm`, which has one.
    threads : int, optional
        CPU threads. By default as many as suit the grid (`wavefabric.acoustics.threads`): one on a small
        grid; and one for each of several ranks.
    precision : str
        ``"single"``, ``"double"``, or ``"auto"``: double on a CPU for grids of up to `SMALL` points.
    progress : Progress, optional
        Told on rank 0.
    checkpoints : Checkpoints, optional
    loading_seconds : float
        Time that reading the input took, for the report.
    comm : Communicator, optional
        The ranks that share the grid; by default all that were started together.
    decomposition : Options, optional
        How they share it.

    Returns
    -------
    Report
        ``steps < total_steps`` if a checkpoint ended the run (`Checkpoints.stop`).

    Raises
    ------
    InputError
        Unknown device or precision, too little memory, a checkpoint of another run or layout, ranks that were
        given different problems, a decomposition that does not fit.
    FieldLost
        If the pressure is no longer finite, or the energy has grown beyond what the sources can have put in.
    KeyboardInterrupt
        After Ctrl-C or SIGTERM, once a checkpoint was saved, if there are `checkpoints`.

    Notes
    -----
    With several ranks all of these are raised on all of them. Only rank 0 has the sink; the others write
    nothing but their parts of a checkpoint.
    """
    if precision not in (*PRECISIONS, "auto"):
        raise InputError(f"precision: {precision!r} given; allowed: auto, {', '.join(PRECISIONS)}")
    begun = time.perf_counter()
    comm = comm or communicator(device, threads, problem.shape)
    made = _Run(problem, recording, sink, comm, precision, progress, checkpoints, decomposition)
    return made.go(begun, loading_seconds)


def dtype_of(precision: str, problem: Problem, device: Any) -> np.dtype:
    """What ``"single"``, ``"double"`` and ``"auto"`` stand for on a device."""
    if precision == "auto":
        precision = "double" if device.name == "cpu" and problem.points <= SMALL else "single"
    return np.dtype(PRECISIONS[precision])


def communicator(
    device: Any = "auto", threads: int | None = None, shape: tuple[int, int, int] | None = None
) -> Communicator:
    """All ranks that were started together, on the devices that `run` would give them for such a grid."""
    if ranks_started() == 1:
        if threads is None and shape is not None:
            threads = default_threads(shape)
        return world(device=get_device(device, threads) if isinstance(device, str) else device)
    return _world(device, threads)


@lru_cache
def _world(device: Any, threads: int | None) -> Communicator:
    """Kept: MPI has few thousand communicators, and a script may simulate often."""
    if threads is not None and device == "auto":
        place = get_device("auto", threads)
        device = place if place.name == "cpu" else device
    elif device == "cpu":
        device = get_device("cpu", threads or rank_threads())
    return world(device=device)


class _Run:
    def __init__(self, problem, recording, sink, comm, precision, progress, plan, options):
        self._problem, self._recording, self._sink = problem, recording, sink
        self._comm, self._device = comm, comm.device
        self._dtype = dtype_of(precision, problem, self._device)
        self._progress = Silent() if progress is None or comm.rank else progress
        self._report = Report(total_steps=problem.steps, device=self._device.name)
        self._earlier: dict[str, float] = {}
        found = identity(problem, recording) if plan is not None or comm.size > 1 else ""
        compare(comm, repr((found, self._dtype.str, options, plan)))
        self._decomposition = self._share(options)
        self._saves: Saves | None = None
        if plan is not None:
            self._saves = Saves(comm, plan, found, self._device, self._dtype, self._decomposition)

    def _share(self, options) -> Decomposition | None:
        """How ranks share the grid; None for one rank."""
        comm, problem = self._comm, self._problem
        if comm.size == 1 and options is None:
            return None
        from wavefabric.acoustics.parallel.decomposition import decompose

        found = decompose(problem.shape, comm.size, options)
        if comm.size == 1:
            return None
        self._report.ranks, self._report.transport = comm.size, comm.transport
        self._report.decomposition, self._report.notes = in_words(found), found.notes
        return found

    def go(self, begun: float, loading: float) -> Report:
        checkpoint = self._saves.plan.path if self._saves is not None else None
        with ExitStack() as held:
            self._locks: list[FileLock] = []
            for path, key in ((getattr(self._sink, "path", None), "output"), (checkpoint, "checkpoint")):
                self._locks += held.enter_context(locked_by_first(self._comm, path, key=key))
            return self._go(begun, loading)

    def _go(self, begun: float, loading: float) -> Report:
        saves, report = self._saves, self._report
        self._loading = loading
        if saves is not None:
            saves.look()
        self._check_memory()
        first = self._prepare()
        if saves is not None and not saves.plan.resume:
            saves.remove()  # the rows it goes with are about to be replaced
        self._recorder.begin(first, self._token)
        self._preprocessing = time.perf_counter() - begun
        self._simulating = time.perf_counter()
        keep = complete = False
        interrupt = Deferred()
        try:
            with interrupt:
                report.steps = self._steps(first, interrupt)
                self._stages.finish_exchanges()
                if report.steps < self._problem.steps:
                    keep = True
                    return self._close_report()
                self._device.synchronize()
                self._whole = False  # finishing changes what was recorded
                ended = time.perf_counter()
                self._simulation = ended - self._simulating
                arrays = self._recorder.finish()
                self._postprocessing = time.perf_counter() - ended
                self._recorder.sink.finish(arrays, self._close_report())
                complete = True
        except BaseException as error:
            # An earlier checkpoint, if any, still goes with the rows that are there.
            keep = saves is not None and saves.there()
            interrupted = isinstance(error, KeyboardInterrupt) and self._together
            if interrupted and saves is not None and self._whole and self._at > first:
                with interrupt:
                    self._save(saves, last=True)
                keep = True
            raise
        finally:
            self._progress.finish()
            self._recorder.close()
            if not complete:
                self._recorder.sink.abandon(keep)
        if saves is not None:
            saves.remove()
        return report

    # --- Before -----------------------------------------------------------------------------------------

    def _check_memory(self) -> None:
        """Whether every rank has what it needs, with what others on the same device take."""
        from wavefabric.acoustics.build import needed_bytes

        device = self._device
        shared = [] if self._decomposition is None else [self._decomposition]
        needed = needed_bytes(self._problem, self._recording, self._dtype, device, *shared)
        free, total = device.memory()
        ranks = 1
        if self._comm.size > 1:
            told = self._comm.control.all_gather(((socket.gethostname(), device.name), needed, free, total))
            places: dict[tuple, list[tuple]] = {}
            for place, *facts in told:
                places.setdefault(place, []).append(tuple(facts))
            # The place that lacks most speaks for all.
            sums = [
                (sum(n for n, *_ in found), min(f for _, f, _ in found), found[0][2], len(found))
                for found in places.values()
            ]
            needed, free, total, ranks = max(sums, key=lambda found: found[0] - found[1])
        if needed > free:
            here = f"{device.name}" if ranks == 1 else f"{device.name} for {ranks} ranks"
            raise InputError(
                f"memory: this run needs {needed / 2**30:.2f} GiB on {here}, where {free / 2**30:.2f} of "
                f"{total / 2**30:.2f} GiB are free; use a smaller grid, single precision or fewer recorded "
                "points"
            )

    def _prepare(self) -> int:
        """Allocate everything; the number of the first time step."""
        from wavefabric.acoustics import build
        from wavefabric.acoustics.recording.recorder import Recorder
        from wavefabric.acoustics.solver.step import Step

        saves, shared = self._saves, self._decomposition
        # `_at` steps are done; `_whole` unless one is half done, after an impatient second Ctrl-C.
        self._at, self._whole = 0, True
        # Whether an interrupt has been agreed on with the other ranks.
        self._together = self._comm.size == 1
        self._token = self._comm.control.bcast(secrets.token_hex(8))
        if saves is not None and saves.found:
            saves.import_wisdom()
        if shared is None:
            self._stages = build.make_stages(self._device, self._problem, self._dtype)
            self._recorder = Recorder(self._stages, self._recording, self._sink)
        else:
            self._stages = build.make_stages(
                self._device, self._problem, self._dtype, comm=self._comm, decomposition=shared
            )
            self._recorder = Recorder(
                self._stages, self._recording, self._sink, self._problem, self._comm, shared.subdomains
            )
        self._step = Step(self._stages)
        self._energy = Energy(self._stages)
        look = max(1, min(self._problem.steps // 100, 100))
        self._watch = EnergyWatch(self._problem, max(look, _WATCH))
        if saves is not None and saves.found:
            state = saves.restore(self._state_arrays())
            self._at, self._token = int(state["step"]), state["run"]
            self._earlier = state["seconds"]
            self._watch.restore(state.get("watch", [0, 0.0, 0.0]))
            self._stages.fields.clock[...] = self._at
            self._stages.transform_pressure()
        self._report.resumed_at = self._at
        return self._at

    # --- Steps ------------------------------------------------------------------------------------------

    def _steps(self, first: int, interrupt: Deferred) -> int:
        """Take steps until the end or a checkpoint that stops; the number of steps done."""
        problem, saves, progress = self._problem, self._saves, self._progress
        plan = saves.plan if saves is not None else None
        on = f"{self._comm.size} ranks, " if self._comm.size > 1 else ""
        progress.start(problem.steps, f"time steps on {on}{self._device.name}")
        progress.update(first)
        look = max(1, min(problem.steps // 100, 100))
        watch = self._watch
        lockstep = Lockstep(self._comm, look, first)
        saved = time.perf_counter()
        for number in range(first, problem.steps):
            self._whole = False
            self._step.take(number)
            self._recorder.after(number)
            self._at, self._whole = number + 1, True
            last = self._at == problem.steps
            looks = self._at % look == 0 or last
            late = False
            if looks or watch.due(self._at) or lockstep.due(self._at):
                late = looks and plan is not None and time.perf_counter() - saved > plan.interval
                late = self._agree(lockstep, interrupt, looks, late)
            if saves is not None and plan is not None and not last:
                due = plan.every is not None and (self._at - (first if plan.stop else 0)) % plan.every == 0
                if due or late:
                    self._save(saves, last=plan.stop)
                    saved = time.perf_counter()
                    if plan.stop:
                        return self._at
        return problem.steps

    def _agree(self, lockstep: Lockstep, interrupt: Deferred, looks: bool, late: bool) -> bool:
        """Stop, give up or tell progress, as all ranks do now; whether the clock asks for a checkpoint."""
        if self._comm.size == 1:
            interrupt.check()  # looking waits for the device
        watches = self._watch.due(self._at)
        word = Word(interrupt.asked, late, self._peak() if looks else 0.0, self._energy() if watches else 0.0)
        word = lockstep.agree(self._at, word)
        lost = self._lost(word, watches)
        if word.asked or lost:
            self._stages.finish_exchanges()
        if word.asked:
            self._together = True
            interrupt.stop()
        if lost:
            raise FieldLost(f"{lost}: {suspects(self._problem)}")
        if looks:
            self._progress.update(self._at, f"peak {word.peak:.3g} Pa")
        return word.late

    def _lost(self, word: Word, watches: bool) -> str:
        """What is wrong with the field, if anything."""
        after = f"after time step {self._at} of {self._problem.steps}"
        if not word.peak < _LOST or not math.isfinite(word.energy):
            return f"the pressure is not finite {after}"
        excess = self._watch.excess(self._at, word.energy) if watches else 0.0
        if excess:
            return f"the acoustic energy is {excess:.3g} times what the sources can have put in {after}"
        return ""

    def _peak(self) -> float:
        """Largest |p| here; reading it also waits for the device, so progress is honest."""
        p = self._stages.fields.p
        if self._decomposition is not None:
            p = p[self._decomposition.subdomains[self._comm.rank].owned]
        return max(abs(float(p.max())), abs(float(p.min())))

    # --- Checkpoints ------------------------------------------------------------------------------------

    def _state_arrays(self) -> dict[str, Any]:
        return {**self._stages.fields.named(), **self._recorder.state()}

    def _save(self, saves: Saves, last: bool) -> None:
        agree(self._comm, lambda: check_locks(self._locks))
        self._device.synchronize()
        self._recorder.settle()
        state = {
            "step": self._at,
            "seconds": self._seconds(),
            "run": self._token,
            "watch": self._watch.state(),
        }
        saves.save(self._state_arrays(), state, last)

    # --- Report -----------------------------------------------------------------------------------------

    def _seconds(self) -> dict[str, float]:
        now = time.perf_counter()
        here = {
            "loading": self._loading,
            "preprocessing": getattr(self, "_preprocessing", 0.0),
            "simulation": getattr(self, "_simulation", now - self._simulating),
            "postprocessing": getattr(self, "_postprocessing", 0.0),
        }
        return {name: here[name] + self._earlier.get(name, 0.0) for name in here}

    def _close_report(self) -> Report:
        report, control = self._report, self._comm.control
        report.seconds = control.bcast(self._seconds())
        steps = max(1, self._at - report.resumed_at)
        report.transforms_per_step = self._stages.transforms / steps
        report.peak_bytes = control.max(peak_memory())
        return report
