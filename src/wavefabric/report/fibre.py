"""Build the report pages of a fibre link and of a parameter sweep."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.base.files.input import parse_toml
from wavefabric.base.results import Result
from wavefabric.base.units import counted, time_words
from wavefabric.optics.link.received_signals import (
    NOISELESS_DB,
    distance,
    expected_db,
    mean_db,
    mode_groups,
    received,
)
from wavefabric.optics.link.result import channel_cells, channel_rows, group_rows
from wavefabric.optics.sweeps.result import SweepResult
from wavefabric.report.content import BAD, GOOD, WARNED, Content, Tile, pairs, plan_of, run_tiles, where_words
from wavefabric.report.figures import PlotAxis, bars, plot, table, text

#: Column headings of the table of mode groups.
_HEADS = {"q_squared_mean_db": "Q²", "q_squared_min_db": "least", "penalty_db": "penalty", "gmi_mean": "GMI"}
_HEADS |= {"osnr_min_db": "OSNR", "gsnr_min_db": "GSNR"}
_BACK = "back_to_back"

#: Steps from which the first step, which plans transforms, is a small part of the time; Q² in dB that
#: error-correcting codes with 20 % overhead need.
_STEADY, _LIMIT = 200, 5.7


def fibre_content(result: Result) -> Content:
    """Return the content of the page of a link's result; `InputError` if the file is damaged."""
    names, rows, attrs = received(result), group_rows(result), result.attrs()
    solver = result.attrs("solver") if "solver" in result.groups() else {}
    plan, content = plan_of(attrs), _new_content("fibre link", result)
    q = {name: np.atleast_2d(result[f"received/{name}/q_squared_db"]) for name in names}
    content.warnings = [str(line) for line in result.get("solver/warnings", [])]
    content.verdict, content.state = _verdict(rows, names[-1], q[names[-1]], content.warnings)
    keys = "total_seconds", "seconds", "receiver_seconds", "compilation_seconds", "memory_bytes"
    total, seconds, receiver, compilation, nbytes = (float(solver.get(key, 0.0)) for key in keys)
    parts = {"compilation": compilation, "propagation": seconds, "receiver": receiver}
    total, steps = max(total, sum(parts.values())), int(solver.get("steps", 0))
    content.parts = {**parts, "the rest": total - sum(parts.values())}
    where = where_words(attrs, int(solver.get("ranks", 1)), solver.get("transport"))
    compared = {"step": steps >= _STEADY, "bytes": str(attrs.get("device", "cpu")) != "cpu"}
    alike = {key: value for key, value in plan.items() if compared.get(key)}
    content.tiles = run_tiles(alike, (seconds / max(steps, 1), total), steps, nbytes, where)
    figures = _received(result, names, q)
    content.thumbnail = figures[1] or figures[0]
    content.add("Figures", *figures, _spectra(result, names), _power(result), plan_bar(plan))
    content.add("Mode groups", _group_table(rows))
    if channels := channel_rows(result):
        content.add("Channels", table(*channel_cells(channels)))
    solved = table([], pairs(solver), "Solver")
    content.add("Provenance", table([], pairs(attrs), "Where it comes from"), solved, _run_file(result))
    return content


def plan_bar(plan: dict[str, float]) -> Any:
    """Return a bar chart of the parts of the predicted time per step."""
    parts = {key: plan[key] for key in ("compute", "pack", "exposed") if plan.get(key, 0) > 0}
    return bars("Predicted step", [("a step", parts, False)])


def _new_content(kind: str, result: Result) -> Content:
    title = None
    with contextlib.suppress(InputError):
        title = parse_toml(str(result.get("run_file", "")), "run file").get("title")
    return Content(kind, str(title or result.path.stem))


def _run_file(result: Result) -> Any:
    return text("Run file", str(result.get("run_file", "")))


def _verdict(rows: list[Any], farthest: str, q: np.ndarray, warnings: list[str]) -> tuple[str, str]:
    """Return a text on Q² and penalty at the farthest receiver, and the page's state: good, warned or bad."""
    if lost := int(np.isneginf(q).any(axis=1).sum()):
        return f"Signal lost in {lost} of {counted(len(q), 'mode')}", BAD
    receivers = [(row["received"][farthest], row["group"]) for row in rows]
    position = "back to back" if farthest == _BACK else f"after {receivers[0][0]['distance_m'] / 1e3:g} km"
    mean = float(mean_db(q.reshape(1, -1))[0])
    begin = "Worked" if mean >= _LIMIT else f"Below the limit of soft-decision FEC, {_LIMIT:g} dB"
    text = f"mean Q² {mean:.2f} dB {position}"
    if all(each["penalty_db"] is not None for each, _ in receivers):
        penalty, group = min((each["penalty_db"], group) for each, group in receivers)
        text += f", penalty {penalty:.3f} dB in the worst mode group, {group}"
    text = f"{begin}: " + text.replace("-", "−")
    text += f"; {counted(len(warnings), 'warning')}" if warnings else ""
    return text, WARNED if warnings or mean < _LIMIT else GOOD


def _position_name(result: Result, name: str) -> str:
    return "back to back" if name == _BACK else f"{distance(result, name) / 1e3:g} km"


def _array(result: Result, key: str) -> np.ndarray:
    return np.asarray(result.get(key, []))


def _received(result: Result, names: list[str], q: dict[str, np.ndarray]) -> list[Any]:
    """Return figures of Q² and penalty of each mode, and of the received symbols of the worst mode."""
    farthest, level, position = names[-1], q[names[-1]], _position_name(result, names[-1])
    curves = {"mean": mean_db(level)}
    if level.shape[1] > 1:
        curves |= {"worst channel": level.min(axis=1), "best channel": level.max(axis=1)}
    if (theory := expected_db(result, farthest, level.shape)) is not None:
        curves["theory"] = mean_db(theory)
    x, reference, lines = np.arange(1, len(level) + 1), mean_db(q[names[0]]), {}
    if names[0] == _BACK and reference.max() <= NOISELESS_DB:
        same = [name for name in names[1:] if len(q[name]) == len(reference)]
        with np.errstate(invalid="ignore"):
            lines = {_position_name(result, name): (x, mean_db(q[name]) - reference) for name in same}
    q_lines = {name: (x, values) for name, values in curves.items()}
    figures = [
        plot("Q² of each mode", q_lines, "spatial mode", "Q² (dB)", position, "dots"),
        plot("Penalty of each mode", lines, "spatial mode", "mean Q² − back to back (dB)", "", "dots"),
    ]
    points, worst = _array(result, f"received/{farthest}/constellation"), int(np.argmin(curves["mean"]))
    if points.dtype.kind == "c" and points.size % len(level) == 0:
        z, note = points.reshape(len(level), -1)[worst], f"worst mode, {worst + 1}, {position}"
        symbols = {"": (z.real, z.imag)}
        figures.append(plot("Received symbols", symbols, "in phase", "quadrature", note, "fine"))
    return figures


def _spectra(result: Result, names: list[str]) -> Any:
    """Return a figure of the sent and received spectra."""
    f, lines = _array(result, "signal/spectrum_frequencies"), {}
    for name in (names[0], names[-1]):
        density = _array(result, f"received/{name}/spectrum")
        if density.ndim == 2 and f.size == density.shape[1]:
            with np.errstate(divide="ignore"):
                level = 10 * np.log10(density.mean(axis=0) * 12.5e9 / 1e-3)
            lines[_position_name(result, name)] = f / 1e12, np.maximum(level, level.max() - 60)
    frequency = PlotAxis("optical frequency (THz)", to_text="{:.6g}".format)
    return plot("Spectrum", lines, frequency, "dBm in 12.5 GHz, mean of the modes")


def _power(result: Result) -> Any:
    """Return a figure of the power along the link, by mode group if the groups differ."""
    z, power, lines = _array(result, "along_z/distance"), _array(result, "along_z/power"), {}
    if z.size > 1 and power.ndim == 2 and len(power) == z.size:
        groups = mode_groups(result, power.shape[1])
        with np.errstate(divide="ignore"):
            level = 10 * np.log10(power / 1e-3)
        lines = {f"group {n}": (z / 1e3, level[:, groups == n].mean(axis=1)) for n in np.unique(groups)[:8]}
        if np.ptp(level, axis=1).max() < 0.01:
            lines = {"": (z / 1e3, level.mean(axis=1))}
    return plot("Power along the link", lines, "distance (km)", "dBm, mean of a mode")


def _group_table(rows: list[dict[str, Any]]) -> Any:
    columns = {"mode group": [row["group"] for row in rows], "modes": [row["modes"] for row in rows]}
    for name, first in rows[0]["received"].items() if rows else ():
        where = "sent" if name == _BACK else f"{first['distance_m'] / 1e3:g} km"
        for key, words in _HEADS.items():
            values = [row["received"][name][key] for row in rows]
            if None not in values and (key, where) != ("penalty_db", "sent"):
                columns[f"{where}, {words}"] = [f"{value:.3f}".replace("-", "−") for value in values]
    return table(list(columns), list(zip(*columns.values(), strict=True)))


def sweep_content(result: SweepResult) -> Content:
    """Return the content of a parameter sweep's page: the best point, and the best Q² over each axis."""
    q, best, points = result.mean_q_squared_db(), result.best(), counted(int(np.prod(result.shape)), "point")
    content = _new_content("parameter sweep", result)
    content.verdict, content.state = f"No signal at any of {points}", BAD
    content.warnings = [str(line) for line in np.ravel(np.asarray(result.get("fault", []), object)) if line]
    if best is not None:
        at = ", ".join(f"{name} = {result.label(name, k)}" for name, k in zip(result.axes, best, strict=True))
        content.verdict = f"Best of {points}: Q² {q[best]:.2f} dB at {at}"
        content.state = WARNED if content.warnings else GOOD
    steps, seconds = (float(np.nansum(result.numbers(key))) for key in ("steps", "seconds"))
    words = f"{time_words(seconds)} of propagation, {points}" if seconds else points
    content.tiles = [Tile("Time per step", time_words(seconds / max(steps, 1)), words)]
    for axis, (name, values) in enumerate(result.axes.items()):
        x = np.asarray(values) if np.asarray(values).dtype.kind in "fiu" else np.arange(len(values))
        most = np.nan_to_num(np.moveaxis(q, axis, 0).reshape(len(x), -1), nan=-np.inf).max(axis=1)
        label = f"{name} ({units})" if (units := result.attrs(name).get("units")) else name
        figure = plot(f"Best Q² over {name}", {"": (x, most)}, label, "mean Q² (dB)")
        content.thumbnail = content.thumbnail or figure
        content.add("Figures", figure)
    about = table([], pairs(result.attrs()), "Where it comes from")
    content.add("Provenance", about, _run_file(result))
    return content
