"""Map input, output and scratch of other programs' files to buffers of schedules, with their conditions."""

from dataclasses import dataclass

import numpy as np

from wavefabric.base.errors import InputError, ensure
from wavefabric.collectives.conditions import CUT_BY_RANK, ROOTED, layout
from wavefabric.collectives.schedule import Holdings, Schedule
from wavefabric.collectives.structure import units

#: GPU, buffer and chunk.
ChunkAt = tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class CollectiveArrays:
    """Describes the arrays of a collective operation as a file declares them.

    ``sizes``, shape (gpus, 3): number of chunks of each GPU's input, output and scratch. ``chunks``: number
    of chunks of the whole array. ``collective``: the operation performed, None if only the transfers tell.
    ``layout_as``: the collective whose layout of input and output the file uses, None for a custom layout.
    ``keys``: the names that the file uses for ``chunks``, for the input and for the output.
    """

    layout_as: str | None
    collective: str | None
    inplace: bool
    chunks: int
    sizes: np.ndarray
    root: int | None
    keys: tuple[str, str, str]

    @property
    def gpus(self) -> int:
        """Return the number of GPUs."""
        return len(self.sizes)


@dataclass(frozen=True, eq=False)
class BufferMap:
    """Maps input, output and scratch of a file to buffers of a schedule.

    ``present``: for each buffer, whether each GPU has each chunk, bool of shape (gpus, chunks). ``buffer``:
    index of the buffer that stands for the input, for the output and for scratch. ``shift``, shape (gpus, 3):
    the chunk of that buffer at which the GPU's input, output and scratch begin.
    """

    names: tuple[str, ...]
    present: tuple[np.ndarray, ...]
    buffer: np.ndarray
    shift: np.ndarray


def buffer_map(a: CollectiveArrays) -> BufferMap:
    """Return the buffers of a schedule that stand for the input, the output and the scratch of a file.

    In place, input and output are one buffer ``data``: the input of an all-gather is the GPU's part of the
    output, the output of a reduce-scatter the GPU's part of the input, and otherwise both are the same.
    """
    shift = np.zeros((a.gpus, 3), np.int64)
    input_, output, scratch = (np.arange(int(n.max(initial=0))) < n[:, None] for n in a.sizes.T)
    if a.inplace:
        column = {"all-gather": 0, "reduce-scatter": 1}.get(a.layout_as or "")
        if column is not None:
            shift[:, column] = np.arange(a.gpus) * (a.chunks // a.gpus)
        names, buffer, present = ("data",), np.array([0, 0, 1]), (np.ones((a.gpus, a.chunks), bool),)
    else:
        names = ("send", "recv") if a.layout_as == "all-to-all" else ("input", "output")
        buffer, present = np.array([0, 1, 2]), (input_, output)
    if scratch.size:
        names, present = (*names, "scratch"), (*present, scratch)
    return BufferMap(names, present, buffer, shift)


def conditions(a: CollectiveArrays, schedule: Schedule) -> tuple[Holdings, Holdings]:
    """Return the initial and the final contents (`pre` and `post`) of a schedule that was read from a file.

    ``a``: the arrays that the file declares. The transfers of the schedule are in an order in which they may
    run; if the file does not name the operation, the contents follow from them.
    """
    collective = a.collective
    if collective is None:
        return _performed(a, schedule)
    parts = a.gpus if collective in CUT_BY_RANK else 1
    pieces, rest = divmod(a.chunks, parts)
    ensure(not rest, a.keys[0], f"{a.chunks} of {collective}", f"multiples of the GPUs, {a.gpus}")
    ensure(pieces, a.keys[0], "0", "at least one chunk for each share of the array")
    root = _root(a, collective, schedule) if collective in ROOTED else 0
    expected = layout(collective, a.gpus, pieces * parts, pieces, root)
    cut, ends = {"all-gather": 0, "reduce-scatter": 1}.get(collective), []
    for side, held in enumerate((expected.pre, expected.post)):
        # Out of place, the part of a rank lies at the beginning of a separate buffer.
        buffer, part = (0, 0) if a.inplace else (side, pieces if side == cut else 0)
        width = schedule.sizes[buffer].shape[1]
        ends.append({(r, buffer, c - r * part): v for (r, _, c), v in held.items()})
        outside = next((gpu for gpu, _, chunk in ends[-1] if chunk >= width), None)
        where = f"gpu {outside} {a.keys[1 + side]}"
        ensure(outside is None, where, width, f"what {collective} out of place needs")
    return ends[0], ends[1]


def _root(a: CollectiveArrays, collective: str, schedule: Schedule) -> int:
    if a.root is not None:
        return a.root
    t = schedule.transfers[schedule.transfers["src"] != schedule.transfers["dst"]]
    side, never = ("dst", "receive") if collective in ("broadcast", "scatter") else ("src", "send")
    others = np.setdiff1d(np.arange(a.gpus), t[side])
    if others.size != 1:
        raise InputError(f"root: not given, and {others.size} GPUs never {never}; allowed: 0 to {a.gpus - 1}")
    return int(others[0])


def _performed(a: CollectiveArrays, schedule: Schedule) -> tuple[Holdings, Holdings]:
    """Derive the initial and the final contents (`pre` and `post`) from the transfers of a schedule.

    That is for an operation that the file does not name. `pre` has the input chunks that are read before they
    are written, `post` the output chunks that are written. Input chunks that are added to one another are
    contributions to one item.
    """
    outputs = 0 if a.inplace else 1
    first: dict[ChunkAt, int] = {}
    value: dict[ChunkAt, tuple[int, int]] = {}
    parent: list[int] = []

    def find(item: int) -> int:
        while parent[item] != item:
            parent[item] = parent[parent[item]]
            item = parent[item]
        return item

    def read(at: ChunkAt) -> tuple[int, int] | None:
        if at not in value and at[1] == 0:
            first[at] = len(parent)
            value[at] = len(parent), 1 << at[0]
            parent.append(len(parent))
        return value.get(at)

    rows, u = schedule.transfers.tolist(), units(schedule)
    for begin, end, sums in zip(u.first[:-1].tolist(), u.first[1:].tolist(), u.sums.tolist(), strict=True):
        # All reads of an operation of a switch precede its writes.
        held = [[read((t[1], t[3], t[4] + i)) for i in range(t[7])] for t in rows[begin:end]]
        for number, (row, sources) in enumerate(zip(rows[begin:end], held, strict=True)):
            for i, moved in enumerate(sources):
                target, reduce = (row[2], row[5], row[6] + i), row[8] or (sums and number > 0)
                there = read(target) if reduce and moved is not None else None
                if moved is not None and there is not None:
                    parent[find(moved[0])] = find(there[0])
                    value[target] = moved[0], moved[1] | there[1]
                elif moved is not None and not reduce:
                    value[target] = moved
    written = {at for at in value if at[1] == outputs and value[at] != (first.get(at), 1 << at[0])}
    pre = {at: (find(item), 1 << at[0]) for at, item in first.items()}
    return pre, {at: (find(value[at][0]), value[at][1]) for at in sorted(written)}
