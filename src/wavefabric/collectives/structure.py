"""Check the indices and sizes in a schedule, and number the chunks of all its buffers consecutively."""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.collectives.schedule import TRANSFER, Holdings, Schedule, cached
from wavefabric.collectives.sizes import ragged

#: Description of the texts that `is_name` allows.
NAMES = "text of one line, not empty"


class ScheduleError(InputError):
    """Raised if a schedule is inconsistent or misses its `post`; the message names transfer or chunk."""


@dataclass(frozen=True)
class Moves:
    """Holds the moves of single chunks that make up a schedule's transfers: arrays of shape (moves,).

    ``transfer``: index of each move's transfer; ``src``, ``dst``: numbers of its chunks. Chunks are numbered
    by buffer, then rank, then position; ``chunks`` is their total number.
    """

    transfer: np.ndarray
    src: np.ndarray
    dst: np.ndarray
    chunks: int


def chunk_bases(schedule: Schedule) -> np.ndarray:
    """Return the number of each buffer's first chunk, and the total last: shape (buffers + 1,).

    Chunks are numbered by buffer, then rank, then position.
    """
    return np.concatenate(([0], np.cumsum([s.size for s in schedule.sizes], dtype=np.int64)))


def chunk_numbers(schedule: Schedule, buffer, rank, chunk) -> np.ndarray:
    """Return the chunk numbers (see `Moves`) of (buffer, rank, chunk), each an array or a number."""
    width = np.array([s.shape[1] for s in schedule.sizes], np.int64)
    return chunk_bases(schedule)[buffer] + np.asarray(rank, np.int64) * width[buffer] + chunk


def moves(schedule: Schedule) -> Moves:
    """Split the transfers of a schedule that `check_structure` accepted into moves of single chunks."""
    t = schedule.transfers
    transfer, within = ragged(t["count"].astype(np.int64))
    src = chunk_numbers(schedule, t["src_buffer"], t["src"], t["src_chunk"])[transfer] + within
    dst = chunk_numbers(schedule, t["dst_buffer"], t["dst"], t["dst_chunk"])[transfer] + within
    return Moves(transfer, src, dst, int(chunk_bases(schedule)[-1]))


@dataclass(frozen=True, eq=False)
class Units:
    """Groups transfers into units: a unit is one transfer, or all rows of an operation of a switch.

    ``first``: index of the first transfer of each unit, and at the end the number of transfers. ``of``: the
    unit of each transfer. ``switched``: whether it is an operation of a switch; ``sums``: a reduction.
    """

    first: np.ndarray
    of: np.ndarray
    switched: np.ndarray
    sums: np.ndarray

    @property
    def numbers(self) -> np.ndarray:
        """Return a number above 0 for each transfer by a switch, equal within an operation; 0 for others."""
        return np.where(self.switched[self.of], self.of + 1, 0)

    @property
    def leads(self) -> np.ndarray:
        """Return for each transfer whether it is the first of its unit: bool, shape (transfers,)."""
        return np.isin(np.arange(self.of.size), self.first[:-1])


@cached
def units(schedule: Schedule) -> Units:
    """Return the `Units` of a schedule, in the order of its transfers."""
    t = schedule.transfers
    new = np.ones(t.size, bool)
    new[1:] = (t["switch"][1:] == 0) | (t["switch"][1:] != t["switch"][:-1]) | (np.diff(t["round"]) != 0)
    first = np.append(np.flatnonzero(new), t.size)
    begin = first[:-1]
    # A single row is a multicast to one rank.
    sums = np.diff(first) > 1
    sums[sums] = np.logical_and(
        *(t[key][begin[sums]] == t[key][begin[sums] + 1] for key in ("dst", "dst_buffer"))
    )
    return Units(first, np.cumsum(new) - 1, t["switch"][begin] > 0, sums)


def refuse_switches(schedule: Schedule, who: str) -> None:
    """Raise `InputError` if a schedule has multicasts or reductions by a switch; ``who`` cannot run them."""
    if schedule.transfers["switch"].any():
        what = f"{schedule.name} has multicasts or reductions by a switch"
        raise InputError(f"schedule: {what}; allowed for {who}: transfers from rank to rank alone")


def issuers(schedule: Schedule) -> np.ndarray:
    """Return the rank that issues each transfer: the source, or the destination of a sum by a switch."""
    t, u = schedule.transfers, units(schedule)
    return np.where(u.sums[u.of], t["dst"], t["src"]).astype(np.int64)


def in_rounds(schedule: Schedule, rounds: np.ndarray) -> Schedule:
    """Return the schedule with its transfers moved to ``rounds``, and stably sorted by round."""
    transfers = schedule.transfers.copy()
    transfers["round"] = rounds
    # Distinct numbers keep operations of switches apart when they become adjacent.
    transfers["switch"] = units(schedule).numbers
    return replace(schedule, transfers=transfers[np.argsort(rounds, kind="stable")])


def transfer_elements(schedule: Schedule) -> np.ndarray:
    """Return the number of elements that each transfer moves: int64, shape (transfers,)."""
    t = schedule.transfers
    out = np.zeros(t.size, np.int64)
    for buffer, sizes in enumerate(schedule.sizes):
        here = np.flatnonzero(t["src_buffer"] == buffer)
        total = np.pad(np.cumsum(sizes, axis=1), ((0, 0), (1, 0)))
        rank, chunk = t["src"][here], t["src_chunk"][here]
        out[here] = total[rank, chunk + t["count"][here]] - total[rank, chunk]
    return out


def sent_and_received(schedule: Schedule) -> tuple[np.ndarray, np.ndarray]:
    """Return the elements that each rank sends to others and receives from them: two arrays, (ranks,).

    A multicast by a switch is sent once, a sum by a switch received once, including a rank's data for itself.
    """
    t, u = schedule.transfers, units(schedule)
    moved = transfer_elements(schedule) * ((t["src"] != t["dst"]) | (t["switch"] > 0))
    switched, sums = u.switched[u.of], u.sums[u.of]
    sent = np.bincount(t["src"], moved * (~switched | sums | u.leads), schedule.ranks)
    return sent, np.bincount(t["dst"], moved * (~switched | ~sums | u.leads), schedule.ranks)


def batches(rounds: np.ndarray) -> list[tuple[int, int]]:
    """Return the index range (first, last + 1) of each run of equal numbers in ``rounds``."""
    if not rounds.size:
        return []
    cuts = np.flatnonzero(np.diff(rounds)) + 1
    return list(pairwise([0, *cuts.tolist(), rounds.size]))


def chunk_name(schedule: Schedule, rank: int, buffer: int, chunk: int) -> str:
    """Return a chunk's name for messages, such as ``data[3] of rank 1``."""
    return f"{schedule.buffers[buffer]}[{chunk}] of rank {rank}"


def move_name(schedule: Schedule, m: Moves, move: int) -> str:
    """Describe a move in words: its transfer, its source and its destination."""
    number = int(m.transfer[move])
    within = move - int(np.searchsorted(m.transfer, number))
    t = schedule.transfers[number]
    src, dst = (
        chunk_name(schedule, int(t[end]), int(t[f"{end}_buffer"]), int(t[f"{end}_chunk"]) + within)
        for end in ("src", "dst")
    )
    verb = "reduce" if t["reduce"] else "copy"
    return f"{schedule.name}: transfer {number} (round {int(t['round'])}, {verb} {src} to {dst})"


def is_name(text: str) -> bool:
    """Return whether a text is not empty and printable on one line."""
    return bool(text) and text.isprintable()


def check_structure(schedule: Schedule) -> None:
    """Raise `ScheduleError` for the first index out of range, empty chunk that moves, or unequal sizes."""
    _check_buffers(schedule)
    _check_ranges(schedule)
    _check_chunks(schedule)
    _check_switches(schedule)
    for name in ("pre", "post"):
        _check_holdings(schedule, name, getattr(schedule, name))


#: `check_structure`, run only once per schedule.
checked_structure = cached(check_structure)


def _refuse(schedule: Schedule, key: str, actual, allowed: str):
    name = schedule.name if is_name(schedule.name) else "schedule"
    raise ScheduleError(f"{name}: {key}: {actual}; allowed: {allowed}")


def _check_buffers(schedule: Schedule) -> None:
    if schedule.ranks < 1:
        _refuse(schedule, "ranks", schedule.ranks, "from 1")
    names = schedule.buffers
    for key, name in [("name", schedule.name), *(("buffers", n) for n in names)]:
        if not is_name(name):
            _refuse(schedule, key, repr(name), NAMES)
    if not names or len(set(names)) < len(names):
        _refuse(schedule, "buffers", list(names), "at least one, each with a name of its own")
    if len(schedule.sizes) != len(names):
        _refuse(schedule, "sizes", f"{len(schedule.sizes)} tables", f"one a buffer, {len(names)}")
    for name, sizes in zip(names, schedule.sizes, strict=True):
        key = f"sizes of {name}"
        if sizes.ndim != 2 or len(sizes) != schedule.ranks or sizes.dtype != np.int64:
            actual = f"{sizes.dtype} of shape {sizes.shape}"
            _refuse(schedule, key, actual, f"int64 of shape ({schedule.ranks}, chunks)")
        if sizes.size and sizes.min() < 0:
            _refuse(schedule, key, int(sizes.min()), "from 0")
        if sizes.sum(axis=1, dtype=np.float64).max() >= 2.0**63:
            _refuse(schedule, key, "2^63 elements or more on a rank", "fewer")
    if schedule.transfers.dtype != TRANSFER or schedule.transfers.ndim != 1:
        _refuse(schedule, "transfers", f"dtype {schedule.transfers.dtype}", "a row of TRANSFER")


def _check_ranges(schedule: Schedule) -> None:
    t = schedule.transfers
    if not t.size:
        return
    width = np.array([s.shape[1] for s in schedule.sizes], np.int64)

    def check(key: str, low: int, high) -> None:
        actual, high = t[key], np.broadcast_to(high, t.size)
        outside = (actual < low) | (actual > high)
        if outside.any():
            i = int(np.argmax(outside))
            allowed = f"{low} to {int(high[i])}" if high[i] >= low else "none, the buffer has no chunks"
            _refuse(schedule, f"transfers[{i}].{key}", int(actual[i]), allowed)

    for key, high in (("", schedule.ranks - 1), ("_buffer", len(schedule.buffers) - 1)):
        for end in ("src", "dst"):
            check(f"{end}{key}", 0, high)
    for end in ("src", "dst"):
        check(f"{end}_chunk", 0, width[t[f"{end}_buffer"]] - 1)
    check("count", 1, np.minimum(*(width[t[f"{end}_buffer"]] - t[f"{end}_chunk"] for end in ("src", "dst"))))
    early = np.concatenate(([t["round"][0] < 0], np.diff(t["round"]) < 0))
    if early.any():
        i = int(np.argmax(early))
        least = int(t["round"][i - 1]) if i else 0
        _refuse(schedule, f"transfers[{i}].round", int(t["round"][i]), f"from {least} (in order)")


def _check_chunks(schedule: Schedule) -> None:
    flat = np.concatenate([s.ravel() for s in schedule.sizes])
    m = moves(schedule)
    src, dst = flat[m.src], flat[m.dst]
    wrong = (src != dst) | (src == 0)
    if wrong.any():
        i = int(np.argmax(wrong))
        why = f"the source has {src[i]} elements, the destination {dst[i]}"
        why = "the chunk is empty (0 elements)" if src[i] == dst[i] else why
        raise ScheduleError(f"{move_name(schedule, m, i)}: {why}")


def _check_switches(schedule: Schedule) -> None:
    """Refuse operations of a switch that are neither a multicast nor a reduction."""
    t, u = schedule.transfers, units(schedule)
    if t.size and t["switch"].min() < 0:
        i = int(t["switch"].argmin())
        _refuse(schedule, f"transfers[{i}].switch", int(t["switch"][i]), "from 0")
    for unit in np.flatnonzero(u.switched):
        rows = t[u.first[unit] : u.first[unit + 1]]
        one, many = ("dst", "src") if u.sums[unit] else ("src", "dst")
        same = (one, f"{one}_buffer", f"{one}_chunk", f"{many}_buffer", "count", "reduce")
        wrong = next((key for key in same if np.unique(rows[key]).size > 1), None)
        wrong = wrong or (many if np.unique(rows[many]).size < rows.size else None)
        if wrong:
            kind = "reduction" if u.sums[unit] else "multicast"
            allowed = f"each {many} once" if wrong == many else "the same in all its rows"
            where = f"transfers[{u.first[unit]}] and the next, a {kind} by a switch: {wrong}"
            _refuse(schedule, where, np.unique(rows[wrong]).tolist(), allowed)


def _check_holdings(schedule: Schedule, name: str, held: Holdings) -> None:
    ranks, widths = schedule.ranks, [s.shape[1] for s in schedule.sizes]
    for (rank, buffer, chunk), (item, origins) in held.items():
        if not (0 <= buffer < len(widths) and 0 <= rank < ranks and 0 <= chunk < widths[buffer]):
            actual = f"(rank {rank}, buffer {buffer}, chunk {chunk})"
            _refuse(schedule, name, actual, f"{ranks} ranks, {len(widths)} buffers, chunks {widths}")
        actual, allowed = "", ""
        if not schedule.sizes[buffer][rank, chunk]:
            actual, allowed = " is empty (0 elements)", "chunks with elements"
        elif not 0 <= item < 2**63:
            actual, allowed = f": item {item}", "from 0"
        elif origins <= 0 or origins >> ranks:
            actual, allowed = f": origins {origins:#x}", f"bits of ranks 0 to {ranks - 1}, at least one"
        if actual:
            _refuse(schedule, name, chunk_name(schedule, rank, buffer, chunk) + actual, allowed)
