"""Combine several schedules, each on a list of GPUs, into one schedule of the whole fabric."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from wavefabric.base.arguments import whole
from wavefabric.base.errors import InputError
from wavefabric.collectives.schedule import TRANSFER, Holdings, Schedule

#: Bits of precision of sizes in a combined schedule, and maximum bits of the number of elements per GPU.
_STEP_BITS, _MOST_BITS = 40, 62

#: A schedule, and the GPU number of each of its ranks.
Part = tuple[Schedule, Sequence[int]]


def combined(
    parts: Sequence[Part],
    ranks: int,
    name: str,
    *,
    starts: Sequence[int] | None = None,
    conditions: bool = True,
) -> Schedule:
    """Combine ``parts`` into one schedule in which communication round k of all parts runs at the same time.

    A part is a pair (schedule, gpus): rank r of the schedule becomes GPU ``gpus[r]``. ``ranks`` is the total
    number of GPUs, of which some may be unused. Rounds in which ranks only add or copy their own data stay
    between the same communication rounds. Parts on disjoint GPUs share buffers of the same name. A part that
    shares a GPU with an earlier part gets separate buffers, such as ``"data 2"``. Data of different parts are
    numbered differently: if `wavefabric.collectives.verify` proves every part, it proves the whole.

    ``starts``: the communication round in which each part begins, 0 by default. ``conditions`` False omits
    `pre` and `post` (what GPUs hold before and after), which cost models and circuits do not need. Raises
    `InputError` if a part's number of GPUs differs from its ranks, or if a GPU is out of range or twice in a
    part.

    Examples
    --------
    >>> from wavefabric.collectives import build, verify
    >>> from wavefabric.training.communication.combined_schedules import combined
    >>> pair = build("ring", "all-reduce", 2, 2)
    >>> both = combined([(pair, (0, 2)), (pair, (3, 1))], 4, "two pairs")
    >>> verify(both)
    >>> both.rounds, both.transfers[["src", "dst"]].tolist()[:4]
    (2, [(0, 2), (2, 0), (3, 1), (1, 3)])
    """
    ranks = whole("ranks", ranks, 1)
    starts = [0] * len(parts) if starts is None else [whole("starts", s, 0) for s in starts]
    placements = [
        _placement(number, schedule, gpus, ranks, start)
        for number, ((schedule, gpus), start) in enumerate(zip(parts, starts, strict=True))
    ]
    buffers = _share_buffers(placements)
    return Schedule(
        name,
        ranks,
        tuple(buffers) or ("data",),
        _sizes(placements, ranks, len(buffers)),
        _transfers(placements),
        _holdings(placements, lambda s: s.pre) if conditions else {},
        _holdings(placements, lambda s: s.post) if conditions else {},
    )


@dataclass(eq=False)
class _Placement:
    """Describes one schedule that becomes part of a combined schedule, on the GPUs ``gpus``.

    ``start``: the communication round in which the schedule begins. ``layer``: schedules with equal number
    are on disjoint GPUs and share buffers. ``buffers``: for each buffer of the schedule, the buffer's number
    in the combined schedule.
    """

    schedule: Schedule
    gpus: np.ndarray  # shape (ranks of the part,)
    start: int
    layer: int = 0
    buffers: tuple[int, ...] = ()


def _placement(number: int, schedule: Schedule, gpus: Sequence[int], ranks: int, start: int) -> _Placement:
    key = f"parts[{number}]"
    numbers = [whole(f"{key}: gpus", gpu, 0, ranks - 1) for gpu in gpus]
    if len(numbers) != schedule.ranks or len(set(numbers)) < len(numbers):
        actual = f"{len(set(numbers))} different GPUs given"
        raise InputError(f"{key}: {actual}; allowed: {schedule.ranks}, one per rank of {schedule.name}")
    return _Placement(schedule, np.array(numbers, np.int64), start)


def _share_buffers(placements: Iterable[_Placement]) -> dict[str, int]:
    """Number the buffers of a combined schedule; return a dictionary from buffer name to number.

    Parts on disjoint GPUs share buffers of the same name.
    """
    taken: list[set[int]] = []
    numbers: dict[tuple[int, str], int] = {}
    for p in placements:
        gpus = set(p.gpus.tolist())
        p.layer = next((i for i, used in enumerate(taken) if used.isdisjoint(gpus)), len(taken))
        if p.layer == len(taken):
            taken.append(set())
        taken[p.layer] |= gpus
        p.buffers = tuple(numbers.setdefault((p.layer, b), len(numbers)) for b in p.schedule.buffers)
    names: dict[str, int] = {}
    for (layer, buffer), number in numbers.items():
        shown = f"{buffer} {layer + 1}" if layer else buffer
        while shown in names:
            shown += "'"
        names[shown] = number
    return names


def _sizes(placements: Sequence[_Placement], ranks: int, buffers: int) -> tuple[np.ndarray, ...]:
    """Return the number of elements of each chunk: one array of shape (ranks, chunks) for each buffer."""
    width = [0] * max(buffers, 1)
    for p in placements:
        for number, sizes in zip(p.buffers, p.schedule.sizes, strict=True):
            width[number] = max(width[number], sizes.shape[1])
    tables = tuple(np.zeros((ranks, w), np.int64) for w in width)
    for p in placements:
        for number, sizes in zip(p.buffers, p.schedule.sizes, strict=True):
            tables[number][p.gpus, : sizes.shape[1]] = sizes
    return tables


def _transfers(placements: Sequence[_Placement]) -> np.ndarray:
    """Return the transfers of all parts in one array, ordered by round of the combined schedule."""
    alike: dict[tuple, list[_Placement]] = {}
    for p in placements:
        alike.setdefault((id(p.schedule), p.buffers, p.start), []).append(p)
    tables, times = [np.zeros(0, TRANSFER)], [np.zeros(0, np.int64)]
    numbers = 0
    for same in alike.values():
        first, t = same[0], same[0].schedule.transfers
        gpus = np.stack([p.gpus for p in same], axis=1)  # rank of the part × part
        buffers = np.array(first.buffers, np.int16)
        table = np.empty((t.size, len(same)), TRANSFER)
        for field in ("src_chunk", "dst_chunk", "count", "reduce"):
            table[field] = t[field][:, None]
        for end in ("src", "dst"):
            table[end] = gpus[t[end]]
            table[f"{end}_buffer"] = buffers[t[f"{end}_buffer"]][:, None]
        # Rows of one switch operation must be consecutive, so each part gets separate operation numbers.
        switch, part = t["switch"][:, None].astype(np.int64), np.arange(len(same))
        table["switch"] = np.where(switch > 0, numbers + switch * len(same) + part, 0)
        numbers = int(table["switch"].max(initial=numbers))
        tables.append(table.T.ravel())
        times.append(np.tile(_times(first), len(same)))
    joined = np.concatenate(tables)
    joined["round"] = np.unique(np.concatenate(times), return_inverse=True)[1]
    return joined[np.argsort(joined["round"], kind="stable")]


def _times(p: _Placement) -> np.ndarray:
    """Return an integer for each transfer of ``p``, by which the transfers of all parts are sorted in time.

    Transfers in communication round k of the combined schedule get the integer (k + 1) 2³². Transfers in the
    rounds without communication that follow round k get 1, 2, … more.
    """
    t = p.schedule.transfers
    rounds = t["round"].astype(np.int64)
    talking = np.unique(rounds[t["src"] != t["dst"]])
    before = np.searchsorted(talking, rounds, "right")  # communication rounds up to each round
    last = np.concatenate(([-1], talking))[before]
    return ((p.start + before) << 32) + (rounds - last)


def _holdings(placements: Iterable[_Placement], side: Callable[[Schedule], Holdings]) -> Holdings:
    """Return which data each GPU holds before or after the combined schedule.

    ``side``: a function that returns the `pre` of a schedule (for before) or the `post` (for after).
    """
    held: Holdings = {}
    first_item = 0
    for p in placements:
        gpus = p.gpus.tolist()
        mask = cache(partial(_mask, gpus))
        for (rank, buffer, chunk), (item, origins) in side(p.schedule).items():
            held[gpus[rank], p.buffers[buffer], chunk] = first_item + item, mask(origins)
        items = (item for s in (p.schedule.pre, p.schedule.post) for item, _ in s.values())
        first_item += 1 + max(items, default=-1)
    return held


def _mask(gpus: Sequence[int], origins: int) -> int:
    """Convert a bit mask of ranks, ``origins``, to a bit mask of GPUs; ``gpus[r]`` is the GPU of rank r."""
    return sum(1 << gpu for rank, gpu in enumerate(gpus) if origins >> rank & 1)


def common_unit(element_bytes: Sequence[float], schedules: Sequence[Schedule]) -> tuple[float, list[int]]:
    """Return a common element size in bytes for several schedules, and a whole factor for each schedule.

    ``element_bytes``: the present size of an element of each schedule. Factor i is the number of new
    elements, rounded, that replace one element of schedule i.
    """
    largest = max(element_bytes)
    if min(element_bytes) == largest:
        return largest, [1] * len(element_bytes)
    most = max(int(sizes.sum(axis=1).max(initial=1)) for s in schedules for sizes in s.sizes)
    steps = 2 ** max(1, min(_STEP_BITS, _MOST_BITS - most.bit_length()))
    return largest / steps, [max(1, round(size / largest * steps)) for size in element_bytes]
