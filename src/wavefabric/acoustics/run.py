"""Runs a problem for `simulation`: steps, recording, checkpoints, blow-up detection; one rank or several."""

import math
import os
import time
import zlib
from contextlib import ExitStack
from dataclasses import fields, is_dataclass
from typing import Any, Protocol

import numpy as np

from wavefabric.acoustics import choose_stages
from wavefabric.acoustics.decomposition.subdomain import Subdomain
from wavefabric.acoustics.problem import Problem, Recording
from wavefabric.acoustics.recording.recorder import Recorder
from wavefabric.acoustics.recording.sinks import Report, Sink
from wavefabric.acoustics.run_settings import RunSettings
from wavefabric.acoustics.setup import Setup
from wavefabric.acoustics.solver.stages import Stages
from wavefabric.acoustics.solver.step import Step, StepRecording
from wavefabric.acoustics.stability.alternation import ORDER, Alternation, AlternationWatch
from wavefabric.acoustics.stability.energy import Energy, EnergyWatch
from wavefabric.acoustics.stability.stable_time_step import instability_causes
from wavefabric.errors import FieldLost
from wavefabric.exchange.control import check_agreement
from wavefabric.lifecycle.agreement import Status, combine, locked_by_first_rank
from wavefabric.lifecycle.checkpoint.when import RunCheckpoint
from wavefabric.system.compiling import CLOCK, working_time
from wavefabric.system.interrupt import DeferredInterrupt
from wavefabric.system.machine import peak_memory
from wavefabric.system.progress import Progress

#: Pressures from this limit of single precision count as lost in double precision too.
_LOST = float(np.finfo(np.float32).max)
#: Fewest time steps between two checks of the fields (in a short run a twentieth of its steps), and between
#: two computations of the energy.
_LEAST_LOOK, _ENERGY_STEPS = 16, 32
#: Approximate seconds between two exchanges of the status of the ranks.
_STATUS_SECONDS = 0.5
#: Approximate largest duration, in seconds, of steps without a check between them.
_CALL_SECONDS = 0.1
#: Steps after which nothing is compiled or captured any more.
_SETTLING = 20


class Observer(Protocol):
    """Reads the fields of a run between its steps, and uses its stages after the run.

    An observed run stores the medium as arrays, not as an index.
    """

    def nbytes(self, problem: Problem, dtype: np.dtype, subdomains: list[Subdomain]) -> int:
        """Return the largest memory, in bytes, that this observer needs on any one device."""
        ...

    def begin(self, stages: Stages, taken: int) -> StepRecording | None:
        """Start after ``taken`` steps: 0, or those before a checkpoint.

        Return a recording that reads the fields in each step, so that several steps may be taken before
        `after` is called; None if it must be called after each step.
        """
        ...

    def after(self, taken: int) -> None:
        """Read the fields after ``taken`` steps; exchanges between ranks may still be pending."""


def run(
    problem: Problem,
    recording: Recording,
    sink: Sink | None,
    options: RunSettings | None = None,
    loading_seconds: float = 0.0,
    observer: Observer | None = None,
    setup: Setup | None = None,
) -> Report:
    """Run the simulation of a whole-grid problem and return its report; collective over the ranks.

    ``sink`` receives the recorded quantities on rank 0 only. ``options.check_stability`` is ignored. The
    report includes ``loading_seconds``, the time spent reading the input, and has ``steps < total_steps`` if
    a checkpoint ended the run (`Checkpoints.stop`). ``setup`` allows an earlier run's stages to be reused, if
    its options were the same.

    All ranks raise the same error: `InputError` if memory is too small, the checkpoint belongs to another run
    or layout, the ranks were given different problems, or the decomposition does not fit; `FieldLost` if the
    pressure is not finite, the energy exceeds what the sources can supply, or a field component that
    alternates in sign from step to step grows exponentially; KeyboardInterrupt after Ctrl-C or SIGTERM, once
    a checkpoint is saved if the run has checkpoints.
    """
    begun = working_time()
    options = (options or RunSettings()).with_ranks(problem.shape)
    saved = options.checkpoints
    files = {"output": getattr(sink, "path", None), "checkpoint": saved and saved.path}
    with ExitStack() as stack:
        for key, path in files.items():
            stack.enter_context(locked_by_first_rank(options.ranks, path, key))
        setup = setup or Setup(options, indexed=observer is None)
        return _Run(problem, recording, sink, options, observer, setup).run(begun, loading_seconds)


class _Run:
    """One run, from its checks to its report; the files that it writes are locked."""

    def __init__(
        self,
        problem: Problem,
        recording: Recording,
        sink: Sink | None,
        options: RunSettings,
        observer: Observer | None,
        setup: Setup,
    ):
        comm, checkpoints, dtype = options.ranks, options.checkpoints, options.dtype
        self._problem, self._comm, self._device = problem, comm, comm.device
        self._observer, self._compiled_before = observer, CLOCK.seconds()
        if comm.step_recorder is not None:
            comm.step_recorder.check_steps(problem.steps)
        self._progress = Progress() if options.progress is None or comm.rank else options.progress
        self._report = report = Report(total_steps=problem.steps, device=comm.device.name)
        digest = identity(problem, recording) if checkpoints is not None or comm.size > 1 else ""
        shared = {"problem": digest, "options": repr((dtype.str, options.decomposition, checkpoints))}
        check_agreement(comm.control, shared)
        decomposition = setup.partition(problem)
        if comm.size > 1:
            report.decomposition = decomposition.describe()
            report.ranks, report.transport = comm.size, comm.label
        advice = choose_stages.advice(comm.device, problem, dtype, decomposition)
        report.notes = [*decomposition.notes, *advice]
        self._checkpoint: RunCheckpoint | None = None
        state = None
        if checkpoints is not None:
            parts = "" if comm.size == 1 else repr(decomposition.subdomains)
            layout = report.decomposition
            self._checkpoint = RunCheckpoint(comm, checkpoints, f"{digest} {dtype} {parts}", layout)
            state = self._checkpoint.find()
        observed = 0 if observer is None else observer.nbytes(problem, dtype, decomposition.subdomains)
        self._stages = setup.stages(problem, recording, observed)
        self._recorder = Recorder(self._stages, recording, sink)
        #: Time steps between two checks of the fields.
        self._look = min(max(problem.steps // 100, min(problem.steps // 20, _LEAST_LOOK), 1), 100)
        self._watch = EnergyWatch(problem, max(self._look, _ENERGY_STEPS))
        self._alternation_watch = AlternationWatch()
        self._energy, self._alternation = Energy(self._stages), Alternation(self._stages, self._watch)
        self._step = Step(self._stages, self._recorder, self._alternation)
        #: Whether the observer must be called after each step.
        self._alone = observer is not None
        if comm.step_recorder is not None:
            comm.step_recorder.watch(self._step, "advance")
        # `_done` steps are taken; `_whole` is False while a step is incomplete, as after a second Ctrl-C.
        self._done, self._whole = 0, True
        #: Number of a step after the first ones, and the time at its end.
        self._settled: tuple[int, float] | None = None
        #: Seconds by phase, in this process and in earlier ones, up to the checkpoint.
        self._seconds: dict[str, float] = {}
        self._earlier: dict[str, float] = {}
        self._began_steps = 0.0
        self._token = comm.control.bcast(os.urandom(8).hex())
        if state is not None and self._checkpoint is not None:
            _, state = self._checkpoint.restore(self._arrays())
            self._done, self._token, self._earlier = int(state["step"]), state["run"], state["seconds"]
            self._watch.restore(state["watch"])
            self._alternation_watch.restore(state.get("alternation", [0.0]))  # none in older checkpoints
            self._stages.fields.clock[...] = self._done
            self._stages.transform_pressure()
        elif self._checkpoint is not None and not self._checkpoint.policy.resume:
            self._checkpoint.remove()  # the recorded rows that belong to it are about to be replaced
        self._first = report.resumed_at = self._done
        self._alternation.begin(self._first)
        self._next_status, self._last_status = self._first + 1, (self._first, time.perf_counter())
        #: Seconds per step, as last measured.
        self._step_seconds = math.inf
        # Whether all ranks have agreed to stop.
        self._agreed = comm.size == 1

    def run(self, begun: float, loading: float) -> Report:
        """Take the steps and complete the output; delete incomplete output unless a checkpoint needs it."""
        if self._observer is not None:
            reads = self._observer.begin(self._stages, self._first)
            if reads is not None:
                self._step = Step(self._stages, self._recorder, self._alternation, reads)
                self._alone = False
        try:
            self._recorder.begin(self._first, self._token)
        except BaseException:
            self._recorder.delivery.abandon(keep=self._first > 0)
            raise
        self._seconds = {"loading": loading, "preprocessing": working_time() - begun}
        checkpoint, report, recorder = self._checkpoint, self._report, self._recorder
        keep = complete = False
        self._began_steps = working_time()
        interrupt = DeferredInterrupt()
        try:
            with interrupt:
                self._take_steps(interrupt)
                report.steps = self._done
                self._stages.layout.finish_exchanges()
                if self._done < self._problem.steps:
                    keep = True
                    self._close_report()
                    return report
                self._device.synchronize()
                self._comm.check()
                self._whole = False  # finishing changes the recorded arrays
                ended = working_time()
                self._seconds["simulation"] = ended - self._began_steps
                if self._settled is not None:
                    done, then = self._settled
                    report.step_seconds = (ended - then) / (self._done - done)
                arrays = recorder.finish()
                self._seconds["postprocessing"] = working_time() - ended
                self._close_report()
                recorder.delivery.finish(arrays, report)
                complete = True
        except BaseException as error:
            # An earlier checkpoint, if any, still needs the recorded rows.
            keep = checkpoint is not None and checkpoint.path.exists()
            interrupted = isinstance(error, KeyboardInterrupt) and self._agreed
            if interrupted and checkpoint is not None and self._whole and self._done > self._first:
                with interrupt:
                    self._save(last=True)
                keep = True
            raise
        finally:
            self._progress.finish()
            recorder.delivery.close()
            if not complete:
                recorder.delivery.abandon(keep)
        if checkpoint is not None:
            checkpoint.remove()
        return report

    def _take_steps(self, interrupt: DeferredInterrupt) -> None:
        """Take steps until the end, or until a checkpoint that ends the run."""
        steps, alone, progress = self._problem.steps, self._comm.size == 1, self._progress
        policy = None if self._checkpoint is None else self._checkpoint.policy
        ranks = "" if alone else f"{self._comm.size} ranks, "
        progress.start(steps, f"time steps on {ranks}{self._device.name}")
        progress.update(self._first)
        peak = ""
        self._last_status = (self._first, time.perf_counter())
        while self._done < steps:
            number, most = self._done, self._steps_alone()
            self._whole = False
            taken = self._step.take(number, most)
            if self._comm.step_recorder is not None:
                self._comm.step_recorder.settle()
            self._recorder.after(number, taken)
            self._done, self._whole = number + taken, True
            if self._done == self._first + _SETTLING and steps >= self._done + _SETTLING:
                self._device.synchronize()
                self._settled = self._done, working_time()
            if self._observer is not None:
                self._observer.after(self._done)
            last = self._done == steps
            looks = self._done % self._look == 0 or last
            save = alone and self._checkpoint is not None and self._checkpoint.due()
            if alone:
                interrupt.check()
            if looks or self._watch.due(self._done) or (not alone and self._done >= self._next_status):
                status = self._exchange_status(interrupt, looks)
                save = save or status.save_due
                if looks:
                    peak = f"peak {status.peak:.3g} Pa"
            if looks or self._device.name == "cpu":  # a GPU lags behind except after a check of the fields
                progress.update(self._done, peak)
            if policy is None or last:
                continue
            begin = self._first if policy.stop else 0
            if save or (policy.every is not None and (self._done - begin) % policy.every == 0):
                self._save(last=policy.stop)
                if policy.stop:
                    return

    def _steps_alone(self) -> int:
        """Return how many steps can be taken before the next check, checkpoint or full block; at least 1."""
        if self._comm.size > 1 or self._alone:
            return 1
        done, policy = self._done, None if self._checkpoint is None else self._checkpoint.policy
        limits = [self._look - done % self._look, self._recorder.free_steps(done)]
        to_look = self._watch.steps_left(done + 1)  # the last nine steps before a look are watched
        limits.append(1 if not done else to_look - ORDER if to_look > ORDER else to_look + 1)
        if done < self._first + _SETTLING:
            limits.append(self._first + _SETTLING - done)
        if policy is not None and policy.every is not None:
            limits.append(policy.every - (done - (self._first if policy.stop else 0)) % policy.every)
        limits.append(int(_CALL_SECONDS / self._step_seconds))  # Ctrl-C takes effect between calls
        return max(1, min(limits))

    def _exchange_status(self, interrupt: DeferredInterrupt, looks: bool) -> Status:
        """Return the combined status of all ranks; after an interrupt or a lost field raise on all ranks."""
        watches = self._watch.due(self._done)
        save_due = self._checkpoint is not None and self._checkpoint.due()
        energy = peak = 0.0
        if looks or watches:  # this also waits for the device, so the displayed progress is correct
            energy, peak = self._energy.with_peak()
        self._comm.check()  # report missing data before its effects on the fields
        (done, then), now = self._last_status, time.perf_counter()
        self._step_seconds = max((now - then) / max(1, self._done - done), 1e-9)
        mine = Status(interrupt.requested, save_due, peak, energy, self._step_seconds)
        status = combine(self._comm, mine)
        # In steps, not seconds: clocks of ranks differ.
        steps = int(_STATUS_SECONDS / status.seconds_per_step)
        self._next_status = self._done + max(1, min(self._look, steps))
        self._last_status = (self._done, now)
        lost = self._lost(status, watches)
        if status.interrupted or lost:
            self._stages.layout.finish_exchanges()
        if status.interrupted:
            self._agreed = True
            interrupt.stop()
        if lost:
            raise FieldLost(f"{lost}: {instability_causes(self._problem)}")
        return status

    def _lost(self, status: Status, watches: bool) -> str:
        """Return a description of the fault of the field, or an empty text."""
        after = f"after time step {self._done} of {self._problem.steps}"
        if not status.peak < _LOST or not math.isfinite(status.energy):
            return f"the pressure is not finite {after}"
        if not watches:
            return ""
        if excess := self._watch.excess(self._done, status.energy):
            return f"the acoustic energy is {excess:.3g} times what the sources can have put in {after}"
        sums = self._comm.control.all_gather(self._alternation.sums(self._done))
        if any(each is None for each in sums):
            return ""
        alternating, square = np.sum(sums, axis=0)
        if growth := self._alternation_watch.growth(self._done, float(alternating), float(square)):
            what = f"what alternates from step to step grows by {math.expm1(growth):.2g} of itself in each"
            return f"{what}, {math.sqrt(alternating / square):.2g} of the field {after}"
        return ""

    def _arrays(self) -> dict[str, Any]:
        return {**self._stages.fields.named(), **self._recorder.state()}

    def _save(self, last: bool) -> None:
        assert self._checkpoint is not None
        self._device.synchronize()
        self._comm.check()
        self._recorder.settle()
        state = {"step": self._done, "seconds": self._all_seconds(), "run": self._token}
        state["watch"], state["alternation"] = self._watch.state(), self._alternation_watch.state()
        self._checkpoint.save(self._arrays(), state, last)

    def _all_seconds(self) -> dict[str, float]:
        """Return the seconds of each phase, including those before a checkpoint."""
        taking = {"simulation": working_time() - self._began_steps, "postprocessing": 0.0}
        taking["compilation"] = CLOCK.seconds() - self._compiled_before
        so_far = taking | self._seconds
        names = ("loading", "preprocessing", "compilation", "simulation", "postprocessing")
        return {name: so_far[name] + self._earlier.get(name, 0.0) for name in names}

    def _close_report(self) -> None:
        report, control = self._report, self._comm.control
        report.seconds = control.bcast(self._all_seconds())
        report.transforms_per_step = self._stages.transforms / max(1, self._done - self._first)
        report.peak_bytes = control.max(peak_memory())
        if self._device.name != "cpu":
            free, total = self._device.memory()
            report.device_bytes = control.max(total - free)


def identity(*parts: Any) -> str:
    """Return the SHA-256 of dataclasses with arrays, such as a `Problem` and a `Recording`."""
    import hashlib

    digest = hashlib.sha256()
    _update_digest(digest, parts)
    return digest.hexdigest()


def _update_digest(digest, value) -> None:
    """Add ``value`` to a digest; arrays enter by their CRC-32, which is enough against mistakes."""
    if is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            digest.update(field.name.encode())
            _update_digest(digest, getattr(value, field.name))
    elif isinstance(value, np.ndarray):
        data = np.ascontiguousarray(value)
        digest.update(f"{data.dtype}{data.shape}{zlib.crc32(data.view(np.uint8).reshape(-1).data)}".encode())
    elif isinstance(value, tuple):
        for part in value:
            _update_digest(digest, part)
    else:
        digest.update(repr(value).encode())
