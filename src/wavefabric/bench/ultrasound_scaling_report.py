"""Tables and the picture of ``ultrasound-scaling``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wavefabric.bench.exchange_report import unavailable
from wavefabric.execution.ranks import named


def _cases(result: dict[str, Any]) -> list[dict[str, Any]]:
    return sorted([*result["earlier"], *result["cases"]], key=lambda case: case["ranks"])


def table(result: dict[str, Any]) -> list:
    """The result of `wavefabric.bench.ultrasound_scaling.run` as one `rich.table.Table` a kind and medium."""
    from rich.table import Table

    found: list = []
    cases = _cases(result)
    for kind, medium in dict.fromkeys((case["kind"], case["medium"]) for case in cases):
        lines = Table(
            title=f"{kind} scaling, {medium}, overlap {result['overlap']}",
            caption="points: owned by a rank, without overlaps; efficiency against the undivided code",
        )
        for heading in ("ranks", "grid", "", "", "step ms", "10⁶ points/s and rank", "efficiency"):
            lines.add_column(heading, justify="right" if heading else "left", no_wrap=True)
        for case in cases:
            if (case["kind"], case["medium"]) != (kind, medium):
                continue
            lines.add_row(
                str(case["ranks"]),
                "x".join(map(str, case["shape"])),
                case["form"],
                named(case["transport"]),
                f"{case['ms']:.3g}",
                f"{case['points_per_second'] * 1e-6:.4g}",
                "-" if case["efficiency"] is None else f"{case['efficiency'] * 100:.0f} %",
            )
        found.append(lines)
    return found + unavailable(result)


def _one_rank(cases: list[dict[str, Any]]) -> list[tuple[int, float]]:
    """The undivided code as the first point of every line, where it was measured beside several ranks."""
    known = [case for case in cases if case["one_rank_ms"] is not None and case["ranks"] > 1]
    if not known or any(case["ranks"] == 1 for case in cases):
        return []
    case = known[0]
    # A case of K ranks took `efficiency` times less than K such ranks alone.
    return [(1, case["points_per_second"] * 1e-6 / case["efficiency"])]


def plot(result: dict[str, Any], path: str | Path) -> list[Path]:
    """Draw points a second and rank over ranks, a panel a kind and medium, a line a form and transport.

    Parameters
    ----------
    result : dict
        From `wavefabric.bench.ultrasound_scaling.run`.
    path : str or Path
        Image file; its ending picks the format.

    Returns
    -------
    list of Path
        What was written.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from wavefabric.results.plots import COLOURS, MARKERS, STYLE

    cases = _cases(result)
    panels = list(dict.fromkeys((case["kind"], case["medium"]) for case in cases)) or [("", "")]
    lines = list(dict.fromkeys((case["form"], case["transport"]) for case in cases))
    with mpl.rc_context({**STYLE, "axes.titlepad": 8}):
        figure = Figure(figsize=(0.8 + 4.0 * len(panels), 4.0), layout="constrained")
        for axes, (kind, medium) in zip(
            figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True
        ):
            mine = [case for case in cases if (case["kind"], case["medium"]) == (kind, medium)]
            for number, (form, transport) in enumerate(lines):
                points = [
                    (case["ranks"], case["points_per_second"] * 1e-6)
                    for case in mine
                    if (case["form"], case["transport"]) == (form, transport)
                ]
                points = _one_rank(mine) * bool(points) + points
                if points:
                    axes.plot(
                        *zip(*points, strict=True),
                        "-" if form == "local" else "--",
                        color=COLOURS[number % len(COLOURS)],
                        marker=MARKERS[number % len(MARKERS)],
                        label=f"{form}, {named(transport)}" if (kind, medium) == panels[0] else None,
                    )
            counts = sorted({case["ranks"] for case in mine} | {ranks for ranks, _ in _one_rank(mine)})
            axes.set_xscale("log", base=2)
            axes.set_xticks(counts, [str(count) for count in counts])
            axes.minorticks_off()
            axes.set_ylim(bottom=0)
            axes.set_title(f"{kind}, {medium}")
            axes.set_xlabel("ranks")
            axes.set_ylabel("10⁶ points a second and rank")
        figure.legend(loc="outside lower center", ncols=4, fontsize=9)
        figure.savefig(path, dpi=160)
    return [Path(path)]
