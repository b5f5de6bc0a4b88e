"""The proof of an execution plan: no deadlock, no two accesses that nothing orders, whatever the timing.

Operations are replayed over several calls, and accesses compared by vector clocks (`plans/clocks.py`); actors
are thread blocks, the proxies that do what blocks ask of ports, and each rank's caller between calls. Threads
of a block meet at ``nop`` and ``barrier`` alone. A relaxed signal orders no memory: who waits for it knows only
that the other rank's call has begun (docs/tutorials/01-basic-concepts.md of MSCCL++).
"""

from collections import defaultdict

from wavefabric.collectives.formats.mscclpp.operations import Operation, Program, Span
from wavefabric.collectives.plans.check import CALLS
from wavefabric.collectives.plans.clocks import Access, Accesses, Clock
from wavefabric.collectives.structure import ScheduleError


def run_order(program: Program) -> list[Operation]:
    """Operations of one call in an order that they may run in; `ScheduleError` in one line for a fault."""
    return _Replay(program).run()


class _Block:
    """A thread block's way through a call. ``pending``: what some of its threads know, and the others not yet."""

    def __init__(self, code: list[Operation], clock: Clock):
        self.code, self.clock, self.at, self.arrived = code, clock, len(code), -1
        self.pending: dict[int, list[int]] = {}
        #: Reads that are done, as packets that are made of them tell: to all threads, and to some.
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
    def __init__(self, program: Program):
        self.program, ranks = program, len(program.code)
        ports = [end for end in program.peers if end[1] == "port"]
        actors = ranks + sum(map(len, program.code)) + len(ports)
        clocks = iter([Clock(actor, actors) for actor in range(actors)])
        self.callers = [next(clocks) for _ in range(ranks)]
        self.proxies = {end: next(clocks) for end in ports}
        self.blocks = [[_Block(code, next(clocks)) for code in blocks] for blocks in program.code]
        self.call, self.begun, self.order = [-1] * ranks, [[0] * actors] * ranks, []
        self.memory: dict[tuple, Accesses] = defaultdict(Accesses)
        #: What came with each signal to an end, release of a semaphore, or block at a barrier: under
        #: release, and relaxed; and how many were taken.
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

    def _check_users(self, operations: list[Operation]) -> None:
        """Refuse channels without another end, and what several thread blocks count."""
        users: dict[tuple, set[int]] = defaultdict(set)
        for op in operations:
            for end in op.ends:
                self._need(end in self.program.peers, f"{op}: {end[1]} channel {end[2]} has no other end")
            for key in (*op.ends, *((op.rank, "semaphore", n) for n in op.numbers)):
                users[(*key, op.name.removeprefix("rlx"))].add(op.block)
        for op in operations:
            if op.name == "barrier":
                come = len(users[op.rank, "semaphore", op.numbers[0], op.name])
                self._need(op.blocks == come, f"{op} waits for {op.blocks} thread blocks, and {come} come")
        for (rank, kind, number, name), blocks in users.items():
            if kind != "port" and name in ("wait", "signal", "sem_acquire", "sem_release"):
                which = f"rank {rank}, {name} of {kind} {number}"
                self._need(len(blocks) == 1, f"{which}: by thread blocks {sorted(blocks)}, of which one may")

    def _need(self, right: bool, text: str) -> None:
        if not right:
            raise ScheduleError(f"{self.program.plan.name}: {text}")

    def run(self) -> list[Operation]:
        while min(self.call) < CALLS:
            self.moved = False
            for rank, blocks in enumerate(self.blocks):
                if self.call[rank] < CALLS and all(block.at == len(block.code) for block in blocks):
                    self._between(rank)
                for block in blocks if self.call[rank] < CALLS else ():
                    while block.at < len(block.code) and self._do(block, block.code[block.at]):
                        block.at, self.moved = block.at + 1, True
            stuck = [b.code[b.at] for blocks in self.blocks for b in blocks if b.at < len(b.code)]
            self._need(self.moved or min(self.call) == CALLS, f"{(stuck or [''])[0]} waits for ever")
        return self.order

    def _between(self, rank: int) -> None:
        """The caller has the arrays, between two calls, when all blocks are done."""
        caller, self.moved = self.callers[rank], True
        for block in self.blocks[rank]:
            block.meet()
            caller.learn(block.clock.told())
        caller.barrier()
        self.call[rank] += 1
        caller.move = (f"the caller of rank {rank}", self.call[rank])
        for at in self.arrays:
            if at[0] == rank:
                self._access(caller, (*at, 0), True, set())
        caller.barrier()
        self.begun[rank] = caller.told()
        for block in self.blocks[rank]:
            block.at, block.done = 0 if self.call[rank] < CALLS else block.at, (set(), set())
            block.clock.learn(self.begun[rank])
            block.clock.barrier()

    def _do(self, block: _Block, op: Operation) -> bool:
        """Do an operation, if it need not wait."""
        keys: list[tuple] = [(op.rank, "semaphore", n) for n in op.numbers] or list(op.ends)
        if op.name in ("wait", "rlxwait", "sem_acquire"):
            if any(self.taken[key] >= len(self.sent[key]) for key in keys):
                return False
            for thread, key in enumerate(keys):
                told = self.sent[key][self.taken[key]]
                block.tell(thread, told[op.name == "rlxwait" and key[1] == "memory"])
                self.taken[key] += 1
        elif op.name in ("signal", "rlxsignal", "sem_release"):
            for thread, key in enumerate(keys):
                told = (
                    self.begun[op.rank]
                    if op.name == "rlxsignal" and key[1] == "memory"
                    else block.told(thread)
                )
                self._signal(op.rank, key, told)
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

    def _signal(self, rank: int, key: tuple, told: list[int]) -> None:
        if key[1] == "port":  # what it asked for before comes first
            self.proxies[key].learn(told)
            self.proxies[key].barrier()
            told = self.proxies[key].told()
        self.sent[self.program.peers.get(key, key)].append((told, self.begun[rank]))

    def _move(self, block: _Block, op: Operation) -> bool:
        """Read and write, when all packets have come."""
        call = self.call[op.rank]

        def at(span: Span, n: int) -> tuple:
            return span.rank, span.buffer, span.first + n, call % 2 if span.half else 0

        raw = op.name == "ppkt"  # a port sends packets as they are
        awaited = {
            at(s, n) for part in op.parts for s in part[0] if s.packets and not raw for n in range(s.count)
        }
        if any(self.memory[each].call != call for each in awaited):
            return False
        if op.name == "rppkt" and op.ends:
            block.meet()
        for number, (sources, targets) in enumerate(op.parts):
            for n, turn in (
                (n, turn) for n in range(sources[0].count) for turn in range(len(targets) if op.ends else 1)
            ):
                actor, goals = block.clock, targets
                if op.ends:  # by the proxy of each port
                    end = op.ends[number + turn]
                    actor, goals = self.proxies[end], targets[turn : turn + 1]
                    actor.learn(block.told(number + turn))
                    actor.barrier()
                actor.move = (op, call, number, n)
                known, reads = set(block.done[0]), set()
                for source in sources:
                    memory = self.memory[at(source, n)]
                    if at(source, n) in awaited:
                        block.tell(-1, memory.begun)
                        known |= memory.made_of
                        reads.add(actor.access(memory, False))
                    else:
                        reads.add(self._access(actor, at(source, n), False, known))
                for target in goals:
                    memory = self.memory[at(target, n)]
                    twice = target.packets and memory.call == call
                    self._need(not twice, f"{op} writes {self._name(at(target, n))} a second time in a call")
                    self._access(actor, at(target, n), True, known)
                    if target.packets:
                        memory.call, memory.begun = call, self.begun[op.rank]
                        memory.made_of = frozenset(known | reads)
                block.done[1].update(known)
            if op.name in ("pws", "pwsf"):
                self._signal(op.rank, op.ends[number], self.proxies[op.ends[number]].told())
            if op.name == "pwsf":
                block.tell(number, self.proxies[op.ends[number]].told())
        if not call:
            self.order.append(op)
        return True

    def _name(self, at: tuple) -> str:
        return self.program.chunk_name(*at[:3])

    def _access(self, actor: Clock, at: tuple, write: bool, known: set[Access]) -> Access:
        for other, done in actor.unordered(self.memory[at], write):
            does, who = "writes" if write else "reads", actor.move[0]
            text = f"{who} {does} {self._name(at)}, {done} by {other.move[0]}, and nothing orders them"
            self._need(other in known, text)
        return actor.access(self.memory[at], write)
