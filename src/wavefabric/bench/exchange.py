"""Benchmark ``exchange``: bandwidth and latency of every transport, in the manner of nccl-tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wavefabric.bench.exchange_reference import SOURCE, peak
from wavefabric.bench.exchange_report import plot, table
from wavefabric.collectives import Schedule, all_to_all, direct_all_gather, point_to_point
from wavefabric.errors import InputError
from wavefabric.execution.ranks import Ranks, timed

__all__ = ["PATTERNS", "SIZES", "plot", "run", "sizes_between", "table"]

PATTERNS = ("ping", "ring", "halo", "all-gather", "all-to-all")
#: Smallest and largest bytes by kind of device.
SIZES = {"cpu": (1 << 16, 1 << 22), "cuda": (1 << 16, 1 << 30)}
_WORD = np.dtype(np.uint32)
_UNWRITTEN = np.uint32(0xFFFFFFFF)


def sizes_between(least: int, most: int, factor: int = 4) -> list[int]:
    """``least``, times ``factor``, and so on up to ``most``."""
    found = []
    while least <= most:
        found.append(least)
        least *= factor
    return found


def run(
    ranks: Ranks,
    patterns: Sequence[str] = PATTERNS,
    sizes: Sequence[int] = (),
    repeats: int = 5,
    peaks: bool = False,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Time exchanges between all ranks, and check what arrives; collective.

    Bandwidths are those of nccl-tests (its PERFORMANCE.md). With K ranks and S bytes:

    =============  =======================================  ==============  ===============
    pattern        S                                        algbw           busbw
    =============  =======================================  ==============  ===============
    ping           rank 0 to rank 1, one way                S/t             S/t
    ring           each rank to the next                    S/t             S/t
    halo           each rank to both neighbours, S to each  2 S/t           2 S/t
    all-gather     a rank's part                            K S/t           (K − 1) S/t
    all-to-all     from each rank to each                   K S/t           (K − 1) S/t
    =============  =======================================  ==============  ===============

    busbw is what each rank sends, or receives, to and from others. The size column of nccl-tests has K S for
    the last two.

    Parameters
    ----------
    ranks : Ranks
        Transports that cannot be used are reported.
    patterns : sequence of str
        Of `PATTERNS`.
    sizes : sequence of int
        S, bytes, multiples of 4. Empty: see `SIZES`.
    repeats : int
        Samples, each of many exchanges one after the other; the median counts.
    peaks : bool
        Give the share of the figures in `exchange_reference` too.
    progress : callable, optional
        Called with a line about what is being measured.

    Returns
    -------
    dict
        JSON-serialisable: ``cases``, one for each transport and pattern, with ``rows`` (bytes, times,
        algbw and busbw in GB/s of 10⁹ bytes, ``wrong``: elements that did not arrive as they were sent) and
        ``latency_us`` (the time of the smallest size); ``unavailable``, transports with the reason;
        ``machine``.

    Raises
    ------
    InputError
        If an option is not allowed, or the buffers do not fit.
    """
    for pattern in patterns:
        if pattern not in PATTERNS:
            raise InputError(f"patterns: {pattern!r} given; allowed: {', '.join(PATTERNS)}")
    for size in sizes:
        if size < _WORD.itemsize or size % _WORD.itemsize:
            raise InputError(f"sizes: {size} bytes given; allowed: multiples of {_WORD.itemsize}")
    if repeats < 1:
        raise InputError(f"repeats: {repeats} given; allowed: at least 1")
    say = progress or (lambda line: None)
    chosen = list(sizes) or sizes_between(*SIZES["cuda" if ranks.on_gpu else "cpu"])
    parts = ranks.size if {"all-gather", "all-to-all"} & set(patterns) else 2
    # Both buffers, and what is expected of one message.
    ranks.check_memory((2 * parts + 3) * max(chosen), f"sizes: {max(chosen)} bytes")
    cases = []
    for comm in ranks.each():
        buffers = [comm.allocate((parts * max(chosen) // _WORD.itemsize,), _WORD) for _ in range(2)]
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
        "peaks": SOURCE if peaks else None,
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


def _case(comm, pattern: str, rows: list[dict[str, Any]], peaks: bool) -> dict[str, Any]:
    found = {
        "transport": comm.transport,
        "pattern": pattern,
        "latency_us": rows[0]["us"],
        "rows": rows,
        "facts": comm.describe(),
    }
    if peaks:
        found["peak"] = peak(pattern, comm.transport, comm.size) if comm.device.name != "cpu" else None
        for row in rows:
            row["share"] = row["busbw"] / found["peak"] if found["peak"] else None
    return found


def _measure(ranks: Ranks, comm, pattern: str, size: int, buffers: list, repeats: int) -> dict[str, Any]:
    schedule = schedule_of(pattern, comm.size, size // _WORD.itemsize)
    held = dict(zip(schedule.buffers, buffers[-len(schedule.buffers) :], strict=True))
    bound = comm.bind(schedule, held)

    def exchange() -> None:
        bound.start()
        bound.finish()

    fill(comm, schedule, held)
    exchange()
    wrong = int(comm.control.sum(count_wrong(comm, schedule, held)))
    found = timed(ranks, exchange, repeats)
    algbw, busbw = bandwidths(pattern, comm.size, size, found["ms"] * 1e-3)
    return {
        "bytes": size,
        "us": found["ms"] * 1e3,
        "us_best": found["ms_best"] * 1e3,
        "us_worst": found["ms_worst"] * 1e3,
        "algbw": algbw,
        "busbw": busbw,
        "wrong": wrong,
    }


# --- what travels ----------------------------------------------------------------------------------------


def _chunk(schedule: Schedule, buffer: int, rank: int, number: int) -> slice:
    first = schedule.offsets(buffer, rank)
    return slice(int(first[number]), int(first[number + 1]))


def _values(xp, source: int, chunk: int, size: int):
    """What a chunk of a rank holds: different for each source, chunk and index."""
    found = xp.arange(size, dtype=_WORD)
    found *= np.uint32(2654435761)
    found += np.uint32((source * 65537 + chunk + 1) * 40503 & 0xFFFFFFFF)
    return found


def fill(comm, schedule: Schedule, buffers: dict[str, Any]) -> None:
    """Write what this rank sends; everything else becomes a value that nobody sends. Collective."""
    xp, arrays = comm.device.xp, [buffers[name] for name in schedule.buffers]
    for number, array in enumerate(arrays):
        array[: int(schedule.offsets(number, comm.rank)[-1])] = _UNWRITTEN
    for t in schedule.transfers[schedule.transfers["src"] == comm.rank]:
        number = int(t["src_chunk"])
        place = _chunk(schedule, int(t["src_buffer"]), comm.rank, number)
        arrays[t["src_buffer"]][place] = _values(xp, comm.rank, number, place.stop - place.start)
    comm.device.synchronize()
    comm.control.barrier()  # before anybody writes here


def count_wrong(comm, schedule: Schedule, buffers: dict[str, Any]) -> int:
    """Elements of this rank that are not what their source sent. For schedules of one round."""
    xp, arrays, wrong = comm.device.xp, [buffers[name] for name in schedule.buffers], 0
    for t in schedule.transfers[schedule.transfers["dst"] == comm.rank]:
        place = _chunk(schedule, int(t["dst_buffer"]), comm.rank, int(t["dst_chunk"]))
        expected = _values(xp, int(t["src"]), int(t["src_chunk"]), place.stop - place.start)
        wrong += int(xp.count_nonzero(arrays[t["dst_buffer"]][place] != expected))
    comm.control.barrier()  # before anybody sends again
    return wrong
