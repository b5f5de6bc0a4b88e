"""Benchmark ``ultrasound-scaling``: owned points a second and rank, weak and strong."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from wavefabric.acoustics.parallel.decomposition import Options
from wavefabric.bench import ultrasound_ranks as shared
from wavefabric.errors import InputError
from wavefabric.exchange import solo
from wavefabric.execution import report
from wavefabric.execution.measure import Ranks
from wavefabric.files.input import read_bytes

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

    Weak: each rank owns block³ points, cut as nearly alike along all axes as can be; strong: total³ points
    together. One rank is allowed: the start of a curve. ``earlier`` are JSON results for other numbers of
    ranks, to be shown together.

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
    for key, names, allowed in (("kinds", kinds, ("weak", "strong")), ("forms", forms, FORMS)):
        for name in names:
            if name not in allowed:
                raise InputError(f"{key}: {name!r} given; allowed: {', '.join(allowed)}")
    before = [case for path in earlier for case in _read(path)]
    x, y, z = shared.even_grid(ranks.size)
    shapes = {"weak": (block * x, block * y, block * z), "strong": (total,) * 3}
    shared.check([shapes[kind] for kind in kinds], media, precision, repeats)
    options = {"local": Options("local", None, overlap), "global": Options()}
    plans = list(itertools.product(kinds, media, forms))
    if ranks.size > 1:
        for kind, medium, form in plans:
            shared.check_memory(ranks, medium, shapes[kind], precision, options[form])
    alone = {}
    for kind, medium in itertools.product(kinds, media):
        say(f"{kind}, {medium}: one rank")
        shape = (block,) * 3 if kind == "weak" else (total,) * 3
        alone[kind, medium] = _on_one_rank(ranks, medium, shape, precision, repeats)
    cases = []
    if ranks.size == 1:
        cases = [
            _case(ranks, "one rank", plan, shapes[plan[0]], times, times)
            for plan in plans
            if (times := alone[plan[:2]]) is not None
        ]
    for comm in ranks.each() if ranks.size > 1 else ():
        for plan in plans:
            kind, medium, form = plan
            say(f"{comm.transport}: {kind}, {medium}, {form}")
            case = medium, shapes[kind], precision, options[form]
            times = shared.step_time(ranks, comm, repeats, *case)
            cases.append(_case(ranks, comm.transport, plan, shapes[kind], times, alone[plan[:2]]))
    facts = {"block": block, "total": total, "overlap": overlap, "precision": precision}
    facts |= {"repeats": repeats, "earlier": before}
    return shared.result_of(ranks, "ultrasound-scaling", cases, **facts)


def _on_one_rank(ranks: Ranks, medium: str, shape, precision: str, repeats: int) -> dict[str, Any] | None:
    """The undivided code, on all devices at once; None where there is no room for it."""
    if not shared.fits_one(ranks, medium, shape, precision):
        return None
    return shared.step_time(ranks, solo(ranks.device), repeats, medium, shape, precision)


def _case(ranks: Ranks, transport, plan, shape, times, alone) -> dict[str, Any]:
    kind, medium, form = plan
    efficiency = None
    if alone is not None:
        efficiency = alone["ms"] / times["ms"] / (1 if kind == "weak" else ranks.size)
    return times | {
        "ranks": ranks.size,
        "kind": kind,
        "medium": medium,
        "form": form,
        "transport": transport,
        "shape": list(shape),
        "one_rank_ms": None if alone is None else alone["ms"],
        "points_per_second": math.prod(shape) / ranks.size / (times["ms"] * 1e-3),
        "efficiency": efficiency,
    }


def _read(path: str | Path) -> list[dict[str, Any]]:
    try:
        result = json.loads(read_bytes(path))
        if result["benchmark"] != "ultrasound-scaling":
            raise KeyError("benchmark")
        return [*result["cases"], *result["earlier"]]
    except OSError as error:
        raise InputError(f"--from: {path} cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"--from: {path} given; allowed: JSON of ultrasound-scaling") from None


def _grouped(result: dict[str, Any]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Cases of all runs by kind and medium, in ascending ranks."""
    cases = sorted([*result["earlier"], *result["cases"]], key=lambda case: case["ranks"])
    return {
        (kind, medium): [case for case in cases if (case["kind"], case["medium"]) == (kind, medium)]
        for kind, medium in report.distinct(cases, "kind", "medium")
    }


def table(result: dict[str, Any]) -> list:
    """A table a kind and medium."""
    tables: list = []
    for (kind, medium), cases in _grouped(result).items():
        rows = [
            (
                *(str(case["ranks"]), report.shape_words(case["shape"]), case["form"]),
                *(report.transport_name(case["transport"]), f"{case['ms']:.3g}"),
                f"{case['points_per_second'] * 1e-6:.4g}",
                "-" if case["efficiency"] is None else f"{case['efficiency'] * 100:.0f} %",
            )
            for case in cases
        ]
        tables.append(
            report.table(
                f"{kind} scaling, {medium}, overlap {result['overlap']}",
                ("ranks", "grid", "<", "<", "step ms", "10⁶ points/s and rank", "efficiency"),
                rows,
                "points: owned by a rank, without overlaps; efficiency against the undivided code",
            )
        )
    return tables + report.unavailable(result)


def _one_rank(cases: list[dict[str, Any]]) -> list[tuple[int, float]]:
    """The undivided code as the first point of every line, where it was measured with other ranks."""
    known = [case for case in cases if case["one_rank_ms"] is not None and case["ranks"] > 1]
    if not known or any(case["ranks"] == 1 for case in cases):
        return []
    case = known[0]
    # A case of K ranks took `efficiency` times less than K such ranks alone.
    return [(1, case["points_per_second"] * 1e-6 / case["efficiency"])]


def plot(result: dict[str, Any], path: str | Path) -> None:
    """Draw points a second and rank over ranks, a panel a kind and medium, a line a form and transport."""
    groups = _grouped(result) or {("", ""): []}
    lines = report.distinct(itertools.chain(*groups.values()), "form", "transport")
    with report.figure(path, (0.8 + 4.0 * len(groups), 4.0), "y") as figure:
        panels = figure.subplots(1, len(groups), squeeze=False)[0]
        for axes, ((kind, medium), cases) in zip(panels, groups.items(), strict=True):
            first = _one_rank(cases)
            for number, line in enumerate(lines):
                mine = [case for case in cases if (case["form"], case["transport"]) == line]
                points = [(case["ranks"], case["points_per_second"] * 1e-6) for case in mine]
                if points:
                    form, name = line[0], report.transport_name(line[1])
                    label = f"{form}, {name}" if axes is panels[0] else None
                    dashes = "-" if form == "local" else "--"
                    axes.plot(*zip(*first, *points, strict=True), dashes, label=label, **report.look(number))
            report.log2_ticks(axes, sorted({case["ranks"] for case in cases} | {n for n, _ in first}))
            axes.set_ylim(bottom=0)
            axes.set_title(f"{kind}, {medium}")
            axes.set_xlabel("ranks")
            axes.set_ylabel("10⁶ points a second and rank")
        figure.legend(loc="outside lower center", ncols=4, fontsize=9)
