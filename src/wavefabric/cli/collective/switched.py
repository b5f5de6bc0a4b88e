"""`collective make optimal` on machines with switches: of trees and known algorithms what takes the least time."""

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from wavefabric.cli.collective.algorithm import AlgorithmOptions, build_by_name
from wavefabric.cli.collective.facts import show_made
from wavefabric.cli.common.options import OutputOptions
from wavefabric.cli.common.show import rate_text, status_line
from wavefabric.collectives import Schedule
from wavefabric.collectives.conditions import layout, whole_elements
from wavefabric.collectives.registry import ALGORITHMS, extent, why_refused
from wavefabric.collectives.synthesis import forest_schedule, forests
from wavefabric.collectives.synthesis.deadline import OutOfTime
from wavefabric.collectives.synthesis.search import counted
from wavefabric.errors import InputError
from wavefabric.execution.report import size_words
from wavefabric.fabric import AnyFabric, Fabric
from wavefabric.fabric.cost_models.cost import Cost, cost
from wavefabric.fabric.electrical.synthesis_problem import routed_links
from wavefabric.units import time_words

#: Trees of each root that are tried, and collectives that trees do.
_TREES = (1, 2, 3, 4)
_BY_TREES = ("all-gather", "reduce-scatter", "all-reduce", "broadcast", "reduce")
#: Most moves of chunks in what is tried.
_MOVES = 1 << 19


def switched(
    collective: str,
    algorithm: AlgorithmOptions,
    fabric: Fabric,
    size: int,
    until: float,
    output: Path | None,
    options: OutputOptions,
) -> None:
    """Find, show and write the schedule that takes the least time for `size` B of the whole array."""
    begun, best, rates = time.monotonic(), None, []
    with status_line(options.as_json) as say:
        for method, schedule, rate in _candidates(collective, algorithm, fabric, size, until):
            price = cost(schedule, fabric, size / whole_elements(schedule))
            rates.append(rate)
            if best is None or price.seconds < best[2].seconds * (1 - 1e-9):
                best = method, schedule, price
                say(f"{time_words(price.seconds)}: {method}")
            if best[2].seconds <= price.bound.seconds * (1 + 1e-9) or time.monotonic() > until:
                break
    if best is None:
        raise InputError("--time-limit: over before any schedule was found; allowed: more time")
    method, schedule, price = best
    text, facts = cost_text(schedule, fabric, size, price)
    gap = price.seconds / price.bound.seconds - 1 if price.bound.seconds else 0.0
    optimal = gap <= 1e-9
    proof = f"no schedule takes less time: {price.bound.why}"
    optimum = f"optimal: {proof}" if optimal else f"at most {100 * gap:.2g} % above the least time of any schedule"
    facts = {"fabric": fabric.name, "method": method, "optimal": optimal, "gap": gap, "cost": facts}
    lines = [("method", method), ("optimum", optimum), ("time", text)]
    if rate := max(rates):
        facts |= {"throughput": rate, "throughput_bound": size / price.bound.transfer}
        known = f"{rate_text(rate)} by trees, {rate_text(size / price.bound.transfer)} by the bound"
        lines.append(("large arrays", f"{known}: bytes of the array / time"))
    facts["seconds"] = time.monotonic() - begun
    lines.append(("search took", f"{facts['seconds']:.3g} s"))
    show_made(schedule, output, options, more_lines=lines, more_facts=facts)


def cost_text(
    schedule: Schedule, fabric: AnyFabric, size: int, price: Cost | None = None, **options: Any
) -> tuple[str, dict[str, Any]]:
    """What `size` B of the whole array take, beside the bound: in words, and as facts."""
    price = price or cost(schedule, fabric, size / whole_elements(schedule), **options)
    ratio = price.seconds / price.bound.seconds if price.bound.seconds else None
    text = f"{size_words(size)} in {time_words(price.seconds)} on {price.fabric}, {price.model} model"
    if ratio is not None:
        text += f"; {ratio:.2f} times the bound of {time_words(price.bound.seconds)} for any schedule"
    return text, {"bytes": size, "seconds": price.seconds, "bound": vars(price.bound), "ratio": ratio}


def _candidates(
    collective: str, algorithm: AlgorithmOptions, fabric: Fabric, size: int, until: float
) -> Iterator[tuple[str, Schedule, float]]:
    """Schedules, what made each, and what trees reach for large arrays, B/s of the whole array (else 0)."""
    n, named = fabric.ranks, replace(algorithm, elements=None)
    for name in ("direct", *(name for name in ALGORITHMS if name != "direct")):
        options = named.registry(name, n, fabric) if collective in ALGORITHMS[name].collectives else {}
        options |= {} if "pieces" in ALGORITHMS[name].options else {"pieces": 1}
        if why_refused(name, collective, n, **options) or extent(name, collective, n, named.parts)[1] > _MOVES:
            continue
        yield f"algorithm {name}", build_by_name(name, collective, named, fabric), 0.0
    if collective not in _BY_TREES or n == 1:
        return
    links, rooted = routed_links(fabric, 1.0), collective in ("broadcast", "reduce")
    least = n if collective == "all-reduce" else 1
    base = layout(collective, n, n * least * (algorithm.pieces or 1), algorithm.pieces or least, algorithm.root)
    with suppress(OutOfTime):
        for trees in ((n - 1) * rooted or 1, *_TREES):
            made = forests(base, links, trees, time_limit=max(until - time.monotonic(), 1e-3))
            halves = made * (2 if collective == "all-reduce" and len(made) == 1 else 1)
            seconds = sum(float(each.rounds / trees) for each in halves) * size / (1 if rooted else n)
            depth = max(each.depth for each in made)
            # A pipeline of P pieces a tree takes P + depth − 1 rounds, each of 1/P of the transfer.
            length = round(((depth - 1) * seconds / len(halves) / max(fabric.alpha, 1e-9)) ** 0.5) or 1
            length = max(1, min(length, _MOVES // (n * n * trees * (1 if rooted else 1))))
            pieces = algorithm.pieces or least * trees * length
            shape = layout(collective, n, n * pieces, pieces, algorithm.root)
            method = f"{counted(trees, 'tree')} from each root, {counted(depth, 'link')} deep at most"
            yield f"{method}, in {counted(pieces, 'piece')}", forest_schedule(shape, links, made), size / seconds
