"""Benchmark ``exchange``: bandwidth and latency of every transport, as in nccl-tests."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.base.errors import choices
from wavefabric.base.results.figure_style import GREY
from wavefabric.cli.bench.common import percent, result_of, rows, silent
from wavefabric.collectives import Schedule, all_to_all, direct_all_gather, point_to_point
from wavefabric.fabric.execution import report
from wavefabric.fabric.execution.run_schedule import SIZES, sizes_between
from wavefabric.fabric.execution.timed_schedule import count_wrong, fill, microseconds
from wavefabric.fabric.execution.timing import Ranks, check_options, timed

PATTERNS = ("ping", "ring", "halo", "all-gather", "all-to-all")
_DTYPE = np.dtype(np.int32)
#: Bus bandwidths in GB/s on an idle machine: of a pattern between GPUs, of one pattern through one
#: transport, and of any pattern through MPI by number of ranks, which share the memory of their host.
_PEAKS = {"ping": 373.0, "ring": 353.0, "halo": 353.0, "all-gather": 329.0, "all-to-all": 347.0}
_PING_MPI_CUDA = 340.0
_MPI_PEAKS = {2: 4.6, 4: 2.6}
_SOURCE = "measured on 4 H200, 2026"


def run(
    ranks: Ranks,
    patterns: Sequence[str] = PATTERNS,
    sizes: Sequence[int] = (),
    repeats: int = 5,
    peaks: bool = False,
    progress: Callable[[str], object] = silent,
) -> dict[str, Any]:
    """Time exchanges between all ranks, and check the received data; collective.

    Bandwidths are those of nccl-tests (its PERFORMANCE.md). With S bytes from rank to rank, K ranks and a
    time t they are S/t for ping and ring, and 2S/t for halo. For all-gather and all-to-all algbw is KS/t, and
    busbw (what each rank sends, or receives) is (K − 1)S/t. ``sizes`` are values of S, multiples of 4; by
    default 64 KiB to 4 MiB on CPUs, to 1 GiB on GPUs. With ``peaks`` each row also has ``share``: busbw
    divided by the `peak` of H200 GPUs.

    Returns ``cases``, one per transport and pattern, with ``rows`` (bytes, times in µs, algbw and busbw in
    GB/s of 10⁹ bytes, ``wrong``: elements that were received wrong) and ``latency_us`` (the time of the
    smallest size); ``unavailable``, transports with the reason; ``machine``.
    """
    choices("patterns", patterns, PATTERNS)
    check_options(repeats, sizes, _DTYPE.itemsize)
    chosen = list(sizes) or sizes_between(*SIZES["cuda" if ranks.on_gpu else "cpu"])
    parts = ranks.size if {"all-gather", "all-to-all"} & set(patterns) else 2
    # Both buffers, and the expected data of one message.
    ranks.check_memory((2 * parts + 3) * max(chosen), f"sizes: {max(chosen)} bytes")
    cases = []
    for comm in ranks.each():
        buffers = [comm.allocate((parts * max(chosen) // _DTYPE.itemsize,), _DTYPE) for _ in range(2)]
        for pattern in patterns:
            lines = []
            for size in chosen:
                progress(f"{comm.transport}: {pattern}, {size} bytes")
                lines.append(_measure(ranks, comm, pattern, size, buffers, repeats))
            case = {"transport": comm.transport, "pattern": pattern, "latency_us": lines[0]["us"]}
            cases.append(case | {"rows": lines, "facts": comm.describe()})
            if peaks:
                best = None if comm.device.name == "cpu" else peak(pattern, comm.transport, comm.size)
                cases[-1]["peak"] = best
                for line in lines:
                    line["share"] = line["busbw"] / best if best else None
        del buffers
    facts = {"repeats": repeats, "sizes": chosen, "peaks": _SOURCE if peaks else None}
    return result_of(ranks, "exchange", cases, **facts)


def schedule_of(pattern: str, ranks: int, elements: int) -> Schedule:
    """Return the schedule of a pattern, with ``elements`` per message."""
    if pattern == "all-gather":
        return direct_all_gather([elements] * ranks)
    if pattern == "all-to-all":
        return all_to_all(np.full((ranks, ranks), elements))
    steps = (1, -1) if pattern == "halo" else (1,)
    sources = range(1 if pattern == "ping" else ranks)
    return point_to_point(pattern, ranks, [(r, (r + s) % ranks, elements) for r in sources for s in steps])


def bandwidths(pattern: str, ranks: int, size: int, seconds: float) -> tuple[float, float]:
    """Return algbw and busbw in GB/s of a pattern with ``size`` bytes from rank to rank; see `run`."""
    moved = {"halo": (2, 2), "all-gather": (ranks, ranks - 1), "all-to-all": (ranks, ranks - 1)}
    whole, others = moved.get(pattern, (1, 1))
    return whole * size / seconds * 1e-9, others * size / seconds * 1e-9


def peak(pattern: str, transport: str, ranks: int) -> float | None:
    """Return the bus bandwidth in GB/s that an idle machine with H200 GPUs has reached; None if unknown."""
    if transport == "mpi":
        return _MPI_PEAKS.get(ranks)
    return _PING_MPI_CUDA if (pattern, transport) == ("ping", "mpi-cuda") else _PEAKS[pattern]


def _measure(ranks: Ranks, comm, pattern: str, size: int, buffers: list, repeats: int) -> dict[str, Any]:
    schedule = schedule_of(pattern, comm.size, size // _DTYPE.itemsize)
    buffers_by_name = dict(zip(schedule.buffers, buffers[-len(schedule.buffers) :], strict=True))
    exchange = comm.bind(schedule, buffers_by_name)
    fill(comm, schedule, buffers_by_name, _DTYPE.name)
    exchange.run()
    wrong = count_wrong(comm, schedule, buffers_by_name, _DTYPE.name)
    times = timed(ranks, exchange.run, repeats)
    algbw, busbw = bandwidths(pattern, comm.size, size, times["ms"] * 1e-3)
    facts = {"bytes": size, "protocol": exchange.protocol, "wrong": wrong}
    return facts | microseconds(times) | {"algbw": algbw, "busbw": busbw}


def table(result: dict[str, Any]) -> list:
    """Return a table for each transport and pattern."""
    tables = []
    cells = {"size": "{size}", "bytes": "{bytes}", "time us": "{us:.1f}"}
    cells |= {"algbw GB/s": "{algbw:.3g}", "busbw GB/s": "{busbw:.3g}", "#wrong": "{wrong}"}
    if result["peaks"]:
        cells["share"] = "{percent}"
    # Results of older versions name no protocol.
    if any(line.get("protocol", "auto") != "auto" for case in result["cases"] for line in case["rows"]):
        cells["by"] = "{protocol}"
    for case in result["cases"]:
        lines = [
            line | {"size": report.size_words(line["bytes"]), "percent": percent(line.get("share"))}
            for line in case["rows"]
        ]
        caption = f"latency {case['latency_us']:.1f} us"
        if case.get("peak"):
            caption += f"; share of {case['peak']:g} GB/s ({result['peaks']})"
        name = report.transport_name(case["transport"])
        title = f"{case['pattern']}, {name}, {result['ranks']} ranks"
        tables.append(report.table(title, list(cells), rows(lines, *cells.values()), caption, plain=True))
    return tables + report.unavailable(result)


def plot(result: dict[str, Any], path: str | Path) -> None:
    """Draw bus bandwidth over message size, a panel per pattern and a line per transport."""
    patterns = report.distinct(result["cases"], "pattern")
    transports = report.distinct(result["cases"], "transport")
    columns = min(3, max(1, len(patterns)))
    lines = max(1, -(-len(patterns) // columns))
    with report.figure(path, (1.2 + 3.3 * columns, 0.8 + 2.7 * lines)) as figure:
        panels = figure.subplots(lines, columns, squeeze=False, sharey=True).ravel()
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
