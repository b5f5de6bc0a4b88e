"""From transfers in rounds to operations of thread blocks, and what orders them."""

from itertools import pairwise
from typing import Any

import numpy as np

from wavefabric.collectives.formats.buffers import CollectiveArrays
from wavefabric.collectives.formats.mscclpp import format as fmt
from wavefabric.collectives.plans.clocks import Access, Accesses, Clock
from wavefabric.errors import InputError

#: Rank, letter of a buffer, chunk.
_At = tuple[int, int, int]


class PlanLimitExceeded(Exception):
    """A limit that fewer or more thread blocks may keep; the message says which."""


class _Lane:
    """A thread block as it is written. ``unmet``: whether its threads did anything since they met last."""

    def __init__(self, rank: int, instance: int, clock: Clock):
        self.rank, self.instance, self.clock, self.moves, self.unmet, self.waits = (
            rank,
            instance,
            clock,
            0,
            False,
            False,
        )
        self.ops: list[dict[str, Any]] = []
        self.used: dict[str, list[int]] = {"memory": [], "switch": [], "buffers": []}

    def meet(self) -> None:
        if self.unmet:
            self.ops.append({"name": "nop"})
            self.clock.barrier()
        self.unmet = self.waits = False

    def sync(self, name: str, key: str, number: int, at: int = -1) -> None:
        """Add a signal or wait, to the operation at this end if it is alike."""
        there = self.ops[at] if self.ops else {"name": ""}
        if there["name"] == name and len(there[key]) < fmt.PER_OPERATION and number not in there[key]:
            there[key].append(number)
        else:
            more = {"channel_type": "memory"} if key == "channel_ids" else {}
            self.ops.insert(len(self.ops) if at else 0, {"name": name, key: [number], **more})

    def local(self, kind: str, number: int) -> int:
        """Its own number of a channel or remote buffer of the GPU."""
        if number not in self.used[kind]:
            self.used[kind].append(number)
        return self.used[kind].index(number)


class PlanWriter:
    """Writes moves (`MOVE`), on each GPU with a thread block for each of so many groups of peers.

    No block does more than `longest` moves; what follows is another's. Clocks are those of the checker.
    """

    def __init__(self, arrays: CollectiveArrays, moves: np.ndarray, packets: bool, groups: int, longest: int):
        self.arrays, self.packets, self.groups, self.longest = arrays, packets, groups, longest
        ranks, self.lanes, self.current = arrays.gpus, [], {}
        self.callers = [Clock(rank, ranks * (1 + fmt.BLOCKS)) for rank in range(ranks)]
        for caller in self.callers:
            caller.barrier()
        #: Of each rank: peers of channels, buffers of others, groups of switches, pairs with a semaphore.
        self.tables: list[dict[str, list]] = [
            {"memory": [], "buffers": [], "switch": [], "semaphores": []} for _ in range(ranks)
        ]
        self.links: dict[tuple, dict[int, int]] = {}
        self.memory: dict[_At, Accesses] = {}
        self.sums: dict[tuple, list[_At]] = {}
        #: Packets lie behind plain scratch; each is as long as two of its chunks.
        self.slots = -(-arrays.sizes[:, 2] // 2)
        self.pairs = set(zip(moves["src"].tolist(), moves["dst"].tolist(), strict=True))
        switched = moves["switch"] > 0
        apart = (~switched[1:]) | (np.diff(moves["switch"]) != 0) | (np.diff(moves["round"]) != 0)
        for begin, end in pairwise(
            [0, *(np.flatnonzero(apart) + 1).tolist(), moves.size] if moves.size else []
        ):
            unit = [dict(zip(moves.dtype.names or (), row, strict=True)) for row in moves[begin:end].tolist()]
            (self._switch if switched[begin] else self._transfer)(unit)
        if self.sums:
            self._no_switch()
        self._end()

    def _lane(self, rank: int, peer: int, instance: int, more: bool = True) -> _Lane:
        key = rank, (peer - rank) % self.arrays.gpus % self.groups, instance
        if key not in self.current or (more and self.current[key].moves >= self.longest):
            number = sum(lane.rank == rank for lane in self.lanes)
            if number == fmt.BLOCKS:
                raise PlanLimitExceeded(f"GPU {rank}: more than {fmt.BLOCKS} thread blocks")
            actor = self.arrays.gpus + rank * fmt.BLOCKS + number
            self.current[key] = _Lane(rank, instance, Clock(actor, len(self.callers[0].times)))
            self.current[key].clock.learn(self.callers[rank].told())
            self.lanes.append(self.current[key])
        return self.current[key]

    def _transfer(self, unit: list[dict[str, int]]) -> None:
        m = unit[0]
        src, dst, count, n = m["src"], m["dst"], m["cnt"], m["instance"]
        reads, writes = (
            [(m[s], m[f"{s}buf"], m[f"{s}off"] + i) for i in range(count)] for s in ("src", "dst")
        )
        source, target = (
            {"type": "ios"[m[f"{s}buf"]], "index": m[f"{s}off"], "size": count} for s in ("src", "dst")
        )
        if src == dst:
            lane = self._lane(src, src, n)
            self._do(
                lane,
                reads,
                writes,
                "re" if m["reduce"] else "copy",
                [target, source] if m["reduce"] else [source],
                [target],
            )
        elif self.packets:
            there, slot = self._lane(dst, src, n), {"index": int(self.slots[dst]), "size": count}
            self.slots[dst] += count
            lane = self._lane(src, dst, n)
            # Who hears nothing from the receiver may come around the halves of its scratch before it.
            if (dst, src) not in self.pairs and not lane.clock.knows(Access(dst, 1, None)):
                self._order(dst, lane)
            self._do(lane, reads, [], "ppkt", [source], [slot | self._remote(lane, dst, "s")])
            packet = {"type": "s", **slot}
            name, sources = ("repkt", [target, packet]) if m["reduce"] else ("upkt", [packet])
            self._do(there, [], writes, name, sources, [target])
        elif m["reduce"]:
            lane = self._lane(dst, src, n)
            other = source | self._remote(lane, src, source.pop("type"))
            self._do(lane, reads, writes, "rre", [target, other], [target])
        else:
            lane = self._lane(src, dst, n)
            other = target | self._remote(lane, dst, target.pop("type"))
            self._do(lane, reads, writes, "put", [source], [other])

    def _switch(self, unit: list[dict[str, int]]) -> None:
        """A multicast, or if a sum is multicast, both in one."""
        ends = [[(m[s], m[f"{s}buf"], m[f"{s}off"]) for m in unit] for s in ("src", "dst")]
        count, n = unit[0]["cnt"], unit[0]["instance"]
        if len(set(ends[1])) == 1 < len(unit):
            if unit[0]["reduce"] or {*ends[0], *ends[1]} & {at for each in self.sums.values() for at in each}:
                self._no_switch()
            self.sums[*ends[1][0], count] = ends[0]
            return
        source = ends[0][0]
        summed = self.sums.pop((*source, count), None)
        lane = self._lane(source[0], source[0], n)
        sides = [summed or [source], ends[1]]
        buffers, alike = [], source[0] in {rank for rank, *_ in ends[1]} and (not summed or source in ends[1])
        for side, places in enumerate(sides):
            _, letter, chunk = places[0]
            buffer: dict[str, Any] = {"index": chunk, "size": count}
            if side or summed:
                group = sorted(rank for rank, *_ in places), "ios"[letter]
                alike &= {at[1:] for at in places} == {(letter, chunk)} and (
                    group[0] == sorted(r for r, *_ in sides[1])
                )
                for rank in group[0]:
                    if group not in self.tables[rank]["switch"]:
                        self.tables[rank]["switch"].append(group)
                number = self.tables[lane.rank]["switch"].index(group)
                buffers.append(buffer | {"switch_channel_id": lane.local("switch", number)})
            else:
                buffers.append(buffer | {"type": "ios"[letter]})
        if not alike:
            self._no_switch()
        reads, writes = ([(r, b, c + i) for r, b, c in side for i in range(count)] for side in sides)
        self._do(lane, reads, writes, "glres" if summed else "gstore", *([each] for each in buffers))

    def _no_switch(self):
        what = (
            "a switch adds up, or multicasts, otherwise than one place of the same GPUs, itself one of them"
        )
        raise InputError(
            f"MSCCL++: {what}; allowed: multicasts to one place, and sums followed by that of the sum"
        )

    def _remote(self, lane: _Lane, rank: int, kind: str) -> dict[str, int]:
        own = self.tables[lane.rank]["buffers"]
        if (rank, kind) not in own:
            own.append((rank, kind))
        return {"buffer_id": lane.local("buffers", own.index((rank, kind)))}

    def _at(self, at: _At) -> Accesses:
        return self.memory.setdefault(at, Accesses(Access(at[0], 1, None)))  # by the caller

    def _do(
        self, lane: _Lane, reads: list[_At], writes: list[_At], name: str, sources: list, targets: list
    ) -> None:
        """Add an operation, after all that it must come after."""
        lane.clock.move = object()
        accesses = [(at, False) for at in reads] + [(at, True) for at in writes]
        for at, write in accesses:
            for other, _ in list(lane.clock.unordered(self._at(at), write)):
                if not lane.clock.knows(other):
                    self._order(other.actor, lane)
        if lane.waits:
            lane.meet()
        for at, write in accesses:
            lane.clock.access(self._at(at), write)
        more = (
            {"channel_type": "switch" if name[0] == "g" else "memory"}
            if name not in ("copy", "re", "upkt", "repkt")
            else {}
        )
        more |= {"reduce_op": "sum"} if "re" in name else {}
        lane.ops.append({"name": name, "src_buff": sources, "dst_buff": targets, **more})
        lane.unmet, lane.moves = True, lane.moves + 1

    def _order(self, actor: int, lane: _Lane) -> None:
        """What an actor did so far comes before what a block does next."""
        if actor == lane.clock.actor:
            lane.meet()
            return
        begin = actor < self.arrays.gpus
        other = (
            self._lane(actor, lane.rank, lane.instance, False)
            if begin
            else next(x for x in self.lanes if x.clock.actor == actor)
        )
        if not begin:
            other.meet()
        if other.rank == lane.rank:
            own, pair = self.tables[lane.rank]["semaphores"], (other.clock.actor, lane.clock.actor)
            if pair not in own:
                own.append(pair)
            other.sync("sem_release", "semaphore_ids", own.index(pair))
            lane.sync("sem_acquire", "semaphore_ids", own.index(pair))
        else:
            link = self.links.setdefault((*sorted((other.clock.actor, lane.clock.actor)),), {})
            for one, peer in () if link else ((other, lane), (lane, other)):
                self.tables[one.rank]["memory"].append(peer.rank)
                link[one.rank] = len(self.tables[one.rank]["memory"]) - 1
            kind = "rlx" if begin else ""
            other.sync(
                f"{kind}signal", "channel_ids", other.local("memory", link[other.rank]), 0 if begin else -1
            )
            lane.sync(f"{kind}wait", "channel_ids", lane.local("memory", link[lane.rank]))
        lane.clock.learn(self.callers[actor].told() if begin else other.clock.told())
        lane.unmet = lane.waits = True

    def _end(self) -> None:
        """No call ends before others are done with its arrays."""
        for rank, caller in enumerate(self.callers):
            for lane in self.lanes:
                if lane.rank == rank:
                    lane.clock.barrier()
                    caller.learn(lane.clock.told())
            for at in [at for at in self.memory if at[0] == rank]:
                for other, _ in list(caller.unordered(self.memory[at], True)):
                    there = next(lane for lane in self.lanes if lane.clock.actor == other.actor)
                    if not caller.knows(other):
                        mine = self._lane(rank, there.rank, there.instance, False)
                        self._order(other.actor, mine)
                        caller.learn(mine.clock.told())

    def gpus(self) -> list[dict[str, Any]]:
        """The plan's GPUs, as its JSON has them; `PlanLimitExceeded` names a limit that is not kept."""
        made = []
        for rank, (table, sizes) in enumerate(zip(self.tables, self.arrays.sizes.tolist(), strict=True)):
            lanes = [lane for lane in self.lanes if lane.rank == rank and lane.ops]
            for what, most, numbers in (
                ("operations of a thread block", fmt.OPERATIONS, [len(lane.ops) for lane in lanes]),
                (
                    "channels of a thread block",
                    fmt.CHANNELS,
                    [len(v) for lane in lanes for v in lane.used.values()],
                ),
                ("semaphores", fmt.SEMAPHORES, [len(table["semaphores"])]),
            ):
                if max(numbers, default=0) > most:
                    raise PlanLimitExceeded(f"GPU {rank}: {max(numbers)} {what}, of {most}")
            blocks = []
            for number, lane in enumerate(lanes):
                channels = [
                    {"channel_type": k, "channel_ids": lane.used[k]}
                    for k in ("memory", "switch")
                    if lane.used[k]
                ]
                refs = (
                    [{"access_channel_type": "memory", "remote_buffer_ids": lane.used["buffers"]}]
                    if lane.used["buffers"]
                    else []
                )
                blocks.append(
                    {"id": number, "ops": lane.ops, "channels": channels, "remote_buffer_refs": refs}
                )
            channels = (
                [{"channel_type": "memory", "connected_to": table["memory"]}] if table["memory"] else []
            )
            for ranks, kind in table["switch"]:
                groups = [{"size": len(ranks), "ranks": ranks}]
                channels.append({"channel_type": "switch", "buffer_type": kind, "rank_groups": groups})
            chunks = {f"{n}_chunks": v for n, v in zip(("input", "output"), sizes, strict=False)}
            chunks["scratch_chunks"] = int(self.slots[rank]) if self.packets else sizes[2]
            others = [{"rank": r, "type": k, "access_channel_types": ["memory"]} for r, k in table["buffers"]]
            semaphores = [{"init_value": 0} for _ in table["semaphores"]]
            made.append(
                {
                    "id": rank,
                    **chunks,
                    "channels": channels,
                    "remote_buffers": others,
                    "semaphores": semaphores,
                    "threadblocks": blocks,
                }
            )
        return made
