"""What the LUMORPH paper leaves out: other baselines, and rounds that do not fit the waveguides."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

import numpy as np

from papers.common import command, run
from papers.lumorph import closed_forms as forms
from papers.lumorph.closed_forms import MIB, PAPER, SWITCH
from papers.lumorph.data import SWEEP, TABLE_SIZES, lightpath, switch
from papers.lumorph.panels import draw_panels, number_ticks, size_axis
from papers.lumorph.routes import WAVEGUIDES
from papers.lumorph.schedule_cost import affine
from wavefabric.base.results.figure_style import BLUE, GREEN, GREY, INK, ORANGE, RED, SKY
from wavefabric.fabric.execution import report

RANKS = 256
#: Waveguides of an edge, a direction, of which some are too few.
FEW = (2, 4, 8, *WAVEGUIDES)
#: What becomes of circuits, and of which radices. Random routes of many pairs take long to find; the paper
#: has them for 2 and 4 alone.
VARIANTS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "least overlap": ((2, 4, 8), {}),
    "least overlap, fewer wavelengths": ((2, 4, 8), {"oversubscribed": "thin"}),
    "random": ((2, 4), {"routing": "random"}),
}


def study(say=lambda line: None) -> dict[str, Any]:
    """The paper's algorithms and others, for 256 GPUs, and what few waveguides cost.

    The paper's algorithms beside others, for 256 GPUs.

    Returns
    -------
    dict
        ``lines``: ``name``, ``where`` (``"switch"`` or ``"light"``), ``us`` over ``sizes_mib``, ``table_us``
        over ``table_mib``; ``trees``: double trees as schedules, with their pieces, beside the formula;
        ``split``: schedules whose rounds are split where circuits do not fit, by number of waveguides and way
        of routing.
    """
    light, many = "light", "switch"
    formulas = [
        ("ring", many, lambda n, b: forms.ring(n, b)),
        ("tree, as printed", many, lambda n, b: forms.tree(n, b)),
        ("binary tree, pipelined", many, lambda n, b: forms.pipelined_tree(n, b)),
        ("double binary tree, pipelined", many, lambda n, b: forms.double_tree(n, b)),
        ("recursive halving/doubling", many, lambda n, b: forms.recursive(n, b, SWITCH)),
        ("whole arrays, radix 2", many, lambda n, b: forms.recursive_exchange(n, b, SWITCH)),
        ("LUMORPH-2", light, lambda n, b: forms.lumorph2(n, b)),
        ("LUMORPH-4, as printed", light, lambda n, b: forms.lumorph4(n, b)),
        ("radix 4, 5 lasers a peer", light, lambda n, b: forms.recursive(n, b, PAPER, 4)),
        ("radix 16", light, lambda n, b: forms.recursive(n, b, PAPER, 16)),
        ("whole arrays, radix 16", light, lambda n, b: forms.recursive_exchange(n, b, PAPER, 16)),
    ]
    lines = []
    for name, where, time in formulas:
        one = {"name": name, "where": where}
        for key, sizes in (("us", SWEEP), ("table_us", TABLE_SIZES)):
            one[key] = (1e6 * np.asarray(time(RANKS, np.array(sizes) * MIB))).tolist()
        lines.append(one)
    return {
        "benchmark": "baselines",
        "lines": lines,
        "sizes_mib": list(SWEEP),
        "table_mib": list(TABLE_SIZES),
        "trees": _trees(say),
        "split": _split(say),
    }


def _trees(say) -> list[dict[str, Any]]:
    """Pipelined trees as schedules: built in the best number of pieces, proved, and costed on the switch."""
    trees = []
    for algorithm, time in (("tree", forms.pipelined_tree), ("double-tree", forms.double_tree)):
        for size in TABLE_SIZES:
            say(f"{algorithm}, {size:g} MiB")
            pieces = forms.best_pieces(algorithm, RANKS, size * MIB)
            cost = affine(algorithm, switch(RANKS), pieces=pieces)
            us = 1e6 * (cost["latency"] + cost["per_byte"] * size * MIB)
            formula = 1e6 * time(RANKS, size * MIB)
            trees.append(
                {"algorithm": algorithm, "mib": size, "pieces": pieces, "rounds": cost["rounds"]}
                | {"us": us, "formula_us": formula}
            )
    return trees


def _split(say) -> list[dict[str, Any]]:
    """Schedules over circuits that have to share a number of waveguides."""
    from wavefabric.collectives.registry import build
    from wavefabric.fabric.cost_models.cost import cost
    from wavefabric.fabric.photonic.check import check_plan
    from wavefabric.fabric.photonic.planning import plan_circuits

    cases = []
    for route, (radices, options) in VARIANTS.items():
        for number in radices:
            schedule = build("recursive", "all-reduce", RANKS, RANKS, radix=number)
            one: dict[str, Any] = {}
            for waveguides in FEW:
                # What fits whole into some waveguides fits into more.
                if one.get("fits"):
                    cases.append(one | {"waveguides": waveguides})
                    continue
                say(f"radix {number}, {waveguides} waveguides, {route}")
                fabric = lightpath(RANKS, waveguides)
                circuits = plan_circuits(schedule, fabric, **options)
                check_plan(circuits, schedule)
                one = {
                    "radix": number,
                    "waveguides": waveguides,
                    "way": route,
                    "rounds": schedule.communication_rounds,
                    "parts": len(circuits.rounds),
                    "us": 1e6 * cost(schedule, fabric, 8 * MIB / RANKS, plan=circuits).seconds,
                }
                one["fits"] = one["parts"] == one["rounds"] and "oversubscribed" not in options
                cases.append(one)
    return cases


def table(result: dict[str, Any]) -> list:
    """Times of all algorithms, pipelined trees as schedules, and rounds that are split."""
    waveguides = sorted({one["waveguides"] for one in result["split"]})
    split = []
    for radix, route in sorted({(one["radix"], one["way"]) for one in result["split"]}):
        mine = {s["waveguides"]: s for s in result["split"] if (s["radix"], s["way"]) == (radix, route)}
        cells = (mine[number] for number in waveguides)
        split.append((str(radix), route, *(f"{cell['parts']}, {cell['us']:.1f}" for cell in cells)))
    return [
        report.table(
            "all-reduce of 256 GPUs: times in µs",
            ("<algorithm", "<over", *(f"{size:g} MiB" for size in result["table_mib"])),
            [
                (
                    one["name"],
                    "ideal switch" if one["where"] == "switch" else "LIGHTPATH",
                    *(f"{value:.1f}" for value in one["table_us"]),
                )
                for one in result["lines"]
            ],
        ),
        report.table(
            "pipelined trees as schedules, ideal switch",
            ("<tree", "MiB", "pieces", "rounds", "schedule, µs", "formula, µs"),
            [
                (
                    *(one["algorithm"], f"{one['mib']:g}", str(one["pieces"]), str(one["rounds"])),
                    *(f"{one[key]:.1f}" for key in ("us", "formula_us")),
                )
                for one in result["trees"]
            ],
        ),
        report.table(
            "8 MiB, 256 GPUs, few waveguides: rounds after splitting, and µs",
            ("<radix", "<routes", *(f"{number} waveguides" for number in waveguides)),
            split,
            "circuits of different wavelengths share a waveguide; each direction has its own",
        ),
    ]


def plot(result: dict[str, Any], path: Path) -> None:
    """Time of each algorithm over that of recursive halving and doubling on the ideal switch."""
    draw_panels(path, [lambda axes: _panel(axes, result)], width=6.0)


def _panel(axes, result: dict[str, Any]) -> None:
    shown = {
        "ring": (GREY, "--"),
        "double binary tree, pipelined": (ORANGE, "--"),
        "tree, as printed": (SKY, "--"),
        "LUMORPH-2": (BLUE, "-"),
        "LUMORPH-4, as printed": (RED, "-"),
        "radix 16": (GREEN, "-"),
    }
    lines = {one["name"]: one for one in result["lines"]}
    base = lines["recursive halving/doubling"]["us"]
    for name, (colour, line) in shown.items():
        ratio = [a / b for a, b in zip(lines[name]["us"], base, strict=True)]
        axes.plot(result["sizes_mib"], ratio, line, color=colour, linewidth=1.6, label=name)
    axes.axhline(1.0, color=INK, linewidth=1.0, linestyle="--")
    size_axis(axes)
    axes.set_yscale("log", base=2)
    axes.set_ylim(0.8, 400)
    number_ticks(axes.set_yticks, (1, 2, 4, 8, 16, 32))
    axes.minorticks_off()
    axes.set_ylabel("time over that of recursive halving/doubling\non the ideal switch")
    axes.set_title("256 GPUs: ideal switch (dashed), LIGHTPATH")
    axes.legend(loc="upper right")


main = command(__name__, study)

if __name__ == "__main__":
    run(main)
