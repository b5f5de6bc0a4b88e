"""Figures 4 and 5 of Brehler et al.: Q² of each mode after the link, and its convergence in step size."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

from papers.common import DeviceName, Json, Output, Plot, Threads, folder, run, show
from papers.fibre.step_study import PAPER_CASE, compare
from wavefabric.base.errors import InputError
from wavefabric.base.results import Result, read_result
from wavefabric.base.results.figure_style import COLOURS, GREY, MARKERS
from wavefabric.base.units import SPEED_OF_LIGHT, quantity
from wavefabric.cli.common.options import option
from wavefabric.cli.common.parse import parse_list
from wavefabric.cli.common.progress import make_progress
from wavefabric.fabric.execution import report, timing
from wavefabric.optics.link.figures import penalty_figure, q_squared_figure
from wavefabric.optics.link.received_signals import received
from wavefabric.optics.propagation.integrators import INTEGRATORS
from wavefabric.optics.run_file.load import RunFile, load
from wavefabric.runtime.device import get_device

#: Hz, baud, roll-off, and the middle of the paper's 191.95 to 194.9 THz.
SPACING, SYMBOL_RATE, ROLLOFF, CENTRE = 50e9, 32e9, 0.1, 193.425e12


def study(
    groups: int = 15,
    channels: int = 60,
    symbols: int = 64,
    samples_per_symbol: int | None = None,
    steps: Sequence[str] = ("100 m", "50 m"),
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
        Folder for the run file and the result of each step, ``q_squared-strang-100m.toml`` and ``.h5``.
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
        fundamental mode and of the mean over modes in dB by place, ``resonance_step_m``, and ``change``
        (``max_db``, ``rms_db`` of Q² over modes and channels, ``fundamental_db``) against the finest run;
        ``finest`` (its name), ``groups`` and ``modes`` of the
        finest run; ``extrapolated``, what is left of the penalties at step zero (of the fundamental mode, of
        each mode, their mean, in dB by place) with the order that was assumed, None from a single step;
        ``paper``; ``machine``.

    Raises
    ------
    InputError
        If an option is not allowed, or a result does not fit the others.
    """
    if source:
        results = [read_result(path) for path in source]
        for each in results:
            if len(received(each)) < 2 or received(each)[0] != "back_to_back":
                raise InputError(
                    f"{each.path}: holds no signal received back to back and after a span; "
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
        target = _made(output)
        prepared = [_prepare(text, name, h, target, force, device, threads) for name, h in wanted]
        results = [_simulate(settings, path, force, progress) for settings, path in prepared]
    result = compare(results)
    if not source:
        result["machine"] = timing.machine(get_device(device, threads))
    return result


# --- running -----------------------------------------------------------------------------------------


def parse_steps(steps: Sequence[str], integrator: str) -> list[tuple[str, float]]:
    """(integrator, step in m) of texts such as ``"50 m"`` and ``"rk4ip:200 m"``; each pair once."""
    result: list[tuple[str, float]] = []
    for text in steps:
        name, colon, length = text.strip().rpartition(":")
        name = name.strip() if colon else integrator
        if name not in INTEGRATORS:
            raise InputError(f"steps: integrator {name!r} is unknown; allowed: {', '.join(INTEGRATORS)}")
        h = quantity(length, "m", "steps")
        if not h > 0:
            raise InputError(f"steps: {length.strip()!r} given; allowed: a positive length")
        if (name, h) not in result:
            result.append((name, h))
    if not result:
        raise InputError("steps: none given; allowed: at least one length such as 100m")
    return result


def _samples(channels: int) -> int:
    band = (channels - 1) * SPACING + SYMBOL_RATE * (1 + ROLLOFF)
    return max(4, 2 ** math.ceil(math.log2(1.25 * band / SYMBOL_RATE)))


def _made(output: str | Path) -> Path:
    made = Path(output)
    try:
        made.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--output: {made} cannot be used as a folder ({error.strerror})") from None
    return made


def _template(groups, channels, symbols, samples, spans, span_length, precision) -> str:
    return f"""\
# Written by papers/fibre/q_squared.py: section 6 of Brehler et al.
title = "{groups} mode groups, {channels} WDM channels, {spans} x {span_length}"
seed = 1

[fibre]
preset = "graded-index-62.5"
groups = {groups}
coupling = "groups"
dispersion = "paper"
wavelength = "{SPEED_OF_LIGHT / CENTRE * 1e9:.9g} nm"
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
    stem = f"q_squared-{name}-{h:g}m"
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
    from wavefabric.optics.link.run import run_link

    if force or not target.exists():
        # Steps above resonance are what is studied here; the result file holds the warning.
        run_link(settings, output=target, force=force, progress=progress, warn=lambda text: None)
    return read_result(target)


# --- tables and figures -----------------------------------------------------------------------------


def table(result: dict[str, Any]) -> list:
    """Penalty and change of Q² by step, and the finest run by mode group."""
    paper = {line["distance_m"]: line["fundamental_penalty_db"] for line in result["paper"]}
    received_at = [p["distance_m"] for p in result["runs"][0]["penalties"]]
    name = result["runs"][0]["fundamental"]
    headings = ("step (m)", "precision", "steps", "s", *(f"{p / 1e3:g} km" for p in received_at))
    runs = report.table(
        f"Penalty of {name} in dB, and change of Q² against {result['finest']}",
        ("<integrator", *headings, "max (dB)", "rms (dB)"),
        (),
        f"change: over all modes and channels after {result['place']['distance_m'] / 1e3:g} km"
        + _assumption(result["extrapolated"]),
    )
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
    runs.add_section()
    if limit := result["extrapolated"]:
        cells = [f"{p['fundamental_db']:+.3f}" for p in limit["places"]]
        runs.add_row(limit["integrator"], "→ 0", f"order {limit['order']}", "", "", *cells, "", "")
    if not paper:
        runs.caption = f"{runs.caption}\nBrehler et al. have no numbers for this link, but for {PAPER_CASE}"
    if any(p in paper for p in received_at):
        cells = [f"{paper[p]:+.2f}" if p in paper else "" for p in received_at]
        runs.add_row("paper", "", "", "", "", *cells, "", "")

    columns = ["group", "modes", "back to back"]
    for distance_name in result["groups"][0]["places"][1:]:
        columns += [f"{distance_name['distance_m'] / 1e3:g} km", "min", "penalty"]
    caption = "penalty: mean minus back to back"
    groups = report.table("Q² in dB by mode group, finest run", columns, (), caption)
    for line in result["groups"]:
        cells = [str(line["group"]), str(line["modes"]), f"{line['places'][0]['mean_db']:.2f}"]
        for distance_name in line["places"][1:]:
            cells += [
                f"{distance_name['mean_db']:.2f}",
                f"{distance_name['min_db']:.2f}",
                f"{distance_name['penalty_db']:+.3f}",
            ]
        groups.add_row(*cells)
    return [runs, groups]


def _assumption(limit: dict[str, Any] | None) -> str:
    if limit is None:
        return ""
    steps = ", ".join(f"{h:.4g}" for h in limit["steps_m"])
    why = "above the resonance limit, error ∝ step" if limit["above_resonance"] else "the integrator's order"
    return f"\n→ 0: extrapolated from {steps} m ({why})"


def _cell(value: Any, form: str) -> str:
    return "" if value is None else format(value, form)


def plot(result: dict[str, Any], path: Path) -> list[Path]:
    """Figures 4 and 5 of the finest run, and with several steps the step study."""
    data = read_result(result["file"])
    limit = result["extrapolated"] or {"places": []}
    zero = {distance_name["name"]: distance_name["modes_db"] for distance_name in limit["places"]}
    figures = {"-figure4": q_squared_figure(data), "-figure5": penalty_figure(data, zero)}
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
    with report.figure(path, (9.6, 4.2)) as figure:
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
        if limit := result["extrapolated"]:
            value, order = limit["places"][-1]["fundamental_db"], limit["order"]
            colour = COLOURS[names.index(limit["integrator"]) % len(COLOURS)]
            right.axhline(
                value, color=colour, ls="--", lw=1.2, label=f"step → 0 (order {order}): {value:+.3f} dB"
            )
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


def main(
    groups: Annotated[int, option("Mode groups 1 to so many (15: 120 modes).")] = 15,
    channels: Annotated[int, option("WDM channels on 50 GHz.")] = 60,
    symbols: Annotated[int, option("Symbols a channel (paper: 16384).")] = 64,
    samples: Annotated[int | None, option("Samples a symbol. [default: 1.25 x band, power of 2]")] = None,
    steps: Annotated[str, option("Steps, comma between, e.g. 50m,rk4ip:200m.")] = "100m,50m",
    integrator: Annotated[str, option("Of the steps that name none.")] = "strang",
    precision: Annotated[str, option("double or single.")] = "double",
    spans: Annotated[int, option("Amplified spans.")] = 2,
    span_length: Annotated[str, option("Length of a span.")] = "80 km",
    source: Annotated[
        list[Path] | None,
        option("Read this result instead of simulating; may be repeated.", "--from"),
    ] = None,
    force: Annotated[bool, option("Simulate anew, replace results.")] = False,
    device: DeviceName = "auto",
    threads: Threads = None,
    as_json: Json = False,
    output: Output = None,
    plot: Plot = None,
) -> None:
    """Figures 4 and 5 of the paper: Q² of each mode after the link, and its convergence in step size."""
    progress = make_progress(as_json)
    try:
        result = study(
            groups,
            channels,
            symbols,
            samples,
            parse_list(steps),
            integrator,
            precision,
            spans,
            span_length,
            source or (),
            folder(__file__, output),
            force,
            device,
            threads,
            progress,
        )
    finally:
        progress.finish()
    show(__name__, result, as_json, output, plot)


if __name__ == "__main__":
    run(main)
