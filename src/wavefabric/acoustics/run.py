"""Runs a simulation on one rank or several: time steps, recording, checkpoints, detection of blow-up."""

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
from wavefabric.acoustics.recording.recorder import Recorder, recorded_bytes
from wavefabric.acoustics.recording.sinks import Report, Sink
from wavefabric.acoustics.run_settings import RunSettings
from wavefabric.acoustics.setup import Setup
from wavefabric.acoustics.solver.stages import Stages
from wavefabric.acoustics.solver.step import Step, StepRecording
from wavefabric.acoustics.stability.field_checks import FieldCheck, FieldChecks
from wavefabric.acoustics.stability.stable_time_step import instability_causes
from wavefabric.base.errors import FieldLost
from wavefabric.base.system.compilation_clock import CLOCK, working_time
from wavefabric.base.system.deferred_interrupt import DeferredInterrupt
from wavefabric.base.system.machine import peak_memory
from wavefabric.base.system.progress import Progress
from wavefabric.runtime.exchange.control import check_agreement
from wavefabric.runtime.lifecycle.checkpoint.run_checkpoint import RunCheckpoint
from wavefabric.runtime.lifecycle.collective_checks import Status, combine, locked_by_first_rank

#: Approximate seconds between two exchanges of the status of the ranks.
_STATUS_SECONDS = 0.5
#: Approximate longest time, in seconds, between checks for Ctrl-C.
_CALL_SECONDS = 0.1
#: Number of first time steps, after which all kernels are compiled and all CUDA graphs captured.
_SETTLING = 20


class Observer(Protocol):
    """Reads the fields of a run between time steps, for example to store them for a gradient.

    It may also use the stages of the run (fields, operators, kernels) after the run. An observed run stores
    the medium as arrays, not as indices into a table of materials.
    """

    def nbytes(self, problem: Problem, dtype: np.dtype, subdomains: list[Subdomain]) -> int:
        """Return the largest memory, in bytes, that this observer needs on any one device."""
        ...

    def begin(self, stages: Stages, taken: int) -> StepRecording | None:
        """Start to observe a run after ``taken`` steps: 0, or the steps before a checkpoint.

        Return None if `after` must be called after each step. Return a `StepRecording`, which reads the
        fields within each step, if it is enough to call `after` once for several steps.
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
    a checkpoint ended the run (`Checkpoints.stop`). ``setup`` keeps stages of runs with equal options.

    All ranks raise the same error. `InputError`: memory is too small, the checkpoint belongs to another run
    or layout, the ranks were given different problems, or the decomposition does not fit. `FieldLost`: the
    pressure is not finite, the energy exceeds what the sources can supply, or a field component that
    alternates in sign from step to step grows exponentially. KeyboardInterrupt: Ctrl-C or SIGTERM; in a run
    with checkpoints it is raised once a checkpoint is saved.
    """
    start_time = working_time()
    options = (options or RunSettings()).with_ranks(problem.shape)
    saved = options.checkpoints
    files = {"output": getattr(sink, "path", None), "checkpoint": saved and saved.path}
    with ExitStack() as stack:
        for key, path in files.items():
            stack.enter_context(locked_by_first_rank(options.ranks, path, key))
        setup = setup or Setup(options, indexed=observer is None)
        return _Run(problem, recording, sink, options, observer, setup).run(start_time, loading_seconds)


class _Run:
    """Executes one run, from the checks to the report, after its files have been locked."""

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
        extra = 0 if observer is None else observer.nbytes(problem, dtype, decomposition.subdomains)
        extra += recorded_bytes(problem, recording, dtype) if sink is not None and sink.on_device else 0
        self._stages = setup.stages(problem, recording, extra)
        self._recorder = Recorder(self._stages, recording, sink)
        self._checks = FieldChecks(problem, self._stages, comm)
        #: The last check of the fields, if its results have not been read: a GPU takes the next steps
        #: meanwhile, instead of waiting for the host.
        self._check_in_progress: FieldCheck | None = None
        self._lags = comm.size == 1 and comm.device.name != "cpu"
        self._peak = ""
        self._interrupt = DeferredInterrupt()
        self._step = Step(self._stages, self._recorder, self._checks.alternation)
        #: Whether the observer must be called after each step.
        self._observes_each_step = observer is not None
        if comm.step_recorder is not None:
            comm.step_recorder.watch(self._step, "advance")
        # `_done` steps are taken; `_step_complete` is False during a step, as after a second Ctrl-C.
        self._done, self._step_complete = 0, True
        #: Number of steps, and the time, when the first `_SETTLING` ones are over.
        self._settled: tuple[int, float] | None = None
        #: Seconds by phase, in this process, and in earlier processes up to the checkpoint.
        self._seconds: dict[str, float] = {}
        self._earlier: dict[str, float] = {}
        self._began_steps = 0.0
        self._token = comm.control.bcast(os.urandom(8).hex())
        if state is not None and self._checkpoint is not None:
            _, state = self._checkpoint.restore(self._arrays())
            self._done, self._token, self._earlier = int(state["step"]), state["run"], state["seconds"]
            self._checks.restore(state)
            self._stages.fields.clock[...] = self._done
            self._stages.transform_pressure()
        elif self._checkpoint is not None and not self._checkpoint.policy.resume:
            self._checkpoint.remove()  # the recorded rows that belong to it are about to be replaced
        self._first = report.resumed_at = self._done
        self._checks.alternation.begin(self._first)
        self._next_status, self._last_status = self._first + 1, (self._first, time.perf_counter())
        #: Seconds per step, as last measured.
        self._step_seconds = math.inf
        # Whether all ranks have agreed to stop.
        self._agreed = comm.size == 1

    def run(self, start_time: float, loading: float) -> Report:
        """Take the time steps, complete the output and return the report.

        Incomplete output is deleted unless a checkpoint needs it. ``start_time`` is the `working_time` when
        the run began, ``loading`` the time, s, spent reading the input.
        """
        if self._observer is not None:
            reads = self._observer.begin(self._stages, self._first)
            if reads is not None:
                self._step = Step(self._stages, self._recorder, self._checks.alternation, reads)
                self._observes_each_step = False
        try:
            self._recorder.begin(self._first, self._token)
        except BaseException:
            self._recorder.delivery.abandon(keep=self._first > 0)
            raise
        self._seconds = {"loading": loading, "preprocessing": working_time() - start_time}
        checkpoint, report, recorder = self._checkpoint, self._report, self._recorder
        keep = complete = False
        self._began_steps = working_time()
        try:
            with self._interrupt:
                self._take_steps()
                report.steps = self._done
                self._stages.layout.finish_exchanges()
                if self._done < self._problem.steps:
                    keep = True
                    self._close_report()
                    return report
                self._device.synchronize()
                self._comm.check()
                self._step_complete = False  # finishing changes the recorded arrays
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
            if interrupted and checkpoint is not None and self._step_complete and self._done > self._first:
                with self._interrupt:
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

    def _take_steps(self) -> None:
        """Take time steps until the end of the run, or until a checkpoint that ends the run early."""
        steps, is_single, progress = self._problem.steps, self._comm.size == 1, self._progress
        policy = None if self._checkpoint is None else self._checkpoint.policy
        ranks = "" if is_single else f"{self._comm.size} ranks, "
        progress.start(steps, f"time steps on {ranks}{self._device.name}")
        progress.update(self._first)
        self._last_status = (self._first, time.perf_counter())
        while self._done < steps:
            number, most = self._done, self._steps_alone()
            self._step_complete = False
            taken = self._step.take(number, most)
            if self._comm.step_recorder is not None:
                self._comm.step_recorder.build_schedule()
            self._recorder.after(number, taken)
            self._done, self._step_complete = number + taken, True
            if self._done == self._first + _SETTLING and steps >= self._done + _SETTLING:
                self._device.synchronize()
                self._settled = self._done, working_time()
            if self._observer is not None:
                self._observer.after(self._done)
            last = self._done == steps
            save = is_single and self._checkpoint is not None and self._checkpoint.due()
            if is_single:
                self._interrupt.check()
            if self._checks.due(self._done) or (not is_single and self._done >= self._next_status):
                save = self._check(last) or save
            elif self._device.name == "cpu":  # a GPU lags behind except after a check of the fields
                progress.update(self._done, self._peak)
            if policy is None or last:
                continue
            begin = self._first if policy.stop else 0
            if save or (policy.every is not None and (self._done - begin) % policy.every == 0):
                self._save(last=policy.stop)
                if policy.stop:
                    return

    def _steps_alone(self) -> int:
        """Return how many steps can be taken before the next check, checkpoint or block of recorded rows."""
        if self._comm.size > 1 or self._observes_each_step:
            return 1
        done, policy = self._done, None if self._checkpoint is None else self._checkpoint.policy
        limits = [self._checks.free_steps(done), self._recorder.free_steps(done)]
        if done < self._first + _SETTLING:
            limits.append(self._first + _SETTLING - done)
        if policy is not None and policy.every is not None:
            limits.append(policy.every - (done - (self._first if policy.stop else 0)) % policy.every)
        limits.append(int(_CALL_SECONDS / self._step_seconds))  # Ctrl-C takes effect between calls
        return max(1, min(limits))

    def _check(self, last: bool) -> bool:
        """Check the fields if a check is due; return whether a checkpoint is due by the clock of rank 0.

        Results of a check are read at once, except on a single GPU: to avoid that the device waits for the
        host, they are read there at the next check, or after the ``last`` step.
        """
        if self._check_in_progress is not None:
            self._read_check()
        if self._checks.due(self._done):
            self._check_in_progress = self._checks.start(self._done)
        return (last or not self._lags) and self._read_check()

    def _read_check(self) -> bool:
        """Read the last check of the fields and the status of all ranks; return whether a checkpoint is due.

        Wait for the device. If the run is interrupted or the field has blown up, raise on all ranks.
        """
        check, self._check_in_progress = self._check_in_progress, None
        save_due = self._checkpoint is not None and self._checkpoint.due()
        energy, peak = (0.0, 0.0) if check is None else check.energy()
        self._comm.check()  # report missing data before its effects on the fields
        checked = self._done if check is None else check.done
        (done, then), now = self._last_status, time.perf_counter()
        self._step_seconds = max((now - then) / max(1, checked - done), 1e-9)
        interrupted = self._comm.size > 1 and self._interrupt.requested  # a single rank checks each step
        status = combine(self._comm, Status(interrupted, save_due, peak, energy, self._step_seconds))
        # In steps, not seconds: clocks of ranks differ.
        steps = int(_STATUS_SECONDS / status.seconds_per_step)
        self._next_status = self._done + max(1, min(self._checks.every, steps))
        self._last_status = (checked, now)
        fault = "" if check is None else self._checks.fault(check, status)
        if status.interrupted or fault:
            self._stages.layout.finish_exchanges()
        if status.interrupted:
            self._agreed = True
            self._interrupt.stop()
        if fault:
            raise FieldLost(f"{fault}: {instability_causes(self._problem)}")
        if check is not None:
            self._peak = f"peak {status.peak:.3g} Pa"
        self._progress.update(checked, self._peak)
        return status.save_due

    def _arrays(self) -> dict[str, Any]:
        return {**self._stages.fields.named(), **self._recorder.state()}

    def _save(self, last: bool) -> None:
        assert self._checkpoint is not None
        if self._check_in_progress is not None:
            self._read_check()
        self._device.synchronize()
        self._comm.check()
        self._recorder.flush()
        state = {
            "step": self._done,
            "seconds": self._all_seconds(),
            "run": self._token,
            **self._checks.state(),
        }
        self._checkpoint.save(self._arrays(), state, last)

    def _all_seconds(self) -> dict[str, float]:
        """Return a dictionary from phase to wall time, s.

        If the run was resumed from a checkpoint, the times of the earlier processes are included.
        """
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
    """Return the SHA-256, as text, of dataclasses with arrays, such as a `Problem` and a `Recording`."""
    import hashlib

    digest = hashlib.sha256()
    _update_digest(digest, parts)
    return digest.hexdigest()


def _update_digest(digest, value) -> None:
    """Add ``value`` to a digest; of an array only its CRC-32, enough to notice unintended changes."""
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
