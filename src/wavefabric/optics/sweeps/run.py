"""Run a parameter sweep of a link: every point of a grid of axes, with one result file for all points."""

import contextlib
import hashlib
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.base.errors import FieldLost, InputError, UnusableCheckpoint
from wavefabric.base.files.output import unwritable
from wavefabric.base.results import Data, Result, ResultWriter, provenance, read_result
from wavefabric.base.system.progress import Progress, warn
from wavefabric.base.units import counted
from wavefabric.optics.link.build import SharedParts
from wavefabric.optics.link.received_signals import distance, received
from wavefabric.optics.link.run import run_link
from wavefabric.optics.run_file.load import RunFile
from wavefabric.optics.sweeps.points import Point, SweepGrid, make_grid
from wavefabric.optics.sweeps.result import SweepResult, read_sweep
from wavefabric.runtime.device import get_device
from wavefabric.runtime.exchange.communicator import Communicator, solo
from wavefabric.runtime.exchange.control import check_agreement
from wavefabric.runtime.exchange.launch.watch import waiting
from wavefabric.runtime.lifecycle.checkpoint.file import unusable
from wavefabric.runtime.lifecycle.collective_checks import locked_by_first_rank, on_first_rank

#: Seconds between checks whether other ranks have finished, and between updates of the progress.
_POLL_SECONDS, _PROGRESS_SECONDS = 0.1, 0.5
_SPAN = re.compile(r"span (\d+)/(\d+), ")
#: Names of files that runs of points write: results, checkpoints, locks, partial files of killed runs.
_NAME = re.compile(r"\.?([0-9a-f]{20})\.h5((?:\..*)?)")
#: Numbers of the solver, and texts, that a sweep's result has for each point.
_SOLVER = {
    "steps": ("", "steps over all spans"),
    "rejected": ("", "steps that a tolerance rejected"),
    "ffts": ("", "transforms of all rows"),
    "step": ("m", "last step"),
    "resonance_step_m": ("m", "resonance limit of the step"),
    "local_error": ("", "relative error of one step"),
    "energy_drift": ("", "largest relative deviation of the energy of a row"),
    "seconds": ("s", "wall time of the propagation"),
}
_TEXTS = {
    "warnings": "what may make a point less accurate than it seems",
    "fault": "why a point has no result",
    "written_utc": "when a point was finished",
    "fingerprint": "hash of the settings, inputs and versions of a point",
}


def sweep(
    run: RunFile | str | Path | SweepGrid,
    axes: Mapping[Any, Any] | None = None,
    output: str | Path | None = None,
    force: bool = False,
    resume: bool = True,
    progress: Progress | None = None,
    comm: Communicator | None = None,
    together: bool = False,
) -> SweepResult:
    """Run the link of a run file at all points of a grid of axes, and write one result file.

    >>> result = sweep("link.toml", {"signal.launch_power": "-4:4:2 dBm", "solver.step": ["50 m", "100 m"]})
    >>> result["q_squared_db"]  # (powers, steps, receiver positions, modes, channels)

    ``axes`` are added to those of the run file's table [sweep]. They map dotted keys to ranges
    ``"first:last:step unit"`` or lists; a tuple of keys, with as many ranges or lists, is one axis along
    which they vary together. ``output`` is by default the run file's stem + ``-sweep.h5``; ``force``,
    ``resume`` and ``progress`` as in `run_link`. Finished points are stored in the folder ``OUTPUT.points``
    until the sweep is complete; all ranks of ``comm`` must see it. Each rank runs different points, or with
    ``together`` all ranks run each point.

    A point whose field is lost (`FieldLost`) stays NaN, and ``fault`` has the reason. `InputError` before
    anything runs for axes and values that are not allowed, and later with the point for other faults.
    """
    grid = run if isinstance(run, SweepGrid) else make_grid(run, axes or {})
    comm = comm or solo(get_device(grid.base.solver.device, grid.base.solver.threads))
    points = hashlib.sha256(" ".join(point.fingerprint for point in grid.points).encode()).hexdigest()
    check_agreement(comm.control, {"points": points, "together": str(together)})
    inputs = list(dict.fromkeys(path for point in grid.points for path in point.run.input_paths()))
    writer = on_first_rank(comm, lambda: ResultWriter(output or output_path(grid.base), force, inputs))
    with locked_by_first_rank(comm, writer.path, "output.file"):
        _Sweep(grid, writer, comm, progress or Progress(), together).run(resume)
    return on_first_rank(comm, lambda: read_sweep(writer.path))


def output_path(run: RunFile) -> Path:
    """Return the result file of a sweep: output.file, else the run file's stem + "-sweep.h5"."""
    return run.output.file or Path(f"{run.path.stem if run.path is not None else 'wavefabric'}-sweep.h5")


def points_folder(output: str | Path) -> Path:
    """Return the folder of finished points of an unfinished sweep: the result path with ``.points``."""
    return Path(f"{output}.points")


class SweepProgress(Progress):
    """Shows the progress of a sweep, point after point, in steps (or metres) of all points.

    ``finished`` returns the fingerprints of points that any rank has finished.
    """

    def __init__(self, display: Progress, points: Iterable[Point], finished: Callable[[], Collection[str]]):
        self._display, self._finished, self._started, self._last_update = display, finished, False, 0.0
        self._steps = {each.fingerprint: each.steps for each in points}
        self.begin(None)

    def begin(self, point: Point | None) -> None:
        """Set the point whose progress is shown from now on."""
        self._point, self._inside, self._span = point, 0.0, (0.0, 0.0)

    def start(self, total_steps: float | None, label: str) -> None:
        self._span = (self._inside, 0.0)  # parts other than spans do not advance the progress
        if match := _SPAN.match(label):
            number, spans = int(match[1]), int(match[2])
            self._span = (number - 1) / spans, 1 / spans / (total_steps or 1)
        self.update(0)

    def update(self, done: float, message: str = "") -> None:
        self._inside = self._span[0] + done * self._span[1]
        if (now := time.monotonic()) - self._last_update < _PROGRESS_SECONDS:
            return
        self._last_update, finished = now, self._steps.keys() & set(self._finished())
        if not self._started:
            self._display.start(sum(self._steps.values()), "sweep, steps")
        self._started, steps = True, sum(self._steps[each] for each in finished)
        if self._point is not None and self._point.fingerprint not in finished:
            steps += self._inside * self._point.steps
        self._display.update(steps, f"{len(finished)}/{len(self._steps)} points")

    def finish(self) -> None:
        self._display.finish()
        self._started = False


class _Sweep:
    def __init__(self, grid: SweepGrid, writer: ResultWriter, comm: Communicator, display: Any, together):
        self.grid, self.writer, self.comm = grid, writer, comm
        self.folder, self.points = points_folder(writer.path), grid.unique_points()
        self.splits_points, self.first = comm.size > 1 and not together, comm.rank == 0
        #: Communicator of the ranks that run a point: this rank alone, or all ranks.
        self.ranks = solo(comm.device) if self.splits_points else comm
        self.progress = SweepProgress(display if self.first else Progress(), self.points, self._finished)
        #: Arguments of `run_link` for every point.
        self.parts = {"progress": self.progress, "comm": self.ranks, "warn": self._warn}
        self.parts |= {"shared": SharedParts()}
        #: Warnings by their text without numbers, so that those that differ only in numbers appear once.
        self.warnings: dict[str, set[str]] = {}

    def run(self, resume: bool) -> None:
        on_first_rank(self.comm, lambda: self._begin(resume))
        try:
            self._run_points()
            on_first_rank(self.comm, self._write)
        except BaseException:
            with contextlib.suppress(OSError):
                self.folder.rmdir()  # nothing was finished
            raise

    def _run_points(self) -> None:
        done = on_first_rank(self.comm, self._finished)
        missing = [point for point in self.points if point.fingerprint not in done]
        # Neighbours cost about the same, so dealing them out in turn balances the ranks.
        for point in missing[self.comm.rank :: self.comm.size] if self.splits_points else missing:
            self._run_point(point, self._file(point.fingerprint))
        with waiting():
            while self.splits_points and len(self._finished()) < len(self.points):
                time.sleep(_POLL_SECONDS)  # do not wait in MPI, which blocks Ctrl-C
                self.progress.update(0)

    def _run_point(self, point: Point, file: Path) -> None:
        self.progress.begin(point)
        try:
            try:
                run_link(point.run, file, **self.parts)
            except UnusableCheckpoint:
                self._warn(f"{point}: starts anew, its checkpoint is damaged or of other ranks or devices")
                run_link(point.run, file, resume=False, **self.parts)
        except FieldLost as error:
            facts = provenance() | {"fault": str(error)}
            on_first_rank(self.ranks, lambda: ResultWriter(file).write({}, attributes=facts))
            self._warn(f"{point}: {error}")
        except InputError as error:
            raise type(error)(f"{error}; point: {point}") from None

    def _warn(self, text: str) -> None:
        """Show a warning, unless an earlier one differs from it only in its numbers."""
        texts = self.warnings.setdefault(re.sub(r"[\d.e+-]+", "", text), set())
        if self.first and not texts:
            self.progress.finish()
            warn(text)
        texts.add(text)

    def _write(self) -> None:
        content, told = payload(self.grid, self._file)
        if all(content["fault"].value.flat):
            self._remove()
            raise FieldLost(f"sweep: no point has a result; {told[0]}")
        for text in told:  # warnings of other ranks, or from before a restart
            self._warn(text)
        if more := sum(len(texts) - 1 for texts in self.warnings.values()):
            others = f"{counted(more, 'warning')} more that differ in numbers"
            warn(f"{others}: see warnings in {self.writer.path}")
        facts = provenance(self.comm.device.name) | {"axes": " ".join(axis.name for axis in self.grid.axes)}
        # The CF attribute from which xarray reads the names of coordinates.
        keys = " ".join(self.grid.coordinates())
        facts["coordinates"] = f"{keys} position mode channel mode_group distance"
        self.writer.write(content, self.grid.base.text, facts)
        self._remove()
        self.progress.finish()

    def _file(self, fingerprint: str) -> Path:
        return self.folder / f"{fingerprint}.h5"

    def _begin(self, resume: bool) -> None:
        """Create the folder of finished points, or with ``resume`` use what it contains; otherwise clear it.

        A folder with points of another sweep is rejected.
        """
        if not resume:
            self._remove()
        here = {match[1] for match in self._names() if match[2] in ("", ".checkpoint")}
        if others := here - {point.fingerprint for point in self.points}:
            words = f"holds {counted(len(others), 'point')} of another sweep"
            raise unusable(self.folder, f"{words} (other settings, inputs or versions)")
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise unwritable(self.folder, "output.file", error) from None

    def _finished(self) -> set[str]:
        return {match[1] for match in self._names() if match[0] == f"{match[1]}.h5"}

    def _remove(self) -> None:
        """Remove the files that runs of points have written, and the folder if nothing else is in it."""
        for match in self._names():
            (self.folder / match[0]).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.folder.rmdir()

    def _names(self) -> list[re.Match[str]]:
        files = self.folder.iterdir() if self.folder.is_dir() else ()
        return [match for file in files if (match := _NAME.fullmatch(file.name))]


def payload(grid: SweepGrid, file: Callable[[str], Path]) -> tuple[dict[str, Any], list[str]]:
    """Combine the points' result files; return the content of the sweep's file, and all warnings, each once.

    ``file(fingerprint)`` returns the path of a point's file. Where points differ in modes, channels or
    positions, missing values are NaN.
    """
    texts, messages = {name: np.full(grid.shape, "", object) for name in _TEXTS}, []
    results: dict[tuple[int, ...], Result] = {}
    for point in grid.points:
        result = read_result(file(point.fingerprint))
        attributes, lines = result.attrs(), result.get("solver/warnings", [])
        attributes |= {"fingerprint": point.fingerprint, "warnings": "\n".join(lines)}
        for name, table in texts.items():
            table[point.index] = attributes.get(name, "")
        if "fault" in attributes:
            messages.append(f"{point}: {attributes['fault']}")
        else:
            messages, results[point.index] = messages + lines, result
    where = {name: distance(each, name) for each in results.values() for name in received(each)}
    positions = sorted(where, key=lambda name: (name != "back_to_back", where[name])) or ["none"]
    out, axes = _coordinates(grid, list(results.values()), positions), tuple(axis.name for axis in grid.axes)
    values: dict[str, dict[tuple[int, ...], Any]] = {}
    meanings: dict[str, Any] = {}
    for index, result in results.items():
        for path, position, value, *meaning in _quantities(result, positions):
            values.setdefault(path, {})[index + position], meanings[path] = value, meaning
    for path, each in values.items():
        # Indices are along the axes, and also by position if they are longer.
        dims = ("position",) * (len(next(iter(each))) - len(axes))
        dims += ("mode", "channel") * any(np.ndim(value) for value in each.values())
        array = np.full((*grid.shape, *(len(out[name].value) for name in dims)), np.nan)
        for index, value in each.items():
            array[(*index, *map(slice, np.shape(value)))] = value
        out[path] = Data(array, *meanings[path], dims=(*axes, *dims))
    out |= {name: Data(words.astype(str), "", _TEXTS[name], axes) for name, words in texts.items()}
    return out, list(dict.fromkeys(messages))


def _coordinates(grid: SweepGrid, results: list[Result], positions: list[str]) -> dict[str, Data]:
    """Return the datasets that label a sweep's dimensions: swept keys, positions, modes and channels."""

    def common(key: str) -> Any:
        """Return the value of ``key`` if it is equal in all results; else, or without results, None."""
        values = [each[key] for each in results]
        return values[0] if values and all(np.array_equal(each, values[0]) for each in values) else None

    units, shapes = grid.coordinates(), [each["signal/launch_power"].shape for each in results]
    modes, channels = (np.arange(1, max(sizes) + 1) for sizes in zip((1, 1), *shapes, strict=True))
    labels, groups, frequencies = map(common, ("fibre/labels", "fibre/groups", "signal/frequencies"))
    keys = ((key, axis.name) for axis in grid.axes for key in axis.keys)
    out = {key: Data(*units[key], "key of the run file", (name,)) for key, name in keys}
    out["position"] = Data(positions, "", "where the signal was received", ("position",))
    out["mode"] = Data(modes if labels is None else labels, "", "spatial mode", ("mode",))
    if groups is not None:
        out["mode_group"] = Data(groups, "", "mode group of each spatial mode", ("mode",))
    channel = (channels, "") if frequencies is None else (frequencies, "Hz")
    return out | {"channel": Data(*channel, "WDM channel: optical frequency, or number", ("channel",))}


def _quantities(result: Result, positions: list[str]) -> Iterator[tuple[str, tuple[int, ...], Any, str, str]]:
    """Yield each quantity of a point: its path in the sweep's file, position index, value, unit and meaning.

    The index is empty for a quantity that is not of one position.
    """
    power, solver = result["signal/launch_power"], result.attrs("solver")
    yield "launch_power", (), power, "W", "per mode and channel, both polarisations"
    for name, meaning in _SOLVER.items():
        yield name, (), solver.get(name, np.nan), *meaning
    for name in received(result):
        yield "distance", (positions.index(name),), distance(result, name), "m", "from the transmitter"
    for key in result:
        group, name, quantity = key.split("/") if key.count("/") == 2 else ("", "", "")
        if group in ("received", "theory") and name in positions:
            value, attrs = result[key], result.attrs(key)
            if np.shape(value) in ((), power.shape):  # no constellations
                path, position = (quantity, (positions.index(name),)) if group == "received" else (key, ())
                yield path, position, value, attrs["units"], attrs["description"]
