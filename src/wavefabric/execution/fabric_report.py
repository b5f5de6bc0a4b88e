"""Tables and the picture of ``fabric-measure``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.bench.exchange_report import unavailable
from wavefabric.execution.fabric_fit import RESIDUAL, Line
from wavefabric.execution.ranks import named

_WORDS = {
    "ring": "each rank to the next",
    "both": "each rank to both neighbours",
    "one-to-all": "one to all",
    "all-to-one": "all to one",
    "all-to-all": "all to all",
    "round": "a round of a ring",
    "add": "an addition",
}


#: Patterns whose lines become numbers of a fabric, beside the pairs.
_USED = ("one-to-all", "all-to-one", "all-to-all", "round", "add")


def misfits(case: dict[str, Any], limit: float = RESIDUAL) -> list[str]:
    """Lines from which no fabric should be made, in words: those that are off, and those that stay level.

    Parameters
    ----------
    case : dict
        Of `wavefabric.execution.fabric_measure.run`.
    limit : float
        Largest residual allowed, (fitted − measured)/measured.
    """
    fitted = [(f"rank {p['src']} to rank {p['dst']}", p) for p in case["pairs"]]
    fitted += [(_WORDS[key], case["patterns"][key]) for key in _USED if key in case["patterns"]]
    found = []
    for words, each in fitted:
        line = Line(**{key: each["line"][key] for key in ("alpha", "bandwidth", "floor", "residuals")})
        if line.worst > limit:
            found.append(f"{words}: residual of {100 * line.worst:.1f} %")
        elif not line.grows(max(row["bytes"] for row in each["rows"])):
            found.append(f"{words}: times do not grow with bytes")
    return found


def table(result: dict[str, Any]) -> list:
    """The result of `wavefabric.execution.fabric_measure.run`: `rich.table.Table` objects and text."""
    from rich import box
    from rich.table import Table

    found: list = []
    for case in result["cases"]:
        lines = Table(
            title=f"{named(case['transport'])}, {result['ranks']} ranks",
            caption="fitted: the larger of floor and alpha + bytes/bandwidth; bytes of the busiest rank",
            box=box.SIMPLE_HEAD,
        )
        lines.add_column("pattern", no_wrap=True)
        for heading in ("alpha us", "GB/s", "floor us", "worst residual"):
            lines.add_column(heading, justify="right", no_wrap=True)
        rows = [(f"rank {p['src']} to rank {p['dst']}", p["line"]) for p in case["pairs"]]
        rows += [(words, case["patterns"].get(key, {}).get("line")) for key, words in _WORDS.items()]
        for words, line in rows:
            if line is not None:
                lines.add_row(
                    words,
                    f"{line['alpha'] * 1e6:.2f}",
                    f"{line['bandwidth'] * 1e-9:.4g}",
                    f"{line['floor'] * 1e6:.1f}" if line["floor"] else "-",
                    f"{line['worst'] * 100:.1f} %",
                )
        found += [lines, _summary(case["fabric"])]
        if case["misfits"]:
            limit = f"residuals above {100 * result['residual']:g} % or level times"
            found.append(f"no fabric to rely on ({limit}): {'; '.join(case['misfits'])}")
    return found + unavailable(result)


def _summary(text: str) -> str:
    """The numbers of a fabric that are not of single links."""
    from wavefabric.fabric.io.files import from_toml

    fabric: Any = from_toml(text)
    parts = [f"alpha {fabric.alpha * 1e6:.3g} us"]
    for value, words in (
        (fabric.flow_bandwidth, "a transfer at most"),
        (fabric.copy_bandwidth, "a rank in all"),
        (fabric.reduce_bandwidth, "sums"),
    ):
        if value is not None:
            parts.append(f"{words} {value * 1e-9:.4g} GB/s")
    for value, words in (
        (fabric.reduce_alpha, "before each sum"),
        (fabric.round_overhead, "of the host a round"),
        (fabric.peer_overhead, "a further rank"),
        (fabric.reduce_overhead, "a sum"),
    ):
        if value:
            parts.append(f"{value * 1e6:.3g} us {words}")
    shared = " (all ranks share one link)" if fabric.switches else ""
    return f"fabric {fabric.name}{shared}: {', '.join(parts)}"


def plot(result: dict[str, Any], path: str | Path) -> list[Path]:
    """Draw, for each transport, times with the fitted lines and the bandwidth of each pair.

    Parameters
    ----------
    result : dict
        From `wavefabric.execution.fabric_measure.run`.
    path : str or Path
        Image file; its ending picks the format.

    Returns
    -------
    list of Path
        What was written.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from wavefabric.results.plots import STYLE

    rows = max(1, len(result["cases"]))
    with mpl.rc_context({**STYLE, "axes.titlepad": 8, "axes.grid.axis": "both"}):
        figure = Figure(figsize=(9.6, 0.6 + 3.6 * rows), layout="constrained")
        panels = figure.subplots(rows, 2, squeeze=False, width_ratios=(3, 2))
        for (left, right), case in zip(panels, result["cases"], strict=False):
            _times(left, case)
            _pairs(figure, right, case, result["ranks"])
        figure.savefig(path, dpi=160)
    return [Path(path)]


def _times(axes, case: dict[str, Any]) -> None:
    from wavefabric.results.plots import COLOURS, MARKERS

    first = case["pairs"][0]
    shown = {f"rank {first['src']} to rank {first['dst']}": first}
    for key in ("round", "all-to-all", "one-to-all", "all-to-one", "add"):
        if case["patterns"].get(key, {}).get("line"):
            shown[_WORDS[key]] = case["patterns"][key]
    for number, (words, found) in enumerate(shown.items()):
        seen = [row for row in found["rows"] if row["us"] > 0]
        colour = COLOURS[number % len(COLOURS)]
        axes.plot(
            [row["bytes"] for row in seen],
            [row["us"] for row in seen],
            MARKERS[number % len(MARKERS)],
            color=colour,
            markersize=5,
            label=words,
        )
        fitted = found["line"]
        line = Line(fitted["alpha"], fitted["bandwidth"], fitted["floor"], ())
        sizes = np.geomspace(found["rows"][0]["bytes"], found["rows"][-1]["bytes"], 200)
        axes.plot(sizes, [line.seconds(size) * 1e6 for size in sizes], color=colour, linewidth=1.1)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("bytes of the busiest rank")
    axes.set_ylabel("time (us)")
    axes.set_title(f"{named(case['transport'])}: measured, and fitted lines")
    axes.legend(fontsize=8)


def _pairs(figure, axes, case: dict[str, Any], ranks: int) -> None:
    matrix = np.full((ranks, ranks), np.nan)
    for p in case["pairs"]:
        matrix[p["src"], p["dst"]] = p["line"]["bandwidth"] * 1e-9
    image = axes.imshow(matrix, cmap="cividis")
    axes.grid(False)
    axes.set_xticks(range(ranks))
    axes.set_yticks(range(ranks))
    axes.set_xlabel("to rank")
    axes.set_ylabel("from rank")
    axes.set_title("a pair alone (GB/s)")
    middle = (np.nanmin(matrix) + np.nanmax(matrix)) / 2
    for (a, b), value in np.ndenumerate(matrix):
        if np.isfinite(value) and ranks <= 8:
            colour = "black" if value > middle else "white"
            axes.text(b, a, f"{value:.3g}", ha="center", va="center", fontsize=8, color=colour)
    figure.colorbar(image, ax=axes, shrink=0.8)
