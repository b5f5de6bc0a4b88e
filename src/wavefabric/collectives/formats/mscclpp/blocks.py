"""Convert transfers in rounds to operations of thread blocks, and add the signals that order them."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from wavefabric.base.errors import ensure
from wavefabric.collectives.formats.buffers import ChunkAt, CollectiveArrays
from wavefabric.collectives.formats.moves import LimitExceeded
from wavefabric.collectives.formats.mscclpp import format as fmt


class _Block:
    """A thread block of an execution plan, while its operations are being written.

    ``history``: accesses that are certain to be done, as the bits of a whole number. ``since``: its accesses
    since its threads last met.
    """

    def __init__(self, rank: int, instance: int, number: int, history: int):
        self.rank, self.instance, self.number, self.moves = rank, instance, number, 0
        self.history, self.since = history, 0
        #: Whether the threads did anything since they last met, and whether some of them have waited.
        self.unmet, self.waited = False, False
        #: Waits of the block before its moves of the current round, and the accesses it learns of by them.
        self.waits: list[tuple[str, str, int]] = []
        self.news = 0
        self.ops: list[dict[str, Any]] = []
        self.used: dict[str, list] = {"memory": [], "switch": [], "buffers": []}

    def meet(self) -> None:
        if self.unmet:
            self.ops.append({"name": "nop"})
            self.settle()
        self.unmet = self.waited = False

    def settle(self) -> None:
        self.history, self.since = self.history | self.since, 0

    def sync(self, name: str, key: str, number: int, at: int = -1) -> None:
        """Add a signal or wait at the end of the block, or with ``at`` 0 at its beginning.

        If the operation there is of the same kind, the channel or semaphore ``number`` is added to it
        instead. ``name`` and ``key`` are those of the operation in JSON.
        """
        there: dict[str, Any] = self.ops[at] if self.ops else {"name": ""}
        if there["name"] == name and len(there[key]) < fmt.PER_OPERATION and number not in there[key]:
            there[key].append(number)
        else:
            kind = {"channel_type": "memory"} if key == "channel_ids" else {}
            self.ops.insert(len(self.ops) if at else 0, {"name": name, key: [number]} | kind)

    def use(self, kind: str, number: int) -> int:
        """Return the number by which this block refers to channel or buffer ``number`` of its GPU."""
        return _number(self.used[kind], number)


def _within(rank: int, count: int, most: int, what: str) -> None:
    if count > most:
        raise LimitExceeded(f"GPU {rank}: {count} {what}, of {most}")


def _number(values: list, value: Any) -> int:
    """Return the index of a value in a list, to which it is appended if new."""
    if value not in values:
        values.append(value)
    return values.index(value)


class PlanWriter:
    """Turns transfers (`MOVE`) into operations of thread blocks, with the signals that order them.

    The peers of a GPU form ``groups`` groups. A GPU has a thread block for each group, and a further one
    whenever a block has ``longest`` transfers. Accesses have numbers; the first are those of the ranks'
    callers to their arrays before the call.
    """

    def __init__(self, arrays: CollectiveArrays, moves: np.ndarray, packets: bool, groups: int, longest: int):
        self.arrays, self.packets, self.groups, self.longest = arrays, packets, groups, longest
        ranks, self.blocks, self.current = range(arrays.gpus), [], {}
        #: Accesses that the caller of each rank knows to be done, and which block makes each access.
        self.callers = [1 << rank for rank in ranks]
        self.by: list[_Block | None] = [None for _ in ranks]
        #: Per rank: peers of channels, (GPUs, buffer) of switches, remote buffers, block pairs of semaphores.
        kinds = "memory", "switch", "buffers", "semaphores"
        self.tables: list[dict[str, list]] = [{kind: [] for kind in kinds} for _ in ranks]
        self.todo: list[tuple[_Block, list[tuple[list[int], bool]], dict[str, Any]]] = []
        self.links: dict[tuple, dict[int, int]] = {}
        #: By chunk: the number of the last write, and of the reads since.
        self.memory: dict[ChunkAt, list[int]] = {}
        #: Sums by switches whose multicast is still to come, by target: chunks accessed, rows.
        self.sums: dict[tuple, tuple[set[ChunkAt], list[dict[str, int]]]] = {}
        #: Packets lie behind plain scratch; a packet is as long as two chunks of scratch.
        self.slots = (-(-arrays.sizes[:, 2] // 2)).tolist()
        self.pairs = set(zip(moves["src"].tolist(), moves["dst"].tolist(), strict=True))
        instance = np.where(moves["switch"] > 0, moves["instance"], 0)
        moves = moves[np.lexsort((instance, moves["switch"], moves["round"]))]
        apart = moves["switch"][1:] == 0
        for key in ("round", "switch", "instance"):
            apart |= np.diff(moves[key]) != 0
        for begin, end in pairwise(sorted({0, *(np.flatnonzero(apart) + 1).tolist(), moves.size})):
            unit = [dict(zip(moves.dtype.names or (), row, strict=True)) for row in moves[begin:end].tolist()]
            if not begin or moves["round"][begin] != moves["round"][begin - 1]:
                self._round()
            (self._switch if unit[0]["switch"] else self._transfer)(unit)
        self._round()
        self._switchable(not self.sums)
        self._end()

    def _block(self, rank: int, peer: int, instance: int, more: bool = True) -> _Block:
        key = rank, (peer - rank) % self.arrays.gpus % self.groups, instance
        if key not in self.current or (more and self.current[key].moves >= self.longest):
            number = sum(block.rank == rank for block in self.blocks)
            _within(rank, number + 1, fmt.BLOCKS, "thread blocks")
            self.current[key] = _Block(rank, instance, len(self.blocks), self.callers[rank])
            self.blocks.append(self.current[key])
        return self.current[key]

    def _transfer(self, unit: list[dict[str, int]]) -> None:
        m = unit[0]
        src, dst, n, add = m["src"], m["dst"], m["instance"], m["reduce"]
        reads, writes = _chunks(m, "src"), _chunks(m, "dst")
        source, target = _buffer(m, "src"), _buffer(m, "dst")
        if src == dst:
            sources = [target, source] if add else [source]
            self._do(self._block(src, src, n), reads, writes, "re" if add else "copy", sources, [target])
        elif self.packets:
            block, there = self._block(src, dst, n), self._block(dst, src, n)
            slot = {"type": "s", "index": self.slots[dst], "size": m["count"]}
            self.slots[dst] += m["count"]
            # A sender that hears nothing from the receiver could reuse a half of its scratch too early.
            if (dst, src) not in self.pairs and not block.history >> dst & 1:
                self._order(dst, block)
            self._do(block, reads, [], "ppkt", [source], [self._remote(block, dst, slot)])
            sources = [target, slot] if add else [slot]
            self._do(there, [], writes, "repkt" if add else "upkt", sources, [target])
        elif add:
            block = self._block(dst, src, n)
            self._do(block, reads, writes, "rre", [target, self._remote(block, src, source)], [target])
        else:
            block = self._block(src, dst, n)
            self._do(block, reads, writes, "put", [source], [self._remote(block, dst, target)])

    def _switch(self, unit: list[dict[str, int]]) -> None:
        """Write a multicast by a switch, or keep a sum by a switch until its multicast is written.

        A sum and its multicast become one operation. ``unit``: the transfers of the multicast or of the sum.
        """
        first = unit[0]
        into = {(m["dst"], m["dst_buffer"], m["dst_chunk"]) for m in unit}
        if len(into) == 1 < len(unit):  # it waits for the multicast
            used = {at for m in unit for at in _chunks(m, "src") + _chunks(m, "dst")}
            self._switchable(not first["reduce"] and self._free(used))
            self.sums[*into.pop(), first["count"]] = used, unit
            return
        key = first["src"], first["src_buffer"], first["src_chunk"], first["count"]
        _, summed = self.sums.pop(key, (set(), []))
        block, sides = self._block(first["src"], first["src"], first["instance"]), []
        for rows, side in ((summed, "src"), (unit, "dst")):
            ranks = sorted(m[side] for m in rows)
            buffer = _buffer((rows or unit)[0], side)
            if rows:
                alike = len({(m[f"{side}_buffer"], m[f"{side}_chunk"]) for m in rows}) == 1
                same = ranks == sorted(m["dst"] for m in unit) and block.rank in ranks
                self._switchable(alike and same and (not summed or key[:3] in into))
                group = ranks, buffer.pop("type")
                for rank in ranks:
                    _number(self.tables[rank]["switch"], group)
                number = self.tables[block.rank]["switch"].index(group)
                buffer["switch_channel_id"] = block.use("switch", number)
            sides.append([buffer])
        reads = [at for m in summed or unit[:1] for at in _chunks(m, "src")]
        writes = [at for m in unit for at in _chunks(m, "dst")]
        self._do(block, reads, writes, "glres" if summed else "gstore", *sides)

    def _free(self, chunks: Iterable[ChunkAt]) -> bool:
        """Whether none of these chunks is accessed by a sum whose multicast is still to come."""
        return not any(at in held for held, _ in self.sums.values() for at in chunks)

    def _switchable(self, right: bool) -> None:
        allowed = "multicasts to one place of GPUs and itself, sums over them with that of the sum next"
        ensure(right, "MSCCL++", "what a switch does", allowed)

    def _remote(self, block: _Block, rank: int, buffer: dict[str, Any]) -> dict[str, Any]:
        number = _number(self.tables[block.rank]["buffers"], (rank, buffer["type"]))
        return {"buffer_id": block.use("buffers", number), "index": buffer["index"], "size": buffer["size"]}

    def _do(self, block: _Block, reads: list, writes: list, name: str, sources: list, targets: list) -> None:
        """Add an operation to the current round, with the signals and waits that order it after earlier ones.

        ``reads`` and ``writes``: chunks that it accesses. ``sources`` and ``targets``: its buffers in JSON.
        """
        self._switchable(self._free(reads + writes))
        block.moves += 1
        sides = enumerate((reads, writes))  # the caller of a chunk's rank accessed it first
        accesses = [(self.memory.setdefault(at, [at[0]]), w == 1) for w, side in sides for at in side]
        for memory, write in accesses:
            for number in memory if write else memory[:1]:
                if not (block.history | block.news) >> number & 1:
                    self._order(number, block)
        letters = "".join(fmt.MOVES[name]).lower()
        kind = "switch" if "m" in letters else "memory" if "r" in letters else "none"
        more = {"reduce_op": "sum"} if "re" in name else {}
        op = {"name": name, "src_buff": sources, "dst_buff": targets, "channel_type": kind}
        self.todo.append((block, accesses, op | more))

    def _round(self) -> None:
        """End a round, whose signals are written: write the waits of blocks, and then their operations."""
        for block in self.blocks:
            for wait in block.waits:
                block.sync(*wait)
                block.unmet = block.waited = True
            block.history |= block.news
            block.waits, block.news = [], 0
        for block, accesses, op in self.todo:
            if block.waited:
                block.meet()
            for memory, write in accesses:
                memory[0 if write else len(memory) :] = [len(self.by)]
            block.since |= 1 << len(self.by)
            self.by.append(block)
            block.ops.append(op)
            block.unmet = True
            _within(block.rank, len(block.ops), fmt.OPERATIONS, "operations of a thread block")
        self.todo = []

    def _order(self, number: int, block: _Block) -> None:
        """Make ``block`` wait, before its next operation, until access ``number`` is done.

        If another thread block made the access, that block sends a signal (on the same GPU: releases a
        semaphore) and ``block`` waits for it. So ``block`` is also ordered after all that the other block did
        or waited for before. Numbers below the number of GPUs stand for the start of a call on each rank. If
        ``block`` made the access itself, it is enough that its threads meet.
        """
        there, begin = self.by[number], number < self.arrays.gpus
        if there is block:
            block.waited = True
            return
        other = there or self._block(number, block.rank, block.instance, False)
        if not begin:
            other.meet()
        pair = other.number, block.number
        if other.rank == block.rank:
            semaphore = _number(self.tables[block.rank]["semaphores"], pair)
            other.sync("sem_release", "semaphore_ids", semaphore)
            block.waits.append(("sem_acquire", "semaphore_ids", semaphore))
        else:
            link = self.links.setdefault((min(pair), max(pair)), {})
            for one, peer in () if link else ((other.rank, block.rank), (block.rank, other.rank)):
                link[one] = len(self.tables[one]["memory"])
                self.tables[one]["memory"].append(peer)
            kind, at, key = "rlx" if begin else "", 0 if begin else -1, "channel_ids"
            other.sync(f"{kind}signal", key, other.use("memory", link[other.rank]), at)
            block.waits.append((f"{kind}wait", key, block.use("memory", link[block.rank])))
        block.news |= 1 << number if begin else other.history

    def _end(self) -> None:
        """Add signals and waits: the call of a rank may end only when others are done with its arrays."""
        for block in self.blocks:
            block.settle()
            self.callers[block.rank] |= block.history
        for (rank, *_), memory in sorted(self.memory.items(), key=lambda item: item[0][0]):
            for number in memory:
                if not self.callers[rank] >> number & 1 and (there := self.by[number]):
                    self._order(number, self._block(rank, there.rank, there.instance, False))
                    self.callers[rank] |= there.history
        self._round()

    def gpus(self) -> list[dict[str, Any]]:
        """Return the GPUs of the plan as in its JSON; `LimitExceeded` names a limit that is exceeded."""
        return [self._gpu(rank, table) for rank, table in enumerate(self.tables)]

    def _gpu(self, rank: int, table: dict[str, list]) -> dict[str, Any]:
        blocks = [block for block in self.blocks if block.rank == rank and block.ops]
        for block in blocks:
            _within(rank, len(block.ops), fmt.OPERATIONS, "operations of a thread block")
            _within(rank, max(map(len, block.used.values())), fmt.CHANNELS, "channels of a thread block")
        _within(rank, len(table["semaphores"]), fmt.SEMAPHORES, "semaphores")
        rows = []
        for number, block in enumerate(blocks):
            kinds = [kind for kind in ("memory", "switch") if block.used[kind]]
            channels = [{"channel_type": kind, "channel_ids": block.used[kind]} for kind in kinds]
            refs = [{"access_channel_type": "memory", "remote_buffer_ids": block.used["buffers"]}]
            rows.append({"id": number, "ops": block.ops, "channels": channels, "remote_buffer_refs": refs})
        channels = [{"channel_type": "memory", "connected_to": table["memory"]}]
        for ranks, kind in table["switch"]:
            groups = [{"size": len(ranks), "ranks": ranks}]
            channels.append({"channel_type": "switch", "buffer_type": kind, "rank_groups": groups})
        access = {"access_channel_types": ["memory"]}
        inputs, outputs, scratch = self.arrays.sizes[rank].tolist()
        return {
            "id": rank,
            "input_chunks": inputs,
            "output_chunks": outputs,
            "scratch_chunks": max(self.slots[rank], scratch) if self.packets else scratch,
            "channels": channels,
            "remote_buffers": [{"rank": peer, "type": kind} | access for peer, kind in table["buffers"]],
            "semaphores": [{"init_value": 0}] * len(table["semaphores"]),
            "threadblocks": rows,
        }


def _chunks(m: dict[str, int], side: str) -> list[ChunkAt]:
    return [(m[side], m[f"{side}_buffer"], m[f"{side}_chunk"] + i) for i in range(m["count"])]


def _buffer(m: dict[str, int], side: str) -> dict[str, Any]:
    return {"type": "ios"[m[f"{side}_buffer"]], "index": m[f"{side}_chunk"], "size": m["count"]}
