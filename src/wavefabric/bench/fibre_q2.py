"""Benchmark ``fibre-q2``: figures 4 and 5 of Brehler et al., and how far the step size has converged."""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.bench import measure
from wavefabric.device import get_device
from wavefabric.errors import InputError
from wavefabric.optics.integrators import INTEGRATORS
from wavefabric.optics.runfile import RunFile, load
from wavefabric.results import Result, read_result
from wavefabric.results.plots import distance, mean_db, mode_groups, received
from wavefabric.units import quantity

#: Mean penalty of the fundamental mode in dB after so many km (Brehler et al., figure 5, read from the text).
PAPER = {80.0: -0.06, 160.0: -0.13}
SPACING, SYMBOL_RATE, ROLLOFF, CENTRE = 50e9, 32e9, 0.1, 193.425e12


def run(
    groups: int = 15,
    channels: int = 60,
    symbols: int = 64,
    samples_per_symbol: int | None = None,
    steps: Sequence[str] = ("100 m",),
    integrator: str = "strang",
    precision: str = "double",
    spans: int = 2,
    span_length: str = "80 km",
    source: Sequence[str | Path] = (),
    output: str | Path = ".",
    force: bool = False,
    device: str = "auto",
    threads: int | None = None,
    progress: Any = None,
) -> dict[str, Any]:
    """Run the link of section 6 once for each step, or read results of it, and compare.

    Parameters
    ----------
    groups : int
        Mode groups 1 to so many of the 62.5 µm fibre, 1 to 15.
    channels : int
        DP-QPSK channels of 32 GBaud at −1 dBm on a 50 GHz grid around 193.425 THz.
    symbols : int
        Symbols a channel.
    samples_per_symbol : int, optional
        Default: the power of two that leaves a quarter more band than the channels fill.
    steps : sequence of str
        Fixed steps with a unit, each with an integrator before it if wanted: ``"50 m"``, ``"rk4ip:200 m"``.
    integrator : str
        For steps that name none.
    precision : {"double", "single"}
    spans : int
        Amplified spans; the signal is received after each.
    span_length : str
        With a unit.
    source : sequence of path
        Result files of `wavefabric run` to read; nothing is simulated then.
    output : path
        Folder for the run file and the result of each step, ``fibre-q2-strang-100m.toml`` and ``.h5``.
        A result of the same run that lies there is read; a run that was killed goes on from its checkpoint.
    force : bool
        Simulate anew and replace what lies there.
    device : str
    threads : int, optional
        CPU threads.
    progress : object, optional
        With ``start(total, label)``, ``update(done, message)``, ``finish()``.

    Returns
    -------
    dict
        JSON-serialisable: ``runs``, in descending step, each with solver, cost, ``penalties`` of the
        fundamental mode in dB by place, and ``change`` (``max_db``, ``rms_db`` of Q² over modes and channels,
        ``fundamental_db``) against the finest run; ``finest`` (its name), ``groups`` and ``modes`` of the
        finest run; ``paper``; ``machine``.

    Raises
    ------
    InputError
        If an option is not allowed, or a result does not fit the others.
    """
    if source:
        results = [read_result(path) for path in source]
        for result in results:
            if len(received(result)) < 2 or received(result)[0] != "back_to_back":
                raise InputError(
                    f"{result.path}: holds no signal received back to back and after a span; "
                    "run it with receiver.back_to_back = true"
                )
    else:
        wanted = parse_steps(steps, integrator)
        if not 1 <= groups <= 15:
            raise InputError(f"groups: {groups} given; allowed: 1 to 15")
        if channels < 1:
            raise InputError(f"channels: {channels} given; allowed: 1 or more")
        samples = samples_per_symbol or _samples(channels)
        text = _template(groups, channels, symbols, samples, spans, span_length, precision)
        folder = _folder(output)
        prepared = [_prepare(text, name, h, folder, force, device, threads) for name, h in wanted]
        results = [_simulate(settings, path, force, progress) for settings, path in prepared]
    found = _compare(results)
    if not source:
        found["machine"] = measure.machine(get_device(device, threads))
    return found


# --- running -----------------------------------------------------------------------------------------


def parse_steps(steps: Sequence[str], integrator: str) -> list[tuple[str, float]]:
    """(integrator, step in m) of texts such as ``"50 m"`` and ``"rk4ip:200 m"``; each pair once."""
    found: list[tuple[str, float]] = []
    for text in steps:
        name, colon, length = text.strip().rpartition(":")
        name = name.strip() if colon else integrator
        if name not in INTEGRATORS:
            raise InputError(f"steps: integrator {name!r} is unknown; allowed: {', '.join(INTEGRATORS)}")
        h = quantity(length, "m", "steps")
        if not h > 0:
            raise InputError(f"steps: {length.strip()!r} given; allowed: a positive length")
        if (name, h) not in found:
            found.append((name, h))
    if not found:
        raise InputError("steps: none given; allowed: at least one length such as 100m")
    return found


def _samples(channels: int) -> int:
    band = (channels - 1) * SPACING + SYMBOL_RATE * (1 + ROLLOFF)
    return max(4, 2 ** math.ceil(math.log2(1.25 * band / SYMBOL_RATE)))


def _folder(output: str | Path) -> Path:
    folder = Path(output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--output: {folder} cannot be used as a folder ({error.strerror})") from None
    return folder


def _template(groups, channels, symbols, samples, spans, span_length, precision) -> str:
    return f"""\
# Written by `wavefabric bench fibre-q2`: section 6 of Brehler et al.
title = "{groups} mode groups, {channels} WDM channels, {spans} x {span_length}"
seed = 1

[fibre]
preset = "graded-index-62.5"
groups = {groups}
coupling = "groups"
dispersion = "paper"
attenuation = "0.23 dB/km"

[link]
length = "{span_length}"
spans = {spans}

[signal]
modulation = "qpsk"
symbol_rate = "{SYMBOL_RATE / 1e9:g} GBaud"
symbols = {symbols}
samples_per_symbol = {samples}
rolloff = {ROLLOFF}
launch_power = "-1 dBm"
channels = {channels}
spacing = "{SPACING / 1e9:g} GHz"
centre_frequency = "{CENTRE / 1e12:.10g} THz"

[receiver]
osnr = "20 dB"
noise_seed = 1

[solver]
integrator = "INTEGRATOR"
step = "STEP m"
precision = "{precision}"

[output]
checkpoint_interval = "60 s"
"""


def _prepare(text, name, h, folder: Path, force, device, threads) -> tuple[RunFile, Path]:
    """The checked run file of one step, and where its result goes."""
    stem = f"fibre-q2-{name}-{h:g}m"
    text = text.replace("INTEGRATOR", name).replace("STEP", f"{h:.17g}")
    target, written = folder / f"{stem}.h5", folder / f"{stem}.toml"
    if target.exists() and not force and read_result(target).get("run_file") != text:
        raise InputError(f"{target}: is the result of other options; choose another --output or give --force")
    partial = written.with_name(written.name + ".partial")
    try:
        partial.write_text(text, encoding="utf-8")
        try:
            settings = load(partial).with_solver(device=device, **({"threads": threads} if threads else {}))
            os.replace(partial, written)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"--output: {written} cannot be written ({error.strerror})") from None
    return settings, target


def _simulate(settings: RunFile, target: Path, force: bool, progress) -> Result:
    from wavefabric.optics.link import run_link

    if force or not target.exists():
        run_link(settings, output=target, force=force, progress=progress)
    return read_result(target)


# --- comparing ---------------------------------------------------------------------------------------


def _compare(results: list[Result]) -> dict[str, Any]:
    runs = [_describe(result) for result in results]
    # All are held against the shortest step, of the highest order. Step before order: with a wide band it
    # is the step that decides which spurious resonances are left (docs/benchmarks.md).
    best = min(range(len(runs)), key=lambda k: (runs[k]["step_m"], -_order(runs[k]["integrator"])))
    finest, last = results[best], received(results[best])[-1]
    truth = np.atleast_2d(finest[f"received/{last}/q_squared_db"])
    for entry, result in zip(runs, results, strict=True):
        entry["change"] = None
        if result is not finest:
            entry["change"] = _change(result, last, truth, runs[best], entry)
    runs.sort(key=lambda entry: -entry["step_m"])
    return {
        "benchmark": "fibre-q2",
        "finest": results[best].path.name,
        "file": str(results[best].path),
        "place": {"name": last, "distance_m": distance(finest, last)},
        "runs": runs,
        "paper": [{"distance_m": km * 1e3, "fundamental_penalty_db": db} for km, db in PAPER.items()],
        "groups": _by_group(finest),
        "modes": _by_mode(finest),
        "machine": {key: _plain(value) for key, value in finest.attrs().items()},
    }


def _order(integrator: str) -> int:
    return INTEGRATORS[integrator].order if integrator in INTEGRATORS else 0


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _describe(result: Result) -> dict[str, Any]:
    solver = result.attrs("solver") if "solver" in result.groups() else {}
    run_file = tomllib.loads(result["run_file"]) if "run_file" in result else {}
    names = received(result)
    reference = mean_db(np.atleast_2d(result["received/back_to_back/q_squared_db"]))
    labels = result.get("fibre/labels", [])
    entry: dict[str, Any] = {
        "file": result.path.name,
        "integrator": str(solver.get("integrator", "?")),
        "step_m": float(solver.get("step", math.nan)),
        "precision": run_file.get("solver", {}).get("precision", "double"),
        "fundamental": labels[0] if len(labels) else "mode 1",
        "penalties": [],
    }
    for key in ("steps", "ffts", "exchanges", "seconds", "local_error", "energy_drift", "device"):
        entry[key] = _plain(solver.get(key))
    for name in names[1:]:
        mean = mean_db(np.atleast_2d(result[f"received/{name}/q_squared_db"]))
        entry["penalties"].append(
            {"distance_m": distance(result, name), "fundamental_db": float(mean[0] - reference[0])}
        )
    return entry


def _change(result: Result, place: str, truth, best: dict, entry: dict) -> dict[str, float]:
    key = f"received/{place}/q_squared_db"
    if key not in result or np.atleast_2d(result[key]).shape != truth.shape:
        raise InputError(
            f"{result.path}: its modes, channels or spans differ from those of {best['file']}; "
            "a study of the step wants the same link"
        )
    apart = np.atleast_2d(result[key]) - truth
    return {
        "max_db": float(np.abs(apart).max()),
        "rms_db": float(np.sqrt(np.mean(apart**2))),
        "mean_db": float(apart.mean()),
        "fundamental_db": entry["penalties"][-1]["fundamental_db"] - best["penalties"][-1]["fundamental_db"],
    }


def _by_group(result: Result) -> list[dict[str, Any]]:
    names = received(result)
    q = {name: np.atleast_2d(result[f"received/{name}/q_squared_db"]) for name in names}
    numbers = mode_groups(result, len(q[names[0]]))
    lines = []
    for number in np.unique(numbers):
        inside, places = numbers == number, []
        for name in names:
            flat = q[name][inside].reshape(1, -1)
            mean = float(mean_db(flat)[0])
            places.append(
                {
                    "name": name,
                    "distance_m": distance(result, name),
                    "mean_db": mean,
                    "min_db": float(flat.min()),
                    "penalty_db": mean - places[0]["mean_db"] if places else 0.0,
                }
            )
        lines.append({"group": int(number), "modes": int(inside.sum()), "places": places})
    return lines


def _by_mode(result: Result) -> dict[str, Any]:
    names = received(result)
    labels = [str(label) for label in result.get("fibre/labels", [])]
    modes: dict[str, Any] = {"labels": labels, "places": {}}
    for name in names:
        q = np.atleast_2d(result[f"received/{name}/q_squared_db"])
        modes["places"][name] = {
            "min_db": q.min(axis=1).tolist(),
            "mean_db": mean_db(q).tolist(),
            "max_db": q.max(axis=1).tolist(),
        }
    return modes


# --- showing -----------------------------------------------------------------------------------------


def table(result: dict[str, Any]) -> list:
    """The result of `run` as `rich.table.Table`: the steps, and the penalties of the finest run by group."""
    from rich.table import Table

    paper = {line["distance_m"]: line["fundamental_penalty_db"] for line in result["paper"]}
    places = [p["distance_m"] for p in result["runs"][0]["penalties"]]
    name = result["runs"][0]["fundamental"]
    runs = Table(
        title=f"Penalty of {name} in dB, and change of Q² against {result['finest']}",
        caption=f"change: over all modes and channels after {result['place']['distance_m'] / 1e3:g} km",
    )
    runs.add_column("integrator")
    headings = ["step (m)", "precision", "steps", "s", *(f"{p / 1e3:g} km" for p in places)]
    for heading in (*headings, "max (dB)", "rms (dB)"):
        runs.add_column(heading, justify="right")
    for entry in result["runs"]:
        change = entry["change"]
        runs.add_row(
            entry["integrator"],
            f"{entry['step_m']:.4g}",
            entry["precision"],
            _cell(entry["steps"], "d"),
            _cell(entry["seconds"], ".1f"),
            *(f"{p['fundamental_db']:+.3f}" for p in entry["penalties"]),
            *(("finest", "") if change is None else (f"{change['max_db']:.4f}", f"{change['rms_db']:.4f}")),
        )
    if any(p in paper for p in places):
        runs.add_section()
        cells = [f"{paper[p]:+.2f}" if p in paper else "" for p in places]
        runs.add_row("paper", "", "", "", "", *cells, "", "")

    groups = Table(title="Q² in dB by mode group, finest run", caption="penalty: mean minus back to back")
    for heading in ("group", "modes", "back to back"):
        groups.add_column(heading, justify="right")
    for place in result["groups"][0]["places"][1:]:
        for heading in (f"{place['distance_m'] / 1e3:g} km", "min", "penalty"):
            groups.add_column(heading, justify="right")
    for line in result["groups"]:
        cells = [str(line["group"]), str(line["modes"]), f"{line['places'][0]['mean_db']:.2f}"]
        for place in line["places"][1:]:
            cells += [f"{place['mean_db']:.2f}", f"{place['min_db']:.2f}", f"{place['penalty_db']:+.3f}"]
        groups.add_row(*cells)
    return [runs, groups]


def _cell(value: Any, form: str) -> str:
    return "" if value is None else format(value, form)


def plot(result: dict[str, Any], path: str | Path) -> list[Path]:
    """Draw figures 4 and 5 of the finest run, and the change of Q² against the step if there are several.

    Parameters
    ----------
    result : dict
        From `run`; its result file must still be there.
    path : str or Path
        Image file of the step study; the figures lie beside it, ``-figure4`` and ``-figure5`` at the stem.

    Returns
    -------
    list of Path
        What was written.
    """
    from wavefabric.results.plots import penalty_figure, q_squared_figure

    path, data = Path(path), read_result(result["file"])
    figures = {"-figure4": q_squared_figure(data), "-figure5": penalty_figure(data)}
    written = []
    for mark, figure in figures.items():
        if figure is not None:
            target = path.with_name(path.stem + mark + path.suffix)
            figure.savefig(target, dpi=160)
            written.append(target)
    if any(entry["change"] for entry in result["runs"]):
        _plot_steps(result, path)
        written.append(path)
    return written


def _plot_steps(result: dict[str, Any], path: Path) -> None:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from wavefabric.results.plots import COLOURS, GREY, MARKERS, STYLE

    with mpl.rc_context({**STYLE, "axes.titlepad": 8, "axes.grid.axis": "both"}):
        figure = Figure(figsize=(9.6, 4.2), layout="constrained")
        left, right = figure.subplots(1, 2)
        names = sorted({entry["integrator"] for entry in result["runs"]})
        for k, name in enumerate(names):
            mine = [entry for entry in result["runs"] if entry["integrator"] == name]
            moved = [entry for entry in mine if entry["change"]]
            colour, marker = COLOURS[k % len(COLOURS)], MARKERS[k % len(MARKERS)]
            h = [entry["step_m"] for entry in moved]
            for key, line, fill in (("max_db", "--", "white"), ("rms_db", "-", colour)) if moved else ():
                y = [entry["change"][key] for entry in moved]
                label = f"{name}, {'largest' if key == 'max_db' else 'rms'}"
                left.loglog(h, y, ls=line, marker=marker, color=colour, mfc=fill, label=label)
            y = [entry["penalties"][-1]["fundamental_db"] for entry in mine]
            right.semilogx([e["step_m"] for e in mine], y, marker=marker, color=colour, label=name)
        far = result["place"]["distance_m"]
        for line in result["paper"]:
            if line["distance_m"] == far:
                right.axhline(line["fundamental_penalty_db"], color=GREY, ls=":", label="paper")
        left.set(xlabel="step (m)", ylabel="change of Q² against the finest run (dB)")
        left.set_title("Convergence in step size")
        right.set(xlabel="step (m)", ylabel="mean Q² − back-to-back (dB)")
        right.set_title(f"Penalty of {result['runs'][0]['fundamental']} after {far / 1e3:g} km")
        for axes in (left, right):
            steps = sorted({entry["step_m"] for entry in result["runs"]})
            axes.set_xticks(steps, [f"{step:.4g}" for step in steps])
            axes.xaxis.minorticks_off()
            axes.margins(x=0.08)
            axes.legend(fontsize=9)
        figure.savefig(path, dpi=160)
