"""Read MSCCL algorithms (XML) as schedules."""

from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from wavefabric.base.arguments import whole
from wavefabric.base.files.input import MOST_SCHEDULE, parsed
from wavefabric.collectives.formats.buffers import BufferMap, ChunkAt, buffer_map
from wavefabric.collectives.formats.moves import Row, proved, straight
from wavefabric.collectives.formats.msccl import format as fmt
from wavefabric.collectives.formats.msccl.check import check_algorithm
from wavefabric.collectives.schedule import MscclOrigin, Schedule


def from_msccl(text: str, *, elements: int = 1, root: int | None = None, slots: int = fmt.SLOTS) -> Schedule:
    """Return the verified schedule of an MSCCL algorithm (XML); a chunk has ``elements`` elements.

    Rounds are as early as the data allow. Buffers are ``data`` (in place), or ``input`` and ``output``
    (``send`` and ``recv`` of an all-to-all), ``scratch`` if used, and ``relay`` for data in none of these:
    sums that are sent on without being stored, and data whose source is overwritten before they are received.
    Conditions are those of the collective; for a ``custom`` algorithm `pre` is the input that it reads before
    writing it, and `post` the output that it writes. Residual additions (``ra``) add what no GPU sent and are
    left out.

    The format has no attribute for the ``root`` of a broadcast or reduce: the default is the GPU that never
    receives, or never sends. ``slots`` and errors are as for `check_msccl`; an algorithm that does not do
    what its collective states is an `InputError` too.
    """
    algorithm = fmt.read_algorithm(text)
    elements = whole("elements", elements, 1)
    if root is not None:
        root = whole("root", root, 0, algorithm.gpus - 1)
        algorithm = replace(algorithm, arrays=replace(algorithm.arrays, root=root))
    most = check_algorithm(algorithm, slots)
    rows, relayed = _rows(algorithm, buffer_map(algorithm.arrays))
    relay = ("relay", np.arange(int(relayed.max())) < relayed[:, None]) if relayed.any() else None
    origin = MscclOrigin(algorithm.proto, algorithm.channels, most)
    return proved(algorithm.name, algorithm.arrays, rows, elements, relay, origin)


def load_msccl(path: str | Path, **options) -> Schedule:
    """Read a file with `from_msccl`; an error begins with the path."""
    return parsed(path, "msccl", partial(from_msccl, **options), MOST_SCHEDULE)


def _rows(a: fmt.MscclAlgorithm, buffers: BufferMap) -> tuple[list[Row], np.ndarray]:
    """Return the transfers of an algorithm, and for each GPU the number of chunks of the buffer ``relay``.

    ``relay`` holds sums that are sent on without being stored, and data whose source is overwritten before
    they are received.
    """
    gpus, relay = a.gpu.tolist(), len(buffers.names)
    kinds, counts = a.steps["type"].tolist(), a.steps["cnt"].tolist()
    ends: list[list[ChunkAt]] = []
    for side in ("src", "dst"):
        letter = a.steps[f"{side}buf"]
        chunk = buffers.shift[gpus, letter] + a.steps[f"{side}off"]
        ends.append(list(zip(gpus, buffers.buffer[letter].tolist(), chunk.tolist(), strict=True)))
    receivers = np.full(a.steps.size, -1)
    receivers[a.senders[a.senders >= 0]] = np.flatnonzero(a.senders >= 0)
    rows: list[Row] = []
    relays: dict[int, ChunkAt] = {}  # row of a receive → chunk with its data
    used: Counter[int] = Counter()

    def new_relay(gpu: int, count: int) -> ChunkAt:
        used[gpu] += count
        return gpu, relay, used[gpu] - count

    for row in a.order:
        kind, count, src, dst = kinds[row], counts[row], ends[0][row], ends[1][row]
        forwarded = src  # chunk that is sent on
        if fmt.RECEIVES[kind]:
            forwarded = new_relay(gpus[row], count) if kind == fmt.RRS else dst
            reduces = kind in (fmt.RRC, fmt.RRCS, fmt.RRS)
            if reduces and src != forwarded:
                rows.append((src, forwarded, count, False, 0))
            rows.append((relays[row], forwarded, count, reduces, 0))
        elif kind in (fmt.CPY, fmt.RE):
            rows.append((src, dst, count, kind == fmt.RE, 0))
        if fmt.SENDS[kind]:
            receiver = int(receivers[row])
            relays[receiver] = new_relay(gpus[receiver], count)
            rows.append((forwarded, relays[receiver], count, False, 0))
    # Number the remaining relay chunks without gaps.
    rows, kept = straight(rows, relay), {}
    used.clear()
    for _, dst, count, *_ in rows:
        if dst[1] == relay and dst not in kept:
            kept[dst] = new_relay(dst[0], count)
    rows = [(kept.get(row[0], row[0]), kept.get(row[1], row[1]), *row[2:]) for row in rows]
    return rows, np.array([used[gpu] for gpu in range(a.gpus)])
