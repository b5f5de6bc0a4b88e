"""What the LUMORPH paper leaves out: other radices and baselines, rounds that do not fit the waveguides."""

from __future__ import annotations

from typing import Any

import numpy as np

from wavefabric.bench.lumorph_data import GRIDS, SIZES, lightpath, switch
from wavefabric.bench.lumorph_routes import WAVEGUIDES, fewest_waveguides, least
from wavefabric.bench.lumorph_times import affine
from wavefabric.collectives.builders.recursive import factors
from wavefabric.fabric import paper
from wavefabric.fabric.paper import MIB, PAPER, SWITCH

RADICES = (2, 4, 8, 16)
RANKS = 256
#: Waveguides of an edge, a direction, of which some are too few.
FEW = (2, 4, 8, *WAVEGUIDES)
#: What becomes of circuits, and of which radices. Random routes of many pairs take long to find; the paper
#: has them for 2 and 4 alone.
WAYS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "least overlap": ((2, 4, 8), {}),
    "least overlap, fewer wavelengths": ((2, 4, 8), {"oversubscribed": "thin"}),
    "random": ((2, 4), {"routing": "random"}),
}
#: MiB of the tables, and of the pictures.
TABLE_SIZES = (0.1, 1.0, 8.0, 64.0)
SWEEP = tuple(0.1 * 2 ** (step / 4) for step in range(38))


def radix(say=lambda line: None) -> dict[str, Any]:
    """All-reduce by radix: rounds, lasers, waveguides, and time by size and by number of GPUs.

    Returns
    -------
    dict
        ``rows``, one a radix, for 256 GPUs: ``rounds``, ``lasers`` (a peer), ``overlap`` and ``bound``
        (circuits on one edge in one direction), ``waveguides`` and ``waveguides_bound`` (see
        `lumorph_routes.fewest_waveguides`), ``us`` by size; ``sizes_mib``, ``times_us``: a fine sweep over
        sizes; ``ranks``, ``by_ranks_us``: 8 MiB over numbers of GPUs; ``schedules``: the same from schedules,
        with their latency and seconds a byte.
    """
    rows, schedules = [], []
    for number in RADICES:
        say(f"radix {number}")
        found = least(RANKS, number, GRIDS[RANKS])
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
                "overlap": max(found["overlaps"]),
                "bound": max(found["bounds"]),
                "certified": found["certified"],
                "us": [1e6 * paper.recursive(RANKS, size * MIB, PAPER, number) for size in TABLE_SIZES],
                "schedule_us": [
                    1e6 * (cost["latency"] + cost["per_byte"] * size * MIB) for size in TABLE_SIZES
                ],
            }
        )
    sweep, sizes = np.array(SWEEP) * MIB, [n for n in SIZES if n >= 16]
    return {
        "rows": rows,
        "table_mib": list(TABLE_SIZES),
        "sizes_mib": list(SWEEP),
        "times_us": {r: list(1e6 * paper.recursive(RANKS, sweep, PAPER, r)) for r in RADICES},
        "ranks": sizes,
        "by_ranks_us": {r: [1e6 * paper.recursive(n, 8 * MIB, PAPER, r) for n in sizes] for r in RADICES},
        "schedules": schedules,
    }


def baselines(say=lambda line: None) -> dict[str, Any]:
    """The paper's algorithms beside others, for 256 GPUs.

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
        ("ring", many, lambda n, b: paper.ring(n, b)),
        ("tree, as printed", many, lambda n, b: paper.tree(n, b)),
        ("binary tree, pipelined", many, lambda n, b: paper.pipelined_tree(n, b)),
        ("double binary tree, pipelined", many, lambda n, b: paper.double_tree(n, b)),
        ("recursive halving/doubling", many, lambda n, b: paper.recursive(n, b, SWITCH)),
        ("whole arrays, radix 2", many, lambda n, b: paper.recursive_exchange(n, b, SWITCH)),
        ("LUMORPH-2", light, lambda n, b: paper.lumorph2(n, b)),
        ("LUMORPH-4, as printed", light, lambda n, b: paper.lumorph4(n, b)),
        ("radix 4, 5 lasers a peer", light, lambda n, b: paper.recursive(n, b, PAPER, 4)),
        ("radix 16", light, lambda n, b: paper.recursive(n, b, PAPER, 16)),
        ("whole arrays, radix 16", light, lambda n, b: paper.recursive_exchange(n, b, PAPER, 16)),
    ]
    lines = []
    for name, where, time in formulas:
        one = {"name": name, "where": where}
        for key, sizes in (("us", SWEEP), ("table_us", TABLE_SIZES)):
            one[key] = (1e6 * np.asarray(time(RANKS, np.array(sizes) * MIB))).tolist()
        lines.append(one)
    return {
        "lines": lines,
        "sizes_mib": list(SWEEP),
        "table_mib": list(TABLE_SIZES),
        "trees": _trees(say),
        "split": _split(say),
    }


def _trees(say) -> list[dict[str, Any]]:
    """Pipelined trees as schedules: built in the best number of pieces, proved, and costed on the switch."""
    found = []
    for algorithm, time in (("tree", paper.pipelined_tree), ("double-tree", paper.double_tree)):
        for size in TABLE_SIZES:
            say(f"{algorithm}, {size:g} MiB")
            pieces = paper.best_pieces(algorithm, RANKS, size * MIB)
            cost = affine(algorithm, switch(RANKS), pieces=pieces)
            us = 1e6 * (cost["latency"] + cost["per_byte"] * size * MIB)
            formula = 1e6 * time(RANKS, size * MIB)
            found.append(
                {"algorithm": algorithm, "mib": size, "pieces": pieces, "rounds": cost["rounds"]}
                | {"us": us, "formula_us": formula}
            )
    return found


def _split(say) -> list[dict[str, Any]]:
    """Schedules over circuits that have to share a number of waveguides."""
    from wavefabric.collectives.registry import build
    from wavefabric.fabric.cost_models.cost import cost
    from wavefabric.fabric.photonic.check import check_plan
    from wavefabric.fabric.photonic.planning import plan_circuits

    found = []
    for way, (radices, options) in WAYS.items():
        for number in radices:
            schedule = build("recursive", "all-reduce", RANKS, RANKS, radix=number)
            one: dict[str, Any] = {}
            for waveguides in FEW:
                # What fits whole into some waveguides fits into more.
                if one.get("fits"):
                    found.append(one | {"waveguides": waveguides})
                    continue
                say(f"radix {number}, {waveguides} waveguides, {way}")
                fabric = lightpath(RANKS, waveguides)
                circuits = plan_circuits(schedule, fabric, **options)
                check_plan(circuits, schedule)
                one = {
                    "radix": number,
                    "waveguides": waveguides,
                    "way": way,
                    "rounds": schedule.communication_rounds,
                    "parts": len(circuits.rounds),
                    "us": 1e6 * cost(schedule, fabric, 8 * MIB / RANKS, plan=circuits).seconds,
                }
                one["fits"] = one["parts"] == one["rounds"] and "oversubscribed" not in options
                found.append(one)
    return found
