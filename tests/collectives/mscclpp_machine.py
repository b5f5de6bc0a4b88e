"""Runs of MSCCL++'s execution plans in random orders, with every liberty that the hardware has; and faults.

It knows nothing of clocks: blocks, and what their threads do between two ``nop``, go on in any order, and a
remote write may be late until its block releases a signal. Calls follow one another with data of their own.
"""

import copy
import itertools
import json
import random
from collections import Counter

from wavefabric.base.files.validation_errors import checked
from wavefabric.collectives.formats.mscclpp.format import PLAN
from wavefabric.collectives.formats.mscclpp.operations import PlanProgram

CALLS = 3


class _Block:
    def __init__(self, code):
        self.code, self.at, self.pending, self.late = code, len(code), [], []


class Machine:
    """Runs calls of a plan, in place, in one order of all that happens."""

    def __init__(self, program, seed):
        self.program, self.random, self.memory, self.counts = program, random.Random(seed), {}, Counter()
        self.blocks = [[_Block(code) for code in blocks] for blocks in program.code]
        for rank, gpu in enumerate(program.plan.gpus):
            self.counts.update({(rank, "sem", n): each.init_value for n, each in enumerate(gpu.semaphores)})
        size = program.arrays.chunks * program.chunk[0]
        draw = self.random.getrandbits
        self.inputs = [[[draw(60) for _ in range(size)] for _ in self.blocks] for _ in range(CALLS)]
        self.call = [-1] * len(self.blocks)

    def run(self):
        """Raise LookupError if it hangs, or at the first wrong answer."""
        every = [(rank, block) for rank, blocks in enumerate(self.blocks) for block in blocks]
        slow = {block: self.random.choice((1, 1, 50)) for _, block in every}
        while min(self.call) < CALLS:
            done = [all(b.at == len(b.code) and not b.pending for b in blocks) for blocks in self.blocks]
            ended = [rank for rank, call in enumerate(self.call) if call < CALLS and done[rank]]
            for rank in ended:
                self._between(rank)
            every.sort(key=lambda each: self.random.random() * slow[each[1]])
            if (
                not any(self.call[rank] < CALLS and self._something(block) for rank, block in every)
                and not ended
            ):
                raise LookupError("hangs")

    def _between(self, rank):
        gather, ranks = self.program.arrays.collective == "all-gather", len(self.blocks)
        self.call[rank] += 1
        for block in self.blocks[rank]:
            self._flush(block)
            block.at = 0 if self.call[rank] < CALLS else block.at
        for piece in range(size := len(self.inputs[0][0])):
            owner, at = piece * ranks // size, (rank, 0, piece, 0)
            if self.call[rank] > 0:
                before = [own[piece] for own in self.inputs[self.call[rank] - 1]]
                if self.memory.get(at) != (before[owner] if gather else sum(before)):
                    raise LookupError(f"rank {rank}, call {self.call[rank] - 1}, piece {piece}")
            if self.call[rank] < CALLS:
                self.memory[at] = 0 if gather and owner != rank else self.inputs[self.call[rank]][rank][piece]

    def _something(self, block):
        """Do something that the block may do now, chosen at random; whether there was anything."""
        choices = [self._step] * (block.at < len(block.code)) + [self._job] * bool(block.pending)
        choices += [lambda block: self._flush(block, 1)] * bool(block.late)
        self.random.shuffle(choices)
        return any(choice(block) for choice in choices)

    def _flush(self, block, most=None):
        self.memory.update(block.late[:most])
        del block.late[:most]
        return True

    def _step(self, block):
        op = block.code[block.at]
        keys = list(op.ends) or [(op.rank, "sem", n) for n in op.numbers]
        waits = any(sources is None for sources, _ in block.pending)
        meets = op.name == "nop" or (op.name == "rppkt" and op.ends)  # a port's packets wait for all threads
        if (meets and block.pending) or (waits and op.name.endswith(("signal", "release"))):
            return False
        if op.name in ("signal", "sem_release"):
            self._flush(block)
        if op.name.endswith(("signal", "release")):
            self.counts.update(self.program.peers.get(key, key) for key in keys)
        elif op.name.endswith(("wait", "acquire")):
            block.pending += [(None, key) for key in keys]
        half = self.call[op.rank] % 2
        for part in op.parts:
            for n in range(part[0][0].count):
                ends = ([(*s[:2], s.first + n, half * s.half, s.packets) for s in side] for side in part)
                block.pending.append(tuple(ends))
        block.at += 1
        return True

    def _job(self, block):
        for job in self.random.sample(block.pending, len(block.pending)):
            sources, targets = job
            if sources is None and self.counts[targets] > 0:
                self.counts[targets] -= 1
            elif sources is None or not self._move(block, sources, targets):
                continue
            block.pending.remove(job)
            return True
        return False

    def _move(self, block, sources, targets):
        call = self.call[block.code[0].rank]
        held = [self.memory.get(at[:4], (-1, 0) if at[4] else 0) for at in sources]
        if any(at[4] and value[0] != call for at, value in zip(sources, held, strict=True)):
            return False
        total = sum(value[1] if at[4] else value for at, value in zip(sources, held, strict=True))
        block.late += [(at[:4], (call, total) if at[4] else total) for at in targets]
        if self.random.random() < 0.5 or all(at[0] == block.code[0].rank for at in targets):
            self._flush(block)
        return True


def wrong(plan, runs):
    """What goes wrong in one of so many orders, or None."""
    program = PlanProgram(checked(PLAN, json.loads(json.dumps(plan))))
    for seed in range(runs):
        try:
            Machine(program, seed).run()
        except LookupError as fault:
            return str(fault)
    return None


def mutants(plan):
    """All plans with one fault of a kind, each with its name: not all of them do harm."""
    for number, ops in enumerate(_lists(plan)):
        for n, op in enumerate(ops):
            for what, fault in _faults(op):
                made = copy.deepcopy(plan)
                fault(_lists(made)[number], n)
                yield f"{what} {op['name']}", made


def _lists(plan):
    """Lists of operations: of blocks and of pipelines."""
    blocks = [block["ops"] for gpu in plan["gpus"] for block in gpu["threadblocks"]]
    return blocks + [op["ops"] for ops in blocks for op in ops if "ops" in op]


def _faults(op):
    if op["name"] in ("nop", "signal", "wait", "rlxsignal", "rlxwait", "sem_acquire", "sem_release"):
        yield "missing", lambda ops, n: ops.pop(n)
    if op["name"] in ("signal", "wait"):
        yield "relaxed", lambda ops, n: ops[n].update(name=f"rlx{ops[n]['name']}")
        yield "early", lambda ops, n: ops.insert(max(0, n - 2), ops.pop(n))
    for side, key in itertools.product(("src_buff", "dst_buff"), ("index", "size")):
        for i in range(len(op.get(side, ()))):
            yield f"{side}.{key} + 1", lambda ops, n, at=(side, i), key=key: _more(ops[n][at[0]][at[1]], key)
    for i in range(len(op["channel_ids"]) if op["name"].endswith(("signal", "wait")) else 0):
        yield "another channel", lambda ops, n, i=i: _more(ops[n]["channel_ids"], i)


def _more(table, key):
    table[key] += 1
