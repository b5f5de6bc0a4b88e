"""A plain interpreter of MSCCL++'s execution plans, which takes every liberty that the hardware has.

It knows nothing of clocks. Blocks, and what their threads do between two ``nop``, go on in a random order; a
remote write may be late until its block releases a signal. Calls follow one another, each with data of its
own; their answers are compared with what the collective means. From execution_kernel.hpp. Also faults.
"""

import copy
import itertools
import math
import random
from collections import Counter

#: Places of sources and targets: local, remote, all of a switch; capital: packets.
_KINDS = {
    "copy": "l l", "cpkt": "l L", "upkt": "L l", "put": "l r", "get": "r l", "ppkt": "l R", "rppkt": "L R",
    "re": "ll l", "res": "ll lr", "rre": "lr l", "rres": "lr lr", "repkt": "lL l", "respkt": "lL lR",
    "recspkt": "lL lLR", "glres": "m m", "gstore": "l m",
}  # fmt: skip


class Wrong(Exception):
    """An interleaving that hangs, or gives a wrong answer."""


class _Block:
    def __init__(self, rank, block):
        self.rank, self.at, self.pending, self.late = rank, math.inf, [], []
        self.ops = [each for op in block["ops"] for each in op.get("ops", [op])]
        self.links, self.remote = {"memory": [], "switch": []}, []
        for each in block["channels"]:
            self.links[each["channel_type"]] += each["channel_ids"]
        for each in block.get("remote_buffer_refs", ()):
            self.remote += each["remote_buffer_ids"]

    @property
    def done(self):
        return self.at >= len(self.ops) and not self.pending


class Machine:
    """Runs calls of a plan in one random order of all that happens."""

    def __init__(self, plan, seed, calls=3):
        self.plan, self.gpus, self.random, self.calls = plan, plan["gpus"], random.Random(seed), calls
        self.blocks = [[_Block(r, each) for each in gpu["threadblocks"]] for r, gpu in enumerate(self.gpus)]
        ops = [op for blocks in self.blocks for block in blocks for op in block.ops]
        self.parts = math.lcm(*(op["tbg_info"]["tbg_size"] for op in ops if "tbg_info" in op))
        self.memory, self.counts = {}, Counter()
        for rank, gpu in enumerate(self.gpus):
            for n, each in enumerate(gpu.get("semaphores", ())):
                self.counts["semaphore", rank, n] = each["init_value"]
        self.chunks = max(max(gpu["input_chunks"], gpu["output_chunks"]) for gpu in self.gpus)
        shape = range(len(self.gpus)), range(self.chunks * self.parts)
        self.inputs = [
            {at: self.random.getrandbits(60) for at in itertools.product(*shape)} for _ in range(calls)
        ]
        self.call = [-1] * len(self.gpus)

    def run(self):
        """Raise `Wrong` if it hangs, or at the first wrong answer."""
        every = [block for blocks in self.blocks for block in blocks]
        slow = {block: self.random.choice((1, 1, 50)) for block in every}
        while min(self.call) < self.calls:
            moved = False
            for rank, blocks in enumerate(self.blocks):
                if self.call[rank] < self.calls and all(block.done for block in blocks):
                    moved = True
                    self._between(rank)
            for block in sorted(every, key=lambda block: self.random.random() * slow[block]):
                if self.call[block.rank] < self.calls and self._something(block):
                    moved = True
                    break
            if not moved:
                raise Wrong("hangs")

    def _between(self, rank):
        for block in self.blocks[rank]:
            self._flush(block)
            block.at = 0
        self.call[rank] += 1
        now, gather = self.call[rank], self.plan["collective"] == "allgather"
        part = max(1, self.gpus[rank]["input_chunks"]) * self.parts
        for piece in range(self.chunks * self.parts):
            at = rank, "data", piece
            if now > 0:
                before = self.inputs[now - 1]
                whole = sum(before[r, piece] for r in range(len(self.gpus)))
                if self.memory.get(at) != (before[piece // part, piece] if gather else whole):
                    raise Wrong(f"rank {rank}, call {now - 1}, piece {piece}")
            if now < self.calls:
                own = not gather or piece // part == rank
                self.memory[at] = self.inputs[now][rank, piece] if own else 0

    def _something(self, block):
        """Do something that the block may do now, chosen at random; whether there was anything."""
        choices = [self._late] if block.late else []
        choices += [self._step] * (block.at < len(block.ops)) + [self._job] * bool(block.pending)
        self.random.shuffle(choices)
        return any(choice(block) for choice in choices)

    def _late(self, block):
        self.memory.update([block.late.pop(0)])
        return True

    def _flush(self, block):
        self.memory.update(block.late)
        block.late = []

    def _step(self, block):
        op, rank = block.ops[block.at], block.rank
        ids = op["channel_ids"] if op["name"].endswith(("signal", "wait")) else ()
        name, channels = op["name"], [self._channel(block, n) for n in ids]
        waits = any(kind == "wait" for kind, *_ in block.pending)
        if (name == "nop" and block.pending) or (waits and name in ("signal", "rlxsignal", "sem_release")):
            return False
        if name in ("signal", "sem_release"):
            self._flush(block)
        if name in ("signal", "rlxsignal"):
            self.counts.update((peer, rank, turn) for peer, turn in channels)
        elif name == "sem_release":
            self.counts.update(("semaphore", rank, n) for n in op["semaphore_ids"])
        elif name in ("wait", "rlxwait"):
            block.pending += [("wait", (rank, peer, turn)) for peer, turn in channels]
        elif name == "sem_acquire":
            block.pending += [("wait", ("semaphore", rank, n)) for n in op["semaphore_ids"]]
        elif name != "nop":
            block.pending += [("move", *each) for each in self._moves(block, op)]
        block.at += 1
        return True

    def _channel(self, block, number):
        """The peer, and which of the channels to it."""
        peers = [p for each in self.gpus[block.rank]["channels"] for p in each.get("connected_to", ())]
        index = block.links["memory"][number]
        return peers[index], peers[:index].count(peers[index])

    def _job(self, block):
        for kind, *what in self.random.sample(block.pending, len(block.pending)):
            if kind == "wait" and self.counts[what[0]] > 0:
                self.counts[what[0]] -= 1
                break
            if kind == "move" and all(
                not p or self.memory.get(at, (-1,))[0] == self.call[block.rank] for at, p in what[0]
            ):
                held = [self.memory.get(at, (0, 0) if p else 0) for at, p in what[0]]
                total = sum(value[1] if p else value for value, (_, p) in zip(held, what[0], strict=True))
                block.late += [(at, (self.call[block.rank], total) if p else total) for at, p in what[1]]
                if self.random.random() < 0.5 or all(at[0] == block.rank for at, _ in what[1]):
                    self._flush(block)
                break
        else:
            return False
        block.pending.remove((kind, *what))
        return True

    def _moves(self, block, op):
        """(sources, targets) of each piece, each with places and whether they are packets."""
        sides = []
        for side, letters in zip(("src_buff", "dst_buff"), _KINDS[op["name"]].split(), strict=True):
            letters += letters[-1] * (len(op[side]) - len(letters))
            sides.append([self._pieces(block, op, *each) for each in zip(letters, op[side], strict=False)])
        alone = op["name"] in ("put", "get", "ppkt")
        pairs = [([one], [other]) for one, other in zip(*sides, strict=True)] if alone else [sides]
        for sources, targets in pairs:
            for n in range(len(sources[0])):
                yield tuple([at for each in side for at in each[n]] for side in (sources, targets))

    def _pieces(self, block, op, letter, chunks):
        gpu, kind, ranks = self.gpus[block.rank], chunks.get("type"), [block.rank]
        if letter in "rR":
            there = gpu["remote_buffers"][block.remote[chunks["buffer_id"]]]
            kind, ranks = there["type"], [there["rank"]]
        if letter == "m":
            switches = [each for each in gpu["channels"] if each["channel_type"] == "switch"]
            there = switches[block.links["switch"][chunks["switch_channel_id"]]]
            kind, ranks = there.get("buffer_type", there.get("buff")), there["rank_groups"][0]["ranks"]
        half = self.call[block.rank] % 2 if kind == "s" and self.plan.get("use_double_scratch_buffer") else 0
        group = op.get("tbg_info", {"tb_id": 0, "tbg_size": 1})
        count = chunks["size"] * self.parts // group["tbg_size"]
        first = chunks["index"] * self.parts + group["tb_id"] * count
        kind = kind if letter.islower() or kind != "s" else "packets"
        return [
            [((r, "data" if kind in "io" else (kind, half), n), letter.isupper()) for r in ranks]
            for n in range(first, first + count)
        ]


def wrong(plan, runs):
    """What goes wrong in one of so many interleavings, or None."""
    for seed in range(runs):
        try:
            Machine(plan, seed).run()
        except (Wrong, LookupError) as fault:
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
