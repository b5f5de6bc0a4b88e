"""The part of the question that circuits and links share: who sends which chunk to whom, and when."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from wavefabric.collectives.synthesis.demand import Chunk, Demand, Move
from wavefabric.collectives.synthesis.model import Model
from wavefabric.collectives.synthesis.problem import Edge

#: More hops than there can be.
FAR = 1 << 20


@dataclass(frozen=True)
class Kind:
    """Chunks that differ in nothing: several only if each goes straight from one rank to one other."""

    chunk: Chunk
    numbers: tuple[int, ...]


def kinds(demand: Demand, forward: bool) -> list[Kind]:
    """Chunks by kind; those that others may forward are all told apart."""
    together: dict[Chunk, list[int]] = defaultdict(list)
    alone: list[Kind] = []
    for number, chunk in enumerate(demand.chunks):
        if chunk.direct and not forward:
            together[chunk].append(number)
        elif chunk.need:
            alone.append(Kind(chunk, (number,)))
    return alone + [Kind(chunk, tuple(numbers)) for chunk, numbers in together.items()]


class Spread:
    """Variables y: how many chunks of a kind go from s to d in round r; and the rules of who may send what.

    A rank that needs a chunk gets it exactly once (3); it sends it on only in later rounds (2). Without
    `forward`, ranks that do not need a chunk never get it; with it, at most once.

    Parameters
    ----------
    model : Model
        Gets the variables and rows.
    demand : Demand
    pairs : iterable of (int, int)
        Who can send to whom.
    rounds : int
    forward : bool
    """

    def __init__(self, model: Model, demand: Demand, pairs: Iterable[Edge], rounds: int, forward: bool):
        self.demand, self.rounds = demand, rounds
        self.kinds = kinds(demand, forward)
        #: (kind, s, d, r) → variable.
        self.y: dict[tuple[int, int, int, int], int] = {}
        #: (s, d, r) → variables.
        self.sent: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        joined = sorted(set(pairs))
        allowed = set(joined)
        hops = distances(demand.ranks, joined)
        alike: dict[Chunk, list[dict[tuple[int, int], list[int]]]] = defaultdict(list)
        for k, kind in enumerate(self.kinds):
            if forward or not kind.chunk.direct:
                alike[kind.chunk].append(self._spread(model, k, kind.chunk, joined, hops, forward))
            else:
                self._straight(model, k, kind, allowed)
        for chunk, into in alike.items():
            self._order(model, min(chunk.need), into)

    def _straight(self, model: Model, k: int, kind: Kind, pairs: set[Edge]) -> None:
        (s,), (d,) = kind.chunk.have, kind.chunk.need
        chosen = [self._variable(model, k, s, d, r) for r in range(self.rounds) if (s, d) in pairs]
        model.row(chosen, len(kind.numbers), len(kind.numbers))

    def _spread(
        self, model: Model, k: int, chunk: Chunk, pairs: list[Edge], hops: np.ndarray, forward: bool
    ) -> dict[tuple[int, int], list[int]]:
        """A chunk that may take several ways: the variables by which it reaches d in round r, by (d, r)."""
        have, need = chunk.have, chunk.need
        if forward:
            onward = hops[:, sorted(need)].min(axis=1)
        else:
            # Only ranks that have or need the chunk take part.
            pairs = [(s, d) for s, d in pairs if d in need and (s in need or s in have)]
            hops = distances(self.demand.ranks, pairs)
            onward = np.zeros(self.demand.ranks, int)
        here = hops[sorted(have)].min(axis=0)
        into: dict[tuple[int, int], list[int]] = defaultdict(list)
        sends: list[tuple[int, int, int]] = []
        for s, d in pairs:
            if d in have:
                continue
            # Not before it can be at s; not so late that it is of use to nobody.
            for r in range(int(here[s]), self.rounds - int(onward[d])):
                column = self._variable(model, k, s, d, r)
                into[d, r].append(column)
                if s not in have:
                    sends.append((s, r, column))
        for d in sorted(need | {d for d, _ in into}):
            got = [c for r in range(self.rounds) for c in into.get((d, r), ())]
            model.row(got, 1 if d in need else -math.inf, 1)
        self._hold(model, into, sends)
        return into

    def _order(self, model: Model, rank: int, into: list[dict[tuple[int, int], list[int]]]) -> None:
        """Chunks that differ in nothing reach one rank that needs them in the order of their numbers."""
        for first, second in pairwise(into):
            for r in range(self.rounds - 1):
                early = [c for t in range(r + 1) for c in first.get((rank, t), ())]
                late = [c for t in range(r + 1) for c in second.get((rank, t), ())]
                model.row([*early, *late], 0, math.inf, [1] * len(early) + [-1] * len(late))

    def _hold(self, model: Model, into: dict, sends: list[tuple[int, int, int]]) -> None:
        """Receive before sending: held[s, r] says whether s has the chunk when round r begins."""
        last: dict[int, int] = {}
        for s, r, _ in sends:
            last[s] = max(r, last.get(s, 0))
        held: dict[tuple[int, int], int] = {}
        for s, until in last.items():
            for r in range(1, until + 1):
                held[s, r] = model.variable()
                before = [held[s, r - 1]] if r > 1 else []
                columns = [held[s, r], *before, *into.get((s, r - 1), ())]
                model.row(columns, 0, 0, [1] + [-1] * (len(columns) - 1))
        for s, r, column in sends:
            model.row([column, held[s, r]], -math.inf, 0, [1, -1])

    def _variable(self, model: Model, k: int, s: int, d: int, r: int) -> int:
        column = model.variable(len(self.kinds[k].numbers))
        self.y[k, s, d, r] = column
        self.sent[s, d, r].append(column)
        return column

    def hint(self, model: Model, moves: Iterable[Move]) -> None:
        """Begin with a known schedule, as far as it goes."""
        kind_of = {number: k for k, kind in enumerate(self.kinds) for number in kind.numbers}
        model.hint.update(dict.fromkeys(self.y.values(), 0))
        for r, number, s, d in moves:
            column = self.y.get((kind_of[number], s, d, r))
            if column is not None:
                model.hint[column] += 1

    def moves(self, values: np.ndarray) -> list[Move]:
        """The schedule that values of all variables mean, in order; what is sent in vain is left out."""
        left = [list(kind.numbers) for kind in self.kinds]
        found: list[Move] = []
        for (k, s, d, r), column in self.y.items():
            for _ in range(int(values[column])):
                number = left[k].pop() if len(self.kinds[k].numbers) > 1 else left[k][0]
                found.append((r, number, s, d))
        return useful(self.demand, found)


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
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import shortest_path

    ends = np.array(sorted(set(pairs)), np.int64).reshape(-1, 2)
    joined = csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(ranks, ranks))
    hops = shortest_path(joined, unweighted=True)
    return np.where(np.isfinite(hops), hops, FAR).astype(np.int64)
