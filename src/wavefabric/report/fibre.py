"""The page of a fibre link's result, and of a parameter sweep's."""

from __future__ import annotations

from typing import Any

import numpy as np

from wavefabric.errors import InputError
from wavefabric.files.input import parse_toml
from wavefabric.optics.link.result import group_rows
from wavefabric.report.content import BAD, GOOD, WARNED, Content, Tile, memory_tile, pairs, plan_of, step_tile
from wavefabric.report.figures import PlotAxis, bars, plot, table, text
from wavefabric.results import Result, plots
from wavefabric.results.sweeps import SweepResult
from wavefabric.units import counted, time_words

#: Columns of the table of mode groups.
_COLUMNS = {
    "q_squared_mean_db": "Q²",
    "q_squared_min_db": "least",
    "penalty_db": "penalty",
    "gmi_mean": "GMI",
}
_NONE = np.zeros(0)


def fibre_content(result: Result) -> Content:
    """What the result file of a link says; InputError where it is damaged."""
    names, rows, attrs = plots.received(result), group_rows(result), result.attrs()
    solver = result.attrs("solver") if "solver" in result.groups() else {}
    plan, far = plan_of(attrs), names[-1]
    q = {name: np.atleast_2d(result[f"received/{name}/q_squared_db"]) for name in names}
    content = Content("fibre link", _title(result))
    content.warnings = [str(line) for line in result.get("solver/warnings", [])]
    content.verdict, content.state = _verdict(rows, far, q[far], content.warnings)
    seconds, receiver = (float(solver.get(key, 0.0)) for key in ("seconds", "receiver_seconds"))
    total = max(float(solver.get("total_seconds", 0.0)), seconds + receiver)
    device, ranks = str(attrs.get("device", "cpu")), int(solver.get("ranks", 1))
    where = f"on {attrs.get('cpu', device) if device == 'cpu' else device}"
    where = f"the most of {ranks} ranks {where}, {solver.get('transport')}" if ranks > 1 else where
    content.tiles = [
        step_tile(seconds, int(solver.get("steps", 0)), total, plan),
        memory_tile(float(solver.get("memory_bytes", 0.0)), where, plan),
    ]
    content.parts = {"propagation": seconds, "receiver": receiver, "the rest": total - seconds - receiver}
    figures = _received(result, names, q)
    content.thumbnail = figures[1] or figures[0]
    content.add("Figures", *figures, *_along(result, names), plan_bar(plan))
    content.add("Mode groups", _group_table(rows))
    about = table([], pairs(attrs), "Where it comes from"), table([], pairs(solver), "Solver")
    content.add("Provenance", *about, text("Run file", str(result.get("run_file", ""))))
    return content


def plan_bar(plan: dict[str, float]) -> Any:
    """The parts of the step that was predicted."""
    parts = {key: plan[key] for key in ("compute", "pack", "exposed") if plan.get(key, 0) > 0}
    return bars("Predicted step", [("a step", parts, False)])


def _title(result: Result) -> str:
    try:
        title = parse_toml(str(result.get("run_file", "")), "run file").get("title")
    except InputError:
        title = None
    return str(title or result.path.stem)


def _verdict(rows: list[Any], far: str, q: np.ndarray, warnings: list[str]) -> tuple[str, str]:
    """Q² and penalty at the farthest receiver in words, and the state of the page."""
    if lost := int((~np.isfinite(q)).any(axis=1).sum()):
        return f"Signal lost in {lost} of {counted(len(q), 'mode')}", BAD
    here = [row["received"][far] for row in rows]
    where = "back to back" if far == "back_to_back" else f"after {here[0]['distance_m'] / 1e3:g} km"
    words = f"Worked: mean Q² {_mean(q):.2f} dB {where}"
    if all(each["penalty_db"] is not None for each in here):
        worst = min(range(len(rows)), key=lambda k: here[k]["penalty_db"])
        words += (
            f", penalty {here[worst]['penalty_db']:.3f} dB in the worst mode group, {rows[worst]['group']}"
        )
    words = words.replace("-", "−")
    return (f"{words}; {counted(len(warnings), 'warning')}", WARNED) if warnings else (words, GOOD)


def _mean(q: np.ndarray) -> float:
    return float(plots.mean_db(q.reshape(1, -1))[0])


def _at(result: Result, name: str) -> str:
    return "back to back" if name == "back_to_back" else f"{plots.distance(result, name) / 1e3:g} km"


def _received(result: Result, names: list[str], q: dict[str, np.ndarray]) -> list[Any]:
    """Q² and penalty of each mode, and the received symbols of the worst."""
    far, modes, mode = names[-1], len(q[names[-1]]), PlotAxis("spatial mode")
    x, level, where = np.arange(1, modes + 1), q[names[-1]], _at(result, names[-1])
    shown = {"mean": plots.mean_db(level)}
    if level.shape[1] > 1:
        shown |= {"least channel": level.min(axis=1), "best channel": level.max(axis=1)}
    if (theory := plots.expected_db(result, far, level.shape)) is not None:
        shown["theory"] = plots.mean_db(theory)
    lines = {name: (x, values) for name, values in shown.items()}
    made = [plot("Q² of each mode", lines, mode, PlotAxis("Q² (dB)"), where, "dots")]
    reference = plots.mean_db(q[names[0]])
    if names[0] == "back_to_back" and reference.max() <= plots.NOISELESS_DB:
        same = [name for name in names[1:] if len(q[name]) == len(reference)]
        with np.errstate(invalid="ignore"):
            lines = {_at(result, name): (x, plots.mean_db(q[name]) - reference) for name in same}
        made.append(
            plot("Penalty of each mode", lines, mode, PlotAxis("mean Q² − back to back (dB)"), "", "dots")
        )
    points, worst = (
        np.asarray(result.get(f"received/{far}/constellation", _NONE)),
        int(np.argmin(shown["mean"])),
    )
    if points.dtype.kind == "c" and points.size and points.size % modes == 0:
        z, words = points.reshape(modes, -1)[worst][:2000], f"worst mode, {worst + 1}, {where}"
        axes = PlotAxis("in phase"), PlotAxis("quadrature")
        made.append(plot("Received symbols", {"": (z.real, z.imag)}, *axes, words, "fine"))
    return [*made, ""]


def _along(result: Result, names: list[str]) -> list[Any]:
    """Spectra sent and received, and power on the way."""
    f, spectra, lines = np.asarray(result.get("signal/spectrum_frequencies", _NONE)), {}, {}
    z, power = (np.asarray(result.get(f"along_z/{name}", _NONE)) for name in ("distance", "power"))
    with np.errstate(divide="ignore"):
        for name in (names[0], names[-1]):
            density = np.asarray(result.get(f"received/{name}/spectrum", _NONE))
            if density.ndim == 2 and f.size and density.shape[1] == f.size:
                level = 10 * np.log10(density.mean(axis=0) * 12.5e9 / 1e-3)
                spectra[_at(result, name)] = f / 1e12, np.maximum(level, level.max() - 60)
        if z.size > 1 and power.shape[:1] == z.shape and power.ndim == 2:
            groups, level = plots.mode_groups(result, power.shape[1]), 10 * np.log10(power / 1e-3)
            of = {f"group {n}": level[:, groups == n].mean(axis=1) for n in np.unique(groups)[:8]}
            of = {"": level.mean(axis=1)} if np.ptp(level, axis=1).max() < 0.01 else of
            lines = {name: (z / 1e3, values) for name, values in of.items()}
    frequency = PlotAxis("optical frequency (THz)", words="{:.6g}".format)
    return [
        plot("Spectrum", spectra, frequency, PlotAxis("dBm in 12.5 GHz, mean of the modes")),
        plot("Power along the link", lines, PlotAxis("distance (km)"), PlotAxis("dBm, mean of a mode")),
    ]


def _group_table(rows: list[dict[str, Any]]) -> Any:
    heads, cells = ["mode group", "modes"], [[str(row["group"]), str(row["modes"])] for row in rows]
    for name, first in rows[0]["received"].items() if rows else ():
        where = "sent" if name == "back_to_back" else f"{first['distance_m'] / 1e3:g} km"
        for key, words in _COLUMNS.items():
            values = [row["received"][name][key] for row in rows]
            if None not in values and (key, where) != ("penalty_db", "sent"):
                heads.append(f"{where}, {words}")
                for line, value in zip(cells, values, strict=True):
                    line.append(f"{value:.3f}".replace("-", "−"))
    return table(heads, cells)


def sweep_content(result: SweepResult) -> Content:
    """What a sweep says: its best point, and the best Q² over each axis."""
    q, best, points = result.mean_q_squared_db(), result.best(), counted(int(np.prod(result.shape)), "point")
    faults = [str(line) for line in np.ravel(np.asarray(result.get("fault", []), object)) if line]
    content = Content(
        "parameter sweep", _title(result), f"No signal at any of {points}", BAD, warnings=faults
    )
    if best is not None:
        at = ", ".join(f"{name} = {result.label(name, k)}" for name, k in zip(result.axes, best, strict=True))
        content.verdict = f"Best of {points}: Q² {q[best]:.2f} dB at {at}"
        content.state = WARNED if faults else GOOD
    steps, seconds = (float(np.nansum(result.numbers(key))) for key in ("steps", "seconds"))
    words = f"{time_words(seconds)} of propagation, {points}" if seconds else points
    content.tiles = [Tile("Time a step", time_words(seconds / max(steps, 1)), words)]
    figures = []
    for axis, (name, values) in enumerate(result.axes.items()):
        x = np.asarray(values) if np.asarray(values).dtype.kind in "fiu" else np.arange(len(values))
        most = np.nan_to_num(np.moveaxis(q, axis, 0).reshape(len(x), -1), nan=-np.inf).max(axis=1)
        label = f"{name} ({units})" if (units := result.attrs(name).get("units")) else name
        figures.append(
            plot(f"Best Q² over {name}", {"": (x, most)}, PlotAxis(label), PlotAxis("mean Q² (dB)"))
        )
    content.thumbnail = figures[0]
    content.add("Figures", *figures)
    run = text("Run file", str(result.get("run_file", "")))
    content.add("Provenance", table([], pairs(result.attrs()), "Where it comes from"), run)
    return content
