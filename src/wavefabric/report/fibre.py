"""The page of a fibre link's result, and of a parameter sweep's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wavefabric.files.input import parse_toml
from wavefabric.errors import InputError
from wavefabric.optics.link.result import group_rows
from wavefabric.report.content import (
    BAD,
    WARNED,
    Content,
    Tile,
    memory_tile,
    pairs,
    plan_parts,
    step_tile,
)
from wavefabric.report.figures import Axis, bars, pairs_table, plot, table, text
from wavefabric.report.plan import plan_of
from wavefabric.results import Result
from wavefabric.results import plots
from wavefabric.results.sweeps import SweepResult
from wavefabric.units import counted, time_words

_MODE = Axis("spatial mode", words="{:.3g}".format)


def fibre_content(result: Result) -> Content:
    """What the result file of a link says; InputError where it is damaged."""
    names, rows = plots.received(result), group_rows(result)
    solver, attrs = result.attrs("solver") if "solver" in result.groups() else {}, result.attrs()
    plan, far = plan_of(attrs), names[-1]
    # `group_rows` has read the same arrays.
    q = {name: np.atleast_2d(result[f"received/{name}/q_squared_db"]) for name in names}
    content = Content("fibre link", _title(result), "")
    content.warnings = [str(line) for line in result.get("solver/warnings", [])]
    _verdict(content, rows, far, q[far])
    seconds, steps = float(solver.get("seconds", 0.0)), int(solver.get("steps", 0))
    total = max(float(solver.get("total_seconds", seconds)), seconds)
    content.tiles = [
        step_tile(seconds / max(steps, 1), total, plan, steps),
        memory_tile(float(solver.get("memory_bytes", 0.0)), _where(solver, attrs), plan),
    ]
    receiver = float(solver.get("receiver_seconds", 0.0))
    content.parts = {"propagation": seconds, "receiver": receiver, "the rest": total - seconds - receiver}
    predicted = bars("Predicted step", [("a step", plan_parts(plan), False)])
    figures = _figures(result, names, q)
    content.thumbnail = figures[1] or figures[0]
    content.add("Figures", *figures, predicted)
    content.add("Mode groups", _group_table(rows))
    _provenance(content, result, solver)
    return content


def _title(result: Result) -> str:
    try:
        title = parse_toml(str(result.get("run_file", "")), "run file").get("title", "")
    except InputError:
        title = ""
    return str(title) or result.path.stem


def _where(solver: dict[str, Any], attrs: dict[str, Any]) -> str:
    """Where a run was, for the memory's tile."""
    ranks = int(solver.get("ranks", 1))
    device = str(attrs.get("device") or solver.get("device", "cpu"))
    if ranks > 1:
        return f"the most of {ranks} ranks on {device}, through {solver.get('transport', '')}"
    return f"on {attrs.get('cpu') if device == 'cpu' and attrs.get('cpu') else device}"


def _verdict(content: Content, rows: list[dict[str, Any]], far: str, q: np.ndarray) -> None:
    """Q² and penalty at the farthest receiver, in words."""
    if lost := int((~np.isfinite(q)).any(axis=1).sum()):
        content.state, content.verdict = BAD, f"Signal lost in {counted(lost, 'mode')} of {len(q)}"
        return
    here = [row["received"][far] for row in rows]
    where = "back to back" if far == "back_to_back" else f"after {here[0]['distance_m'] / 1e3:g} km"
    words = f"Worked: mean Q² {float(plots.mean_db(q.reshape(1, -1))[0]):.2f} dB {where}"
    if all(each["penalty_db"] is not None for each in here):
        worst = min(range(len(rows)), key=lambda k: here[k]["penalty_db"])
        words += f", penalty up to {abs(here[worst]['penalty_db']):.3f} dB (mode group {rows[worst]['group']})"
    if content.warnings:
        content.state, words = WARNED, f"{words}; {counted(len(content.warnings), 'warning')}"
    content.verdict = words


def _figures(result: Result, names: list[str], q: dict[str, np.ndarray]) -> list[Any]:
    far, modes = names[-1], len(q[names[-1]])
    x, level = np.arange(1, modes + 1), q[far]
    theory = plots.expected_db(result, far, level.shape)
    shown = {"mean": plots.mean_db(level)}
    if level.shape[1] > 1:
        shown |= {"least channel": level.min(axis=1), "best channel": level.max(axis=1)}
    if theory is not None:
        shown["theory"] = plots.mean_db(theory)
    made = [plot("Q² of each mode", {n: (x, v) for n, v in shown.items()}, _MODE, Axis("Q² (dB)"), _at(result, far), "dots")]
    penalties = {}
    if names[0] == "back_to_back" and (reference := plots.mean_db(q[names[0]])).max() <= plots.NOISELESS_DB:
        same = (name for name in names[1:] if len(q[name]) == len(reference))
        with np.errstate(invalid="ignore"):
            penalties = {_at(result, name): (x, plots.mean_db(q[name]) - reference) for name in same}
    made.append(plot("Penalty of each mode", penalties, _MODE, Axis("mean Q² − back to back (dB)"), dots="dots"))
    points = np.asarray(result.get(f"received/{far}/constellation", np.zeros(0)))
    if points.dtype.kind == "c" and points.size and points.size % modes == 0:
        worst = int(np.argmin(shown["mean"]))
        z = points.reshape(modes, -1)[worst][:2000]
        note = f"worst mode, {worst + 1}, {_at(result, far)}"
        made.append(plot("Received symbols", {"": (z.real, z.imag)}, Axis("in phase"), Axis("quadrature"), note, "fine", True))
    return [*made, *_along(result, names)]


def _along(result: Result, names: list[str]) -> list[Any]:
    """Spectra at the receivers and power on the way."""
    f, spectra, made = np.asarray(result.get("signal/spectrum_frequencies", np.zeros(0))), {}, []
    for name in (names[0], names[-1]):
        density = np.asarray(result.get(f"received/{name}/spectrum", np.zeros((0, 0))))
        if density.ndim == 2 and density.shape[1] == f.size and f.size:
            with np.errstate(divide="ignore"):
                level = 10 * np.log10(density.mean(axis=0) * 12.5e9 / 1e-3)
            spectra[_at(result, name)] = f / 1e12, np.maximum(level, np.nanmax(level) - 60)
    made.append(plot("Spectrum", spectra, Axis("optical frequency (THz)", words="{:.6g}".format), Axis("dBm in 12.5 GHz")))
    z, power = (np.asarray(result.get(f"along_z/{name}", np.zeros(0))) for name in ("distance", "power"))
    if z.size > 1 and power.ndim == 2 and len(power) == z.size:
        groups = plots.mode_groups(result, power.shape[1])
        with np.errstate(divide="ignore"):
            lines = {
                f"group {n}": (z / 1e3, 10 * np.log10(power[:, groups == n].mean(axis=1) / 1e-3))
                for n in np.unique(groups)[:8]
            }
        made.append(plot("Power along the link", lines, Axis("distance (km)"), Axis("dBm, mean of a mode")))
    return made


def _at(result: Result, name: str) -> str:
    return "back to back" if name == "back_to_back" else f"{plots.distance(result, name) / 1e3:g} km"


def _group_table(rows: list[dict[str, Any]]) -> Any:
    heads, cells = ["mode group", "modes"], [[str(row["group"]), str(row["modes"])] for row in rows]
    for name, first in rows[0]["received"].items() if rows else ():
        where = "back to back" if name == "back_to_back" else f"{first['distance_m'] / 1e3:g} km"
        columns = {"q_squared_mean_db": "Q² mean", "q_squared_min_db": "least", "penalty_db": "penalty", "gmi_mean": "GMI (bit)"}
        for key, words in columns.items():
            values = [row["received"][name][key] for row in rows]
            if any(v is not None and math.isfinite(v) for v in values) and not (key == "penalty_db" and name == "back_to_back"):
                heads.append(f"{where}, {words}")
                for line, value in zip(cells, values, strict=True):
                    line.append("-" if value is None else f"{value:.3f}".replace("-", "−"))
    return table(heads, cells)


def _provenance(content: Content, result: Result, solver: dict[str, Any]) -> None:
    own = pairs_table(pairs(result.attrs(), ("plan", "format_version")), "Where it comes from")
    run = text("Run file", str(result.get("run_file", "")))
    content.add("Provenance", own, pairs_table(pairs(solver), "Solver"), run)


def sweep_content(result: SweepResult) -> Content:
    """What a sweep says: its best point, and Q² over each axis."""
    q, names = result.mean_q_squared_db(), list(result.axes)
    best = result.best()
    faults = [str(line) for line in np.ravel(np.asarray(result.get("fault", []), object)) if line]
    content = Content("parameter sweep", _title(result), "No point has a signal", BAD, warnings=faults)
    if best is not None:
        at = ", ".join(f"{name} = {result.label(name, k)}" for name, k in zip(names, best, strict=True))
        content.verdict, content.state = f"Best of {counted(q.size, 'point')}: Q² {q[best]:.2f} dB at {at}", "good"
    if faults:
        content.verdict, content.state = f"{content.verdict}; {counted(len(faults), 'fault')}", WARNED
    steps, seconds = (np.nan_to_num(result.numbers(key)) if key in result else np.zeros(1) for key in ("steps", "seconds"))
    total, n = float(seconds.sum()), counted(q.size, "point")
    content.tiles = [Tile("Time a step", time_words(total / max(float(steps.sum()), 1)), f"{time_words(total)} in all, {n}")]
    content.parts = {"propagation": total}
    figures = []
    for axis, name in enumerate(names):
        values, lines = result.axes[name], np.moveaxis(q, axis, -1).reshape(-1, q.shape[axis])
        x = np.asarray(values, float) if np.asarray(values).dtype.kind in "fiu" else np.arange(len(values))
        shown = {"best of the other axes" if len(names) > 1 else "Q²": (x, np.nan_to_num(lines, nan=-np.inf).max(axis=0))}
        units = result.attrs(name).get("units", "")
        figures.append(plot(f"Q² over {name}", shown, Axis(f"{name} ({units})" if units else name), Axis("mean Q² (dB)")))
    content.thumbnail = figures[0] if figures else content.thumbnail
    content.add("Figures", *figures)
    _provenance(content, result, {})
    return content
