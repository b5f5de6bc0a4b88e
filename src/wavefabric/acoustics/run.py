"""Run a problem: time steps, recording, checkpoints, blow-up detection."""

from __future__ import annotations

import hashlib
import time
import zlib
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.acoustics.problem import Problem, Recording
from wavefabric.acoustics.sinks import Report, Sink
from wavefabric.device import get_device
from wavefabric.errors import InputError
from wavefabric.interrupt import Deferred
from wavefabric.machine import cpu_model, peak_memory
from wavefabric.progress import Progress, Silent
from wavefabric.results import checkpoint as files
from wavefabric.results.provenance import fingerprint

#: What single precision cannot hold is lost in double precision too.
_LOST = float(np.finfo(np.float32).max)
PRECISIONS = {"single": np.float32, "double": np.float64}
#: Up to so many points ``"auto"`` means double precision on a CPU: a few milliseconds a step keep round-off
#: out of sight even where a field has decayed to a hundredth of what it was.
SMALL = 1 << 18


class FieldLost(RuntimeError):
    """The field is no longer finite; the message says when and what to do."""


@dataclass(frozen=True)
class Checkpoints:
    """Where and how often a run is saved.

    Parameters
    ----------
    path : Path
        The checkpoint file.
    interval : float
        Seconds between saves.
    every : int, optional
        Time steps between saves, besides the interval.
    stop : bool
        k-Wave's way: the run ends with its first save, and the same command goes on from there.
    resume : bool
        Go on from the file if it is there.
    """

    path: Path
    interval: float = 600.0
    every: int | None = None
    stop: bool = False
    resume: bool = True


def run(
    problem: Problem,
    recording: Recording,
    sink: Sink,
    *,
    device: Any = "auto",
    threads: int | None = None,
    precision: str = "single",
    progress: Progress | None = None,
    checkpoints: Checkpoints | None = None,
    loading_seconds: float = 0.0,
) -> Report:
    """Simulate.

    Parameters
    ----------
    problem : Problem
    recording : Recording
    sink : Sink
        Takes what is recorded.
    device : str or Device
        ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:K"``, or one that is open.
    threads : int, optional
        CPU threads.
    precision : str
        ``"single"``, ``"double"``, or ``"auto"``: double on a CPU for grids of up to `SMALL` points.
    progress : Progress, optional
    checkpoints : Checkpoints, optional
    loading_seconds : float
        Time that reading the input took, for the report.

    Returns
    -------
    Report
        ``steps < total_steps`` if a checkpoint ended the run (`Checkpoints.stop`).

    Raises
    ------
    InputError
        Unknown device or precision, too little memory, a checkpoint of another run.
    FieldLost
        If the pressure is no longer finite.
    KeyboardInterrupt
        After a checkpoint was saved, if there are `checkpoints`.
    """
    return _Run(
        problem, recording, sink, device, threads, precision, progress, checkpoints, loading_seconds
    ).go()


class _Run:
    def __init__(
        self, problem, recording, sink, device, threads, precision, progress, checkpoints, loading_seconds
    ):
        if precision not in (*PRECISIONS, "auto"):
            raise InputError(f"precision: {precision!r} given; allowed: auto, {', '.join(PRECISIONS)}")
        self._begun = time.perf_counter()
        self._problem, self._recording, self._sink = problem, recording, sink
        self._device = get_device(device, threads) if isinstance(device, str) else device
        if precision == "auto":
            small = self._device.name == "cpu" and problem.points <= SMALL
            precision = "double" if small else "single"
        self._dtype = np.dtype(PRECISIONS[precision])
        self._progress = progress or Silent()
        self._checkpoints = checkpoints
        self._report = Report(total_steps=problem.steps, device=self._device.name)
        self._earlier: dict[str, float] = {}
        self._loading = loading_seconds
        self._identity = self._fingerprint() if checkpoints else ""

    def go(self) -> Report:
        plan, report = self._checkpoints, self._report
        if plan is not None:
            self._look_at_checkpoint(plan)
        _check_memory(self._problem, self._recording, self._dtype, self._device)
        first = self._prepare()
        if plan is not None and not plan.resume:
            files.remove(plan.path)  # the rows it goes with are about to be replaced
        self._recorder.begin(first)
        self._preprocessing = time.perf_counter() - self._begun
        self._simulating = time.perf_counter()
        keep = complete = False
        try:
            with Deferred() as interrupt:
                report.steps = self._steps(first, interrupt)
                if report.steps < self._problem.steps:
                    keep = True
                    return self._close_report()
                self._device.synchronize()
                self._whole = False  # finishing changes what was recorded
                ended = time.perf_counter()
                self._simulation = ended - self._simulating
                arrays = self._recorder.finish()
                self._postprocessing = time.perf_counter() - ended
                self._sink.finish(arrays, self._close_report())
                complete = True
        except BaseException as error:
            # An earlier checkpoint, if any, still goes with the rows that are there.
            keep = plan is not None and plan.path.exists()
            if isinstance(error, KeyboardInterrupt) and plan is not None and self._whole and self._at > first:
                self._save(plan.path)
                keep = True
            raise
        finally:
            self._progress.finish()
            self._recorder.close()
            if not complete:
                self._sink.abandon(keep)
        if plan is not None:
            files.remove(plan.path)
        return report

    # --- Before -----------------------------------------------------------------------------------------

    def _prepare(self) -> int:
        """Allocate everything; the number of the first time step."""
        from wavefabric.acoustics.build import make_stages
        from wavefabric.acoustics.recorder import Recorder
        from wavefabric.acoustics.step import Step

        plan = self._checkpoints
        # `_at` steps are done; `_whole` unless one is half done, after an impatient second Ctrl-C.
        self._at, self._whole = 0, True
        if plan is not None and plan.resume and plan.path.exists():
            self._import_wisdom(plan.path)
        self._stages = make_stages(self._device, self._problem, self._dtype)
        self._recorder = Recorder(self._stages, self._recording, self._sink)
        self._step = Step(self._stages)
        if plan is not None and plan.resume and plan.path.exists():
            self._restore(plan.path)
        self._report.resumed_at = self._at
        return self._at

    def _look_at_checkpoint(self, plan: Checkpoints) -> None:
        """Refuse a checkpoint of another run, and a place that cannot be written, before anything else."""
        folder = plan.path.parent
        if plan.path.is_dir() or not folder.is_dir():
            raise InputError(f"checkpoint: {plan.path} cannot be written (no such folder, or is a folder)")
        if plan.resume and plan.path.exists():
            files.read_state(plan.path, self._identity)
            return
        try:
            with open(plan.path.with_name(plan.path.name + ".partial"), "wb"):
                pass
            files.remove(plan.path.with_name(plan.path.name + ".partial"))
        except OSError as error:
            raise InputError(f"checkpoint: {plan.path} cannot be written ({error.strerror})") from None

    def _fingerprint(self) -> str:
        digest = hashlib.sha256()
        _digest(digest, self._problem)
        _digest(digest, self._recording)
        cpu = f"{self._device.threads} threads, {cpu_model()}" if self._device.name == "cpu" else ""
        from wavefabric.device import fftw

        return fingerprint(
            digest.hexdigest(), precision=str(self._dtype), device=self._device.name.split(":")[0], cpu=cpu,
            fft=fftw.library() if cpu else "cufft",
        )  # fmt: skip

    # --- Steps ------------------------------------------------------------------------------------------

    def _steps(self, first: int, interrupt: Deferred) -> int:
        """Take steps until the end or a checkpoint that stops; the number of steps done."""
        problem, plan, progress = self._problem, self._checkpoints, self._progress
        progress.start(problem.steps, f"time steps on {self._device.name}")
        progress.update(first)
        look = max(1, min(problem.steps // 100, 100))
        saved = time.perf_counter()
        for number in range(first, problem.steps):
            self._whole = False
            self._step.take(number)
            self._recorder.after(number)
            self._at, self._whole = number + 1, True
            interrupt.check()
            last = self._at == problem.steps
            if self._at % look == 0 or last:
                peak = self._peak(number)
                progress.update(self._at, f"peak {peak:.3g} Pa")
            if plan is not None and not last:
                due = plan.every is not None and (self._at - (first if plan.stop else 0)) % plan.every == 0
                if due or (self._at % look == 0 and time.perf_counter() - saved > plan.interval):
                    self._save(plan.path)
                    saved = time.perf_counter()
                    if plan.stop:
                        return self._at
        return problem.steps

    def _peak(self, number: int) -> float:
        """Largest |p|; reading it also waits for the device, so progress is honest."""
        p = self._stages.fields.p
        peak = max(abs(float(p.max())), abs(float(p.min())))
        if not peak < _LOST:
            raise FieldLost(
                f"the pressure is not finite after time step {number + 1} of {self._problem.steps}: the time "
                "step may be too large, or a source too strong for the grid"
            )
        return peak

    # --- Checkpoints ------------------------------------------------------------------------------------

    def _state_arrays(self) -> dict[str, Any]:
        return {**self._stages.fields.named(), **self._recorder.state()}

    def _save(self, path: Path) -> None:
        self._device.synchronize()
        self._recorder.settle()
        arrays = {name: _rows(self._device, array) for name, array in self._state_arrays().items()}
        arrays["wisdom"] = np.frombuffer(self._wisdom(), np.uint8)
        state = {"step": self._at, "seconds": self._seconds()}
        files.save(path, arrays, state, self._identity)

    def _wisdom(self) -> bytes:
        from wavefabric.device import fftw

        return fftw.export_wisdom() if self._device.name == "cpu" else b""

    def _import_wisdom(self, path: Path) -> None:
        """FFTW must choose as it did, before any plan is made."""
        if self._device.name != "cpu":
            return
        from wavefabric.device import fftw

        arrays, _ = files.load(path, self._identity, lambda name, *_: None if name == "wisdom" else _ignore)
        fftw.import_wisdom(arrays["wisdom"].tobytes())

    def _restore(self, path: Path) -> None:
        held, device = self._state_arrays(), self._device

        def into(name, shape, dtype):
            if name == "wisdom" or not shape:
                return None
            if device.name == "cpu":
                return held[name]
            if len(shape) == 1:
                return None
            return lambda i, row: held[name].__setitem__(i, device.asarray(row))

        arrays, state = files.load(path, self._identity, into)
        if device.name != "cpu":
            for name in arrays.keys() & held.keys():
                held[name][...] = device.asarray(arrays[name])
        self._at = int(state["step"])
        self._earlier = state["seconds"]
        self._stages.fields.clock[...] = self._at
        self._stages.ready()

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
        report = self._report
        report.seconds = self._seconds()
        steps = max(1, self._at - report.resumed_at)
        report.transforms_per_step = self._stages.transforms / steps
        report.peak_bytes = peak_memory()
        return report


def _ignore(number: int, row: np.ndarray) -> None:
    """Row sink for what is not wanted."""


def _rows(device, array):
    """An array for a checkpoint, read row by row from a GPU."""
    if device.name == "cpu" or array.ndim == 1:
        return np.ascontiguousarray(device.to_host(array))
    return files.Rows(
        tuple(array.shape), np.dtype(array.dtype), lambda i: np.asarray(device.to_host(array[i]))
    )


def _digest(digest, value) -> None:
    """Feed a dataclass with arrays into a hash; arrays by their CRC, which is enough against mistakes."""
    if is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            digest.update(field.name.encode())
            _digest(digest, getattr(value, field.name))
    elif isinstance(value, np.ndarray):
        data = np.ascontiguousarray(value)
        digest.update(f"{data.dtype}{data.shape}{zlib.crc32(data.view(np.uint8).reshape(-1).data)}".encode())
    elif isinstance(value, tuple):
        for part in value:
            _digest(digest, part)
    else:
        digest.update(repr(value).encode())


def _check_memory(problem: Problem, recording: Recording, dtype, device) -> None:
    from wavefabric.acoustics.build import needed_bytes

    needed = needed_bytes(problem, recording, dtype, device)
    free, total = device.memory()
    if needed > free:
        raise InputError(
            f"memory: this run needs {needed / 2**30:.2f} GiB on {device.name}, where {free / 2**30:.2f} of "
            f"{total / 2**30:.2f} GiB are free; use a smaller grid, single precision or fewer recorded points"
        )
