"""Divide the transfers over spanning trees into rounds, so that the busiest links seldom wait for data.

In a pipeline each tree edge sends one piece per round, and links that serve only edges far from the roots are
idle in the first rounds. Here edges near the roots send ahead in the meantime, data that have farthest to go
are sent first, and rounds are short at the beginning and at the end: list scheduling by the longest remaining
path (Graham 1969, doi:10.1137/0117039; Hu 1961, doi:10.1287/opre.9.6.841).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace

from wavefabric.collectives.synthesis.demand import Move
from wavefabric.collectives.synthesis.problem import Edge, Links

#: Full rounds for which an edge with one more edge behind it is ahead of others.
_AHEAD = 4
#: Growth of the first rounds, and the part of what is left that a last round sends.
_GROWTH, _PART = 2.0, 0.2
#: Parts in which an edge sends its chunks, for other edges to come between.
_PARTS = 64
#: Least load of a resource, of the largest, for which lengths of rounds are whole numbers of chunks.
_BUSY = 0.97


@dataclass
class EqualTrees:
    """A group of ``count`` equal trees, from number ``first`` on, of the ``all`` spanning trees of ``root``.

    ``reached``: from each rank that these trees reach to its parent and its depth.
    """

    root: int
    all: int
    first: int
    count: int
    reached: dict[int, tuple[int, int]]

    def chunks(self, of_root: int) -> range:
        """Return which of the ``of_root`` chunks of the root go over these trees."""
        return range(*(of_root * at // self.all for at in (self.first, self.first + self.count)))


@dataclass(frozen=True)
class TreeRounds:
    """Holds the rounds in which chunks go over trees.

    ``sent``: round, number of the group of trees, edge, and which of the root's chunks. ``seconds``: for
    which the busiest link of each round sends, where a link of capacity c takes 1/c for a chunk.
    """

    trees: list[EqualTrees]
    sent: list[tuple[int, int, Edge, range]]
    seconds: list[float]

    def moves(self, numbers: Mapping[int, Sequence[int]]) -> list[Move]:
        """Return all transfers in order; ``numbers`` has the chunks of each root."""
        moves = []
        for r, group, (x, y), chunks in self.sent:
            of_root = numbers[self.trees[group].root]
            moves += [(r, of_root[i], x, y) for i in chunks]
        return sorted(moves)


def tree_rounds(
    trees: list[EqualTrees], links: Links, chunks: Mapping[int, int], pace: float, shortest: float = 1.0
) -> TreeRounds:
    """Divide the transfers of ``chunks[r]`` chunks over the trees of each root r into rounds.

    ``pace``: number of rounds in which the busiest link could send all its chunks, were it never idle; with
    1, all data that a rank has go on in the next round. ``shortest``: length of the first and the last round,
    as a part of the others.
    """
    return _Rounds(trees, links, chunks).run(max(1.0, pace), shortest)


class _Rounds:
    """The edges of all trees, sorted by group and depth, and how many chunks each has sent."""

    def __init__(self, trees: list[EqualTrees], links: Links, chunks: Mapping[int, int]):
        uses, self._capacities = links.resources()
        self._trees = trees
        #: Of each edge: group and ends, edge before it or −1, chunks, edges behind it, resources.
        self._edges: list[tuple[int, Edge]] = []
        self._before: list[int] = []
        self._chunks: list[range] = []
        self._behind: list[int] = []
        self._over: list[list[int]] = []
        for group, tree in enumerate(trees):
            number: dict[int, int] = {}
            of_tree = tree.chunks(chunks[tree.root])
            for y, (x, depth) in sorted(tree.reached.items(), key=lambda item: item[1][1]):
                if not depth:
                    continue
                number[y] = len(self._edges)
                self._edges.append((group, (x, y)))
                self._before.append(number.get(x, -1))
                self._chunks.append(of_tree)
                self._behind.append(0)
                self._over.append(uses[x, y])
            for edge in reversed(number.values()):
                if (parent := self._before[edge]) >= 0:
                    self._behind[parent] = max(self._behind[parent], self._behind[edge] + 1)
        self._done = [0] * len(self._edges)
        self._left = [0] * len(self._capacities)
        for over, of_tree in zip(self._over, self._chunks, strict=True):
            for resource in over:
                self._left[resource] += len(of_tree)

    def _needed(self) -> list[float]:
        """Return the time that each resource needs for the chunks that are left."""
        return [left / most if left else 0.0 for left, most in zip(self._left, self._capacities, strict=True)]

    def run(self, pace: float, part: float) -> TreeRounds:
        needed, capacities = self._needed(), self._capacities
        longest = max(needed, default=0.0) / pace
        busy, used = (
            {most for each, most in zip(needed, capacities, strict=True) if each > least * max(needed)}
            for least in (_BUSY, 0.5)
        )
        shortest = max(longest * max(part, 1 / pace), 1 / min(used, default=1))
        rank = [_AHEAD * behind / pace for behind in self._behind]
        result, length, lengths = TreeRounds(self._trees, [], []), shortest, {}
        while (left := max(self._needed(), default=0.0)) > 0:
            aim = min(max(longest, shortest), length, max(shortest, _PART * left))
            length *= _GROWTH
            if aim not in lengths:
                lengths[aim] = _whole_chunks(aim, busy)
            self._send(lengths[aim], rank, result)
        return result

    def _send(self, length: float, rank: list[float], result: TreeRounds) -> None:
        """Add a round to ``result``, in which no resource is used for longer than ``length``.

        Edges that have sent the least part of their chunks are first; ``rank`` is what they are ahead by.
        """
        count, done, over = [len(chunks) for chunks in self._chunks], self._done, self._over
        space = [max(1, int(most * length + 1e-9)) for most in self._capacities]
        there = [done[b] if b >= 0 else n for b, n in zip(self._before, count, strict=True)]
        begun, start = done[:], space[:]
        heap = [(done[e] / count[e] - rank[e], e) for e in range(len(done)) if there[e] > done[e]]
        heapify(heap)
        while heap:
            edge = heap[0][1]
            able = min(
                there[edge] - done[edge], max(1, count[edge] // _PARTS), *[space[i] for i in over[edge]]
            )
            for resource in over[edge]:
                space[resource] -= able
            done[edge] += able
            if able and there[edge] > done[edge]:
                heapreplace(heap, (done[edge] / count[edge] - rank[edge], edge))
            else:
                heappop(heap)
        number = len(result.seconds)
        for edge, (group, ends) in enumerate(self._edges):
            if done[edge] > begun[edge]:
                result.sent.append((number, group, ends, self._chunks[edge][begun[edge] : done[edge]]))
        used = [a - b for a, b in zip(start, space, strict=True)]
        self._left = [left - chunks for left, chunks in zip(self._left, used, strict=True)]
        result.seconds.append(max(u / most for u, most in zip(used, self._capacities, strict=True) if u))


def _whole_chunks(aim: float, busy: set[int]) -> float:
    """Return a length of a round near ``aim`` in which links of capacities ``busy`` carry whole chunks."""

    def unused(length: float) -> float:
        return max(1 - int(most * length + 1e-9) / (most * length) for most in busy)

    tried = {max(1, round(most * aim * part)) / most for most in busy for part in (0.8, 0.9, 1, 1.1, 1.2)}
    return min(tried, key=lambda length: (round(unused(length), 2), abs(length - aim)), default=aim)
