"""Schedules of every builder, and two slow, plain replays of them: on sets, and on numbers."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from wavefabric.collectives import (
    TRANSFER,
    Schedule,
    all_to_all,
    direct_all_gather,
    direct_all_reduce,
    point_to_point,
    ring_all_gather,
    ring_all_reduce,
)

RANKS = st.integers(1, 9)
COUNTS = st.integers(0, 5)


def _per_rank(build):
    return RANKS.flatmap(lambda n: st.lists(COUNTS, min_size=n, max_size=n)).map(build)


@st.composite
def _message_schedules(draw):
    ranks = draw(RANKS)
    rank = st.integers(0, ranks - 1)
    return point_to_point("messages", ranks, draw(st.lists(st.tuples(rank, rank, COUNTS), max_size=20)))


@st.composite
def _all_to_alls(draw):
    ranks = draw(RANKS)
    row = st.lists(COUNTS, min_size=ranks, max_size=ranks)
    return all_to_all(draw(st.lists(row, min_size=ranks, max_size=ranks)))


BUILDERS = {
    "ring_all_gather": _per_rank(ring_all_gather),
    "direct_all_gather": _per_rank(direct_all_gather),
    "ring_all_reduce": st.builds(ring_all_reduce, RANKS, st.integers(0, 30), st.none() | st.integers(1, 20)),
    "direct_all_reduce": st.builds(direct_all_reduce, RANKS, COUNTS),
    "point_to_point": _message_schedules(),
    "all_to_all": _all_to_alls(),
}
SCHEDULES = st.one_of(*BUILDERS.values())


@st.composite
def arbitrary(draw):
    """Any transfers between few chunks of one element, so that most of them conflict; no promise is made."""
    ranks, chunks = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    rank, chunk = st.integers(0, ranks - 1), st.integers(0, chunks - 1)
    rows = []
    for round_ in sorted(draw(st.lists(st.integers(0, 4), max_size=12))):
        src_chunk, dst_chunk = draw(chunk), draw(chunk)
        count = draw(st.integers(1, chunks - max(src_chunk, dst_chunk)))
        ends_ = (draw(rank), draw(rank), 0, src_chunk, 0, dst_chunk)
        rows.append((round_, *ends_, count, draw(st.booleans())))
    pre = {(r, 0, c): (c, 1 << r) for r in range(ranks) for c in range(chunks)}
    sizes = (np.ones((ranks, chunks), np.int64),)
    return Schedule("arbitrary", ranks, ("data",), sizes, np.array(rows, TRANSFER), pre, {})


def joined(schedule):
    """The same schedule, neighbouring transfers of consecutive chunks made one."""
    rows = []
    for row in schedule.transfers.tolist():
        round_, src, dst, sb, sc, db, dc, count, reduce = row
        if rows:
            last = rows[-1]
            follows = (round_, src, dst, sb, sc, db, dc, reduce) == (
                *last[:4], last[4] + last[7], last[5], last[6] + last[7], last[8]
            )  # fmt: skip
            if follows:
                rows[-1] = (*last[:7], last[7] + count, reduce)
                continue
        rows.append(row)
    return replace(schedule, transfers=np.array(rows, schedule.transfers.dtype))


def ends(transfer):
    """(source, destination) of each chunk moved, each (rank, buffer, chunk)."""
    t = {k: int(transfer[k]) for k in transfer.dtype.names}
    for i in range(t["count"]):
        src = (t["src"], t["src_buffer"], t["src_chunk"] + i)
        yield src, (t["dst"], t["dst_buffer"], t["dst_chunk"] + i)


def plain_verdict(schedule):
    """Whether a schedule is right, found on sets of ranks, chunk by chunk: the definition, written out."""
    sizes = schedule.sizes
    state = {at: (item, frozenset(_bits(mask))) for at, (item, mask) in schedule.pre.items()}
    rounds = schedule.transfers["round"].tolist()
    if rounds != sorted(rounds) or min(rounds, default=0) < 0:
        return False
    for r in sorted(set(rounds)):
        after, reads, writes = dict(state), [], []
        for t in schedule.transfers[schedule.transfers["round"] == r]:
            for src, dst in ends(t):
                for rank, buffer, chunk in (src, dst):
                    if not (0 <= rank < schedule.ranks and 0 <= chunk < sizes[buffer].shape[1]):
                        return False
                size = [sizes[b][rank, c] for rank, b, c in (src, dst)]
                if size[0] != size[1] or size[0] == 0 or src not in state:
                    return False
                item, origins = state[src]
                if t["reduce"]:
                    there, others = state.get(dst, (None, frozenset()))
                    if there != item or origins & others:
                        return False
                    origins = origins | others
                after[dst] = (item, origins)
                reads.append(src)
                writes.append(dst)
        if len(set(writes)) < len(writes) or set(writes) & set(reads):
            return False
        state = after
    return all(state.get(at) == (item, frozenset(_bits(m))) for at, (item, m) in schedule.post.items())


def _bits(mask):
    return [r for r in range(mask.bit_length()) if mask >> r & 1]


class Numbers:
    """Buffers of every rank with random numbers, on which transfers are carried out."""

    def __init__(self, schedule, seed):
        self.schedule = schedule
        rng = np.random.default_rng(seed)
        self.given = {}
        self.buffers = {
            (rank, b): np.full(sizes[rank].sum(), np.nan)
            for b, sizes in enumerate(schedule.sizes)
            for rank in range(schedule.ranks)
        }
        for at in schedule.pre:
            self.chunk(at)[:] = rng.standard_normal(self.chunk(at).size)
            self.given[at] = self.chunk(at).copy()

    def chunk(self, at):
        rank, b, c = at
        offsets = self.schedule.offsets(b, rank)
        return self.buffers[rank, b][offsets[c] : offsets[c + 1]]

    def carry_out(self, transfer):
        for src, dst in ends(transfer):
            if transfer["reduce"]:
                self.chunk(dst)[:] += self.chunk(src)
            else:
                self.chunk(dst)[:] = self.chunk(src)

    def wanted(self, at):
        """What `post` says of a chunk: the sum of its contributions in rank order."""
        item, mask = self.schedule.post[at]
        total = None
        for origin in _bits(mask):
            (part,) = (self.given[a] for a, held in self.schedule.pre.items() if held == (item, 1 << origin))
            total = part if total is None else total + part
        return total
