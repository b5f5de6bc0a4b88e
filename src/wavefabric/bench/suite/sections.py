"""Sections of the report on the two simulators, from results of the benchmarks themselves."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from wavefabric.bench import (
    exchange,
    fibre_step,
    local_vs_global,
    ultrasound_cuts,
    ultrasound_scaling,
    ultrasound_step,
)
from wavefabric.bench.common import grouped
from wavefabric.bench.suite import fibre_over_ranks
from wavefabric.bench.suite.found import FoundResult, FoundResults, Picture, Section
from wavefabric.bench.suite.markdown import block, table
from wavefabric.errors import InputError
from wavefabric.execution import report
from wavefabric.execution.report import shape_words, transport_name

FIBRE = ("fibre", "fibre-kernels", "fibre-mpi-cuda", "fibre-mpi")
#: Cut along z alone, which is what is drawn over the number of ranks.
ONE_DIMENSION = ("ultrasound-1d", "ultrasound-kernels", "ultrasound-mpi-cuda", "ultrasound-mpi")
_ULTRASOUND = (*ONE_DIMENSION, "ultrasound", "ultrasound-2d", "ultrasound-3d", "ultrasound-heterogeneous")
_EXCHANGE = ("exchange", "exchange-mpi-cuda", "exchange-mpi")
#: Bytes at which bandwidths are shown beside those of the largest size.
_MEDIUM = 64 << 20


def notes(found: list[FoundResult]) -> list[str]:
    """What could not be measured, and for which number of ranks."""
    lines = [f"{each.ranks} ranks: {line}" for each in found for line in report.unavailable(each.result)]
    return ["\n".join(f"- {line}" for line in dict.fromkeys(lines))] if lines else []


def drawable(found: list[FoundResult]) -> list[FoundResult]:
    """Those with something to draw."""
    return [each for each in found if each.result["cases"]]


def merged(found: list[FoundResult]) -> dict[str, Any]:
    """One result with the cases of all."""
    cases = [case | {"ranks": each.ranks} for each in found for case in each.result["cases"]]
    return found[0].result | {"cases": cases, "earlier": [], "unavailable": {}}


def fibre(results: FoundResults) -> Section:
    """T_K/T_1, and times of a step."""
    found = results.of(*FIBRE, file="fibre-scaling.json")
    title = "Fibre over ranks"
    if not found:
        return Section(title, [])
    try:
        result = fibre_over_ranks.combine([each.path for each in found])
    except InputError as error:
        return Section(title, [f"Not put together: {error}"])
    blocks = [*map(block, fibre_over_ranks.table(result)), _step_times(result, found), *notes(found)]
    draw = partial(fibre_over_ranks.plot, result)
    caption = "Time of a step over that on one rank, over the number of ranks"
    picture = Picture("fibre-over-ranks.png", caption, draw, [each.part for each in found])
    return Section(title, blocks, [picture] if result["curves"] else [])


def _step_times(result: dict[str, Any], found: list[FoundResult]) -> str:
    ranks = sorted({each.ranks for each in found})
    rows = []
    for form in ("dense", "factored"):
        for words, key in (("one rank, unsplit", "one_rank"), ("one rank, split code", "split")):
            alone = {
                each.ranks: case[key]["ms"]
                for each in reversed(found)
                for case in each.result["forms"]
                if case["exchange"] == form
            }
            rows.append([f"{words}, {form}", *(_number(alone.get(k)) for k in ranks)])
        for curve in result["curves"]:
            at = {point["ranks"]: point for point in curve["points"] if point["ranks"] > 1}
            if curve["exchange"] == form:
                cells = [f"{at[k]['ms']:.3g} ({at[k]['exposed_ms']:.2g})" if k in at else "" for k in ranks]
                rows.append([f"{transport_name(curve['transport'])}, {form}", *cells])
    heads = ("<", *(f"K = {k}" for k in ranks))
    return f"**ms a step** (exposed: more than the same work takes with nothing sent)\n\n{table(heads, rows)}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def ultrasound(results: FoundResults) -> Section:
    """Weak and strong scaling, both decompositions, cuts and placements."""
    blocks, pictures = [], []
    if found := results.of(*_ULTRASOUND, file="ultrasound-scaling.json"):
        blocks += [*map(block, ultrasound_scaling.table(merged(found))), *notes(found)]
    if drawn := drawable(results.of(*ONE_DIMENSION, file="ultrasound-scaling.json")):
        draw = partial(ultrasound_scaling.plot, merged(drawn))
        caption = "Owned points a second and rank, cut along z"
        pictures.append(Picture("ultrasound-scaling.png", caption, draw, [each.part for each in drawn]))
    both = drawable(
        results.of("local-vs-global", "local-vs-global-kernels", "large", file="local-vs-global.json")
    )
    for mine in _by_ranks(both):
        blocks += [block(each) for each in local_vs_global.table(merged(mine))]
    if both:
        most = _by_ranks(both)[-1]
        draw = partial(local_vs_global.plot, merged(most))
        caption = f"Global and local decomposition, {most[0].ranks} ranks"
        pictures.append(Picture("local-vs-global.png", caption, draw, [each.part for each in most]))
    cuts = results.of("cuts", file="ultrasound-cuts.json")
    blocks += [_cuts(each) for each in cuts]
    if cuts := drawable(cuts):
        draw = partial(ultrasound_cuts.plot, cuts[-1].result)
        caption = f"Every cut and placement, {cuts[-1].ranks} ranks"
        pictures.append(Picture("ultrasound-cuts.png", caption, draw, [cuts[-1].part]))
    return Section("Ultrasound over ranks", blocks, pictures)


def _by_ranks(found: list[FoundResult]) -> list[list[FoundResult]]:
    return [[each for each in found if each.ranks == k] for k in sorted({each.ranks for each in found})]


def _cuts(found: FoundResult) -> str:
    """Step times of every cut, a column a transport and placement."""
    result = found.result
    columns = report.distinct(result["cases"], "transport", "placement")
    rows = []
    for cut, cases in _by_cut(result["cases"]).items():
        times = {(case["transport"], case["placement"]): f"{case['ms']:.3g}" for case in cases}
        cells = [times.get(column, "") for column in columns]
        rows.append([cut, f"{cases[0]['halo_points'] * 1e-6:.3g}", *cells])
    heads = ["<blocks", "halo, 10⁶ points", *(f"{transport_name(t)}, {place}" for t, place in columns)]
    what = f"{shape_words(result['shape'])}, {result['medium']}, overlap {result['overlap']}"
    lines = [f"**{what}, {found.ranks} ranks: ms a step**", table(heads, rows)]
    lines += [f"left out: {line}" for line in result["left_out"]]
    return "\n\n".join(lines)


def _by_cut(cases: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    return grouped([case | {"cut": shape_words(case["grid"])} for case in cases], "cut")


def exchanges(results: FoundResults) -> Section:
    """Bandwidths and latency by pattern, transport and number of ranks."""
    found = results.of(*_EXCHANGE, file="exchange.json")
    if not found:
        return Section("Exchange", [])
    rows, wrong = [], 0
    for each in found:
        for transport, cases in grouped(each.result["cases"], "transport").items():
            by_pattern = {case["pattern"]: case for case in cases}
            wrong += sum(row["wrong"] for case in cases for row in case["rows"])
            cells = [_bandwidths(by_pattern.get(pattern)) for pattern in exchange.PATTERNS]
            latency = f"{by_pattern['ping']['latency_us']:.3g} µs" if "ping" in by_pattern else ""
            rows.append([str(each.ranks), transport_name(transport), *cells, latency])
    sizes = found[0].result["sizes"]
    medium, least = (report.size_words(size) for size in (_medium(sizes), min(sizes)))
    title = f"**Bus bandwidth in GB/s at {medium} and at the largest size**"
    heads = ("ranks", "<", *exchange.PATTERNS, f"ping of {least}")
    blocks = [title, table(heads, rows), f"{wrong} wrong elements", *notes(found)]
    pictures = []
    for last in _by_ranks(drawable(found))[-1:]:
        caption = f"Bus bandwidth over size, {last[0].ranks} ranks"
        draw = partial(exchange.plot, merged(last))
        pictures.append(Picture("exchange.png", caption, draw, [each.part for each in last]))
    return Section("Exchange", blocks, pictures)


def _bandwidths(case: dict[str, Any] | None) -> str:
    if case is None:
        return ""
    at = {row["bytes"]: row["busbw"] for row in case["rows"]}
    return f"{at[_medium(at)]:.3g}, {at[max(at)]:.3g}"


def _medium(sizes: Iterable[int]) -> int:
    """The largest of these sizes that is no larger than `_MEDIUM`, or the smallest."""
    return max((size for size in sizes if size <= _MEDIUM), default=min(sizes))


def link(results: FoundResults) -> Section:
    """The whole link, with its total time."""
    rows = []
    found = results.of("link", file="link.json")
    for each in found:
        solver, whole = each.result["solver"], results.records[each.part].seconds
        rows.append([
            *(str(each.ranks), solver.get("transport", "-"), str(solver["steps"])),
            *(f"{solver['seconds']:.1f}", f"{solver['seconds'] / solver['steps'] * 1e3:.3g}", f"{whole:.1f}"),
            *(f"{solver['energy_drift']:.1e}", _penalty(each.result["groups"])),
        ])  # fmt: skip
    heads = ("ranks", "<", "steps", "propagation s", "ms a step", "whole command s", "energy drift")
    heads += ("penalty of group 1, dB",)
    title = "A short link" if results.small else "120 modes × 60 channels × 160 km"
    return Section(title, [table(heads, rows)] if rows else [])


def _penalty(groups: list[dict[str, Any]]) -> str:
    spans = [each for name, each in groups[0]["received"].items() if name != "back_to_back"] if groups else []
    return ", ".join("-" if span["penalty_db"] is None else f"{span['penalty_db']:.3f}" for span in spans)


def steps(results: FoundResults) -> Section:
    """Steps on one device."""
    blocks = []
    for module, kind in ((fibre_step, "fibre-step"), (ultrasound_step, "ultrasound-step")):
        for each in results.of(kind, file=f"{kind}.json"):
            blocks += [block(shown) for shown in module.table(each.result)]
    return Section("One step on one device", blocks)
