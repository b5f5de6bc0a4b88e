"""Schedules of every builder, and two slow, plain replays of them: on sets, and on numbers."""

from dataclasses import replace
from math import prod

import numpy as np
from hypothesis import strategies as st

from wavefabric.collectives import (
    ALGORITHMS,
    TRANSFER,
    Schedule,
    all_to_all,
    build,
    direct_all_gather,
    direct_all_reduce,
    point_to_point,
    ring_all_gather,
    ring_all_reduce,
    why_refused,
)
from wavefabric.collectives.registry import BY_RAILS, options_of

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
    "ring_all_reduce": st.builds(ring_all_reduce, RANKS, st.integers(0, 30)),
    "direct_all_reduce": st.builds(direct_all_reduce, RANKS, COUNTS),
    "point_to_point": _message_schedules(),
    "all_to_all": _all_to_alls(),
}
SCHEDULES = st.one_of(*BUILDERS.values())
#: Every algorithm with every collective operation that it does.
OPERATIONS = [(a.name, c) for a in ALGORITHMS.values() for c in a.collectives]
_EXTENT = st.integers(1, 3)
_GRIDS = {
    **dict.fromkeys(BY_RAILS, st.none() | st.tuples(st.integers(1, 4), st.integers(1, 4))),
    "nvls-tree": st.tuples(st.integers(1, 5), st.integers(1, 3)),
    "hierarchical": st.tuples(st.integers(1, 5), st.integers(1, 4)),
    "squares": st.sampled_from([(2, 2), (2, 4), (4, 2), (4, 4)]),
    "torus": st.lists(_EXTENT, min_size=1, max_size=3),
    "mesh": st.lists(_EXTENT, min_size=1, max_size=3),
}


@st.composite
def builds(draw, operations=None, ranks=None, pieces=4):
    """Arguments that `build` accepts: (algorithm, collective, ranks, elements), and a dict of options."""
    algorithm, collective = draw(st.sampled_from(OPERATIONS) if operations is None else operations)
    options, n = {}, draw(st.integers(1, 12) if ranks is None else ranks)
    known = options_of(algorithm, collective)
    if "grid" in known:
        options["grid"] = draw(_GRIDS[algorithm])
        n = n if options["grid"] is None else prod(options["grid"])
    if "pieces" in known:
        options["pieces"] = draw(st.integers(1, pieces))
    if "root" in known and collective in ("broadcast", "reduce", "gather", "scatter"):
        options["root"] = draw(st.integers(0, n - 1))
    if "radix" in known:
        radices = [x for x in (2, 3, 4, 5, 7, 16) if not why_refused(algorithm, collective, n, radix=x)]
        options["radix"] = draw(st.sampled_from([*radices, n + 1]))
    # Often fewer than there are chunks.
    elements = draw(st.integers(0, 3 * n * options.get("pieces", 1)))
    return (algorithm, collective, n, elements), options


# Not among SCHEDULES: some are without copies.
BUILDERS["build"] = builds(ranks=st.integers(1, 9), pieces=2).map(lambda a: build(*a[0], **a[1]))


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
    return Schedule(
        "arbitrary", ranks, ("data",), sizes, np.array([(*row, 0) for row in rows], TRANSFER), pre, {}
    )


def joined(schedule):
    """The same schedule, neighbouring transfers of consecutive chunks made one."""
    rows = []
    for row in schedule.transfers.tolist():
        round_, src, dst, sb, sc, db, dc, count, reduce, switch = row
        if rows and not switch and not rows[-1][-1]:  # operations of switches stay as they are
            last = rows[-1]
            follows = (round_, src, dst, sb, sc, db, dc, reduce) == (
                *last[:4], last[4] + last[7], last[5], last[6] + last[7], last[8]
            )  # fmt: skip
            if follows:
                rows[-1] = (*last[:7], last[7] + count, reduce, 0)
                continue
        rows.append(row)
    return replace(schedule, transfers=np.array(rows, schedule.transfers.dtype))


def ends(transfer):
    """(source, destination) of each chunk moved, each (rank, buffer, chunk)."""
    t = {k: int(transfer[k]) for k in transfer.dtype.names}
    for i in range(t["count"]):
        src = (t["src"], t["src_buffer"], t["src_chunk"] + i)
        yield src, (t["dst"], t["dst_buffer"], t["dst_chunk"] + i)


def units_of(transfers):
    """Transfers one by one, all of an operation of a switch together."""
    units = []
    for t in transfers:
        follows = units and t["switch"] and units[-1][-1][["round", "switch"]] == t[["round", "switch"]]
        units[-1].append(t) if follows else units.append([t])
    return units


def parts_of(unit):
    """(source, destination, whether it is the first to come there, reduce) of each chunk moved by a unit."""
    seen = set()
    for t in unit:
        for src, dst in ends(t):
            yield src, dst, dst not in seen, bool(t["reduce"])
            if t["switch"]:
                seen.add(dst)


def plain_verdict(schedule):
    """Whether a schedule is right, found on sets of ranks, chunk by chunk: the definition, written out."""
    sizes = schedule.sizes
    state = {at: (item, frozenset(_bits(mask))) for at, (item, mask) in schedule.pre.items()}
    rounds = schedule.transfers["round"].tolist()
    if rounds != sorted(rounds) or min(rounds, default=0) < 0:
        return False
    for r in sorted(set(rounds)):
        after, reads, writes = dict(state), [], []
        for unit in units_of(schedule.transfers[schedule.transfers["round"] == r]):
            summed, takes = {}, []
            for src, dst, first, reduce in parts_of(unit):
                for rank, buffer, chunk in (src, dst):
                    if not (0 <= rank < schedule.ranks and 0 <= chunk < sizes[buffer].shape[1]):
                        return False
                size = [sizes[b][rank, c] for rank, b, c in (src, dst)]
                if size[0] != size[1] or size[0] == 0 or src not in state:
                    return False
                item, origins = state[src]
                if reduce or not first:
                    there, others = (state if first else summed).get(dst, (None, frozenset()))
                    if there != item or origins & others:
                        return False
                    origins = origins | others
                after[dst] = summed[dst] = (item, origins)
                takes.append(src)
            # Element by element a switch reads all before it writes: in place if chunks correspond.
            at = {chunk: i for t in unit for i, (_, chunk) in enumerate(ends(t)) if t["switch"]}
            inside = [i for t in unit for i, _ in enumerate(ends(t))]
            reads += [src for src, i in zip(takes, inside, strict=True) if at.get(src) != i]
            writes += summed if unit[0]["switch"] else [dst for t in unit for _, dst in ends(t)]
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
        self.inputs = {}
        self.buffers = {
            (rank, b): np.full(sizes[rank].sum(), np.nan)
            for b, sizes in enumerate(schedule.sizes)
            for rank in range(schedule.ranks)
        }
        for at in schedule.pre:
            self.chunk(at)[:] = rng.standard_normal(self.chunk(at).size)
            self.inputs[at] = self.chunk(at).copy()

    def chunk(self, at):
        rank, b, c = at
        offsets = self.schedule.offsets(b, rank)
        return self.buffers[rank, b][offsets[c] : offsets[c + 1]]

    def carry_out(self, *unit):
        """A transfer, or all rows of an operation of a switch."""
        results = {}
        for src, dst, first, reduce in parts_of(unit):
            there = self.chunk(dst) if first else results[dst]
            results[dst] = there + self.chunk(src) if reduce or not first else self.chunk(src).copy()
            if not unit[0]["switch"]:
                self.chunk(dst)[:] = results[dst]
        for dst, values in results.items():
            self.chunk(dst)[:] = values

    def carry_out_all(self, transfers):
        for unit in units_of(transfers):
            self.carry_out(*unit)

    def wanted(self, at):
        """What `post` says of a chunk: the sum of its contributions in rank order."""
        item, mask = self.schedule.post[at]
        total = None
        for origin in _bits(mask):
            (part,) = (self.inputs[a] for a, held in self.schedule.pre.items() if held == (item, 1 << origin))
            total = part if total is None else total + part
        return total


def sent(schedule):
    """Elements that each rank sends to others."""
    t = schedule.transfers[schedule.transfers["src"] != schedule.transfers["dst"]]
    total = np.zeros(schedule.ranks, int)
    for buffer, sizes in enumerate(schedule.sizes):
        here = t[t["src_buffer"] == buffer]
        before = np.pad(np.cumsum(sizes, axis=1), ((0, 0), (1, 0)))
        last = before[here["src"], here["src_chunk"] + here["count"]]
        np.add.at(total, here["src"], last - before[here["src"], here["src_chunk"]])
    return total.tolist()


def busiest(schedule, end):
    """Most other ranks that a rank sends to (``"src"``) or hears from (``"dst"``) in one round."""
    t = schedule.transfers[schedule.transfers["src"] != schedule.transfers["dst"]]
    pairs = np.unique(t[["round", "src", "dst"]])
    return int(np.unique(pairs[["round", end]], return_counts=True)[1].max(initial=0))
