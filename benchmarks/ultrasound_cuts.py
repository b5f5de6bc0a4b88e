"""Benchmark ``ultrasound-cuts``: one grid in every cut, and with ranks on other devices."""

import itertools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.permuted_communicator import PermutedCommunicator
from benchmarks.rank_steps import RankSteps, grouped, left_over
from benchmarks.ultrasound_breakdown import SIZES
from wavefabric.acoustics.decomposition.decompose import Decomposition, block_grids
from wavefabric.base.errors import InputError
from wavefabric.base.results.figure_style import COLOURS
from wavefabric.cli.bench.common import Triple, result_of, rows, silent
from wavefabric.fabric.execution import report
from wavefabric.fabric.execution.timing import Ranks

PLACEMENTS = ("identity", "reversed", "round-robin")


def run(
    ranks: Ranks,
    shape: Triple | None = None,
    placements: Sequence[str] = ("identity", "round-robin"),
    medium: str = "homogeneous",
    overlap: int = 16,
    precision: str = "single",
    repeats: int = 5,
    progress: Callable[[str], object] = silent,
) -> dict[str, Any]:
    """Time steps of the local form for all numbers of blocks along x, y and z; collective.

    Placements are of `PLACEMENTS`; ``"all"`` (permutations of ranks, mirrored ones once; up to 5 ranks); or
    ranks with a dash between, ``"0-2-1-3"``: what block 0, block 1, … is computed by.

    Gives ``cases``, one for each cut, placement and transport: ``ms`` a step, ``halo_points`` (of the rank
    with most). ``left_out``: cuts whose blocks are shorter than the overlap.
    """
    shape = shape or SIZES["cuda" if ranks.on_gpu else "cpu"]
    steps = RankSteps(ranks, [shape], [medium], precision, repeats)
    orders = orders_of(placements, ranks.size)
    plans, left_out = [], list[str]()
    for grid in block_grids(ranks.size):
        options = Decomposition("local", grid, overlap)
        if cut := steps.cut(medium, shape, options, left_out):
            halo = max(math.prod(part.size) - math.prod(part.owned_size) for part in cut.subdomains)
            plans.append((options, {"grid": list(grid), "halo_points": halo}))
    cases = []
    for comm in ranks.each():
        for (options, cut), (name, order) in itertools.product(plans, orders.items()):
            progress(f"{comm.label}: {report.shape_words(cut['grid'])}, {name}")
            times = steps.time(PermutedCommunicator(comm, order), medium, shape, options)
            cases.append({**times, "transport": comm.label, **cut, "placement": name, "places": order})
    facts = {"shape": list(shape), "medium": medium, "overlap": overlap, "precision": precision}
    return result_of(ranks, "ultrasound-cuts", cases, **facts, repeats=repeats, left_out=left_out)


def orders_of(names: Sequence[str], ranks: int) -> dict[str, list[int]]:
    """Permutations of ranks by name, each once; ``"all"`` of up to 5 ranks."""
    identity = list(range(ranks))
    known = {
        "identity": identity,
        "reversed": identity[::-1],
        "round-robin": [*identity[::2], *identity[1::2]],
    }
    orders: dict[str, list[int]] = {}
    for name in names:
        if name == "all":
            if ranks > 5:
                raise InputError(f"placements: all given for {ranks} ranks; allowed: up to 5 ranks")
            every = (list(order) for order in itertools.permutations(identity))
            orders |= {"-".join(map(str, order)): order for order in every if order <= order[::-1]}
            continue
        words = name.split("-")
        order = known.get(name) or [int(word) for word in words if word.isdecimal()]
        if name not in known and (sorted(order) != identity or len(words) != ranks):
            allowed = f"{', '.join(PLACEMENTS)}, all, or a permutation such as "
            raise InputError(
                f"placements: {name!r} given; allowed: {allowed}{'-'.join(map(str, identity[::-1]))}"
            )
        orders[name] = order
    first_names = {tuple(order): name for name, order in reversed(orders.items())}
    return {name: order for name, order in orders.items() if first_names[tuple(order)] == name}


def table(result: dict[str, Any]) -> list:
    """A table a transport."""
    tables: list = []
    what = f"{report.shape_words(result['shape'])}, {result['medium']}, overlap {result['overlap']}"
    for transport, cases in grouped(result["cases"], "transport").items():
        lines = [
            case | {"blocks": report.shape_words(case["grid"]), "halo": case["halo_points"] * 1e-6}
            for case in cases
        ]
        tables.append(
            report.table(
                f"{what}, {report.transport_name(transport)}",
                ("blocks", "placement", "halo 10⁶ points", "step ms"),
                rows(lines, "{blocks}", "{placement}", "{halo:.3g}", "{ms:.3g}"),
                "halo: overlap points of the rank with most; blocks along x, y and z",
            )
        )
    return tables + left_over(result)


def plot(result: dict[str, Any], path: str | Path) -> None:
    """Draw step times, a group of bars a cut and a bar a transport and placement."""
    cases = result["cases"]
    grids = list(dict.fromkeys(report.shape_words(case["grid"]) for case in cases))
    kinds = report.distinct(cases, "transport", "placement")
    transports = report.distinct(cases, "transport")
    width = 0.8 / max(1, len(kinds))
    with report.figure(path, (max(6.0, 1.5 + 1.1 * len(grids)), 4.2), "y") as figure:
        axes = figure.subplots()
        for number, (transport, placement) in enumerate(kinds):
            shade = [position for other, position in kinds if other == transport].index(placement)
            mine = [c for c in cases if (c["transport"], c["placement"]) == (transport, placement)]
            axes.bar(
                [grids.index(report.shape_words(case["grid"])) + width * number for case in mine],
                [case["ms"] for case in mine],
                width * 0.92,
                color=COLOURS[transports.index(transport) % len(COLOURS)],
                alpha=0.45 ** min(shade, 2),
                label=f"{report.transport_name(transport)}, {placement}",
            )
        axes.set_xticks([at + 0.4 - width / 2 for at in range(len(grids))], grids)
        axes.set(xlabel="blocks along x, y and z", ylabel="time of one step (ms)")
        axes.set_title(f"{report.shape_words(result['shape'])}, {result['medium']}")
        figure.legend(loc="outside lower center", ncols=3, fontsize=9)
