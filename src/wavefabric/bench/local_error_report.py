"""Tables and the picture of ``local-error``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

#: What the posters aim at.
AIM = 1e-3


def title_of(result: dict[str, Any]) -> str:
    """What was run, in words."""
    shape, grid = ("x".join(map(str, result[key])) for key in ("shape", "grid"))
    return f"{shape} in {grid} blocks, {result['steps']} steps, {result['precision']} precision"


def table(result: dict[str, Any]) -> list:
    """The result of `wavefabric.bench.local_error.run` as one `rich.table.Table` for each medium."""
    from rich.table import Table

    found = []
    cases = result["cases"]
    overlaps = list(dict.fromkeys(case["overlap"] for case in cases))
    for medium in dict.fromkeys(case["medium"] for case in cases):
        lines = Table(
            title=f"{medium}: {title_of(result)}",
            caption="relative error of p against one rank: L2, and largest",
        )
        lines.add_column("bell", no_wrap=True)
        for overlap in overlaps:
            lines.add_column(f"overlap {overlap}", justify="right", no_wrap=True)
        for bell in dict.fromkeys(case["bell"] for case in cases):
            mine = [case for case in cases if (case["medium"], case["bell"]) == (medium, bell)]
            lines.add_row(bell, *(f"{_number(case['l2'])}, {_number(case['max'])}" for case in mine))
        found.append(lines)
    return found


def _number(value: float | None) -> str:
    return "lost" if value is None else f"{value:.1e}"


def plot(result: dict[str, Any], path: str | Path) -> list[Path]:
    """Draw errors over the overlap, a panel a medium and a line a bell: L2 whole, largest dashed.

    Parameters
    ----------
    result : dict
        From `wavefabric.bench.local_error.run`.
    path : str or Path
        Image file; its ending picks the format.

    Returns
    -------
    list of Path
        What was written.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from wavefabric.results.plots import COLOURS, GREY, MARKERS, STYLE

    cases = result["cases"]
    media = list(dict.fromkeys(case["medium"] for case in cases))
    overlaps = sorted({case["overlap"] for case in cases})
    with mpl.rc_context({**STYLE, "axes.titlepad": 8}):
        figure = Figure(figsize=(1.0 + 4.2 * len(media), 4.4), layout="constrained")
        panels = figure.subplots(1, len(media), squeeze=False, sharey=True)[0]
        for axes, medium in zip(panels, media, strict=True):
            for number, bell in enumerate(dict.fromkeys(case["bell"] for case in cases)):
                mine = [c for c in cases if (c["medium"], c["bell"]) == (medium, bell)]
                for key, line in (("l2", "-"), ("max", "--")):
                    axes.plot(
                        [c["overlap"] for c in mine],
                        [c[key] for c in mine],
                        line,
                        color=COLOURS[number],
                        marker=MARKERS[number],
                        markersize=4,
                        linewidth=1.5 if key == "l2" else 0.8,
                        label=bell if key == "l2" and axes is panels[0] else None,
                    )
            axes.axhline(AIM, color=GREY, linewidth=0.8, linestyle=":")
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.set_xticks(overlaps, [str(overlap) for overlap in overlaps])
            axes.minorticks_off()
            axes.set_title(medium)
            axes.set_xlabel("overlap (points)")
        panels[0].set_ylabel("relative error of p\nL2; largest, dashed")
        figure.suptitle(title_of(result), fontsize=9)
        figure.legend(loc="outside lower center", ncols=5, fontsize=9)
        figure.savefig(path, dpi=160)
    return [Path(path)]
