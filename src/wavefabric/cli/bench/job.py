"""Benchmark ``job``: time a whole command from start to file, first and repeated, compared with k-Wave's."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wavefabric.acoustics.kwave.format import Reader
from wavefabric.acoustics.kwave.output_layout import PHASES
from wavefabric.acoustics.recording.sinks import PHASE_WORDS
from wavefabric.base.arguments import whole
from wavefabric.base.errors import InputError
from wavefabric.base.files import hdf5
from wavefabric.base.files.input import begins_as_hdf5
from wavefabric.base.results.figure_style import GREY
from wavefabric.cli.bench.common import silent
from wavefabric.cli.bench.kwave_program import KWaveProgram
from wavefabric.fabric.execution import report, timing
from wavefabric.runtime.device import get_device

#: Text of each phase; the rest of the wall time is start and end.
_WORDS = {"start": "start and end", "receiver": "receiver", **PHASE_WORDS}
#: Phases of a fibre run, by attribute of the solver in its result.
_SOLVER = {"compilation_seconds": "compilation", "seconds": "simulation", "receiver_seconds": "receiver"}
_STEADY = "time_step_execution_time"


def run(
    file: str | Path,
    *,
    device: str = "auto",
    threads: int | None = None,
    repeats: int = 3,
    first: bool = True,
    peer: str | Path | None = None,
    progress: Callable[[str], object] = silent,
) -> dict[str, Any]:
    """Time the command that runs ``file``, a k-Wave input or a fibre's run file, in separate processes.

    ``first``: also run once with empty caches, as on a new grid. ``peer``: kspaceFirstOrder-OMP or -CUDA,
    which runs a k-Wave file in turn with ours. Times are medians of ``repeats`` runs. `InputError` if the
    file is of neither kind, or a program fails.
    """
    file, repeats, chip = Path(file), whole("--repeats", repeats, 1), get_device(device, threads)
    try:
        kwave = begins_as_hdf5(file)
    except OSError as error:
        raise InputError(
            f"FILE: {file}: {error.strerror}; allowed: a run file, a k-Wave input file"
        ) from None
    if peer is not None and not kwave:
        raise InputError(f"--peer: {peer} given for {file}; allowed: with a k-Wave input file")
    program = None if peer is None else KWaveProgram(peer, chip, "single")
    arguments = [sys.executable, "-m", "wavefabric", *(("kwave", "-i") if kwave else ("run",)), str(file)]
    arguments += ["--force", "--device", chip.name, *(["-p"] if kwave else ["--quiet"])]
    arguments += [] if threads is None else ["-t" if kwave else "--threads", str(threads)]
    case: dict[str, Any] = {"file": file.name, "repeats": repeats}
    with tempfile.TemporaryDirectory() as folder:
        out, cache = Path(folder) / "out.h5", Path(folder) / "cache"
        if first:
            progress("the first time, with empty caches")
            empty = {
                "WAVEFABRIC_CACHE": str(cache),
                "CUPY_CACHE_DIR": str(cache),
                "CUDA_CACHE_PATH": str(cache),
            }
            case["first"] = _job([*arguments, "-o", str(out)], out, kwave, empty)
        jobs, peer_times = [], []
        for number in range(repeats):
            progress(f"run {number + 1} of {repeats}")
            if program is not None:
                peer_times.append(program.job(file, Path(folder) / "peer.h5"))
            jobs.append(_job([*arguments, "-o", str(out)], out, kwave, {}))
    names = jobs[0]["seconds"]
    middle = {name: statistics.median(each["seconds"][name] for each in jobs) for name in names}
    walls = [each["wall"] for each in jobs]
    steady = statistics.median(each["step_ms"] for each in jobs)
    case["again"] = {"wall": statistics.median(walls), "walls": walls, "seconds": middle, "step_ms": steady}
    if program is not None:
        ratio = statistics.median(one / other for one, other in zip(peer_times, walls, strict=True))
        case["peer"] = {"program": program.path.name, "wall": statistics.median(peer_times), "ratio": ratio}
    return {"benchmark": "job", "cases": [case], "machine": timing.machine(chip)}


def _job(arguments: list[str], out: Path, kwave: bool, environment: dict[str, str]) -> dict[str, Any]:
    """Run a command; return its wall time in s, seconds by phase, and ms per steady step, 0 if unknown."""
    begun = time.perf_counter()
    done = subprocess.run(
        arguments, capture_output=True, text=True, errors="replace", env=os.environ | environment
    )
    wall = time.perf_counter() - begun
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise InputError(f"FILE: did not run: {said[-1].removeprefix('wavefabric: error: ')}")
    if kwave:
        with Reader(out) as result:
            texts = result.attributes()
        number = {name: float(texts[name].strip().removesuffix("s")) for name in (*PHASES, _STEADY)}
        seconds, step = {PHASES[name]: number[name] for name in PHASES}, number[_STEADY]
    else:
        with hdf5.open_hdf5(out, "a result") as result:
            solver = hdf5.attributes(result["solver"])
        seconds = {name: float(solver[key]) for key, name in _SOLVER.items()}
        step = seconds["simulation"] / float(solver["steps"])
    phases = {"start": wall - sum(seconds.values()), **seconds}
    return {"wall": wall, "seconds": phases, "step_ms": 1e3 * step}


def table(result: dict[str, Any]) -> list:
    """Return a table of a job with a row per phase."""
    (case,) = result["cases"]
    runs = [case[kind] for kind in ("first", "again") if kind in case]
    lines = [
        (_WORDS[name], *(f"{each['seconds'][name]:.2f}" for each in runs)) for name in runs[-1]["seconds"]
    ]
    lines.append(("all", *(f"{each['wall']:.2f}" for each in runs)))
    note = f"a step takes {case['again']['step_ms']:.3g} ms; medians of {case['repeats']} runs"
    if peer := case.get("peer"):
        note += f"; {peer['program']}: {peer['wall']:.2f} s, {peer['ratio']:.2f} x our time"
    heads = ["the first time, s"] * (len(runs) - 1) + ["again, s"]
    return [report.table(case["file"], ("<", *heads), lines, note)]


def plot(result: dict[str, Any], path: str | Path) -> None:
    """Draw a bar per run, of its phases in sequence; k-Wave's program has a bar of one colour."""
    (case,) = result["cases"]
    bars = {"again": case["again"], "the first time": case.get("first")}
    names = [name for name, each in bars.items() if each is not None]
    peer = case.get("peer")
    with report.figure(path, (8.4, 2.2 + 0.4 * (len(names) + bool(peer))), "x") as drawn:
        axes, starts = drawn.subplots(), [0.0] * len(names)
        for number, phase in enumerate(case["again"]["seconds"]):
            widths = [bars[name]["seconds"][phase] for name in names]
            colour = report.look(number)["color"]
            axes.barh(range(len(names)), widths, left=starts, label=_WORDS[phase], color=colour, height=0.62)
            starts = [start + width for start, width in zip(starts, widths, strict=True)]
        if peer:
            names.append(peer["program"])
            starts.append(peer["wall"])
            axes.barh(len(names) - 1, peer["wall"], color=GREY, height=0.62)
        for y, total in enumerate(starts):
            axes.text(total, y, f"  {total:.3g} s", va="center", fontsize=9)
        report.name_bars(axes, names)
        axes.set(xlabel="wall time (s)", title=case["file"])
        drawn.legend(loc="outside lower center", ncols=3, fontsize=9)
