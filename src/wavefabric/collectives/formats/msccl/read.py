"""MSCCL algorithms (XML) as schedules."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from wavefabric.collectives.formats.buffers import BufferMap, ChunkAt, buffer_map
from wavefabric.collectives.formats.moves import proved
from wavefabric.collectives.formats.msccl import format as fmt
from wavefabric.collectives.formats.msccl.check import check_algorithm
from wavefabric.collectives.formats.msccl.order import run_order, touches
from wavefabric.collectives.levels import hazards
from wavefabric.collectives.schedule import TRANSFER, MscclOrigin, Schedule
from wavefabric.files.input import MOST_SCHEDULE, parsed
from wavefabric.quantities import whole


def from_msccl(text: str, *, elements: int = 1, root: int | None = None, slots: int = fmt.SLOTS) -> Schedule:
    """The schedule of an MSCCL algorithm (XML), proved; chunks have so many `elements`.

    Rounds are as early as the data allow. Buffers are ``data`` (in place), or ``input`` and ``output``
    (``send`` and ``recv`` of an all-to-all), ``scratch`` if there is any, and ``relay`` for what is held in
    none: sums that go on without being stored, and data whose source is overwritten before they are received.
    Conditions are those of the collective; of a ``custom`` algorithm what it does: all of the input that it
    reads first, all of the output that it writes. Residual additions (``ra``) add what no GPU sent and are
    left out.

    The format has no word for the `root` of a broadcast or reduce: by default the GPU that never receives, or
    never sends. `slots` and errors are as of `check_msccl`; an algorithm that does not do what its collective
    states is an `InputError` too.
    """
    algorithm = fmt.read_algorithm(text)
    elements = whole("elements", elements, 1)
    if root is not None:
        algorithm = replace(algorithm, root=whole("root", root, 0, algorithm.gpus - 1))
    most = check_algorithm(algorithm, slots)
    buffers = buffer_map(algorithm.arrays)
    transfers, relayed = _transfers(algorithm, buffers)
    names, tables = buffers.names, buffers.present
    if relayed.any():
        names, tables = (*names, "relay"), (*tables, np.arange(int(relayed.max())) < relayed[:, None])
    schedule = Schedule(
        name=algorithm.name,
        ranks=algorithm.gpus,
        buffers=names,
        sizes=tuple(elements * t.astype(np.int64) for t in tables),
        transfers=transfers,
        pre={},
        post={},
        msccl=MscclOrigin(algorithm.proto, algorithm.channels, most),
    )
    return proved(algorithm.arrays, schedule)


def load_msccl(path: str | Path, **options) -> Schedule:
    """`from_msccl` of a file; an error begins with its path."""
    return parsed(path, "msccl", partial(from_msccl, **options), MOST_SCHEDULE)


def _transfers(a: fmt.MscclAlgorithm, buffers: BufferMap) -> tuple[np.ndarray, np.ndarray]:
    """Transfers, each in a round of its own, and how many relay chunks each GPU has."""
    order = run_order(a)
    early, gpus = _overwritten(a, order), a.gpu.tolist()
    kinds, counts = a.steps["type"].tolist(), a.steps["cnt"].tolist()
    ends: list[list[ChunkAt]] = []
    for side in ("src", "dst"):
        letter = a.steps[f"{side}buf"]
        chunk = buffers.shift[gpus, letter] + a.steps[f"{side}off"]
        ends.append(list(zip(gpus, buffers.buffer[letter].tolist(), chunk.tolist(), strict=True)))
    receivers = np.full(a.steps.size, -1)
    receivers[a.senders[a.senders >= 0]] = np.flatnonzero(a.senders >= 0)
    rows: list[tuple] = []
    relayed = np.zeros(a.gpus, np.int64)
    passed: dict[int, ChunkAt] = {}  # what a step passes on
    relays: dict[int, ChunkAt] = {}  # what waits for a receive in a relay

    def move(source: ChunkAt, target: ChunkAt, count: int, reduce: bool) -> None:
        rows.append((len(rows), source[0], target[0], *source[1:], *target[1:], count, reduce, 0))

    def new_relay(gpu: int, count: int) -> ChunkAt:
        relayed[gpu] += count
        return gpu, len(buffers.names), int(relayed[gpu]) - count

    for row in order:
        kind, count, src, dst = kinds[row], counts[row], ends[0][row], ends[1][row]
        if fmt.RECEIVES[kind]:
            source = relays.pop(row, None) or passed[int(a.senders[row])]
            reduces = kind in (fmt.RRC, fmt.RRCS, fmt.RRS)
            passed[row] = new_relay(gpus[row], count) if kind == fmt.RRS else dst
            if reduces and src != passed[row]:
                move(src, passed[row], count, False)
            move(source, passed[row], count, reduces)
        elif kind in (fmt.CPY, fmt.RE):
            move(src, dst, count, kind == fmt.RE)
        elif kind == fmt.S:
            passed[row] = src
        if early[row]:
            receiver = int(receivers[row])
            relays[receiver] = new_relay(gpus[receiver], count)
            move(passed[row], relays[receiver], count, False)
    return np.array(rows, TRANSFER), relayed


def _overwritten(a: fmt.MscclAlgorithm, order: list[int]) -> np.ndarray:
    """Whether what each step sends is written again, in this order, before it is received."""
    time, kind = np.argsort(order), a.steps["type"]
    takes = np.flatnonzero(a.senders >= 0)
    received = np.full(a.steps.size, -1, np.int64)  # when what a step sends is received
    received[a.senders[takes]] = time[takes]
    row, chunk, writes = touches(a)
    # A step that sends what it wrote reads it again, after all else that it does.
    again = writes & np.isin(kind[row], (fmt.RCS, fmt.RRCS))
    sends = np.concatenate((~writes & (kind[row] == fmt.S), again[again]))
    late = np.repeat((0, 1), (row.size, int(again.sum())))
    row, chunk = (np.concatenate((column, column[again])) for column in (row, chunk))
    writes = np.concatenate((writes, ~again[again]))
    later, earlier = hazards(chunk, 2 * time[row] + late, writes)
    lost = sends[earlier] & writes[later] & (time[row[later]] < received[row[earlier]])
    early = np.zeros(a.steps.size, bool)
    early[row[earlier[lost]]] = True
    return early
