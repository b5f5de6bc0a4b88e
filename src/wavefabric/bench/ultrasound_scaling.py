"""Benchmark ``ultrasound-scaling``: owned points a second and rank, weak and strong."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from wavefabric.acoustics.parallel.decomposition import Options
from wavefabric.bench import ultrasound_shared as shared
from wavefabric.bench.ultrasound_scaling_report import plot, table
from wavefabric.errors import InputError
from wavefabric.exchange import solo
from wavefabric.execution.ranks import Ranks
from wavefabric.files.input import read_bytes

__all__ = ["BLOCKS", "FORMS", "TOTALS", "plot", "run", "table"]

#: Points along each axis: of a rank's block (weak), and of the whole grid (strong).
BLOCKS, TOTALS = {"cpu": 48, "cuda": 512}, {"cpu": 64, "cuda": 1024}
FORMS = ("local", "global")


def run(
    ranks: Ranks,
    block: int | None = None,
    total: int | None = None,
    kinds: Sequence[str] = ("weak", "strong"),
    forms: Sequence[str] = FORMS,
    media: Sequence[str] = ("homogeneous",),
    overlap: int = 16,
    precision: str = "single",
    repeats: int = 5,
    earlier: Sequence[str | Path] = (),
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Time steps of a grid that grows with the ranks, and of one that does not; collective.

    Parameters
    ----------
    ranks : Ranks
        One rank is allowed: the start of a curve.
    block : int, optional
        Weak: each rank owns block³ points, cut as nearly alike along all axes as can be.
    total : int, optional
        Strong: total³ points together.
    kinds : sequence of {"weak", "strong"}
    forms : sequence of {"local", "global"}
    media : sequence of {"homogeneous", "heterogeneous"}
    overlap : int
        Of the local form.
    precision : str
    repeats : int
        Samples; the median counts.
    earlier : sequence of path
        JSON results for other numbers of ranks, to be shown together.
    progress : callable, optional

    Returns
    -------
    dict
        ``cases``: ``points_per_second`` of a rank (owned points, overlaps not counted), and ``efficiency``:
        T₁/T_K (weak) or T₁/(K T_K) (strong), with T₁ of the undivided code on one device, measured in the
        same job; None if the grid does not fit there.

    Raises
    ------
    InputError
        If an option is not allowed, or a grid does not fit.
    """
    say = progress or (lambda line: None)
    kind_of = "cuda" if ranks.on_gpu else "cpu"
    block, total = block or BLOCKS[kind_of], total or TOTALS[kind_of]
    for key, given, allowed in (("kinds", kinds, ("weak", "strong")), ("forms", forms, FORMS)):
        for name in given:
            if name not in allowed:
                raise InputError(f"{key}: {name!r} given; allowed: {', '.join(allowed)}")
    before = [case for path in earlier for case in _read(path)]
    even = shared.even_grid(ranks.size)
    x, y, z = even
    shapes = {"weak": (block * x, block * y, block * z), "strong": (total,) * 3}
    single = {"weak": (block,) * 3, "strong": (total,) * 3}
    shared.check([shapes[kind] for kind in kinds], media, precision, repeats)
    options = {"local": Options("local", None, overlap), "global": Options()}
    plans = [(kind, medium, form) for kind in kinds for medium in media for form in forms]
    if ranks.size > 1:
        for kind, medium, form in plans:
            shared.check_memory(ranks, medium, shapes[kind], precision, options[form])
    ones = {}
    for kind in kinds:
        for medium in media:
            say(f"{kind}, {medium}: one rank")
            ones[kind, medium] = _one(ranks, medium, single[kind], precision, repeats)
    cases = []
    if ranks.size == 1:
        for kind, medium, form in plans:
            found = ones[kind, medium]
            if found is not None:
                cases.append(_case(ranks, "one rank", kind, medium, form, single[kind], found, found))
    for comm in ranks.each() if ranks.size > 1 else ():
        for kind, medium, form in plans:
            say(f"{comm.transport}: {kind}, {medium}, {form}")
            case = medium, shapes[kind], precision, options[form]
            found = shared.step_time(ranks, comm, repeats, *case)
            cases.append(
                _case(ranks, comm.transport, kind, medium, form, shapes[kind], found, ones[kind, medium])
            )
    return {
        "benchmark": "ultrasound-scaling",
        "ranks": ranks.size,
        "block": block,
        "total": total,
        "overlap": overlap,
        "precision": precision,
        "repeats": repeats,
        "cases": cases,
        "earlier": before,
        "unavailable": ranks.unavailable,
        "machine": ranks.machine(),
    }


def _one(ranks: Ranks, medium: str, shape, precision: str, repeats: int) -> dict[str, Any] | None:
    """The undivided code, on all devices at once; None where there is no room for it."""
    if not shared.fits_one(ranks, medium, shape, precision):
        return None
    return shared.step_time(ranks, solo(ranks.device), repeats, medium, shape, precision)


def _case(ranks: Ranks, transport, kind, medium, form, shape, found, one) -> dict[str, Any]:
    efficiency = None
    if one is not None:
        efficiency = one["ms"] / found["ms"] / (1 if kind == "weak" else ranks.size)
    return found | {
        "ranks": ranks.size,
        "kind": kind,
        "medium": medium,
        "form": form,
        "transport": transport,
        "shape": list(shape),
        "one_rank_ms": None if one is None else one["ms"],
        "points_per_second": math.prod(shape) / ranks.size / (found["ms"] * 1e-3),
        "efficiency": efficiency,
    }


def _read(path: str | Path) -> list[dict[str, Any]]:
    try:
        found = json.loads(read_bytes(path))
        if found["benchmark"] != "ultrasound-scaling":
            raise KeyError("benchmark")
        return [*found["cases"], *found["earlier"]]
    except OSError as error:
        raise InputError(f"--from: {path} cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"--from: {path} given; allowed: JSON of ultrasound-scaling") from None
