"""`make optimal` on machines with switches: of trees and known algorithms the schedule of least time."""

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
from wavefabric.collectives.synthesis import Undecided
from wavefabric.collectives.synthesis.deadline import OutOfTime
from wavefabric.collectives.synthesis.synthesise import forest_schedule, forests
from wavefabric.errors import InputError
from wavefabric.execution.report import size_words
from wavefabric.fabric import AnyFabric, Fabric
from wavefabric.fabric.cost_models.cost import cost
from wavefabric.fabric.electrical.synthesis_problem import routed_links
from wavefabric.units import time_words

#: Trees of each root that are tried, and most moves of chunks in what is tried.
_TREES, _MOVES = (1, 2, 3, 4), 1 << 19


def least_time(
    collective: str, algorithm: AlgorithmOptions, fabric: Fabric, size: int, seconds: float, quiet: bool
) -> tuple[Schedule, list[tuple[str, str]], dict[str, Any]]:
    """The schedule that takes the least time for `size` B of the whole array, with lines and facts on it."""
    begun, best, fastest = time.monotonic(), None, 0.0
    with status_line(quiet) as say:
        for schedule, method, rate in _candidates(collective, algorithm, fabric, size, begun + seconds):
            text, price = cost_text(schedule, fabric, size)
            fastest = max(fastest, rate)
            if best is None or price["seconds"] < best[3]["seconds"] * (1 - 1e-9):
                best = schedule, method, text, price
                say(f"{time_words(price['seconds'])}: {method}")
            if (best[3]["ratio"] or 1.0) <= 1 + 1e-9 or time.monotonic() > begun + seconds:
                break
    if best is None:
        raise Undecided("--time-limit: over before any schedule was found; allowed: more time")
    schedule, method, text, price = best
    gap = (price["ratio"] or 1.0) - 1
    optimum = f"at most {100 * gap:.2g} % above the least time of any schedule"
    optimum = optimum if gap > 1e-9 else f"optimal: no schedule takes less time ({price['bound']['why']})"
    facts = {"fabric": fabric.name, "method": method, "optimal": gap <= 1e-9, "gap": gap, "cost": price}
    lines = [("method", method), ("optimum", optimum), ("time", text)]
    if fastest:
        most = size / price["bound"]["transfer"]
        facts |= {"throughput": fastest, "throughput_bound": most}
        lines.append(("large arrays", f"{rate_text(fastest)} by trees; the bound allows {rate_text(most)}"))
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
) -> Iterator[tuple[Schedule, str, float]]:
    """Schedules, what made each, and what trees reach with large arrays, B/s of the array (else 0)."""
    n, named = fabric.ranks, replace(algorithm, elements=None)
    for name in sorted(ALGORITHMS, key=lambda name: name != "direct"):
        refused = why_refused(name, collective, n, **named.registry(name, n, fabric))
        if not refused and extent(name, collective, n, named.parts)[1] <= _MOVES:
            yield build_by_name(name, collective, named, fabric), f"algorithm {name}", 0.0
    links, rooted = routed_links(fabric, 1.0), collective in ("broadcast", "reduce")
    base = algorithm.pieces or (n if collective == "all-reduce" else 1)
    latency = fabric.alpha + 2 * max(link.latency for link in fabric.links)
    # Trees do not serve an all-to-all, a gather or a scatter.
    with suppress(OutOfTime, InputError):
        for trees in ((n - 1) * rooted or 1, *_TREES):
            shape, left = layout(collective, n, n * base, base, algorithm.root), until - time.monotonic()
            made = forests(shape, links, trees, time_limit=max(left, 1e-3))
            depth = max(depth for each in made for tree in each.trees for _, depth in tree.reached.values())
            half = float(made[0].rounds) * size
            # P chunks a tree take P + depth − 1 rounds, each of 1/P of the transfer.
            fitting = round(((depth - 1) * half / (latency or 1e-9)) ** 0.5)
            length = max(1, min(fitting, _MOVES // (trees * n * (1 if rooted else n))))
            pieces = algorithm.pieces or base * trees * length
            cut = layout(collective, n, n * pieces, pieces, algorithm.root)
            method = f"trees: {trees} of each root, {depth} deep, {pieces} pieces"
            rate = 1 / float(sum(made[-i].rounds for i in range(1 + (collective == "all-reduce"))))
            yield forest_schedule(cut, links, made), method, rate
