"""Resolve the numbers of buffers and channels in plan operations: what each reads, writes and waits for.

Meaning: github.com/microsoft/mscclpp, src/core/include/execution_kernel.hpp, src/core/executor/executor.cc.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd, lcm
from typing import Any, NamedTuple

import numpy as np

from wavefabric.base.errors import ensure
from wavefabric.collectives.formats.buffers import CollectiveArrays, buffer_map
from wavefabric.collectives.formats.mscclpp import format as fmt
from wavefabric.collectives.sizes import MOST_CHUNKS

#: Largest number of operations that are replayed, counting every repetition in a pipeline.
_MOST = 1 << 18
_KINDS = "memory", "port", "switch", "none"
#: An end of a channel: rank, type, number among the rank's channels of that type.
End = tuple[int, str, int]


class PieceSpan(NamedTuple):
    """A span of ``count`` pieces of a buffer from piece ``first`` on; a chunk has one or more pieces.

    ``half``: whether it lies in scratch memory whose two halves are used by calls in turn.
    """

    rank: int
    buffer: int
    first: int
    count: int
    packets: bool
    half: bool


@dataclass(eq=False)
class PlanOperation:
    """An operation of an execution plan, which a thread block executes.

    Each of ``parts`` is (sources, targets): every target receives the sum of all sources, piece by piece.
    ``ends``: the channel ends in use. ``numbers``: the semaphores in use, or the barrier, at which ``blocks``
    thread blocks meet.
    """

    rank: int
    block: int
    number: str
    name: str
    parts: tuple[tuple[list[PieceSpan], list[PieceSpan]], ...] = ()
    ends: tuple[End, ...] = ()
    numbers: tuple[int, ...] = ()
    blocks: int = 1

    def __str__(self) -> str:
        return f"rank {self.rank}, thread block {self.block}, operation {self.number} ({self.name})"


def _at(values: list, number: int | None, key: str) -> Any:
    ensure(number is not None and number < len(values), key, number, f"below {len(values)}, which there are")
    return values[number or 0]


class PlanProgram:
    """Holds an execution plan (`PLAN`) as the operations of each rank's thread blocks.

    ``code``: operations by rank and block. ``peers``: for each end of a channel, the opposite end. ``chunk``:
    number of pieces per chunk of an array, and per chunk of scratch. A pipeline moves a chunk as one unit.
    With ``many`` it moves a chunk in so many units that it comes round to the beginning of its scratch memory
    again, and that semaphores count below their initial values. `InputError` for a plan that the executor
    would not load.
    """

    def __init__(self, plan: Any, many: bool = False):
        sizes = np.array([(g.input_chunks, g.output_chunks, g.scratch_chunks) for g in plan.gpus], np.int64)
        most = int(sizes.max()) * sizes.size
        ensure(most <= MOST_CHUNKS, "gpus", f"{most} chunks", f"up to {MOST_CHUNKS}")
        does, chunks = fmt.COLLECTIVE_NAMES.get(plan.collective), int(sizes[:, :2].max())
        keys = ("input_chunks", "input_chunks", "output_chunks")
        self.arrays = CollectiveArrays(does, does, plan.inplace, chunks, sizes, plan.root, keys)
        self.plan, self.buffers = plan, buffer_map(self.arrays)
        ops = [each for g in plan.gpus for b in g.threadblocks for op in b.ops for each in (op, *op.ops)]
        shared = [(op.tbg_info.tbg_size, op.src_buff + op.dst_buff) for op in ops if op.tbg_info]
        self._pieces = lcm(*(of // gcd(of, each.size) for of, buffers in shared for each in buffers))
        self.chunk = self._pieces, self._pieces
        units = [op.iter_context.unit_size for op in ops if op.iter_context]
        self._unit = gcd(*units) if many and units else 0
        if self._unit:
            self._repeat(max(units), len(ops))
        most *= self.chunk[0]
        ensure(most <= MOST_CHUNKS, "gpus", f"{most} pieces of chunks", f"up to {MOST_CHUNKS}")
        #: By rank and type: peers of channels, or (GPUs, buffer) of switches.
        self._links: list[dict[str, list]] = [{kind: [] for kind in _KINDS} for _ in plan.gpus]
        ends: dict[tuple, End] = {}
        for rank, gpu in enumerate(plan.gpus):
            for each in gpu.channels:
                groups = [(group.ranks, each.buffer_type or each.buff) for group in each.rank_groups]
                self._links[rank][each.channel_type] += (
                    groups if each.channel_type == "switch" else each.connected_to
                )
            for kind in _KINDS[:2]:  # the k-th between two ranks is one: executor.cc, `setupConnections`
                turn: Counter[int] = Counter()
                for number, peer in enumerate(self._links[rank][kind]):
                    ends[rank, peer, kind, turn[peer]] = rank, kind, number
                    turn[peer] += 1
        self.peers = {end: ends[p, r, k, n] for (r, p, k, n), end in ends.items() if (p, r, k, n) in ends}
        #: (rank, chunk) of scratch with plain data, and with packets, which take two chunks each.
        self._used: tuple[set, set] = set(), set()
        blocks = [range(len(gpu.threadblocks)) for gpu in plan.gpus]
        self.code = [[list(self._block(rank, b)) for b in numbers] for rank, numbers in enumerate(blocks)]
        both = sorted(self._used[0] & self._used[1])[:1]
        ensure(not both, "scratch", f"(rank, chunk) {both} for packets and plain data", "for one of them")

    def _repeat(self, longest: int, ops: int) -> None:
        plan, step, most = self.plan, longest // self._unit * self._pieces, int(self.arrays.sizes[:, 2].max())
        data = scratch = step * (2 + max((s.init_value for g in plan.gpus for s in g.semaphores), default=0))
        if plan.reuse_resources and most:
            size = fmt.SCRATCH_BYTES // (1 + plan.use_double_scratch_buffer) // most
            ensure(not size % longest, "unit_size", longest, f"a divisor of a chunk of scratch, {size}")
            scratch = size // self._unit * self._pieces
            data = max(data, scratch + 2 * step)
        largest = plan.max_message_size // (self._unit * max(1, self.arrays.chunks)) * self._pieces
        self.chunk = max(min(data, largest), step), scratch
        count = self.chunk[0] // self._pieces * ops
        ensure(count <= _MOST, "unit_size", f"{self._unit}, {count} operations to check", f"up to {_MOST}")

    def _block(self, rank: int, block: int) -> Iterator[PlanOperation]:
        gpu, key = self.plan.gpus[rank], f"gpus[{rank}].threadblocks[{block}]"
        own, self._remote = gpu.threadblocks[block], {kind: [] for kind in _KINDS}
        self._own: dict[str, list[int]] = {kind: [] for kind in _KINDS}
        ensure((gpu.id, own.id) == (rank, block), f"{key}.id", (gpu.id, own.id), "as they are listed")
        for each in own.channels:
            self._own[each.channel_type] += each.channel_ids
        for each in own.remote_buffer_refs:
            there = [_at(gpu.remote_buffers, n, f"{key}.remote_buffer_refs") for n in each.remote_buffer_ids]
            self._remote[each.access_channel_type] += there
        for what, count, most in (
            ("ops", sum(1 + len(op.ops) for op in own.ops), fmt.OPERATIONS),
            ("channels", max(map(len, self._own.values())), fmt.CHANNELS),
            ("remote_buffer_refs", max(map(len, self._remote.values())), fmt.CHANNELS),
        ):
            ensure(count <= most, f"{key}.{what}", count, f"up to {most}")
        for n, op in enumerate(own.ops):
            here, window = f"{key}.ops[{n}]", (0, 0, 0)
            if op.name != "pipeline":
                yield self._operation(here, op, PlanOperation(rank, block, f"{n}", op.name), window)
                continue
            ensure(op.iter_context is not None, f"{here}.iter_context", "missing", "that of a pipeline")
            whole = op.iter_context.num_chunks * self.chunk[0]
            unit = op.iter_context.unit_size // self._unit * self._pieces if self._unit else whole
            for window in ((begin, unit, whole) for begin in range(0, whole, unit)):
                for m, each in enumerate(op.ops):
                    made = PlanOperation(rank, block, f"{n}.{m}", each.name)
                    yield self._operation(f"{here}.ops[{m}]", each, made, window)

    def _operation(
        self, key: str, op: Any, made: PlanOperation, window: tuple[int, int, int]
    ) -> PlanOperation:
        port, made.blocks = op.channel_type == "port", op.num_threadblocks
        if op.name == "barrier":
            made.numbers = (op.barrier_id,)
        elif op.name in ("sem_acquire", "sem_release"):
            for n in op.semaphore_ids:
                _at(self.plan.gpus[made.rank].semaphores, n, f"{key}.semaphore_ids")
            made.numbers = tuple(op.semaphore_ids)
        elif port or op.name not in fmt.MOVES:
            ids = [_at(self._own[op.channel_type], n, f"{key}.channel_ids") for n in op.channel_ids]
            made.ends = tuple((made.rank, op.channel_type, n) for n in ids)
        ensure(port or op.name != "flush", f"{key}.channel_type", op.channel_type, "port")
        if op.name not in fmt.MOVES:
            return made
        right = op.name in fmt.BY_PORT if port else not op.name.startswith("pws")
        ensure(right, f"{key}.channel_type", op.channel_type, f"port, and only for {', '.join(fmt.BY_PORT)}")
        sides: list[list[list[PieceSpan]]] = []
        for side, kinds in zip(("src_buff", "dst_buff"), fmt.MOVES[op.name], strict=True):
            letters, buffers = kinds.rstrip("*"), getattr(op, side)
            if letters != kinds:
                letters = letters[:-1] + letters[-1] * max(len(buffers) - len(letters) + 1, len(letters) == 1)
            ensure(len(letters) == len(buffers), f"{key}.{side}", f"{len(buffers)} buffers", len(letters))
            if port and op.name == "ppkt":  # a port sends packets as they are
                letters = letters.upper()
            spans = zip((f"{key}.{side}[{i}]" for i in range(len(buffers))), buffers, letters, strict=True)
            sides.append([self._spans(made.rank, *each, op, window) for each in spans])
        one, other = ([span for spans in side for span in spans] for side in sides)
        made.parts, (sources, targets) = ((one, other),), map(len, sides)
        if op.name in fmt.PAIRED:
            ensure(sources == targets, f"{key}.src_buff", sources, f"{targets} buffers")
            made.parts = tuple(zip(sides[0], sides[1], strict=True))
        elif port:
            made.parts = tuple((one, target) for target in sides[1])
        ensure(not port or len(made.ends) == targets, f"{key}.channel_ids", len(made.ends), targets)
        if op.name == "get":  # the executor takes each index for the other
            for a, b in zip(op.src_buff, op.dst_buff, strict=True):
                ensure(a.index == b.index, f"{key}.src_buff", a.index, f"index {b.index} of dst_buff")
        alike = all(len({span.count for side in part for span in side}) == 1 for part in made.parts)
        ensure(alike, f"{key}.src_buff", "size unlike that of dst_buff", "one size for all")
        return made

    def _spans(
        self, rank: int, key: str, chunks: Any, letter: str, op: Any, window: tuple
    ) -> list[PieceSpan]:
        """Return the pieces that one source or target of an operation covers.

        For a switch these are the pieces on each of its ranks. ``chunks``: the source or target in JSON, and
        ``key`` its key. ``letter``: whose buffer it is, as in `MOVES`. ``window``: (first piece, pieces, all
        pieces) of a pipeline's unit, zeros without a pipeline.
        """
        kind, packets, ranks, where = chunks.type, letter.isupper(), [rank], letter.lower()
        if where == "r":
            there = _at(self._remote[op.channel_type], chunks.buffer_id, f"{key}.buffer_id")
            kind, ranks = there.type, [there.rank]
        elif where == "m":
            number = _at(self._own["switch"], chunks.switch_channel_id, f"{key}.switch_channel_id")
            ranks, kind = _at(self._links[rank]["switch"], number, f"{key}.switch_channel_id")
            right = rank in ranks and len(set(ranks)) == len(ranks)
            ensure(right, f"{key}.switch_channel_id", ranks, f"each rank once, and {rank} itself")
        ensure(kind == "s" or bool(kind and not packets), f"{key}.type", kind, "s, or of plain data i or o")
        column, scratch = "ios".index(kind), kind == "s"
        half = scratch and self.plan.use_double_scratch_buffer
        right = where == "l" or packets or not half  # the executor moves only those to the second half
        ensure(right, "use_double_scratch_buffer", f"true with {key}", "its own scratch, or packets")
        turn, of = (op.tbg_info.tb_id, op.tbg_info.tbg_size) if op.tbg_info else (0, 1)
        ensure(turn < of, f"{key} tb_id", turn, f"below tbg_size, {of}")
        chunk, count = self.chunk[scratch], chunks.size * self.chunk[0] // of
        first, (begin, unit, whole) = chunks.index * chunk + turn * count, window
        if whole:
            ensure(count == whole, f"{key}.size", chunks.size, "num_chunks of the pipeline")
            first, count = first + (begin % chunk if scratch else begin), min(unit, whole - begin)
        made = []
        for each in ranks:
            sizes = _at(list(self.arrays.sizes), each, f"{key} rank").tolist()
            # In place the size of the one buffer may stand at the other array.
            has = sizes[column] or (sizes[1 - column] if self.plan.inplace and not scratch else 0)
            actual = f"{chunks.index}, size {chunks.size}"
            ensure(first + count <= has * chunk, f"{key}.index", actual, f"within {has} of rank {each}")
            buffer = len(self.buffers.names) if packets else int(self.buffers.buffer[column])
            if scratch:
                begin, end = ((1 + packets) * n for n in (chunks.index, chunks.index + chunks.size))
                self._used[packets].update((each, n) for n in range(begin, end))
            base = int(self.buffers.shift[each, column]) * chunk
            made.append(PieceSpan(each, buffer, base + first, count, packets, half))
        return made

    def chunk_name(self, rank: int, buffer: int, piece: int) -> str:
        """Describe the chunk of a piece in words."""
        scratch = int(buffer >= self.buffers.buffer[2])
        return f"{(*self.buffers.names, 'packets')[buffer]}[{piece // self.chunk[scratch]}] of rank {rank}"
