"""The part of the model that circuits and links share: who sends which chunk to whom, and when."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

from wavefabric.collectives.synthesis.demand import ChunkDemand, Demand, Move
from wavefabric.collectives.synthesis.model import Model
from wavefabric.collectives.synthesis.problem import Edge

#: More hops than there can be.
FAR = 1 << 20


@dataclass(frozen=True)
class ChunkGroup:
    """Chunks that differ in nothing: several only if each goes straight from one rank to one other."""

    chunk: ChunkDemand
    numbers: tuple[int, ...]


class SendVariables:
    """Variables y: how many chunks of a group go from s to d in round r; and who may send what.

    A rank that needs a chunk gets it exactly once (3); it sends it on only in later rounds (2). Without
    `forward`, ranks that do not need a chunk never get it; with it, at most once.
    """

    def __init__(self, model: Model, demand: Demand, pairs: Iterable[Edge], rounds: int, *, forward: bool):
        self.model, self.demand, self.rounds, self.forward = model, demand, rounds, forward
        self.groups = _groups(demand, forward)
        #: (group, s, d, r) → variable.
        self.y: dict[tuple[int, int, int, int], int] = {}
        #: (s, d, r) → variables.
        self.sent: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        self.pairs = sorted(set(pairs))
        allowed = set(self.pairs)
        self.hops = distances(demand.ranks, self.pairs)
        alike: dict[ChunkDemand, list[dict[tuple[int, int], list[int]]]] = defaultdict(list)
        for number, group in enumerate(self.groups):
            if forward or not group.chunk.direct:
                alike[group.chunk].append(self._any_way(number, group.chunk))
            else:
                self._straight(number, group, allowed)
        for chunk, received in alike.items():
            self._order(min(chunk.need), received)

    def _straight(self, group: int, chunks: ChunkGroup, allowed: set[Edge]) -> None:
        (s,), (d,) = chunks.chunk.have, chunks.chunk.need
        chosen = [self._variable(group, s, d, r) for r in range(self.rounds) if (s, d) in allowed]
        self.model.row(chosen, len(chunks.numbers), len(chunks.numbers))

    def _any_way(self, group: int, chunk: ChunkDemand) -> dict[tuple[int, int], list[int]]:
        """A chunk that may take several ways: the variables by which it reaches d in round r, by (d, r)."""
        have, need, pairs, hops = chunk.have, chunk.need, self.pairs, self.hops
        if self.forward:
            onward = hops[:, sorted(need)].min(axis=1)
        else:
            # Only ranks that have or need the chunk take part.
            pairs = [(s, d) for s, d in pairs if d in need and (s in need or s in have)]
            hops = distances(self.demand.ranks, pairs)
            onward = np.zeros(self.demand.ranks, int)
        here = hops[sorted(have)].min(axis=0)
        received: dict[tuple[int, int], list[int]] = defaultdict(list)
        sends: list[tuple[int, int, int]] = []
        for s, d in pairs:
            if d in have:
                continue
            # Not before it can be at s; not so late that it is of use to nobody.
            for r in range(int(here[s]), self.rounds - int(onward[d])):
                column = self._variable(group, s, d, r)
                received[d, r].append(column)
                if s not in have:
                    sends.append((s, r, column))
        for d in sorted(need | {d for d, _ in received}):
            columns = [c for r in range(self.rounds) for c in received.get((d, r), ())]
            self.model.row(columns, 1 if d in need else -math.inf, 1)
        self._hold(received, sends)
        return received

    def _order(self, rank: int, received: list[dict[tuple[int, int], list[int]]]) -> None:
        """Chunks that differ in nothing reach one rank that needs them in the order of their numbers."""
        for first, second in pairwise(received):
            for r in range(self.rounds - 1):
                early = [c for t in range(r + 1) for c in first.get((rank, t), ())]
                late = [c for t in range(r + 1) for c in second.get((rank, t), ())]
                self.model.row([*early, *late], 0, math.inf, [1] * len(early) + [-1] * len(late))

    def _hold(self, received: dict, sends: list[tuple[int, int, int]]) -> None:
        """Receive before sending: held[s, r] says whether s has the chunk when round r begins."""
        last: dict[int, int] = {}
        for s, r, _ in sends:
            last[s] = max(r, last.get(s, 0))
        held: dict[tuple[int, int], int] = {}
        for s, until in last.items():
            for r in range(1, until + 1):
                held[s, r] = self.model.variable()
                before = [held[s, r - 1]] if r > 1 else []
                self.model.equal([held[s, r]], [*before, *received.get((s, r - 1), ())])
        for s, r, column in sends:
            self.model.row([column, held[s, r]], -math.inf, 0, [1, -1])

    def _variable(self, group: int, s: int, d: int, r: int) -> int:
        column = self.model.variable(len(self.groups[group].numbers))
        self.y[group, s, d, r] = column
        self.sent[s, d, r].append(column)
        return column

    def hint(self, moves: Iterable[Move]) -> None:
        """Begin with a known schedule, as far as it goes."""
        group_of = {number: k for k, group in enumerate(self.groups) for number in group.numbers}
        self.model.hint.update(dict.fromkeys(self.y.values(), 0))
        for r, number, s, d in moves:
            column = self.y.get((group_of[number], s, d, r))
            if column is not None:
                self.model.hint[column] += 1

    def moves(self, values: np.ndarray) -> list[Move]:
        """The schedule that values of all variables mean, in order; what is sent in vain is left out."""
        left = [list(group.numbers) for group in self.groups]
        moves: list[Move] = []
        for (k, s, d, r), column in self.y.items():
            for _ in range(int(values[column])):
                number = left[k].pop() if len(self.groups[k].numbers) > 1 else left[k][0]
                moves.append((r, number, s, d))
        return useful(self.demand, moves)


def _groups(demand: Demand, forward: bool) -> list[ChunkGroup]:
    """Chunks by kind; those that others may forward are all told apart."""
    together: dict[ChunkDemand, list[int]] = defaultdict(list)
    alone: list[ChunkGroup] = []
    for number, chunk in enumerate(demand.chunks):
        if chunk.direct and not forward:
            together[chunk].append(number)
        elif chunk.need:
            alone.append(ChunkGroup(chunk, (number,)))
    return alone + [ChunkGroup(chunk, tuple(numbers)) for chunk, numbers in together.items()]


def useful(demand: Demand, moves: Iterable[Move]) -> list[Move]:
    """Moves in order, without those to ranks that neither need the chunk nor send it on."""
    kept: list[Move] = []
    onward: set[tuple[int, int]] = set()
    for move in sorted(moves, reverse=True):
        _, chunk, s, d = move
        if d in demand.chunks[chunk].need or (chunk, d) in onward:
            kept.append(move)
            onward.add((chunk, s))
    return kept[::-1]


def distances(ranks: int, pairs: Iterable[Edge]) -> np.ndarray:
    """Hops from each rank to each other, `FAR` if there is no way: shape (ranks, ranks)."""
    ends = np.array(sorted(set(pairs)), np.int64).reshape(-1, 2)
    joined = csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(ranks, ranks))
    hops = shortest_path(joined, unweighted=True)
    return np.where(np.isfinite(hops), hops, FAR).astype(np.int64)
