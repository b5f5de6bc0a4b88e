"""`collective make optimal` on machines with switches: of trees and known algorithms what takes the least time."""

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from wavefabric.cli.collective.algorithm import AlgorithmOptions, build_by_name
from wavefabric.cli.common.show import rate_text, status_line
from wavefabric.collectives import Schedule
from wavefabric.collectives.conditions import layout, whole_elements
from wavefabric.collectives.registry import ALGORITHMS, extent, why_refused
from wavefabric.collectives.synthesis import Undecided, forest_schedule, forests
from wavefabric.collectives.synthesis.deadline import OutOfTime
from wavefabric.collectives.synthesis.search import counted
from wavefabric.errors import InputError
from wavefabric.execution.report import size_words
from wavefabric.fabric import AnyFabric, Fabric
from wavefabric.fabric.cost_models.cost import cost
from wavefabric.fabric.electrical.synthesis_problem import routed_links
from wavefabric.units import time_words

#: Trees of each root that are tried, and collectives that trees do.
_TREES = (1, 2, 3, 4)
_BY_TREES = ("all-gather", "reduce-scatter", "all-reduce", "broadcast", "reduce")
#: Most moves of chunks in what is tried.
_MOVES = 1 << 19
#: A schedule, what made it, and what trees reach with large arrays, B/s of the whole array (else 0).
Candidate = tuple[Schedule, str, float]


def least_time(
    collective: str, algorithm: AlgorithmOptions, fabric: Fabric, size: int, seconds: float, quiet: bool
) -> tuple[Schedule, list[tuple[str, str]], dict[str, Any]]:
    """The schedule that takes the least time for `size` B of the whole array, with lines and facts on it."""
    begun, best, rates = time.monotonic(), None, []
    with status_line(quiet) as say:
        for schedule, method, rate in _candidates(collective, algorithm, fabric, size, begun + seconds):
            with suppress(InputError):  # of pairs that have no route, or switches that do not multicast
                text, price = cost_text(schedule, fabric, size)
                rates.append(rate)
                if best is None or price["seconds"] < best[3]["seconds"] * (1 - 1e-9):
                    best = schedule, method, text, price
                    say(f"{time_words(price['seconds'])}: {method}")
            if best and (best[3]["ratio"] or 1.0) <= 1 + 1e-9 or time.monotonic() > begun + seconds:
                break
    if best is None:
        raise Undecided("--time-limit: over before any schedule was found; allowed: more time")
    schedule, method, text, price = best
    gap = (price["ratio"] or 1.0) - 1
    optimum = f"at most {100 * gap:.2g} % above the least time of any schedule"
    if gap <= 1e-9:
        optimum = f"optimal: no schedule takes less time ({price['bound']['why']})"
    facts = {"fabric": fabric.name, "method": method, "optimal": gap <= 1e-9, "gap": gap, "cost": price}
    lines = [("method", method), ("optimum", optimum), ("time", text)]
    if rate := max(rates):
        most = size / price["bound"]["transfer"]
        facts |= {"throughput": rate, "throughput_bound": most}
        lines.append(
            ("large arrays", f"{rate_text(rate)} of the array by trees, {rate_text(most)} by the bound")
        )
    facts["seconds"] = time.monotonic() - begun
    return schedule, [*lines, ("search took", f"{facts['seconds']:.3g} s")], facts


def cost_text(schedule: Schedule, fabric: AnyFabric, size: int, **options: Any) -> tuple[str, dict[str, Any]]:
    """What `size` B of the whole array take, beside the bound: in words, and as facts."""
    price = cost(schedule, fabric, size / whole_elements(schedule), **options)
    ratio = price.seconds / price.bound.seconds if price.bound.seconds else None
    text = f"{size_words(size)} in {time_words(price.seconds)} on {price.fabric}, {price.model} model"
    if ratio is not None:
        text += f"; {ratio:.2f} times the bound of {time_words(price.bound.seconds)} for any schedule"
    return text, {"bytes": size, "seconds": price.seconds, "bound": vars(price.bound), "ratio": ratio}


def _candidates(
    collective: str, algorithm: AlgorithmOptions, fabric: Fabric, size: int, until: float
) -> Iterator[Candidate]:
    n, named = fabric.ranks, replace(algorithm, elements=None)
    for name in sorted(ALGORITHMS, key=lambda name: name != "direct"):
        options = named.registry(name, n, fabric)
        refused = why_refused(name, collective, n, **options)
        if not refused and extent(name, collective, n, named.parts)[1] <= _MOVES:
            yield build_by_name(name, collective, named, fabric), f"algorithm {name}", 0.0
    if collective not in _BY_TREES or n == 1:
        return
    links, rooted = routed_links(fabric, 1.0), collective in ("broadcast", "reduce")
    least, parts = (n if collective == "all-reduce" else 1), 1 if rooted else n
    base = algorithm.pieces or least
    shape = layout(collective, n, n * base, base, algorithm.root)
    latency = fabric.alpha + 2 * max(link.latency for link in fabric.links)
    with suppress(OutOfTime):
        for trees in ((n - 1) * rooted or 1, *_TREES):
            made = forests(shape, links, trees, time_limit=max(until - time.monotonic(), 1e-3))
            halves = made * 2 if collective == "all-reduce" and len(made) == 1 else made
            seconds, depth = sum(float(each.rounds) for each in halves) / trees / parts * size, made[0].depth
            # P chunks a tree take P + depth − 1 rounds, each of 1/P of the transfer.
            fitting = ((depth - 1) * seconds / len(halves) / (latency or 1e-9)) ** 0.5
            length = max(1, min(round(fitting), _MOVES // (n * parts * trees)))
            pieces = algorithm.pieces or base * trees * length
            method = f"{counted(trees, 'tree')} from each root, {counted(depth, 'link')} deep, "
            cut = layout(collective, n, n * pieces, pieces, algorithm.root)
            yield forest_schedule(cut, links, made), method + counted(pieces, "piece"), size / seconds
