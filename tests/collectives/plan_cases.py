"""Schedules that plans are made of, what they give, and plans run on noise in any interleaving."""

import functools
import operator
import random

import numpy as np
from hypothesis import strategies as st
from plan_interpreter import Interpreter
from schedule_cases import OPERATIONS, SCHEDULES, builds, units_of

from wavefabric.collectives import ALGORITHMS, TRANSFER, Schedule, build, verify, why_refused
from wavefabric.collectives.conditions import ROOTED

#: Protocol and slots.
VARIANTS = (("signals", 1), ("signals", 2), ("signals", None), ("packets", None))


def everything(ranks):
    """All that the registry accepts for so many ranks: radix 2, 4 and 8, 1 and 3 pieces, uneven chunks."""
    for algorithm in (each for each in ALGORITHMS.values() if not each.switched):
        for collective in algorithm.collectives:
            for pieces in (1, 3) if "pieces" in algorithm.options else (1,):
                for radix in (2, 4, 8) if "radix" in algorithm.options else (None,):
                    options = {"pieces": pieces, "radix": radix, "root": ranks - 1}
                    if collective not in ROOTED or "root" not in algorithm.options:
                        del options["root"]
                    if why_refused(algorithm.name, collective, ranks, **options) is None:
                        yield build(algorithm.name, collective, ranks, 3 * ranks + 2, **options)


class _State:
    """What is held where; transfers that `verify` would accept in this round."""

    def __init__(self, held):
        self.held, self.before, self.read, self.written = dict(held), dict(held), set(), set()

    def end_round(self):
        self.before, self.read, self.written = dict(self.held), set(), set()

    def allows(self, src, dst, reduce):
        if src == dst or src not in self.before or src in self.written or dst in self.written | self.read:
            return False
        (item, origins), there = self.before[src], self.before.get(dst)
        return not reduce or (there is not None and there[0] == item and not there[1] & origins)

    def carry_out(self, src, dst, reduce):
        item, origins = self.before[src]
        self.held[dst] = item, origins | (self.before[dst][1] if reduce else 0)
        self.read.add(src)
        self.written.add(dst)


@st.composite
def verified(draw):
    """Any schedule of few transfers that `verify` accepts; what some buffers hold at the end is promised."""
    ranks, chunks, buffers = draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    full = [0] + [b for b in range(1, buffers) if draw(st.booleans())]
    pre = {(r, b, c): (c % 2 + 2 * b, 1 << r) for r in range(ranks) for b in full for c in range(chunks)}
    state, rows, round_ = _State(pre), [], 0
    addresses = [(r, b, c) for r in range(ranks) for b in range(buffers) for c in range(chunks)]
    many = st.integers(0, 10**6)
    steps = st.lists(st.tuples(st.integers(0, 2), many, many, st.booleans()), min_size=1, max_size=30)
    for end, a, b, reduce in draw(steps):
        if end == 0:
            state.end_round()
            round_ += 1
        pairs = [(src, dst) for src in state.before for dst in addresses if state.allows(src, dst, reduce)]
        if not pairs:
            continue
        src, dst = pairs[(a * 1009 + b) % len(pairs)]
        count = 0
        while count < 1 + b % 3 and src[2] + count < chunks and dst[2] + count < chunks:
            ends = (*src[:2], src[2] + count), (*dst[:2], dst[2] + count)
            if not state.allows(*ends, reduce):
                break
            state.carry_out(*ends, reduce)
            count += 1
        rows.append((round_, src[0], dst[0], src[1], src[2], dst[1], dst[2], count, reduce))
    promised = draw(st.sets(st.integers(0, buffers - 1)))
    post = {at: held for at, held in state.held.items() if at[1] in promised}
    sizes = (np.full((ranks, chunks), draw(st.integers(1, 3)), np.int64),) * buffers
    names = tuple(f"buffer {b}" for b in range(buffers))
    return Schedule("any", ranks, names, sizes, np.array([(*row, 0) for row in rows], TRANSFER), pre, post)


def messages(rows, ranks=2, elements=3):
    """A schedule of copies (round, from, to) between buffers of one chunk: "0a" is buffer a of rank 0."""
    names = "abcdef"

    def address(text):
        return int(text[0]), names.index(text[1])

    table = []
    for round_, src, dst in rows:
        (s, sb), (d, db) = address(src), address(dst)
        table.append((round_, s, d, sb, 0, db, 0, 1, False))
    pre = {(r, b, 0): (len(names) * r + b, 1) for r in range(ranks) for b in range(len(names))}
    sizes = (np.full((ranks, 1), elements, np.int64),) * len(names)
    held = dict(pre)
    for _, src, dst in rows:
        held[(*address(dst), 0)] = held[(*address(src), 0)]
    made = Schedule(
        "messages", ranks, tuple(names), sizes, np.array([(*row, 0) for row in table], TRANSFER), pre, held
    )
    verify(made)
    return made


#: Schedules of builders, of the registry (but for those of switches), and any.
_PLAIN = st.sampled_from([each for each in OPERATIONS if not ALGORITHMS[each[0]].switched])
_BUILT = builds(_PLAIN, ranks=st.integers(1, 9)).map(lambda a: build(*a[0], **a[1]))
CASES = st.one_of(SCHEDULES, _BUILT, verified())

#: Which of n blocks goes on: the first rank as far as it can, the last, or any.
CHOICES = st.one_of(
    st.just(lambda n: 0),
    st.just(lambda n: n - 1),
    st.integers(0, 2**32 - 1).map(lambda seed: random.Random(seed).randrange),
)


def noise(schedule, dtype, rng):
    """For each rank one array a buffer, all elements filled."""
    made = [[np.zeros(int(s[rank].sum()), dtype) for s in schedule.sizes] for rank in range(schedule.ranks)]
    for array in (array for rank in made for array in rank):
        numbers = rng.standard_normal((2, array.size)) * 10.0 ** rng.integers(-2, 3, array.size)
        array[...] = numbers[0] + 1j * numbers[1] if array.dtype.kind == "c" else numbers[0]
        if array.dtype.kind in "iu":
            array[...] = rng.integers(0, 100, array.size)
    return made


def replayed(schedule, buffers, add=operator.add):
    """What transfers carried out one after the other, as they are listed, leave; all arrays are new."""
    buffers = [[array.copy() for array in rank] for rank in buffers]
    first = {
        (b, r): schedule.offsets(b, r) for b in range(len(schedule.buffers)) for r in range(schedule.ranks)
    }

    def part(t, end):
        rank, buffer, chunk = (int(t[name]) for name in (end, f"{end}_buffer", f"{end}_chunk"))
        at = first[buffer, rank]
        return buffers[rank][buffer][at[chunk] : at[chunk + int(t["count"])]]

    for unit in units_of(schedule.transfers):
        sums = unit[0]["switch"] and len({int(t["dst"]) for t in unit}) == 1
        if sums:  # all are read before one is written
            part(unit[0], "dst")[...] = functools.reduce(add, [part(t, "src").copy() for t in unit])
            continue
        for t in unit:
            part(t, "dst")[...] = add(part(t, "dst"), part(t, "src")) if t["reduce"] else part(t, "src")
    return buffers


def wrong(schedule, result, inputs, add=operator.add):
    """Chunks of ``post`` that are not, to the bit, what replaying the schedule on ``inputs`` leaves."""
    wanted, out = replayed(schedule, inputs, add), []
    for rank, buffer, chunk in schedule.post:
        at = slice(*schedule.offsets(buffer, rank)[chunk : chunk + 2])
        if result[rank][buffer][at].tobytes() != wanted[rank][buffer][at].tobytes():
            out.append((rank, buffer, chunk))
    return out


def wrong_of_calls(plan, choose, dtype="f4", calls=3, blocks=2, unit=2, seed=0):
    """(call, rank, buffer, chunk) that is wrong when a plan is interpreted, on new noise in every call."""
    rng = np.random.default_rng(seed)
    inputs = [noise(plan.schedule, dtype, rng) for _ in range(calls)]
    memory = [[np.zeros_like(array) for array in rank] for rank in inputs[0]]
    result = [[[] for _ in memory] for _ in range(calls)]

    def keep(rank, call):
        result[call][rank] = [array.copy() for array in memory[rank]]

    def before(rank, call):
        if call:
            keep(rank, call - 1)
        for array, new in zip(memory[rank], inputs[call][rank], strict=True):
            array[...] = new

    Interpreter(plan, memory, blocks, unit).run(choose, calls, before)
    for rank in range(plan.schedule.ranks):
        keep(rank, calls - 1)
    return [(call, *at) for call in range(calls) for at in wrong(plan.schedule, result[call], inputs[call])]
