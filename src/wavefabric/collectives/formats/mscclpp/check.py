"""Verify an MSCCL++ execution plan: no deadlock and no race, whatever the timing.

Operations are replayed over several calls, and accesses compared (`plans/races.py`). Events are meetings of
the threads of a block, which meet only at ``nop`` and ``barrier``, requests done by the proxies that execute
port operations, and what each rank's caller does between calls. A relaxed signal orders no memory: a rank
that waits for it knows only that the other rank's call has begun (docs/tutorials/01-basic-concepts.md of
MSCCL++).
"""

from collections import Counter, defaultdict, deque

from wavefabric.collectives.formats.mscclpp.operations import PieceSpan, PlanOperation, PlanProgram
from wavefabric.collectives.plans.check import CALLS
from wavefabric.collectives.plans.races import EventLog
from wavefabric.collectives.structure import ScheduleError

#: A piece of a buffer of a rank, in one of two halves of scratch: rank, buffer, piece, half.
_Address = tuple[int, int, int, int]


def run_order(program: PlanProgram) -> list[PlanOperation]:
    """Return the operations of one call in an order that can run; `ScheduleError` in one line for a fault."""
    return _Replay(program).run()


class _Block:
    """Holds the progress of a thread block while a call is replayed; numbers are events of an `EventLog`.

    ``met``: the last event at which all threads of the block met. ``done``: the event at which all that the
    threads did after ``met`` is done. ``pending``: for each thread, the events that this thread alone has
    waited for since ``met``; the other threads learn of these events when the block meets again.
    """

    def __init__(self, code: list[PlanOperation], log: EventLog, met: int):
        self.code, self.at, self.arrived = code, len(code), -1
        self.log, self.met, self.done = log, met, log.event()
        self.pending: dict[int, list[int]] = defaultdict(list)

    def meet(self) -> None:
        learned = [event for events in self.pending.values() for event in events]
        self.met, self.done = self.log.event(self.met, self.done, *learned), self.log.event()
        self.pending.clear()

    def released(self, thread: int) -> tuple[int, ...]:
        return self.met, *self.pending.get(thread, ())


class _Replay:
    def __init__(self, program: PlanProgram):
        self.program, self.log, ranks = program, EventLog(), len(program.code)
        start = self.log.event()
        self.proxies = {end: start for end in program.peers if end[1] == "port"}
        self.blocks = [[_Block(code, self.log, start) for code in blocks] for blocks in program.code]
        self.call, self.begun, self.order = [-1] * ranks, [start] * ranks, []
        #: Packets by address: call, when the call of the sender began, when what they are made of was read.
        self.packets: dict[_Address, tuple[int, int, int]] = {}
        #: Sources of packets, and chunks that, if possible, stay until packets made of them are read, so that
        #: packets can be bypassed; ``forced``: not possible.
        self.origins, self.kept, self.forced = {}, Counter(), False
        #: Events (release, relaxed) known by each signal to a channel end, release of a semaphore, or block
        #: at a barrier.
        self.sent: dict[tuple, deque[tuple[tuple[int, ...], int]]] = defaultdict(deque)
        for rank, gpu in enumerate(program.plan.gpus):
            for number, each in enumerate(gpu.semaphores):
                self.sent[rank, "semaphore", number] += [((), start)] * each.init_value
        operations = [op for blocks in program.code for code in blocks for op in code]
        spans = {span for op in operations for part in op.parts for side in part for span in side}
        arrays = {(s.rank, s.buffer, n) for s in spans for n in range(s.first, s.first + s.count)}
        self.arrays = sorted(at for at in arrays if at[1] < program.buffers.buffer[2])
        self._check_users(operations)

    def _check_users(self, operations: list[PlanOperation]) -> None:
        """Raise `ScheduleError` for channels, semaphores and barriers that thread blocks use wrongly.

        A channel must have another end. Except on ports, only one thread block may signal on a channel or
        semaphore, and only one may wait. As many blocks must come to a barrier as it states.
        """
        users: dict[tuple, set[int]] = defaultdict(set)
        for op in operations:
            for end in op.ends:
                self._need(end in self.program.peers, "{}: {} channel {} has no other end", op, *end[1:])
            for key in (*op.ends, *((op.rank, "semaphore", n) for n in op.numbers)):
                users[(*key, op.name.removeprefix("rlx"))].add(op.block)
        for op in operations:
            if op.name == "barrier":
                come = len(users[op.rank, "semaphore", op.numbers[0], op.name])
                self._need(op.blocks == come, "{} waits for {} blocks, and {} come", op, op.blocks, come)
        for (rank, kind, number, name), blocks in users.items():
            if kind != "port" and name in ("wait", "signal", "sem_acquire", "sem_release"):
                text = "rank {}, {} of {} {}: by thread blocks {}; one may"
                self._need(len(blocks) == 1, text, rank, name, kind, number, sorted(blocks))

    def run(self) -> list[PlanOperation]:
        while min(self.call) < CALLS:
            self.moved = False
            for rank, blocks in enumerate(self.blocks):
                if self.call[rank] < CALLS and all(block.at == len(block.code) for block in blocks):
                    self._between(rank)
                for block in blocks if self.call[rank] < CALLS else ():
                    while block.at < len(block.code) and self._do(block, block.code[block.at]):
                        block.at, self.moved = block.at + 1, True
            stuck = [b.code[b.at] for blocks in self.blocks for b in blocks if b.at < len(b.code)]
            self._need(self.moved or not stuck or not self.forced, "{} waits for ever", *stuck[:1])
            self.forced = not self.moved
        self.log.check(self.program.plan.name, self._name)
        return self.order

    def _between(self, rank: int) -> None:
        """Replay the caller of a rank between two calls, after all its blocks: it accesses the arrays."""
        self.moved, blocks = True, self.blocks[rank]
        for block in blocks:
            block.meet()
        ended = self.log.event(self.begun[rank], *(block.met for block in blocks))
        self.begun[rank] = self.log.event(ended)
        self.call[rank] += 1
        self.log.begin(f"the caller of rank {rank}")
        for at in self.arrays:
            if at[0] == rank:
                self.log.access((*at, 0), True, ended, self.begun[rank])
        for block in blocks:
            block.met = self.begun[rank]
            if self.call[rank] < CALLS:
                block.at = 0

    def _do(self, block: _Block, op: PlanOperation) -> bool:
        """Replay an operation unless it must wait; return whether it was replayed."""
        keys: list[tuple] = [(op.rank, "semaphore", n) for n in op.numbers] or list(op.ends)
        if op.name in ("wait", "rlxwait", "sem_acquire"):
            if any(keys.count(key) > len(self.sent[key]) for key in keys):
                return False
            for thread, key in enumerate(keys):
                released, begun = self.sent[key].popleft()
                block.pending[thread] += (begun,) if op.name == "rlxwait" and key[1] == "memory" else released
        elif op.name in ("signal", "rlxsignal", "sem_release"):
            for thread, key in enumerate(keys):
                self._signal(op.rank, key, block.released(thread), op.name == "rlxsignal")
        elif op.name == "barrier":
            sent = self.sent[op.rank, "barrier", op.numbers[0]]
            if block.arrived < 0:
                block.meet()
                block.arrived, self.moved = len(sent) // op.blocks * op.blocks, True
                sent.append(((block.met,), block.met))
            if len(sent) < block.arrived + op.blocks:
                return False
            block.met = self.log.event(*(sent[block.arrived + n][1] for n in range(op.blocks)))
            block.arrived = -1
        elif op.name == "nop":
            block.meet()
        elif op.name == "flush":
            for thread, end in enumerate(op.ends):
                block.pending[thread].append(self.proxies[end])
        else:
            return self._move(block, op)
        return True

    def _signal(self, rank: int, key: tuple, released: tuple[int, ...], relaxed: bool = False) -> None:
        if key[1] == "port":  # the proxy does earlier requests first
            self.proxies[key] = self.log.event(self.proxies[key], *released)
            released = (self.proxies[key],)
        released = (self.begun[rank],) if relaxed and key[1] == "memory" else released
        self.sent[self.program.peers.get(key, key)].append((released, self.begun[rank]))

    def _move(self, block: _Block, op: PlanOperation) -> bool:
        """Replay an operation's reads and writes, unless they must wait; return whether they were replayed.

        They wait for packets that have not come. They also wait, if possible, before they overwrite the
        source of a packet that is still to be read.
        """
        call, port = self.call[op.rank], bool(op.ends)

        def at(span: PieceSpan, n: int) -> _Address:
            return span.rank, span.buffer, span.first + n, call % 2 if span.half else 0

        # A port sends packets as they are.
        sources = [s for part in op.parts for s in part[0] if s.packets and op.name != "ppkt"]
        packets = {at(s, n) for s in sources for n in range(s.count)}
        if any(self.packets.get(each, (-1,))[0] != call for each in packets):
            return False
        goals = [at(target, n) for part in op.parts for target in part[1] for n in range(target.count)]
        if not self.forced and any(self.kept[goal] for goal in goals):
            return False
        if op.name == "rppkt" and port:
            block.meet()
        for number, (sources, targets) in enumerate(op.parts):
            begin, done, reads = block.met, block.done, []
            if port:
                begin, done = self.proxies[op.ends[number]], self.log.event()
                begin = self.log.event(begin, *block.released(number))
            for n in range(sources[0].count):
                self.log.begin(op)
                chunks = [at(source, n) for source in sources]
                came = [self.packets[chunk][1:] for chunk in chunks if chunk in packets]
                learned = [event for packet in came for event in packet]
                read, start = done, self.log.event(begin, *learned) if came else begin
                if any(target.packets for target in targets):
                    read = self.log.event(*(packet[1] for packet in came))
                    reads.append(read)
                for chunk in chunks:
                    if chunk in packets:
                        self.kept.subtract(self.origins.pop(chunk, ()))
                    self.log.access(chunk, False, -1 if chunk in packets else begin, read)
                for target in targets:
                    chunk = at(target, n)
                    twice = target.packets and self.packets.get(chunk, (-1,))[0] == call
                    self._need(not twice, "{} writes {} twice in a call", op, self._name(chunk))
                    self.log.access(chunk, True, start, done)
                    if target.packets:
                        self.origins[chunk] = chunks
                        self.kept.update(chunks)
                        self.packets[chunk] = call, self.begun[op.rank], read
                block.pending[-1] += learned
            if port:
                self.proxies[op.ends[number]] = self.log.event(begin, done, *reads)
            else:
                block.pending[-1] += reads
            if op.name in ("pws", "pwsf"):
                self._signal(op.rank, op.ends[number], ())
            if op.name == "pwsf":
                block.pending[number].append(self.proxies[op.ends[number]])
        if not call:
            self.order.append(op)
        return True

    def _name(self, address: _Address) -> str:
        return self.program.chunk_name(*address[:3])

    def _need(self, right: bool, text: str, *of: object) -> None:
        if not right:
            self.log.check(self.program.plan.name, self._name)  # what came before
            raise ScheduleError(f"{self.program.plan.name}: {text.format(*of)}")
