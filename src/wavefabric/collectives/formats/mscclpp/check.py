"""Verify an MSCCL++ execution plan: no deadlock and no race, whatever the timing.

Operations are replayed over several calls, and accesses compared by vector clocks (`plans/clocks.py`); actors
are thread blocks, the proxies that execute port operations of blocks, and each rank's caller between calls.
Threads of a block meet only at ``nop`` and ``barrier``. A relaxed signal orders no memory: a rank that waits
for it knows only that the other rank's call has begun (docs/tutorials/01-basic-concepts.md of MSCCL++).
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

from wavefabric.collectives.formats.mscclpp.operations import PieceSpan, PlanOperation, PlanProgram
from wavefabric.collectives.plans.check import CALLS
from wavefabric.collectives.plans.clocks import Access, Accesses, Clock
from wavefabric.collectives.structure import ScheduleError


def run_order(program: PlanProgram) -> list[PlanOperation]:
    """Return the operations of one call in an order that can run; `ScheduleError` in one line for a fault."""
    return _Replay(program).run()


class _Block:
    """How far a thread block has come in the replay of a call, and its vector clock.

    ``pending``: by thread, times that only this thread has learned; all learn them when they meet.
    """

    def __init__(self, code: list[PlanOperation], clock: Clock):
        self.code, self.clock, self.at, self.arrived = code, clock, len(code), -1
        self.pending: dict[int, list[int]] = {}
        #: Reads known to be done, since packets made of them came: known to all threads, and to some.
        self.done: tuple[set[Access], set[Access]] = set(), set()

    def meet(self) -> None:
        for told in self.pending.values():
            self.clock.learn(told)
        self.clock.barrier()
        self.done[0].update(self.done[1])
        self.pending = {}

    def told(self, thread: int) -> list[int]:
        return list(map(max, self.clock.told(), self.pending.get(thread, self.clock.told())))

    def tell(self, thread: int, told: list[int]) -> None:
        self.pending[thread] = list(map(max, told, self.pending.get(thread, told)))


class _Replay:
    def __init__(self, program: PlanProgram):
        self.program, ranks = program, len(program.code)
        ports = [end for end in program.peers if end[1] == "port"]
        actors = ranks + sum(map(len, program.code)) + len(ports)
        clocks = iter([Clock(actor, actors) for actor in range(actors)])
        self.callers = [next(clocks) for _ in range(ranks)]
        self.proxies = {end: next(clocks) for end in ports}
        self.blocks = [[_Block(code, next(clocks)) for code in blocks] for blocks in program.code]
        self.call, self.begun, self.order = [-1] * ranks, [[0] * actors] * ranks, []
        #: Reads that each rank knows to be done when its call begins, besides those that its clock covers.
        self.done: list[set[Access]] = [set() for _ in range(ranks)]
        self.memory: dict[tuple, Accesses] = defaultdict(Accesses)
        #: Sources of packets, and chunks that, if possible, stay until packets made of them are read, so that
        #: packets can be bypassed; ``forced``: not possible.
        self.origins, self.kept, self.forced = {}, Counter(), False
        #: Clocks (release, relaxed) sent with each signal to a channel end, release of a semaphore, or block
        #: at a barrier; and how many of them were consumed.
        self.sent: dict[tuple, list[tuple[list[int], list[int]]]] = defaultdict(list)
        self.taken: dict[tuple, int] = defaultdict(int)
        for rank, gpu in enumerate(program.plan.gpus):
            for number, each in enumerate(gpu.semaphores):
                self.sent[rank, "semaphore", number] += [([0] * actors, [])] * each.init_value
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
        return self.order

    def _between(self, rank: int) -> None:
        """Replay the caller of a rank between two calls, after all its blocks: it accesses the arrays."""
        caller, self.moved = self.callers[rank], True
        for block in self.blocks[rank]:
            block.meet()
            caller.learn(block.clock.told())
        caller.barrier()
        done = self.done[rank].union(*(block.done[0] for block in self.blocks[rank]))
        self.done[rank] = {read for read in done if not caller.knows(read)}
        self.call[rank] += 1
        caller.move = (f"the caller of rank {rank}", self.call[rank])
        for at in self.arrays:
            if at[0] == rank:
                self._access(caller, (*at, 0), True, self.done[rank])
        caller.barrier()
        self.begun[rank] = caller.told()
        for block in self.blocks[rank]:
            if self.call[rank] < CALLS:
                block.at, block.done = 0, (set(self.done[rank]), set())
            block.clock.learn(self.begun[rank])
            block.clock.barrier()

    def _do(self, block: _Block, op: PlanOperation) -> bool:
        """Replay an operation unless it must wait; return whether it was replayed."""
        keys: list[tuple] = [(op.rank, "semaphore", n) for n in op.numbers] or list(op.ends)
        if op.name in ("wait", "rlxwait", "sem_acquire"):
            if any(self.taken[key] + keys.count(key) > len(self.sent[key]) for key in keys):
                return False
            for thread, key in enumerate(keys):
                told = self.sent[key][self.taken[key]]
                block.tell(thread, told[op.name == "rlxwait" and key[1] == "memory"])
                self.taken[key] += 1
        elif op.name in ("signal", "rlxsignal", "sem_release"):
            for thread, key in enumerate(keys):
                self._signal(op.rank, key, block.told(thread), op.name == "rlxsignal")
        elif op.name == "barrier":
            sent = self.sent[op.rank, "barrier", op.numbers[0]]
            if block.arrived < 0:
                block.meet()
                block.arrived, self.moved = len(sent) // op.blocks * op.blocks, True
                sent.append((block.clock.told(), []))
            if len(sent) < block.arrived + op.blocks:
                return False
            for told, _ in sent[block.arrived : block.arrived + op.blocks]:
                block.clock.learn(told)
            block.arrived = -1
        elif op.name == "nop":
            block.meet()
        elif op.name == "flush":
            for thread, end in enumerate(op.ends):
                block.tell(thread, self.proxies[end].told())
        else:
            return self._move(block, op)
        return True

    def _signal(self, rank: int, key: tuple, told: list[int], relaxed: bool = False) -> None:
        if key[1] == "port":  # the proxy does earlier requests first
            self.proxies[key].learn(told)
            self.proxies[key].barrier()
            told = self.proxies[key].told()
        told = self.begun[rank] if relaxed and key[1] == "memory" else told
        self.sent[self.program.peers.get(key, key)].append((told, self.begun[rank]))

    def _move(self, block: _Block, op: PlanOperation) -> bool:
        """Replay an operation's reads and writes, unless they must wait; return whether they were replayed.

        They wait for packets that have not come. They also wait, if possible, before they overwrite the
        source of a packet that is still to be read.
        """
        call, port = self.call[op.rank], bool(op.ends)

        def at(span: PieceSpan, n: int) -> tuple:
            return span.rank, span.buffer, span.first + n, call % 2 if span.half else 0

        # A port sends packets as they are.
        sources = [s for part in op.parts for s in part[0] if s.packets and op.name != "ppkt"]
        packets = {at(s, n) for s in sources for n in range(s.count)}
        if any(self.memory[each].call != call for each in packets):
            return False
        goals = [at(target, n) for part in op.parts for target in part[1] for n in range(target.count)]
        if not self.forced and any(self.kept[goal] for goal in goals):
            return False
        if op.name == "rppkt" and port:
            block.meet()
        for number, (sources, targets) in enumerate(op.parts):
            actor = self.proxies[op.ends[number]] if port else block.clock
            if port:
                actor.learn(block.told(number))
                actor.barrier()
            for n in range(sources[0].count):
                actor.move = (op, call, number, n)
                chunks, known, reads = [at(source, n) for source in sources], set(), set()
                # A thread that has read a packet knows what its writer knew when the call began.
                begun = [self.memory[chunk].begun for chunk in chunks if chunk in packets]
                for chunk in chunks:
                    memory = self.memory[chunk]
                    if chunk in packets:
                        self.kept.subtract(self.origins.pop(chunk, ()))
                        known |= memory.made_of
                        block.tell(-1, memory.begun)
                        reads.add(actor.access(memory, False))
                    else:
                        reads.add(self._access(actor, chunk, False, block.done[0]))
                for target in targets:
                    chunk, memory = at(target, n), self.memory[at(target, n)]
                    twice = target.packets and memory.call == call
                    self._need(not twice, "{} writes {} twice in a call", op, chunk)
                    self._access(actor, chunk, True, block.done[0], known, begun=begun)
                    if target.packets:
                        self.origins[chunk] = chunks
                        self.kept.update(chunks)
                        memory.call, memory.begun = call, self.begun[op.rank]
                        memory.made_of = frozenset(known | reads | self.done[op.rank])
                block.done[1].update(known)
            if port:
                actor.barrier()
            if op.name in ("pws", "pwsf"):
                self._signal(op.rank, op.ends[number], actor.told())
            if op.name == "pwsf":
                block.tell(number, actor.told())
        if not call:
            self.order.append(op)
        return True

    def _access(
        self, actor: Clock, at: tuple, write: bool, *known: set[Access], begun: Sequence[list[int]] = ()
    ) -> Access:
        """Record a memory access, and refuse it unless it is ordered after all earlier conflicting accesses.

        An earlier access is ordered if the clock of ``actor`` or one of the clocks ``begun`` covers it, or if
        it is in one of the sets ``known``: reads that are certain to be complete.
        """
        for other, done in actor.unordered(self.memory[at], write):
            ordered = any(other in reads for reads in known)
            ordered = ordered or any(other.time <= times[other.actor] for times in begun)
            text = f"{{}} {'writes' if write else 'reads'} {{}}, {done} by {{}}, and nothing orders them"
            self._need(ordered, text, actor.move[0], at, other.move[0])
        return actor.access(self.memory[at], write)

    def _need(self, right: bool, text: str, *of: object) -> None:
        if not right:
            words = (self.program.chunk_name(*each[:3]) if isinstance(each, tuple) else each for each in of)
            raise ScheduleError(f"{self.program.plan.name}: {text.format(*words)}")
