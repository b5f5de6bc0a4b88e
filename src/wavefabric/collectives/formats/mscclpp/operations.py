"""What the operations of an execution plan read, write and wait for, on buffers and channels by number.

Meaning: github.com/microsoft/mscclpp, src/core/include/execution_kernel.hpp and src/core/executor/executor.cc.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import gcd, lcm
from typing import Any, NamedTuple

import numpy as np

from wavefabric.collectives.arguments import MOST_CHUNKS
from wavefabric.collectives.formats.buffers import BufferMap, CollectiveArrays, buffer_map
from wavefabric.collectives.formats.mscclpp import format as fmt
from wavefabric.errors import InputError

#: Most operations that are replayed, those of pipelines as often as they are repeated.
_MOST = 1 << 18
#: An end of a channel: rank, type, number among the rank's channels of that type.
End = tuple[int, str, int]


class Span(NamedTuple):
    """Pieces of a buffer; ``half``: of scratch of which calls use two halves in turn."""

    rank: int
    buffer: int
    first: int
    count: int
    packets: bool
    half: bool


@dataclass(frozen=True, eq=False)
class Operation:
    """One operation; the targets of each of its ``parts`` become the sum of the sources, piece by piece.

    ``ends`` of channels, ``numbers`` of semaphores or of a barrier, which so many ``blocks`` meet at.
    """

    rank: int
    block: int
    number: str
    name: str
    parts: tuple[tuple[tuple[Span, ...], tuple[Span, ...]], ...] = ()
    ends: tuple[End, ...] = ()
    numbers: tuple[int, ...] = ()
    blocks: int = 1

    def __str__(self) -> str:
        return f"rank {self.rank}, thread block {self.block}, operation {self.number} ({self.name})"


@dataclass(frozen=True, eq=False)
class Program:
    """A plan as operations of each rank's blocks; ``peers``: the other end of each end of a channel."""

    plan: fmt.MscclppPlan
    arrays: CollectiveArrays
    buffers: BufferMap
    #: Pieces of a chunk of each buffer, the last of them packets.
    chunk: tuple[int, ...]
    code: list[list[list[Operation]]] = field(repr=False)
    peers: dict[End, End] = field(repr=False)

    def chunk_name(self, rank: int, buffer: int, piece: int) -> str:
        """A piece's chunk in words."""
        name = (*self.buffers.names, "packets")[buffer]
        return f"{name}[{piece // self.chunk[buffer]}] of rank {rank}"


def program(plan: fmt.MscclppPlan, many: bool = False) -> Program:
    """Operations of a plan, for an array of which each chunk is one unit of its pipelines.

    ``many``: for one with chunks so large that pipelines come around scratch again, and through all
    semaphores. `InputError` for what the executor would not load, or would run over.
    """
    return _Reader(plan, many).program()


def _need(right: bool, key: str, actual: object, allowed: str) -> None:
    if not right:
        raise InputError(f"{key}: {actual}; allowed: {allowed}")


def _at(values: list, number: int | None, key: str) -> Any:
    _need(
        number is not None and number < len(values), key, number, f"below {len(values)}, as many as there are"
    )
    return values[number or 0]


@dataclass(frozen=True)
class _Place:
    """Where an operation stands, its key in the file, what its block may use, and the part of its chunks."""

    rank: int
    block: int
    number: str
    key: str
    links: dict[str, list[int]]
    remote: dict[str, list]
    window: tuple[int, int, int] | None = None


class _Reader:
    def __init__(self, plan: fmt.MscclppPlan, many: bool):
        self.plan, sizes = plan, [(g.input_chunks, g.output_chunks, g.scratch_chunks) for g in plan.gpus]
        table, collective = np.array(sizes, np.int64), fmt.COLLECTIVE_NAMES.get(plan.collective)
        keys, chunks = ("input_chunks", "input_chunks", "output_chunks"), int(table[:, :2].max())
        self.arrays = CollectiveArrays(collective, collective, plan.inplace, chunks, table, plan.root, keys)
        self.buffers = buffer_map(self.arrays)
        ops = [each for g in plan.gpus for b in g.threadblocks for op in b.ops for each in (op, *op.ops)]
        cuts = [
            (op.tbg_info.tbg_size, c.size) for op in ops if op.tbg_info for c in (*op.src_buff, *op.dst_buff)
        ]
        self.pieces = self.chunk = self.scratch = lcm(*(of // gcd(of, size) for of, size in cuts))
        units = [op.iter_context.unit_size for op in ops if op.iter_context]
        self.unit = gcd(*units) if many and units else 0
        if self.unit:
            self._repeat(max(units), len(ops))
        most = f"fewer, up to {MOST_CHUNKS} in all"
        _need(self.chunk * table.sum() <= MOST_CHUNKS, "tbg_info", f"{self.chunk} pieces of a chunk", most)
        #: By rank and type: peers of channels, or GPUs and buffer of switches.
        self.links: list[dict[str, list]] = [
            {"memory": [], "port": [], "switch": [], "none": []} for _ in sizes
        ]
        #: Scratch, by rank and chunk without flags, that holds plain data, and packets.
        self.used: tuple[set, set] = set(), set()

    def _repeat(self, longest: int, ops: int) -> None:
        """Chunks so large that pipelines come around scratch again, and through all semaphores."""
        plan, step = self.plan, longest // self.unit * self.pieces
        starts = [each.init_value for gpu in plan.gpus for each in gpu.semaphores]
        self.chunk = self.scratch = (max(starts, default=0) + 2) * step
        if plan.reuse_resources and (most := int(self.arrays.sizes[:, 2].max())):
            size = fmt.SCRATCH_BYTES // (1 + plan.use_double_scratch_buffer) // most
            _need(
                not size % longest, "unit_size", longest, f"a divisor of {size}, the bytes of a scratch chunk"
            )
            self.scratch = size // self.unit * self.pieces
            self.chunk = max(self.chunk, self.scratch + 2 * step)
        largest = plan.max_message_size // (self.unit * max(1, self.arrays.chunks)) * self.pieces
        self.chunk = max(min(self.chunk, largest), step)
        right = self.chunk // self.pieces * ops <= _MOST
        _need(right, "unit_size", self.unit, f"so large that up to {_MOST} operations come around scratch")

    def program(self) -> Program:
        for own, gpu in zip(self.links, self.plan.gpus, strict=True):
            for each in gpu.channels:
                groups = [(group.ranks, each.buffer_type or each.buff) for group in each.rank_groups]
                own[each.channel_type] += groups if each.channel_type == "switch" else each.connected_to
        code = [
            [list(self._block(r, b)) for b in range(len(g.threadblocks))]
            for r, g in enumerate(self.plan.gpus)
        ]
        both = sorted(self.used[0] & self.used[1])
        _need(
            not both, "scratch_chunks", f"(rank, chunk) {both[:1]} plain and as packets", "one or the other"
        )
        names = (*self.buffers.names, "packets")
        chunk = tuple(self.scratch if name in ("scratch", "packets") else self.chunk for name in names)
        ends: dict[tuple, End] = {}
        # The k-th channel of a type between two ranks is one: executor.cc, `setupConnections`.
        for rank, own in enumerate(self.links):
            for kind in ("memory", "port"):
                turn: Counter[int] = Counter()
                for number, peer in enumerate(own[kind]):
                    ends[rank, peer, kind, turn[peer]] = rank, kind, number
                    turn[peer] += 1
        peers = {end: ends[p, r, k, n] for (r, p, k, n), end in ends.items() if (p, r, k, n) in ends}
        return Program(self.plan, self.arrays, self.buffers, chunk, code, peers)

    def _block(self, rank: int, block: int) -> Iterator[Operation]:
        gpu, where = self.plan.gpus[rank], f"gpus[{rank}].threadblocks[{block}]"
        own = gpu.threadblocks[block]
        _need((gpu.id, own.id) == (rank, block), f"{where}.id", f"{gpu.id}, {own.id}", "as they are listed")
        count = sum(1 + len(op.ops) for op in own.ops)
        _need(count <= fmt.OPERATIONS, f"{where}.ops", f"{count} operations", f"up to {fmt.OPERATIONS}")
        at = _Place(
            rank, block, "", where, {k: [] for k in self.links[rank]}, {k: [] for k in self.links[rank]}
        )
        for each in own.channels:
            at.links[each.channel_type].extend(each.channel_ids)
        for each in own.remote_buffer_refs:
            there = [
                _at(gpu.remote_buffers, n, f"{where}.remote_buffer_refs") for n in each.remote_buffer_ids
            ]
            at.remote[each.access_channel_type].extend(there)
        count = max(map(len, at.links.values()))
        _need(count <= fmt.CHANNELS, f"{where}.channels", f"{count} of a type", f"up to {fmt.CHANNELS}")
        for n, op in enumerate(own.ops):
            here = replace(at, number=f"{n}", key=f"{where}.ops[{n}]")
            if op.name != "pipeline":
                yield self._operation(here, op)
                continue
            _need(op.iter_context is not None, f"{here.key}.iter_context", "missing", "that of a pipeline")
            whole = op.iter_context.num_chunks * self.chunk
            unit = op.iter_context.unit_size // self.unit * self.pieces if self.unit else whole
            for begin in range(0, whole, unit):
                for m, each in enumerate(op.ops):
                    right = each.name != "pipeline" and "pkt" not in each.name
                    _need(
                        right, f"{here.key}.ops[{m}].name", each.name, "neither packets nor another pipeline"
                    )
                    inner = replace(here, number=f"{n}.{m}", key=f"{here.key}.ops[{m}]")
                    yield self._operation(replace(inner, window=(begin, unit, whole)), each)

    def _operation(self, at: _Place, op: fmt.PlanOperation) -> Operation:
        made, port = Operation(at.rank, at.block, at.number, op.name), op.channel_type == "port"
        if op.name in ("sem_acquire", "sem_release"):
            for n in op.semaphore_ids:
                _at(self.plan.gpus[at.rank].semaphores, n, f"{at.key}.semaphore_ids")
            return replace(made, numbers=tuple(op.semaphore_ids))
        if op.name == "barrier":
            return replace(made, numbers=(op.barrier_id,), blocks=op.num_threadblocks)
        if op.name in (*fmt.SIGNALS, *fmt.WAITS, "flush") or port:
            numbers = [_at(at.links[op.channel_type], n, f"{at.key}.channel_ids") for n in op.channel_ids]
            made = replace(made, ends=tuple((at.rank, op.channel_type, n) for n in numbers))
        if op.name not in fmt.MOVES:
            return made
        right = op.name in fmt.BY_PORT if port else not op.name.startswith("pws")
        _need(
            right, f"{at.key}.channel_type", op.channel_type, f"port for {', '.join(fmt.BY_PORT)}, or another"
        )
        sides: list[list[list[Span]]] = []
        for side, kinds in zip(("src_buff", "dst_buff"), fmt.MOVES[op.name], strict=True):
            buffers, letters = getattr(op, side), kinds.rstrip("*")
            more = (len(buffers) - len(letters)) * (len(kinds) > len(letters))
            letters = (
                letters + letters[-1] * more
                if more > 0
                else letters[: len(letters) + max(more, -1)] or letters
            )
            _need(
                len(buffers) == len(letters), f"{at.key}.{side}", len(buffers), f"{len(letters)} of {op.name}"
            )
            letters = (
                letters.upper() if port and op.name == "ppkt" else letters
            )  # that sends packets as they are
            keys = (f"{at.key}.{side}[{i}]" for i in range(len(buffers)))
            sides.append([self._spans(*each, at, op) for each in zip(keys, buffers, letters, strict=True)])
        pairs = [tuple(sum(side, []) for side in sides)]
        if op.name in fmt.PAIRED:
            _need(
                len(sides[0]) == len(sides[1]),
                f"{at.key}.src_buff",
                len(sides[0]),
                f"{len(sides[1])}, as of dst_buff",
            )
            pairs = list(zip(*sides, strict=True))
        if op.name == "get":  # the executor takes each for the other
            index = [[each.index for each in side] for side in (op.src_buff, op.dst_buff)]
            _need(index[0] == index[1], f"{at.key}.src_buff index", index[0], f"{index[1]}, as of dst_buff")
        if port:
            _need(
                len(op.channel_ids) == len(sides[1]),
                f"{at.key}.channel_ids",
                len(op.channel_ids),
                "one a buffer",
            )
        same = all(len({span.count for side in pair for span in side}) == 1 for pair in pairs)
        _need(same, f"{at.key}.src_buff size", "another than of dst_buff", "one for all buffers")
        return replace(made, parts=tuple((tuple(a), tuple(b)) for a, b in pairs))

    def _spans(
        self, key: str, chunks: fmt.Chunks, letter: str, at: _Place, op: fmt.PlanOperation
    ) -> list[Span]:
        """Pieces of a buffer, or for a switch of one on each of its ranks."""
        kind, packets, ranks, place = chunks.type, letter.isupper(), [at.rank], letter.lower()
        if place == "r":
            there = _at(at.remote[op.channel_type], chunks.buffer_id, f"{key}.buffer_id")
            kind, ranks = there.type, [there.rank]
        elif place == "m":
            number = _at(at.links["switch"], chunks.switch_channel_id, f"{key}.switch_channel_id")
            ranks, kind = _at(self.links[at.rank]["switch"], number, f"{key}.switch_channel_id")
        _need(
            kind == "s" or (kind is not None and not packets),
            f"{key}.type",
            kind,
            "s, or for plain data i and o",
        )
        right = place == "l" or packets or kind != "s" or not self.plan.use_double_scratch_buffer
        _need(
            right, "use_double_scratch_buffer", f"true with {key}, in scratch", "with packets and own scratch"
        )
        chunk, column = self.scratch if kind == "s" else self.chunk, "ios".index(kind or "i")
        turn, of = (op.tbg_info.tb_id, op.tbg_info.tbg_size) if op.tbg_info else (0, 1)
        _need(turn < of, f"{at.key}.tbg_info.tb_id", turn, f"below {of}")
        count = chunks.size * self.chunk // of
        first = chunks.index * chunk + turn * count
        if at.window:
            begin, unit, whole = at.window
            _need(count == whole, f"{key}.size", chunks.size, "num_chunks of the pipeline")
            first, count = first + begin % chunk, min(unit, whole - begin)
        made = []
        for rank in ranks:
            right = (
                rank < len(self.plan.gpus)
                and len(set(ranks)) == len(ranks)
                and (place == "r" or at.rank in ranks)
            )
            _need(right, f"{key} rank", ranks, f"below {len(self.plan.gpus)}, each once, and itself")
            has = int(self.arrays.sizes[rank, column])
            # In place a size may stand at the other array alone.
            has = has or self.arrays.inplace * int(self.arrays.sizes[rank, 1 - column] if column < 2 else 0)
            right = first + count <= has * chunk
            _need(
                right,
                f"{key}.index",
                f"{chunks.index} with size {chunks.size}",
                f"within the {has} of rank {rank}",
            )
            if kind == "s":
                begin, end = (1 + packets) * chunks.index, (1 + packets) * (chunks.index + chunks.size)
                self.used[packets].update((rank, n) for n in range(begin, end))
            buffer = len(self.buffers.names) if packets else int(self.buffers.buffer[column])
            base = int(self.buffers.shift[rank, column]) * self.chunk
            half = kind == "s" and self.plan.use_double_scratch_buffer
            made.append(Span(rank, buffer, base + first, count, packets, half))
        return made
