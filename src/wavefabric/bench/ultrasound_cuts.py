"""Benchmark ``ultrasound-cuts``: one grid in every cut, and with ranks on other devices."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from wavefabric.acoustics.parallel.decomposition import Options, decompose
from wavefabric.bench import ultrasound_shared as shared
from wavefabric.bench.exchange_report import unavailable
from wavefabric.bench.stand_ins import Placed
from wavefabric.errors import InputError
from wavefabric.execution.ranks import Ranks, named

__all__ = ["PLACEMENTS", "SIZES", "places_of", "plot", "run", "table"]

SIZES = {"cpu": (64, 64, 128), "cuda": (512, 512, 1024)}
PLACEMENTS = ("identity", "reversed", "round-robin")


def run(
    ranks: Ranks,
    shape: tuple[int, int, int] | None = None,
    placements: Sequence[str] = ("identity", "round-robin"),
    medium: str = "homogeneous",
    overlap: int = 16,
    precision: str = "single",
    repeats: int = 5,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Time steps of the local form for all numbers of blocks along x, y and z; collective.

    Parameters
    ----------
    ranks : Ranks
    shape : tuple of int, optional
        The whole grid. By default see `SIZES`.
    placements : sequence of str
        Of `PLACEMENTS`; ``"all"`` (permutations of ranks, mirrored ones once; up to 5 ranks); or ranks with
        a dash between, ``"0-2-1-3"``: what block 0, block 1, … is computed by.
    medium : {"homogeneous", "heterogeneous"}
    overlap, precision, repeats
        As in `local_vs_global.run`.
    progress : callable, optional

    Returns
    -------
    dict
        ``cases``, one for each cut, placement and transport: ``ms`` a step, ``halo_points`` (of the rank with
        most). ``left_out``: cuts whose blocks are shorter than the overlap.

    Raises
    ------
    InputError
        If an option is not allowed, or the grid does not fit.
    """
    say = progress or (lambda line: None)
    shape = shape or SIZES["cuda" if ranks.on_gpu else "cpu"]
    shared.check([shape], [medium], precision, repeats)
    places = places_of(placements, ranks.size)
    plans, left_out = [], []
    for grid in shared.grids(ranks.size):
        options = Options("local", grid, overlap)
        try:
            cut = decompose(shape, ranks.size, options)
        except InputError as error:
            left_out.append(str(error))
            continue
        shared.check_memory(ranks, medium, shape, precision, options)
        halo = max(_points(part.size) - _points(part.owned_size) for part in cut.subdomains)
        plans.append((options, halo))
    cases = []
    for comm in ranks.each():
        for options, halo in plans:
            for name, order in places.items():
                say(f"{comm.transport}: {shared.name_of(options.grid)}, {name}")
                placed = Placed(comm, order)
                found = shared.step_time(ranks, placed, repeats, medium, shape, precision, options)
                cases.append(
                    found
                    | {
                        "transport": comm.transport,
                        "grid": list(options.grid or ()),
                        "placement": name,
                        "places": order,
                        "halo_points": halo,
                    }
                )
                del placed
    return {
        "benchmark": "ultrasound-cuts",
        "ranks": ranks.size,
        "shape": list(shape),
        "medium": medium,
        "overlap": overlap,
        "precision": precision,
        "repeats": repeats,
        "cases": cases,
        "left_out": left_out,
        "unavailable": ranks.unavailable,
        "machine": ranks.machine(),
    }


def _points(size) -> int:
    x, y, z = size
    return x * y * z


def places_of(names: Sequence[str], ranks: int) -> dict[str, list[int]]:
    """Permutations of ranks by name; those that are the same once.

    Raises
    ------
    InputError
        For unknown names, or ``"all"`` of more than 5 ranks.
    """
    identity = list(range(ranks))
    known = {
        "identity": identity,
        "reversed": identity[::-1],
        "round-robin": [*identity[::2], *identity[1::2]],
    }
    found: dict[str, list[int]] = {}
    for name in names:
        if name == "all":
            if ranks > 5:
                raise InputError(f"placements: all given for {ranks} ranks; allowed: up to 5 ranks")
            for order in itertools.permutations(identity):
                if order <= order[::-1]:
                    found["-".join(map(str, order))] = list(order)
        elif name in known:
            found[name] = known[name]
        else:
            words = name.split("-")
            order = [int(word) for word in words if word.isdecimal()]
            if sorted(order) != identity or len(words) != ranks:
                allowed = f"{', '.join(PLACEMENTS)}, all, or a permutation such as "
                raise InputError(
                    f"placements: {name!r} given; allowed: {allowed}{'-'.join(map(str, identity[::-1]))}"
                )
            found[name] = order
    return {name: order for name, order in found.items() if _first(found, order) == name}


def _first(found: dict[str, list[int]], order: list[int]) -> str:
    return next(name for name, other in found.items() if other == order)


def table(result: dict[str, Any]) -> list:
    """The result of `run` as one `rich.table.Table` a transport."""
    from rich.table import Table

    found: list = []
    for transport in dict.fromkeys(case["transport"] for case in result["cases"]):
        lines = Table(
            title=f"{shared.name_of(result['shape'])}, {result['medium']}, overlap {result['overlap']}, "
            f"{named(transport)}",
            caption="halo: overlap points of the rank with most; blocks along x, y and z",
        )
        for heading in ("blocks", "placement", "halo 10⁶ points", "step ms"):
            lines.add_column(heading, justify="right", no_wrap=True)
        for case in result["cases"]:
            if case["transport"] == transport:
                lines.add_row(
                    shared.name_of(case["grid"]),
                    case["placement"],
                    f"{case['halo_points'] * 1e-6:.3g}",
                    f"{case['ms']:.3g}",
                )
        found.append(lines)
    return found + [f"left out: {line}" for line in result["left_out"]] + unavailable(result)


def plot(result: dict[str, Any], path: str | Path) -> list[Path]:
    """Draw step times, a group of bars a cut and a bar a transport and placement.

    Parameters
    ----------
    result : dict
        From `run`.
    path : str or Path
        Image file; its ending picks the format.

    Returns
    -------
    list of Path
        What was written.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from wavefabric.results.plots import COLOURS, STYLE

    cases = result["cases"]
    grids = list(dict.fromkeys(shared.name_of(case["grid"]) for case in cases))
    kinds = list(dict.fromkeys((case["transport"], case["placement"]) for case in cases))
    transports = list(dict.fromkeys(transport for transport, _ in kinds))
    width = 0.8 / max(1, len(kinds))
    with mpl.rc_context({**STYLE, "axes.titlepad": 8}):
        figure = Figure(figsize=(max(6.0, 1.5 + 1.1 * len(grids)), 4.2), layout="constrained")
        axes = figure.subplots()
        for number, kind in enumerate(kinds):
            shade = [place for transport, place in kinds if transport == kind[0]].index(kind[1])
            axes.bar(
                [grids.index(shared.name_of(c["grid"])) + width * number for c in cases if _kind(c) == kind],
                [case["ms"] for case in cases if _kind(case) == kind],
                width * 0.92,
                color=COLOURS[transports.index(kind[0]) % len(COLOURS)],
                alpha=0.45 ** min(shade, 2),
                label=f"{named(kind[0])}, {kind[1]}",
            )
        axes.set_xticks([at + 0.4 - width / 2 for at in range(len(grids))], grids)
        axes.set_xlabel("blocks along x, y and z")
        axes.set_ylabel("time of one step (ms)")
        axes.set_title(f"{shared.name_of(result['shape'])}, {result['medium']}")
        figure.legend(loc="outside lower center", ncols=3, fontsize=9)
        figure.savefig(path, dpi=160)
    return [Path(path)]


def _kind(case: dict[str, Any]) -> tuple[str, str]:
    return case["transport"], case["placement"]
