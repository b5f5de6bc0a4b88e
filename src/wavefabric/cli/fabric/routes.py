"""Implement `wavefabric fabric routes`, which finds routes over a photonic fabric, with optimality bounds."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.base.errors import InputError, choice
from wavefabric.base.units import time_words
from wavefabric.cli.common.files import PICTURES, load_fabric, read_rows
from wavefabric.cli.common.options import OutputOptions, argument, changed, option, options, refuse
from wavefabric.cli.common.show import conclude, table
from wavefabric.collectives.registry import build
from wavefabric.fabric import PhotonicFabric
from wavefabric.fabric.draw.pictures import draw_routes
from wavefabric.fabric.photonic.budget import budget
from wavefabric.fabric.photonic.link_budget import LinkBudget
from wavefabric.fabric.photonic.planning import round_pairs
from wavefabric.fabric.photonic.routing.routes import Routing, route
from wavefabric.fabric.photonic.tile_grid import Pair

PATTERNS = ("recursive", "permutation", "pairs")


@options()
class RouteOptions(OutputOptions):
    """Options of the pairs to route, and of the routing method."""

    name: str = argument("Photonic: such as lightpath:8x8.", "FABRIC")
    pattern: str = option(
        "recursive (a set for each round), permutation (random), or pairs (--pairs).", default="recursive"
    )
    pairs: Path | None = option("JSON list of [src, dst].")
    radix: int = option("recursive: ranks that meet in a round.", default=2)
    method: str = option("{wavefabric.fabric.photonic.routing.routes:METHODS}.", default="auto")
    paths: int = option("random: of so many shortest ones.", default=32)
    seed: int = option("Of random choices.", default=0, limits=(0,))
    time_limit: float = option(
        "exact and auto: seconds.", default=5.0, limits=(1e-9, 1e6), allowed="seconds above 0"
    )
    output: Path | None = option("Picture of the loads of edges.", "--output", "-o", endings=PICTURES)


def command(options: RouteOptions) -> None:
    """Lay a route for each pair of tiles so that few share an edge; show overlap, bound and link budget.

    ``auto`` goes by time: shortest routes where there are waveguides enough for them.

    Examples:

    wavefabric fabric routes lightpath:8x8 --pattern recursive --radix 4

    wavefabric fabric routes lightpath:16x16 --pattern permutation --method ripup -o loads.png
    """
    pattern, method, output = options.pattern, options.method, options.output
    choice("--pattern", pattern, PATTERNS)
    if pattern == "pairs" and options.pairs is None:
        raise InputError("--pairs: none given with --pattern pairs; allowed: a JSON list of [src, dst]")
    if pattern != "pairs":
        refuse(changed(options, "pairs"), f"with --pattern {pattern}", "with --pattern pairs")
    fabric = load_fabric(options.name)
    if not isinstance(fabric, PhotonicFabric):
        raise InputError(f"FABRIC: {options.name} is electrical; allowed: photonic, such as lightpath:4x8")
    how = {"seed": options.seed, "k": options.paths, "time_limit": options.time_limit}
    how["budget"] = fabric.budget or LinkBudget()
    routed = [(label, route(fabric, pairs, method, **how)) for label, pairs in _patterns(fabric, options)]
    rows = [_row(fabric, label, routing) for label, routing in routed]
    written = []
    if output is not None:
        written.append(draw_routes(fabric, f"{pattern} pairs, {method} routes", routed[:12], output))
    facts = {"fabric": fabric.name, "pattern": pattern, "method": method, "routes": rows}
    conclude(options.as_json, facts, written, show(fabric, rows))


def _patterns(fabric: PhotonicFabric, options: RouteOptions) -> list[tuple[str, list[Pair]]]:
    """Return the sets of pairs of tiles to route, each with its name."""
    n = fabric.ranks
    if options.pattern == "recursive":
        rounds = round_pairs(build("recursive", "all-gather", n, n, radix=options.radix))
        return [(f"round {k}", list(map(tuple, pairs.tolist()))) for k, (_, pairs) in enumerate(rounds, 1)]
    if options.pattern == "permutation":
        order = np.random.default_rng(options.seed).permutation(n).tolist()
        return [("permutation", [(a, b) for a, b in enumerate(order) if a != b])]
    assert options.pairs is not None
    rows = read_rows(options.pairs, "--pairs", "[src, dst]", n - 1)
    if not rows:
        raise InputError(f"--pairs: {options.pairs} holds an empty list; allowed: a JSON list of [src, dst]")
    return [("pairs", rows)]


def _row(fabric: PhotonicFabric, label: str, routing: Routing) -> dict[str, Any]:
    longest = max(routing.routes, key=len, default=())
    names = ("overlap", "bound", "certified", "set_ups", "method", "seconds")
    return {
        "pairs": label,
        "count": len(routing.pairs),
        **{name: getattr(routing, name) for name in names},
        "longest": longest,
        # Losses of the longest route, and the rates that its link budget allows.
        "budget": asdict(budget(fabric, longest)) if len(longest) > 1 else None,
    }


def _proof(row: dict[str, Any]) -> str:
    """Return how good a routing is: "least", "fits" or "gap open".

    *Least*: it is proved that no routing has fewer routes on an edge. *Fits*: shortest routes, all set up at
    once, which loses no time. *Gap open*: neither.
    """
    if row["certified"]:
        return "least"
    return "fits" if row["set_ups"] == 1 and row["method"].startswith("xy") else "gap open"


def show(fabric: PhotonicFabric, rows: list[dict[str, Any]]) -> Iterator[Any]:
    """Yield the printed output: a table with a row for each set of pairs, and notes."""
    columns = ("<pairs", "<proof", "<method", "count", "overlap", "bound", "time", "edges")
    budget = ("loss", "carries", "format", "BER", "margin")
    made = table((*columns, *budget), title=f"routes over {fabric.name}")
    for row in rows:
        numbers = map(str, (row["count"], row["overlap"], row["bound"]))
        cells = row["pairs"], _proof(row), row["method"], *numbers, time_words(row["seconds"])
        made.add_row(*cells, str(max(len(row["longest"]) - 1, 0)), *_budget_cells(row["budget"]))
    for column in made.columns[:3]:
        column.overflow = "ellipsis"
    yield made
    yield f"overlap: most routes on one edge in one direction; there are {fabric.waveguides} waveguides"
    if any(_proof(row) == "fits" for row in rows):
        yield "fits: shortest routes, all up at once; less overlap would save no time"
    losses = "the fabric's link budget" if fabric.budget else "typical losses and receivers"
    yield f"edges and all behind: of a wavelength over the longest route, with {losses}"


def _budget_cells(budget: dict[str, Any] | None) -> list[str]:
    """Return table cells for a wavelength: loss, rate, format, bit error ratio and margin."""
    if budget is None:
        return ["-"] * 5
    rate = f"{budget['best_rate'] / 1e9:.4g} Gbit/s" if budget["best_rate"] else "nothing"
    best = next((r for r in budget["reaches"] if r["rate"] == budget["best_rate"]), None)
    ratio = "-" if not best else "< 1e-15" if best["ber"] < 1e-15 else f"{best['ber']:.0e}"
    kind = best["format"] if best else "-"
    return [f"{budget['loss_db']:.1f} dB", rate, kind, ratio, f"{budget['margin_db']:.1f} dB"]
