"""`wavefabric fabric routes`: ways over a photonic fabric, and proof of how good they are."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wavefabric.cli.collective import source
from wavefabric.cli.common.ranks import first
from wavefabric.cli.common.show import console
from wavefabric.errors import InputError

if TYPE_CHECKING:
    from wavefabric.fabric import PhotonicFabric
    from wavefabric.fabric.photonic.routing.routes import Routing

PATTERNS = ("recursive", "permutation", "pairs")
Pairs = list[tuple[int, int]]


def command(
    name: Annotated[
        str, typer.Argument(metavar="FABRIC", help="Photonic: such as lightpath:8x8.", show_default=False)
    ],
    pattern: Annotated[
        str,
        typer.Option(
            "--pattern", help="recursive (a set for each round), permutation (random), or pairs (--pairs)."
        ),
    ] = "recursive",
    pairs: Annotated[
        Path | None, typer.Option("--pairs", help="JSON list of \\[src, dst].", show_default=False)
    ] = None,
    radix: Annotated[int, typer.Option("--radix", help="recursive: ranks that meet in a round.")] = 2,
    method: Annotated[
        str, typer.Option("--method", help="auto, xy, shortest, random, ripup or exact.")
    ] = "auto",
    paths: Annotated[int, typer.Option("--paths", help="random: of so many shortest ones.")] = 32,
    seed: Annotated[int, typer.Option("--seed", help="Of random choices.")] = 0,
    time_limit: Annotated[float, typer.Option("--time-limit", help="exact and auto: seconds.")] = 5.0,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Picture of the loads of edges.", show_default=False)
    ] = None,
    force: source.Force = False,
    as_json: source.Json = False,
) -> None:
    """Lay a route for each pair of tiles so that few share an edge; show overlap, bound and link budget.

    ``auto`` goes by time: shortest routes where there are waveguides enough for them.

    Examples:

    wavefabric fabric routes lightpath:8x8 --pattern recursive --radix 4

    wavefabric fabric routes lightpath:16x16 --pattern permutation --method ripup -o loads.png
    """
    from wavefabric.fabric import PhotonicFabric
    from wavefabric.fabric.photonic.budget import LinkBudget
    from wavefabric.fabric.photonic.routing.routes import METHODS, route

    if not first():
        return
    source.check_target(output, force, (".png", ".svg", ".pdf"))
    for key, value, allowed in (("--pattern", pattern, PATTERNS), ("--method", method, METHODS)):
        if value not in allowed:
            raise InputError(f"{key}: {value} given; allowed: {', '.join(allowed)}")
    if (pairs is not None) != (pattern == "pairs"):
        if pairs is None:
            raise InputError("--pairs: none given with --pattern pairs; allowed: a JSON list of [src, dst]")
        raise InputError(f"--pairs: {pairs} given with --pattern {pattern}; allowed: with --pattern pairs")
    if not 0 < time_limit < 1e6:
        raise InputError(f"--time-limit: {time_limit} given; allowed: seconds above 0")
    if seed < 0:
        raise InputError(f"--seed: {seed} given; allowed: from 0")
    fabric = source.load_fabric(name)
    if not isinstance(fabric, PhotonicFabric):
        raise InputError(f"FABRIC: {name} is electrical; allowed: photonic, such as lightpath:4x8")
    asked = _patterns(fabric, pattern, pairs, radix, seed)
    light = fabric.budget or LinkBudget()
    found = [
        (label, route(fabric, each, method, seed=seed, k=paths, time_limit=time_limit, budget=light))
        for label, each in asked
    ]
    rows = [_row(fabric, label, routing) for label, routing in found]
    written = []
    if output is not None:
        from wavefabric.fabric.draw.draw import _save
        from wavefabric.fabric.draw.routes import routes_figure

        written.append(_save(output, routes_figure(fabric, f"{pattern} pairs, {method} routes", found[:12])))
    if as_json:
        told = {"fabric": fabric.name, "pattern": pattern, "method": method, "routes": rows}
        source.say_json({**told, "written": [str(p) for p in written]})
        return
    show(fabric, rows)
    source.say_written(written)


def _patterns(
    fabric: PhotonicFabric, pattern: str, pairs: Path | None, radix: int, seed: int
) -> list[tuple[str, Pairs]]:
    """Names and pairs of what is to be routed."""
    import numpy as np

    n = fabric.ranks
    if pattern == "recursive":
        from wavefabric.collectives.registry import build

        schedule = build("recursive", "all-gather", n, n, radix=radix)
        t = schedule.transfers[schedule.transfers["src"] != schedule.transfers["dst"]]
        found = []
        for number in np.unique(t["round"]):
            mine = t[t["round"] == number]
            both = zip(mine["src"].tolist(), mine["dst"].tolist(), strict=True)
            found.append((f"round {len(found) + 1}", sorted(set(both))))
        return found
    if pattern == "permutation":
        order = np.random.default_rng(seed).permutation(n).tolist()
        return [("permutation", [(a, b) for a, b in enumerate(order) if a != b])]
    assert pairs is not None
    content = source.read_json(pairs, "--pairs")
    if not isinstance(content, list) or not content:
        raise InputError(f"--pairs: {pairs} holds no list; allowed: a JSON list of [src, dst]")
    for number, each in enumerate(content):
        fits = isinstance(each, list) and len(each) == 2
        if not fits or not all(isinstance(v, int) and not isinstance(v, bool) and 0 <= v < n for v in each):
            raise InputError(
                f"--pairs: {pairs}[{number}]: {str(each)[:40]} given; allowed: [src, dst], from 0 to {n - 1}"
            )
    return [("pairs", [(a, b) for a, b in content])]


def _row(fabric: PhotonicFabric, label: str, routing: Routing) -> dict[str, Any]:
    longest = max(routing.routes, key=len, default=())
    return {
        "pairs": label,
        "count": len(routing.pairs),
        "overlap": routing.overlap,
        "bound": routing.bound,
        "certified": routing.certified,
        "set_ups": routing.set_ups,
        "method": routing.method,
        "seconds": routing.seconds,
        "longest": list(longest),
        "budget": budget_of(fabric, longest),
    }


def budget_of(fabric: PhotonicFabric, route: tuple[int, ...]) -> dict[str, Any] | None:
    """Losses of a route, and the rates that close over it."""
    if len(route) < 2:
        return None
    from wavefabric.fabric.photonic.budget import budget

    return asdict(budget(fabric, route))


def _proof(row: dict[str, Any]) -> str:
    """How good routes are known to be: of least overlap, or shortest and all up at once."""
    if row["certified"]:
        return "least"
    return "fits" if row["set_ups"] == 1 and row["method"].startswith("xy") else "gap open"


def show(fabric: PhotonicFabric, rows: list[dict[str, Any]]) -> None:
    """Print a line for each set of pairs."""
    from rich import box
    from rich.table import Table

    from wavefabric.fabric.draw.scene import time_words

    table = Table(title=f"routes over {fabric.name}", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("pairs", "proof", "method"):
        table.add_column(heading)
    for heading in (
        "count",
        "overlap",
        "bound",
        "time",
        "edges",
        "loss",
        "carries",
        "format",
        "BER",
        "margin",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        budget = row["budget"]
        cells = [row["pairs"], _proof(row), row["method"]]
        cells += [str(row["count"]), str(row["overlap"]), str(row["bound"]), time_words(row["seconds"])]
        cells.append(str(max(len(row["longest"]) - 1, 0)))
        if budget is None:
            cells += ["-"] * 5
        else:
            rate = f"{budget['best_rate'] / 1e9:.4g} Gbit/s" if budget["best_rate"] else "nothing"
            best = next((r for r in budget["reaches"] if r["rate"] == budget["best_rate"]), None)
            rare = "< 1e-15" if best and best["ber"] < 1e-15 else ""
            light = [best["format"], rare or f"{best['ber']:.0e}"] if best else ["-", "-"]
            cells += [f"{budget['loss_db']:.1f} dB", rate, *light, f"{budget['margin_db']:.1f} dB"]
        table.add_row(*cells)
    out = console()
    out.print(table)
    out.print(f"overlap: most routes on one edge in one direction; there are {fabric.waveguides} waveguides")
    if any(_proof(row) == "fits" for row in rows):
        out.print("fits: shortest routes, all up at once; less overlap would save no time")
    out.print(
        "edges and all behind: of a wavelength over the longest route, with "
        + ("the fabric's link budget" if fabric.budget else "typical losses and receivers")
    )
