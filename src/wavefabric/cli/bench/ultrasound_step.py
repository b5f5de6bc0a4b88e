"""Benchmark ``ultrasound-step``: time per step, against bare Fourier transforms, k-Wave and plain stages."""

import gc
import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.acoustics.choose_stages import make_stages, needed_bytes
from wavefabric.acoustics.run_settings import PRECISIONS
from wavefabric.base.arguments import whole
from wavefabric.cli.bench import own_process
from wavefabric.cli.bench.common import Triple, calls, silent
from wavefabric.cli.bench.kwave_program import KWaveProgram
from wavefabric.cli.bench.ultrasound_cases import (
    MEDIA,
    NO_SENSOR,
    RecordingStepper,
    Stepper,
    check,
    outline,
    problem,
    with_sources,
)
from wavefabric.fabric.execution import report, timing
from wavefabric.runtime.device import Device, get_device
from wavefabric.runtime.lifecycle.collective_checks import check_memory

#: Default grids by kind of device.
SIZES = {"cpu": ((128, 128, 128),), "cuda": ((256, 256, 256), (512, 512, 512))}
_SAMPLE_MS = 40.0
#: Steps that are timed besides those of fused stages: key in a result, and its text.
_KINDS = {"plain": "plain stages", "with_points": "sources and sensor"}


@dataclass(frozen=True, kw_only=True)
class UltrasoundStepOptions:
    """Holds the further options of `run`, with their defaults."""

    precision: str = "single"
    repeats: int = 15
    plain: bool = True
    peer: str | Path | None = None
    points: int = 0


def run(
    sizes: Sequence[Triple] = (),
    media: Sequence[str] = MEDIA,
    *,
    device: str | Device = "auto",
    threads: int | None = None,
    progress: Callable[[str], object] = silent,
    **options: Any,
) -> dict[str, Any]:
    """Time ultrasound steps in ``media`` (of `ALL_MEDIA`) in turn with bare Fourier transforms of the grid.

    Each round times the bare transforms, every medium (fused stages, then plain ones) and the bare transforms
    again; ratios are computed within a round, so that drifting machine speed affects them little. Sizes are
    (Nx, Ny, Nz), for a plane (Nx, Ny, 1), by default `SIZES`. ``plain`` also times the stages built from
    whole-array transforms; ``peer``, k-Wave's program, runs on the same problems; ``points`` times each
    medium once more with pressure and velocity sources and a sensor at this number of points. `InputError`
    for a bad option, or if the peer fails.

    Returns ``copy_bytes_per_second`` and ``cases``, each with ``bare`` and ``media`` (times in ms,
    ``transforms``, ``ratio``, ``passes``, ``memory``, ``plain``, ``kwave``, …), and ``machine``.
    """
    request = UltrasoundStepOptions(**options)
    precision, peer = request.precision, request.peer
    device = get_device(device, threads)
    chosen = tuple(sizes) or SIZES["cpu" if device.name == "cpu" else "cuda"]
    check(chosen, media, precision, request.repeats, 4096, planes=True)
    whole("points", request.points, 0)
    program = KWaveProgram(peer, device, precision) if peer is not None else None
    plans = list(itertools.product(chosen, media))
    for shape, name in plans:
        _check_memory(device, name, shape, precision)
    machine = timing.machine(device)
    # Measured before this process allocates device memory.
    memory = {}
    for shape, name in plans:
        progress(f"{report.shape_words(shape)}: {name}, memory")
        memory[shape, name] = own_process.memory(name, shape, precision, device)
    progress("copy bandwidth")
    bandwidth = timing.copy_bandwidth(device)
    cases = []
    for shape in chosen:
        bench = _Case(device, shape, request, bandwidth, progress)
        case = bench.run(media)
        for line in case["media"]:
            name = line["name"]
            line["memory"] = memory[shape, name]
            if program is not None:
                progress(f"{bench.name}: {name}, {program.path.name}")
                line["kwave"] = program.compare(name, shape, bench.stepper(name))
        cases.append(case)
    return {
        "benchmark": "ultrasound-step",
        "precision": precision,
        "repeats": request.repeats,
        "copy_bytes_per_second": bandwidth,
        "cases": cases,
        "machine": machine,
    }


def _check_memory(device: Device, name: str, shape, precision: str) -> None:
    """Check memory before any array is created: a system that overcommits memory would kill this process."""
    inputs, dtype = outline(name, shape), np.dtype(PRECISIONS[precision])
    needed = needed_bytes(inputs, NO_SENSOR, dtype, device)
    if device.name == "cpu":
        arrays = [inputs.sound_speed, inputs.density, *inputs.density_staggered, inputs.nonlinearity]
        arrays += [inputs.alpha_coeff, inputs.initial_pressure]
        needed += sum(map(np.size, filter(np.ndim, arrays))) * dtype.itemsize
    what = f"a run of {name}, {report.shape_words(shape)},"
    check_memory(None, device, needed, what, "allowed: a smaller --size")


class _Case:
    """Times bare Fourier transforms and the steps of several media on one grid."""

    def __init__(self, device: Device, shape: Triple, options: UltrasoundStepOptions, bandwidth: float, say):
        self.device, self.shape, self.options = device, shape, options
        self.bandwidth, self.say = bandwidth, say
        wanted = options.plain, bool(options.points)
        self.kinds = ["", *itertools.compress(_KINDS, wanted)]
        self.dtype = np.dtype(PRECISIONS[options.precision])
        self.bytes = math.prod(shape) * self.dtype.itemsize
        self.name = report.shape_words(shape)

    def run(self, media) -> dict[str, Any]:
        times, lines = list[float](), list[dict[str, Any]]()
        self.say(f"{self.name}: bare transforms")
        how = NO_SENSOR, self.dtype, self.device
        needed = sum(needed_bytes(outline(name, self.shape), *how) for name in media)
        # All media take turns, or one follows the other if memory is short.
        together = len(self.kinds) * needed < 0.8 * self.device.memory()[0]
        bare_time = own_process.Bare(self.device, self.shape, self.dtype).milliseconds
        for group in [list(media)] if together else [[name] for name in media]:
            more_times, more_lines = self._rounds(group, bare_time)
            times, lines = times + more_times, lines + more_lines
            gc.collect()  # steps and their graphs refer to each other
        summary = timing.summary(times)
        return {
            "shape": list(self.shape),
            "dtype": str(self.dtype),
            "field_bytes": self.bytes,
            "bare": summary
            | {"passes": self.kernels(summary["ms"]), "scatter": summary["ms"] / summary["ms_best"]},
            "media": lines,
        }

    def kernels(self, ms: float) -> float:
        """Return how many reads or writes of one real field take ``ms`` at the memory's bandwidth."""
        return ms * 1e-3 * self.bandwidth / self.bytes

    def stepper(self, name: str, kind: str = "") -> Stepper:
        inputs = problem(name, self.shape, 1 << 20, self.options.precision, self.device)
        if kind == "with_points":
            stages = make_stages(self.device, with_sources(inputs, self.options.points), self.dtype)
            return RecordingStepper(stages, self.options.points, 2)
        return Stepper(make_stages(self.device, inputs, self.dtype, kind == "plain"), 2)

    def _rounds(
        self, media: list[str], bare_time: Callable[[], float]
    ) -> tuple[list[float], list[dict[str, Any]]]:
        """Time the steps of all ``media`` in rounds; return ms of bare transforms, and a result per medium.

        ``bare_time`` times bare transforms, before and after each round.
        """
        steppers: dict[tuple[str, str], Stepper] = {}
        with ExitStack() as stack:
            for name, kind in itertools.product(media, self.kinds):
                self.say(f"{self.name}: {name}{kind and ', '}{_KINDS.get(kind, '')}, made ready")
                steppers[name, kind] = stepper = self.stepper(name, kind)
                if isinstance(stepper, RecordingStepper):
                    stack.callback(stepper.close)
            each = {key: calls(self.device, stepper, _SAMPLE_MS) for key, stepper in steppers.items()}
            reference_times, times = [bare_time()], {key: list[float]() for key in steppers}
            for number in range(self.options.repeats):
                self.say(f"{self.name}: round {number + 1} of {self.options.repeats}")
                for key, stepper in steppers.items():
                    times[key] += timing.milliseconds(self.device, stepper, 1, each[key])
                reference_times.append(bare_time())
            around = [(a + b) / 2 for a, b in itertools.pairwise(reference_times)]
            lines: dict[str, dict[str, Any]] = {name: {"name": name} for name in media}
            for (name, kind), stepper in steppers.items():
                facts = self._line(stepper, times[name, kind], around)
                lines[name] |= {kind: facts} if kind else facts
            for name, line in lines.items():
                if "plain" in line:
                    pairs = zip(times[name, "plain"], times[name, ""], strict=True)
                    line["times_faster_than_plain"] = statistics.median(a / b for a, b in pairs)
                if "with_points" in line:
                    line["with_points"]["points"] = self.options.points
        return reference_times, list(lines.values())

    def _line(self, stepper: Stepper, times: list[float], bare_times: list[float]) -> dict[str, Any]:
        before = stepper.stages.transforms
        stepper()
        transforms = stepper.stages.transforms - before
        ratios = [time / (transforms * one) for time, one in zip(times, bare_times, strict=True)]
        summary = timing.summary(times)
        return summary | {
            "transforms": transforms,
            "ratio": statistics.median(ratios),
            "ratios": ratios,
            "bare_ms": transforms * statistics.median(bare_times),
            "passes": self.kernels(summary["ms"]),
            "stages": type(stepper.stages).__name__,
            "finite": stepper.finite(),
        }


def _size(case: dict[str, Any]) -> str:
    return " x ".join(str(n) for n in case["shape"] if n > 1)


def table(result: dict[str, Any]) -> list:
    """Return a table of the measured times per grid."""
    return [_case_table(case, result["copy_bytes_per_second"]) for case in result["cases"]]


def _case_table(case: dict[str, Any], bandwidth: float) -> Any:
    lines = [_row("one bare transform", case["bare"] | {"transforms": 1, "ratio": 1.0})]
    for line in case["media"]:
        memory = line["memory"]
        fields = f"{memory['bytes'] / 2**20:.0f}", f"{memory['floats_per_point']:.1f}"
        lines.append(_row(line["name"], line, fields))
        if "plain" in line:
            lines.append(_row("  plain stages", line["plain"]))
        if (more := line.get("with_points")) is not None:
            lines.append(_row(f"  sources and sensor of {more['points']} points", more))
        if peer := line.get("kwave"):
            name = f"  {peer['program']}, {peer['ratio']:.2f} x our time"
            ratio, memory = f"{peer['ratio'] * line['ratio']:.2f}", f"{peer['memory_bytes'] / 2**20:.0f}"
            lines.append((name, f"{peer['ms']:.3g}", *"--", ratio, "-", memory, ""))
    scatter = case["bare"]["scatter"]
    # Other load slows bare transforms most, since their threads wait for each other: ratios are too low.
    busy = f". Bare transforms took {scatter:.1f} times their best: the machine is busy, ratios mean little"
    return report.table(
        f"{_size(case)} {case['dtype']}, {case['field_bytes'] / 2**20:.1f} MiB a field; "
        f"copy {bandwidth / 1e9:.1f} GB/s (read + write)",
        ("<", "ms", "best", "transforms", "ratio", "passes", "MiB", "floats/point"),
        lines,
        "ratio: median of time / bare transforms of the same round; passes: reads or writes of one real "
        "field that the memory could do in that time" + (busy if scatter >= 1.25 else ""),
    )


def _row(name: str, line: dict[str, Any], memory: tuple[str, str] = ("", "")) -> tuple[str, ...]:
    cells = "{ms:.3g}", "{ms_best:.3g}", "{transforms}", "{ratio:.2f}", "{passes:.1f}"
    return (name, *(cell.format(**line) for cell in cells), *memory)


def plot(result: dict[str, Any], path: str | Path) -> None:
    """Draw a bar per medium for the time of a step, in two colours: Fourier transforms, and the rest.

    The first part is the measured time of as many bare transforms as a step has.
    """
    panels = []
    for case in result["cases"]:
        bars = []  # name, ms of its transforms (0: unknown), total ms
        for line in case["media"]:
            bars.append((line["name"], line["bare_ms"], line["ms"]))
            steps = ((words, line[kind]) for kind, words in _KINDS.items() if line.get(kind))
            bars += [(words, step["bare_ms"], step["ms"]) for words, step in steps]
            if peer := line.get("kwave"):
                bars.append((peer["program"], 0.0, peer["ms"]))
        panels.append((f"{_size(case).replace('x', '×')}, {case['dtype']}", bars))
    report.step_bars(path, panels, "its transforms, bare")
