"""What the LUMORPH paper leaves out: other radices, with their lasers, waveguides and times."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

import numpy as np

from papers.common import command, run
from papers.lumorph import closed_forms as forms
from papers.lumorph.closed_forms import MIB, PAPER
from papers.lumorph.data import GRIDS, SIZES, SWEEP, TABLE_SIZES, lightpath
from papers.lumorph.panels import draw_panels, number_ticks, size_axis
from papers.lumorph.routes import fewest_waveguides, least_overlap
from papers.lumorph.schedule_cost import affine
from wavefabric.base.results.figure_style import BLUE, GREEN, GREY, INK, ORANGE, RED, SKY
from wavefabric.collectives.builders.recursive import factors
from wavefabric.fabric.execution import report

RADICES = (2, 4, 8, 16)
RANKS = 256


def study(say=lambda line: None) -> dict[str, Any]:
    """All-reduce by radix: rounds, lasers, waveguides, and time by size and by number of GPUs.

    Returns
    -------
    dict
        ``rows``, one a radix, for 256 GPUs: ``rounds``, ``lasers`` (a peer), ``overlap`` and ``bound``
        (circuits on one edge in one direction), ``waveguides`` and ``waveguides_bound``, ``us`` by size;
        ``sizes_mib``, ``times_us``: a fine sweep over sizes; ``ranks``, ``by_ranks_us``: 8 MiB over numbers
        of GPUs; ``schedules``: the same from schedules, with their latency and seconds a byte.
    """
    rows, schedules = [], []
    for number in RADICES:
        say(f"radix {number}")
        best = least_overlap(RANKS, number, GRIDS[RANKS])
        cost = affine("recursive", lightpath(RANKS), radix=number)
        schedules.append({"radix": number} | cost)
        worst = max(factors(RANKS, number) or (number,))
        waveguides, bound = fewest_waveguides(RANKS, number)
        rows.append(
            {
                "radix": number,
                "waveguides": waveguides,
                "waveguides_bound": bound,
                "rounds": cost["rounds"],
                "lasers": (PAPER.lasers or 1) // (worst - 1),
                "overlap": max(best["overlaps"]),
                "bound": max(best["bounds"]),
                "certified": best["certified"],
                "us": [1e6 * forms.recursive(RANKS, size * MIB, PAPER, number) for size in TABLE_SIZES],
                "schedule_us": [
                    1e6 * (cost["latency"] + cost["per_byte"] * size * MIB) for size in TABLE_SIZES
                ],
            }
        )
    sweep, sizes = np.array(SWEEP) * MIB, [n for n in SIZES if n >= 16]
    return {
        "benchmark": "radices",
        "rows": rows,
        "table_mib": list(TABLE_SIZES),
        "sizes_mib": list(SWEEP),
        "times_us": {r: list(1e6 * forms.recursive(RANKS, sweep, PAPER, r)) for r in RADICES},
        "ranks": sizes,
        "by_ranks_us": {r: [1e6 * forms.recursive(n, 8 * MIB, PAPER, r) for n in sizes] for r in RADICES},
        "schedules": schedules,
    }


def table(result: dict[str, Any]) -> list:
    """Rounds, lasers, waveguides and times by radix."""
    rows = []
    for one in result["rows"]:
        overlap = f"{one['overlap']}" + ("" if one["certified"] else f" (≥ {one['bound']})")
        guides, bound = one["waveguides"], one["waveguides_bound"]
        times = zip(one["us"], one["schedule_us"], strict=True)
        rows.append((
            *(str(one[key]) for key in ("radix", "rounds", "lasers")),
            overlap,
            f"{guides}" + ("" if guides == bound else f" (≥ {bound})"),
            *(f"{a:.1f} ({b:.1f})" for a, b in times),
        ))  # fmt: skip
    sizes = (f"{size:g} MiB, µs" for size in result["table_mib"])
    return [
        report.table(
            "all-reduce of 256 GPUs by radix, 16 lasers",
            ("<radix", "rounds", "lasers a peer", "overlap", "waveguides", *sizes),
            rows,
            "overlap: circuits on an edge, one direction; waveguides: enough for them, each direction\n"
            "(different wavelengths share one); µs in brackets: schedules",
        )
    ]


def plot(result: dict[str, Any], path: Path) -> None:
    """Time by radix (left) and waveguides needed (right)."""
    draw_panels(path, [lambda axes: _times(axes, result), lambda axes: _waveguides(axes, result)], width=4.4)


def _times(axes, result: dict[str, Any]) -> None:
    colours = {"2": BLUE, "4": RED, "8": ORANGE, "16": GREEN}
    for radix, values in result["times_us"].items():
        colour = colours[str(radix)]
        axes.plot(result["sizes_mib"], values, "-", color=colour, linewidth=1.6, label=f"radix {radix}")
        row = next(one for one in result["rows"] if str(one["radix"]) == str(radix))
        axes.plot(result["table_mib"], row["schedule_us"], "o", color=colour, markersize=4.5)
    size_axis(axes)
    axes.set_yscale("log")
    number_ticks(axes.set_yticks, (20, 50, 100, 200, 500))
    axes.minorticks_off()
    axes.set_ylabel("all-reduce (µs)")
    axes.set_title("LIGHTPATH, 256 GPUs, by radix")
    axes.legend(loc="upper left")
    axes.text(
        0.97,
        0.04,
        "lines: formula\ndots: schedules",
        transform=axes.transAxes,
        ha="right",
        fontsize=8,
        color=GREY,
    )


def _waveguides(axes, result: dict[str, Any]) -> None:
    rows = result["rows"]
    bars = (
        ("circuits, both directions (the paper's count)", GREY, [2 * one["overlap"] for one in rows]),
        ("circuits, one direction", SKY, [one["overlap"] for one in rows]),
        ("waveguides, shared by wavelengths", GREEN, [one["waveguides"] for one in rows]),
    )
    for number, (label, colour, heights) in enumerate(bars):
        at = [middle + 0.27 * (number - 1) for middle in range(len(rows))]
        drawn = axes.bar(at, heights, width=0.25, color=colour, label=label)
        axes.bar_label(drawn, fontsize=8, padding=1, color=INK)
    axes.set_yscale("log", base=2)
    axes.set_ylim(2, 512)
    number_ticks(axes.set_yticks, (2, 4, 8, 16, 32, 64, 128))
    axes.minorticks_off()
    axes.set_xticks(range(len(rows)), [str(one["radix"]) for one in rows])
    axes.grid(visible=False, axis="x")
    axes.set_xlabel("radix")
    axes.set_ylabel("waveguides of an edge that are needed")
    axes.set_title("Waveguides, 256 GPUs")
    axes.legend(loc="upper left")


main = command(__name__, study)

if __name__ == "__main__":
    run(main)
