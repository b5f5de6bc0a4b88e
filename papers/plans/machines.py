"""The ultrasound posters' machines and problems, and how tables and figures are shown."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from papers.common import log2_ticks
from wavefabric.acoustics.decomposition.decompose import Decomposition, decompose
from wavefabric.fabric import load
from wavefabric.fabric.electrical.static_routes import static_routes
from wavefabric.fabric.execution import report
from wavefabric.fabric.planner.exchange_times import ExchangeTimes
from wavefabric.fabric.planner.rates import load_rates
from wavefabric.fabric.planner.ultrasound_step import StepMedium, UltrasoundStep
from wavefabric.fabric.rank_order import reordered

#: Fabric and device by the name of the machine.
MACHINES = {"P40": ("pny-p40", "p40"), "DGX-2": ("dgx-2", "v100")}
#: About 120 GB for 1024³ points, as in the SC18 poster: heterogeneous, power-law absorption and dispersion.
MEDIUM = StepMedium("heterogeneous", 2)


def step(machine: str, shape, cut, overlap=16, transport="p2p", kind: Any = "local", qpi=0.0):
    """A step of whole-array transforms, as k-Wave's, in single precision; GPUs as they are numbered.

    ``cut``: blocks along x, y and z; ``qpi``: B/s of such links, 0: the preset's.
    """
    fabric: Any = load(MACHINES[machine][0])
    if qpi:
        links = [replace(link, bandwidth=qpi) if link.kind == "qpi" else link for link in fabric.links]
        fabric = replace(fabric, links=tuple(links))
    ranks, rates = cut[0] * cut[1] * cut[2], load_rates(MACHINES[machine][1])
    if ranks == 1:
        alone = decompose(tuple(shape), 1)
        return UltrasoundStep(alone, MEDIUM, "plain", precision="single", rates=rates)
    part = decompose(tuple(shape), ranks, Decomposition(kind, tuple(cut), overlap))
    exchange = ExchangeTimes(fabric, transport)
    return UltrasoundStep(part, MEDIUM, "plain", precision="single", rates=rates, exchange=exchange)


def placed(one: UltrasoundStep) -> dict[str, dict[str, Any]]:
    """``best`` and ``worst`` order of GPUs: ms, and messages of a field over QPI.

    Worst is the slowest of all ways to choose the ranks of the first of two sockets; of several that take as
    long the one with most messages over QPI.
    """
    exchange, ranks = one.exchange, one.partition.ranks
    assert exchange is not None
    best, half = exchange.placed(one.schedule, one.item), range(ranks // 2)
    firsts = itertools.combinations(range(ranks), ranks // 2) if exchange.fabric.ranks == 8 else [half]
    orders = [[*first, *(rank for rank in range(ranks) if rank not in first)] for first in firsts]
    each = [replace(exchange, order=tuple(sorted(range(ranks), key=o.__getitem__))) for o in orders]

    def over(by: ExchangeTimes) -> int:
        there = any(link.kind == "qpi" for link in by.fabric.links)  # type: ignore[union-attr]
        return crossings(one.schedule, by.fabric, by.order, "qpi") if there else 0  # type: ignore[arg-type]

    worst = max(each, key=lambda by: (by.seconds(one.schedule, one.item), over(by)))
    both = {"best": best, "worst": worst}
    return {name: times(replace(one, exchange=by)) | {"crossings": over(by)} for name, by in both.items()}


def times(one: UltrasoundStep) -> dict[str, float]:
    """ms of a step and its parts, and the part of the step in which it waits for data."""
    taken = one.times()
    return {key: 1e3 * ms for key, ms in vars(taken).items()} | {"waiting": taken.exposed / taken.step}


def words(cut: Sequence[int]) -> str:
    """``1x1x8``."""
    return "x".join(map(str, cut))


def table(title: str, columns: dict[str, str], rows: Iterable[dict[str, Any]]):
    """A table of dicts: for each heading how a row's cell is formatted."""
    cells = [[form.format_map(row) for form in columns.values()] for row in rows]
    return report.table(title, [*columns], cells)


def notes(result: dict[str, Any]):
    """What a paper says, and why ours differs: lines of a table."""
    return report.table("the paper, and ours", ["<what"], [[line] for line in result["notes"]], wrap=True)


def curves(axes, x: Sequence[int], lines: Iterable[tuple], title: str, y: str) -> None:
    """Lines (label or "", values, style, colour) over numbers of GPUs or overlaps."""
    for label, values, style, colour in lines:
        axes.plot(x[: len(values)], values, style, color=colour, label=label or None)
    log2_ticks(axes, x)
    axes.set(title=title, ylabel=y)
    axes.legend()


def crossings(schedule, fabric, order, kind: str) -> int:
    """Messages between GPUs whose route uses a link of this kind, such as ``"qpi"``."""
    ranked = reordered(fabric, order) if order else fabric
    routes, kinds = static_routes(ranked), {(link.source, link.target): link.kind for link in ranked.links}
    src, dst = schedule.transfers["src"], schedule.transfers["dst"]
    away = src != dst
    pair, wire, *_ = routes.wires_of(src[away], dst[away])
    nodes, ends = (*ranked.gpus, *ranked.switches), (routes.wires.source[wire], routes.wires.target[wire])
    crossing = [kinds[nodes[a], nodes[b]] == kind for a, b in zip(*ends, strict=True)]
    return len(set(pair[crossing].tolist()))
