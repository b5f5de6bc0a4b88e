"""Tables and pictures of ``fibre-q2``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wavefabric.bench.q2_compare import PAPER_CASE
from wavefabric.results import read_result


def table(result: dict[str, Any]) -> list:
    """A result of `wavefabric.bench.fibre_q2.run` as two `rich.table.Table`: steps, finest run by group."""
    from rich.table import Table

    paper = {line["distance_m"]: line["fundamental_penalty_db"] for line in result["paper"]}
    places = [p["distance_m"] for p in result["runs"][0]["penalties"]]
    name = result["runs"][0]["fundamental"]
    runs = Table(
        title=f"Penalty of {name} in dB, and change of Q² against {result['finest']}",
        caption=f"change: over all modes and channels after {result['place']['distance_m'] / 1e3:g} km"
        + _assumption(result["extrapolated"]),
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
    runs.add_section()
    if limit := result["extrapolated"]:
        cells = [f"{p['fundamental_db']:+.3f}" for p in limit["places"]]
        runs.add_row(limit["integrator"], "→ 0", f"order {limit['order']}", "", "", *cells, "", "")
    if not paper:
        runs.caption = f"{runs.caption}\nBrehler et al. have no numbers for this link, but for {PAPER_CASE}"
    if any(p in paper for p in places):
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


def _assumption(limit: dict[str, Any] | None) -> str:
    if limit is None:
        return ""
    steps = ", ".join(f"{h:.4g}" for h in limit["steps_m"])
    why = "above the resonance limit, error ∝ step" if limit["above_resonance"] else "the integrator's order"
    return f"\n→ 0: extrapolated from {steps} m ({why})"


def _cell(value: Any, form: str) -> str:
    return "" if value is None else format(value, form)


def plot(result: dict[str, Any], path: str | Path) -> list[Path]:
    """Draw figures 4 and 5 of the finest run, and the change of Q² against the step if there are several.

    Parameters
    ----------
    result : dict
        From `wavefabric.bench.fibre_q2.run`; its result file must still be there.
    path : str or Path
        Image file of the step study; the figures lie beside it, ``-figure4`` and ``-figure5`` at the stem.

    Returns
    -------
    list of Path
        What was written.
    """
    from wavefabric.results.plots import penalty_figure, q_squared_figure

    path, data = Path(path), read_result(result["file"])
    limit = result["extrapolated"] or {"places": []}
    zero = {place["name"]: place["modes_db"] for place in limit["places"]}
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
        figure.savefig(path, dpi=160)
