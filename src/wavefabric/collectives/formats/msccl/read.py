"""MSCCL algorithms (XML) as schedules."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from wavefabric.collectives.arguments import whole
from wavefabric.collectives.formats.msccl.buffers import BufferMap, buffer_map, touches
from wavefabric.collectives.formats.msccl.check import check_algorithm
from wavefabric.collectives.formats.msccl.conditions import conditions
from wavefabric.collectives.formats.msccl.format import (
    CPY,
    RCS,
    RE,
    RRC,
    RRCS,
    RRS,
    SLOTS,
    MscclAlgorithm,
    R,
    S,
    read_algorithm,
)
from wavefabric.collectives.formats.msccl.graph import run_order
from wavefabric.collectives.schedule import TRANSFER, MscclOrigin, Schedule
from wavefabric.collectives.structure import check_structure, chunk_numbers
from wavefabric.collectives.verify import verify
from wavefabric.errors import InputError
from wavefabric.files.input import MOST_SCHEDULE
from wavefabric.files.text import read_text

#: More than rounds within GPUs can follow one another.
_LOCAL = 1 << 32


def from_msccl(text: str, *, elements: int = 1, root: int | None = None, slots: int = SLOTS) -> Schedule:
    """The schedule of an MSCCL algorithm, proved.

    Parameters
    ----------
    text : str
        XML.
    elements : int
        Of each chunk.
    root : int, optional
        Of a broadcast or reduce. The format has no word for it; by default the GPU that never receives, or
        never sends.
    slots : int
        See `check_msccl`.

    Returns
    -------
    Schedule
        Its rounds are as early as the data allow. Buffers are ``data`` (in place), or ``input`` and
        ``output`` (``send`` and ``recv`` of an all-to-all), ``scratch`` if there is any, and ``relay`` for
        what an algorithm holds in no buffer: sums that go on without being stored, and data under way whose
        source is overwritten before they are received.

        Conditions are those of the collective. Of a ``custom`` algorithm they are what it does: all of the
        input that it reads first, and all of the output that it writes.

    Raises
    ------
    InputError
        As `check_msccl`; or if the algorithm does not do what its collective states.

    Notes
    -----
    A residual addition (``ra``) adds what no GPU sent, so it is left out.
    """
    algorithm = read_algorithm(text)
    elements = whole("elements", elements, 1)
    if root is not None:
        root = whole("root", root, 0, algorithm.gpus - 1)
        algorithm = replace(algorithm, root=root)
    senders, most = check_algorithm(algorithm, slots)
    buffers = buffer_map(algorithm)
    transfers, relayed = _transfers(algorithm, buffers, senders)
    names, tables = list(buffers.names), list(buffers.present)
    if relayed.any():
        names.append("relay")
        tables.append(np.arange(int(relayed.max())) < relayed[:, None])
    schedule = Schedule(
        name=algorithm.name,
        ranks=algorithm.gpus,
        buffers=tuple(names),
        sizes=tuple(elements * t.astype(np.int64) for t in tables),
        transfers=transfers,
        pre={},
        post={},
        msccl=MscclOrigin(algorithm.proto, algorithm.channels, most),
    )
    check_structure(schedule)
    pre, post = conditions(algorithm, buffers, schedule)
    schedule = replace(schedule, transfers=_in_rounds(schedule), pre=pre, post=post)
    verify(schedule)
    return schedule


def load_msccl(path: str | Path, **options) -> Schedule:
    """`from_msccl` of a file; an error begins with its path."""
    text = read_text(path, "msccl", MOST_SCHEDULE)
    try:
        return from_msccl(text, **options)
    except InputError as error:
        raise type(error)(f"{path}: {error}") from None


def _transfers(
    algorithm: MscclAlgorithm, buffers: BufferMap, senders: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Transfers, each in a round of its own, and how many relay chunks each GPU has."""
    steps = algorithm.steps
    order = run_order(algorithm, senders)
    early = _overwritten(algorithm, senders, order)
    gpus = algorithm.blocks["gpu"][steps["block"]].tolist()
    kinds, counts = steps["type"].tolist(), steps["cnt"].tolist()
    location = {}
    for side in ("src", "dst"):
        letter = steps[f"{side}buf"]
        chunk = buffers.shift[gpus, letter] + steps[f"{side}off"]
        location[side] = list(zip(buffers.buffer[letter].tolist(), chunk.tolist(), strict=True))
    relay = len(buffers.names)
    relayed = np.zeros(algorithm.gpus, np.int64)
    #: What a step passes on: GPU, buffer, chunk; and the same of what waits for a receive in a relay.
    passed: dict[int, tuple[int, int, int]] = {}
    relays: dict[int, tuple[int, int, int]] = {}
    rows: list[tuple] = []

    def move(source, target, count: int, reduce: bool) -> None:
        rows.append((len(rows), source[0], target[0], *source[1:], *target[1:], count, reduce))

    def new_relay(gpu: int, count: int) -> tuple[int, int, int]:
        first = int(relayed[gpu])
        relayed[gpu] += count
        return gpu, relay, first

    receivers = np.full(steps.size, -1)
    receivers[senders[senders >= 0]] = np.flatnonzero(senders >= 0)
    for row in order:
        kind, gpu, count = kinds[row], gpus[row], counts[row]
        src, dst = (gpu, *location["src"][row]), (gpu, *location["dst"][row])
        if kind in (R, RCS, RRC, RRS, RRCS):
            source = relays.pop(row, None) or passed[int(senders[row])]
            if kind in (RRC, RRCS, RRS):
                target = new_relay(gpu, count) if kind == RRS else dst
                if src != target:
                    move(src, target, count, False)
                move(source, target, count, True)
            else:
                target = dst
                move(source, target, count, False)
            passed[row] = target
        elif kind in (CPY, RE):
            move(src, dst, count, kind == RE)
        elif kind == S:
            passed[row] = src
        if early[row]:
            receiver = int(receivers[row])
            held = new_relay(gpus[receiver], count)
            move(passed[row], held, count, False)
            relays[receiver] = held
    return np.array(rows, TRANSFER), relayed


def _overwritten(algorithm: MscclAlgorithm, senders: np.ndarray, order: list[int]) -> list[bool]:
    """Whether what a step sends is written again, in this order, before it is received."""
    steps = algorithm.steps
    time = np.empty(steps.size, np.int64)
    time[order] = np.arange(steps.size)
    received = np.full(steps.size, -1, np.int64)  # when what a step sends is received
    takes = np.flatnonzero(senders >= 0)
    received[senders[takes]] = time[takes]
    kind = steps["type"]
    # A step that sends reads the chunk that it sends from last: `src`, or `dst` after writing it.
    touched = touches(algorithm)
    sends = np.where(touched.writes, np.isin(kind[touched.row], (RCS, RRCS)), kind[touched.row] == S)
    by_chunk = np.lexsort((time[touched.row], touched.chunk))
    chunk, writes, row = touched.chunk[by_chunk], touched.writes[by_chunk], touched.row[by_chunk]
    # The next write after each touch, if it is of the same chunk.
    at = np.where(writes, np.arange(chunk.size), chunk.size)
    after = np.append(np.minimum.accumulate(at[::-1])[::-1][1:], chunk.size)[: chunk.size]
    some = np.minimum(after, chunk.size - 1)
    lost = sends[by_chunk] & (after < chunk.size) & (chunk[some] == chunk) & (time[row[some]] < received[row])
    early = np.zeros(steps.size, bool)
    early[row[lost]] = True
    return early.tolist()


def _in_rounds(schedule: Schedule) -> np.ndarray:
    """Transfers in rounds: as few of communication as data allow; those within GPUs follow at once."""
    t = schedule.transfers
    src = chunk_numbers(schedule, t["src_buffer"], t["src"], t["src_chunk"]).tolist()
    dst = chunk_numbers(schedule, t["dst_buffer"], t["dst"], t["dst_chunk"]).tolist()
    counts, local = t["count"].tolist(), (t["src"] == t["dst"]).tolist()
    chunks = sum(table.size for table in schedule.sizes)
    # A round is a number of rounds of communication before it, and of rounds since: high and low bits.
    read, written = (np.full(chunks, -_LOCAL, np.int64) for _ in range(2))
    rounds = np.zeros(t.size, np.int64)
    for n, count in enumerate(counts):
        s, d = slice(src[n], src[n] + count), slice(dst[n], dst[n] + count)
        last = max(int(written[s].max()), int(written[d].max()), int(read[d].max()))
        rounds[n] = last + 1 if local[n] else (last // _LOCAL + 1) * _LOCAL
        written[d] = rounds[n]
        np.maximum(read[s], rounds[n], out=read[s])
    transfers = t.copy()
    transfers["round"] = np.unique(rounds, return_inverse=True)[1].ravel()
    return transfers[np.argsort(transfers["round"], kind="stable")]
