"""Benchmark ``ultrasound-scaling``: owned points a second and rank, weak and strong."""

import itertools
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.rank_steps import RankSteps, even_grid, grouped
from papers.common import log2_ticks
from wavefabric.acoustics.decomposition.decompose import Decomposition, decompose
from wavefabric.base.errors import InputError, choices
from wavefabric.base.files.input import read_bytes
from wavefabric.cli.bench.common import Triple, percent, result_of, rows, silent
from wavefabric.fabric.execution import report
from wavefabric.fabric.execution.timing import Ranks
from wavefabric.runtime.exchange import solo

#: Points along each axis: of a rank's block (weak), and of the whole grid (strong).
BLOCKS, TOTALS = {"cpu": 48, "cuda": 512}, {"cpu": 64, "cuda": 1024}
FORMS = ("local", "global")


@dataclass(frozen=True, kw_only=True)
class ScalingOptions:
    """What is timed: the keywords of `run`."""

    block: int | None = None
    total: int | None = None
    kinds: Sequence[str] = ("weak", "strong")
    forms: Sequence[str] = FORMS
    media: Sequence[str] = ("homogeneous",)
    overlap: int = 16
    grid: Triple | None = None
    precision: str = "single"
    repeats: int = 5
    earlier: Sequence[str | Path] = ()


def run(ranks: Ranks, progress: Callable[[str], object] = silent, **options: Any) -> dict[str, Any]:
    """Time steps of a grid that grows with the ranks, and of one that does not; collective.

    Weak: each rank owns block³ points, cut as nearly alike along all axes as can be; strong: total³ points
    together. ``grid``: blocks along x, y and z, of the weak grid and of the local form. One rank is allowed:
    the start of a curve. ``earlier`` are JSON results for other numbers of ranks, to be shown together.

    Options are those of `ScalingOptions`. Gives ``cases``: ``points_per_second`` of a rank (owned points,
    overlaps not counted), and ``efficiency``: T₁/T_K (weak) or T₁/(K T_K) (strong), with T₁ of the undivided
    code on one device, measured in the same job; None if the grid does not fit there.
    """
    request = ScalingOptions(**options)
    kind_of = "cuda" if ranks.on_gpu else "cpu"
    block, total = request.block or BLOCKS[kind_of], request.total or TOTALS[kind_of]
    kinds, media, grid = request.kinds, request.media, request.grid
    choices("kinds", kinds, ("weak", "strong"))
    choices("forms", request.forms, FORMS)
    before = [case for path in request.earlier for case in _read(path)]
    if grid is not None and math.prod(grid) != ranks.size:
        raise InputError(f"grid: {report.shape_words(grid)} given; allowed: {ranks.size} blocks, one a rank")
    x, y, z = grid or even_grid(ranks.size)
    shapes = {"weak": (block * x, block * y, block * z), "strong": (total, total, total)}
    steps = RankSteps(ranks, [shapes[kind] for kind in kinds], media, request.precision, request.repeats)
    cuts = {"local": Decomposition("local", grid, request.overlap), "global": Decomposition()}
    plans = list(itertools.product(kinds, media, request.forms))
    for kind, medium, form in plans if ranks.size > 1 else ():
        steps.check_memory(medium, shapes[kind], cuts[form])
    alone: dict[tuple[str, str], Any] = {}
    for kind, medium in itertools.product(kinds, media):
        progress(f"{kind}, {medium}: one rank")
        shape = (block, block, block) if kind == "weak" else (total, total, total)
        fits = steps.fits_one(medium, shape)
        alone[kind, medium] = steps.time(solo(ranks.device), medium, shape) if fits else None
    cases = []
    if ranks.size == 1:
        cases = [
            _case(ranks, "one rank", plan, shapes[plan[0]], alone[plan[:2]], alone[plan[:2]])
            for plan in plans
            if alone[plan[:2]] is not None
        ]
    for comm in ranks.each() if ranks.size > 1 else ():
        for plan in plans:
            kind, medium, form = plan
            progress(f"{comm.label}: {kind}, {medium}, {form}")
            times = steps.time(comm, medium, shapes[kind], cuts[form])
            times["blocks"] = list(decompose(shapes[kind], ranks.size, cuts[form]).grid)
            cases.append(_case(ranks, comm.label, plan, shapes[kind], times, alone[kind, medium]))
    facts = {"block": block, "total": total, "earlier": before}
    facts |= {key: getattr(request, key) for key in ("overlap", "precision", "repeats")}
    return result_of(ranks, "ultrasound-scaling", cases, **facts)


def _case(ranks: Ranks, transport: str, plan, shape: Triple, times, alone) -> dict[str, Any]:
    kind, medium, form = plan
    one = None if alone is None else alone["ms"]
    return times | {
        "ranks": ranks.size,
        "kind": kind,
        "medium": medium,
        "form": form,
        "transport": transport,
        "shape": list(shape),
        "one_rank_ms": one,
        "points_per_second": math.prod(shape) / ranks.size / (times["ms"] * 1e-3),
        "efficiency": one and one / times["ms"] / (1 if kind == "weak" else ranks.size),
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
    return grouped(
        sorted([*result["earlier"], *result["cases"]], key=lambda case: case["ranks"]), "kind", "medium"
    )


def table(result: dict[str, Any]) -> list:
    """A table a kind and medium."""
    tables: list = []
    cells = ("{ranks}", "{grid}", "{form}", "{cut}", "{via}", "{ms:.3g}", "{points:.4g}", "{share}")
    for (kind, medium), cases in _grouped(result).items():
        lines = [
            case
            | {"grid": report.shape_words(case["shape"]), "points": case["points_per_second"] * 1e-6}
            | {"share": percent(case["efficiency"]), "cut": report.shape_words(case.get("blocks", "-"))}
            for case in cases
        ]
        tables.append(
            report.table(
                f"{kind} scaling, {medium}, overlap {result['overlap']}",
                ("ranks", "grid", "<", "blocks", "<", "step ms", "10⁶ points/s and rank", "efficiency"),
                rows(lines, *cells),
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
            log2_ticks(axes, sorted({case["ranks"] for case in cases} | {n for n, _ in first}))
            axes.set_ylim(bottom=0)
            axes.set(title=f"{kind}, {medium}", xlabel="ranks", ylabel="10⁶ points a second and rank")
        figure.legend(loc="outside lower center", ncols=4, fontsize=9)
