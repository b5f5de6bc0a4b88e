"""Benchmark ``exchange``: bandwidth and latency of every transport, in the manner of nccl-tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wavefabric.collectives import Schedule, all_to_all, direct_all_gather, point_to_point
from wavefabric.errors import InputError
from wavefabric.execution import report
from wavefabric.execution.measure import Ranks, check_options, timed
from wavefabric.execution.run_schedule import SIZES, sizes_between
from wavefabric.execution.timed_schedule import count_wrong, fill, microseconds
from wavefabric.results.plots import GREY

PATTERNS = ("ping", "ring", "halo", "all-gather", "all-to-all")
_DTYPE = np.dtype(np.int32)
#: Where the figures of `PEAKS` come from.
_SOURCE = "measured on 4 H200, 2026"


class Peak(NamedTuple):
    """Bus bandwidth in GB/s where nothing else runs; None: of any pattern, transport or number of ranks."""

    pattern: str | None
    transport: str | None
    ranks: int | None
    gb_per_s: float


#: The first that fits counts. Ranks share the memory of their host: host-staged MPI has one for all patterns.
PEAKS = (
    Peak(None, "mpi", 2, 4.6),
    Peak(None, "mpi", 4, 2.6),
    Peak("ping", "mpi-cuda", None, 340.0),
    Peak("ping", None, None, 373.0),
    Peak("ring", None, None, 353.0),
    Peak("halo", None, None, 353.0),
    Peak("all-gather", None, None, 329.0),
    Peak("all-to-all", None, None, 347.0),
)


def run(
    ranks: Ranks,
    patterns: Sequence[str] = PATTERNS,
    sizes: Sequence[int] = (),
    repeats: int = 5,
    peaks: bool = False,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Time exchanges between all ranks, and check what arrives; collective.

    Bandwidths are those of nccl-tests (its PERFORMANCE.md); with S the bytes from rank to rank, K ranks and a
    time t they are S/t of ping and ring, 2S/t of halo, and of all-gather and all-to-all KS/t (algbw) and
    (K − 1)S/t (busbw: what each rank sends, or receives). Sizes are S, multiples of 4; by default 64 KiB to
    4 MiB on CPUs, to 1 GiB on GPUs. ``peaks`` gives the share of the figures in `PEAKS` too.

    Returns
    -------
    dict
        ``cases``, one for each transport and pattern, with ``rows`` (bytes, times in µs, algbw and busbw in
        GB/s of 10⁹ bytes, ``wrong``: elements that did not arrive as they were sent) and ``latency_us`` (the
        time of the smallest size); ``unavailable``, transports with the reason; ``machine``.

    Raises
    ------
    InputError
        If an option is not allowed, or the buffers do not fit.
    """
    for pattern in patterns:
        if pattern not in PATTERNS:
            raise InputError(f"patterns: {pattern!r} given; allowed: {', '.join(PATTERNS)}")
    check_options(repeats, sizes, _DTYPE.itemsize)
    say = progress or (lambda line: None)
    chosen = list(sizes) or sizes_between(*SIZES["cuda" if ranks.on_gpu else "cpu"])
    parts = ranks.size if {"all-gather", "all-to-all"} & set(patterns) else 2
    # Both buffers, and what is expected of one message.
    ranks.check_memory((2 * parts + 3) * max(chosen), f"sizes: {max(chosen)} bytes")
    cases = []
    for comm in ranks.each():
        buffers = [comm.allocate((parts * max(chosen) // _DTYPE.itemsize,), _DTYPE) for _ in range(2)]
        for pattern in patterns:
            rows = []
            for size in chosen:
                say(f"{comm.transport}: {pattern}, {size} bytes")
                rows.append(_measure(ranks, comm, pattern, size, buffers, repeats))
            cases.append(_case(comm, pattern, rows, peaks))
        del buffers
    return {
        "benchmark": "exchange",
        "ranks": ranks.size,
        "repeats": repeats,
        "sizes": chosen,
        "peaks": _SOURCE if peaks else None,
        "cases": cases,
        "unavailable": ranks.unavailable,
        "machine": ranks.machine(),
    }


def schedule_of(pattern: str, ranks: int, elements: int) -> Schedule:
    """The messages of a pattern, ``elements`` each."""
    if pattern == "all-gather":
        return direct_all_gather([elements] * ranks)
    if pattern == "all-to-all":
        return all_to_all(np.full((ranks, ranks), elements))
    steps = {"ping": (1,), "ring": (1,), "halo": (1, -1)}[pattern]
    sources = range(1 if pattern == "ping" else ranks)
    return point_to_point(pattern, ranks, [(r, (r + s) % ranks, elements) for r in sources for s in steps])


def bandwidths(pattern: str, ranks: int, size: int, seconds: float) -> tuple[float, float]:
    """algbw and busbw in GB/s; see `run`."""
    moved = {"halo": (2, 2), "all-gather": (ranks, ranks - 1), "all-to-all": (ranks, ranks - 1)}
    whole, others = moved.get(pattern, (1, 1))
    return whole * size / seconds * 1e-9, others * size / seconds * 1e-9


def peak(pattern: str, transport: str, ranks: int) -> float | None:
    """The figure of `PEAKS` in GB/s; None if there is none."""
    for each in PEAKS:
        if each.transport is None and transport == "mpi":
            continue
        given = zip(each[:3], (pattern, transport, ranks), strict=True)
        if all(known in (None, asked) for known, asked in given):
            return each.gb_per_s
    return None


def _case(comm, pattern: str, rows: list[dict[str, Any]], peaks: bool) -> dict[str, Any]:
    case = {
        "transport": comm.transport,
        "pattern": pattern,
        "latency_us": rows[0]["us"],
        "rows": rows,
        "facts": comm.describe(),
    }
    if peaks:
        best = peak(pattern, comm.transport, comm.size) if comm.device.name != "cpu" else None
        case["peak"] = best
        for row in rows:
            row["share"] = row["busbw"] / best if best else None
    return case


def _measure(ranks: Ranks, comm, pattern: str, size: int, buffers: list, repeats: int) -> dict[str, Any]:
    schedule = schedule_of(pattern, comm.size, size // _DTYPE.itemsize)
    held = dict(zip(schedule.buffers, buffers[-len(schedule.buffers) :], strict=True))
    exchange = comm.bind(schedule, held).run
    fill(comm, schedule, held, _DTYPE.name)
    exchange()
    wrong = count_wrong(comm, schedule, held, _DTYPE.name)
    times = timed(ranks, exchange, repeats)
    algbw, busbw = bandwidths(pattern, comm.size, size, times["ms"] * 1e-3)
    return {"bytes": size, **microseconds(times), "algbw": algbw, "busbw": busbw, "wrong": wrong}


def table(result: dict[str, Any]) -> list:
    """A table for each transport and pattern."""
    tables = []
    for case in result["cases"]:
        columns = ["size", "bytes", "time us", "algbw GB/s", "busbw GB/s", "#wrong"]
        columns += ["share"] * bool(result["peaks"])
        rows = []
        for row in case["rows"]:
            cells = [report.size_words(row["bytes"]), str(row["bytes"]), f"{row['us']:.1f}"]
            cells += [f"{row['algbw']:.3g}", f"{row['busbw']:.3g}", str(row["wrong"])]
            if result["peaks"]:
                cells.append("-" if row["share"] is None else f"{row['share'] * 100:.0f} %")
            rows.append(cells)
        caption = f"latency {case['latency_us']:.1f} us"
        if case.get("peak"):
            caption += f"; share of {case['peak']:g} GB/s ({result['peaks']})"
        name = report.transport_name(case["transport"])
        title = f"{case['pattern']}, {name}, {result['ranks']} ranks"
        tables.append(report.table(title, columns, rows, caption, plain=True))
    return tables + report.unavailable(result)


def plot(result: dict[str, Any], path: str | Path) -> None:
    """Draw bus bandwidth over size, a panel a pattern and a line a transport."""
    patterns = report.distinct(result["cases"], "pattern")
    transports = report.distinct(result["cases"], "transport")
    columns = min(3, max(1, len(patterns)))
    rows = max(1, -(-len(patterns) // columns))
    with report.figure(path, (1.2 + 3.3 * columns, 0.8 + 2.7 * rows)) as figure:
        panels = figure.subplots(rows, columns, squeeze=False, sharey=True).ravel()
        for axes, pattern in zip(panels, patterns, strict=False):
            for case in result["cases"]:
                if case["pattern"] == pattern:
                    _panel(axes, case, report.look(transports.index(case["transport"])))
            axes.set_title(pattern)
            report.log_axes(axes, "bytes", "bus bandwidth (GB/s)")
        for axes in panels[len(patterns) :]:
            axes.set_visible(False)
        for number, name in enumerate(transports):
            panels[0].plot([], [], label=report.transport_name(name), **report.look(number))
        if any(case.get("peak") for case in result["cases"]):
            panels[0].plot([], [], color=GREY, linewidth=0.8, linestyle=":", label="reference")
        figure.legend(loc="outside lower center", ncols=5, fontsize=9)


def _panel(axes, case: dict[str, Any], look: dict[str, Any]) -> None:
    sizes = [row["bytes"] for row in case["rows"]]
    axes.plot(sizes, [row["busbw"] for row in case["rows"]], markersize=4, **look)
    if case.get("peak"):
        axes.axhline(case["peak"], color=look["color"], linewidth=0.8, linestyle=":")
