"""Colours graph edges to assign wavelengths: no laser or photodiode twice, no edge with a colour too often.

Tiles as senders and tiles as receivers are the two sides of a bipartite graph, circuits its edges,
wavelengths their colours. The number of circuits of the busiest tile is always enough colours (Kőnig 1916,
doi:10.1007/BF01456961).
"""

from collections.abc import Sequence

import numpy as np

#: Number of passes over circuits on overloaded edges.
_PASSES = 4
#: Limit of colour changes while overload is reduced, which bounds the time.
_SWAPS = 50_000


class Colouring:
    """Gives circuits of the same sender, or the same receiver, different colours 0 … ``colours`` − 1.

    No tile may send, or receive, more circuits than there are colours. With ``edges`` (numbers of the edges
    that each circuit passes) and ``capacity`` (circuits of one colour that each edge can carry), colours are
    chosen, and exchanged along Kempe chains (connected circuits of two colours), so that few edges are
    overloaded.
    """

    def __init__(
        self,
        src: Sequence[int],
        dst: Sequence[int],
        tiles: int,
        colours: int,
        edges: Sequence[np.ndarray] = (),
        capacity: np.ndarray | None = None,
    ):
        # Tiles as receivers are numbered after tiles as senders.
        self._ends = [(s, tiles + d) for s, d in zip(src, dst, strict=True)]
        self.colours, self.colour = colours, [-1] * len(self._ends)
        # Circuit of each colour at each end, and free colours of each end as bits.
        self._at = [[-1] * colours for _ in range(2 * tiles)]
        self._free = [(1 << colours) - 1] * (2 * tiles)
        self._edges, self._capacity = edges, np.zeros(0, np.int64) if capacity is None else capacity
        self._load = np.zeros((colours, self._capacity.size), np.int64)
        self._swaps = 0
        for i, (s, d) in enumerate(self._ends):
            common = self._free[s] & self._free[d]
            if common:
                self._set(i, self._choose(i, common))
                continue
            # Swap colours a and b along the chain that begins at the receiver with a. The chain cannot end
            # at the sender.
            a, b = _lowest(self._free[s]), _lowest(self._free[d])
            self._swap(self._chain(d, a, b), a, b)
            self._set(i, a)
        self._spread()

    @property
    def fits(self) -> bool:
        """Return whether no edge has more circuits of one colour than its capacity."""
        return not (self._load > self._capacity).any()

    def _choose(self, i: int, common: int) -> int:
        if not len(self._edges):
            return _lowest(common)
        candidates = [c for c in range(self.colours) if common >> c & 1]
        there = self._load[candidates][:, self._edges[i]] - self._capacity[self._edges[i]]
        return candidates[int(np.argmin(there.max(axis=1)))]

    def _set(self, i: int, c: int, add: bool = True) -> None:
        """Give circuit ``i`` the colour ``c`` or, if not ``add``, remove that colour."""
        for end in self._ends[i]:
            self._at[end][c] = i if add else -1
            self._free[end] ^= 1 << c
        self.colour[i] = c if add else -1
        if len(self._edges):
            self._load[c, self._edges[i]] += 1 if add else -1

    def _chain(self, end: int, a: int, b: int) -> list[int]:
        """Return the chain of connected circuits of colours ``a``, ``b``, ``a``, … from tile ``end`` on.

        A chain that closes to a cycle is followed once.
        """
        chain = []
        i = self._at[end][a]
        while i >= 0 and (not chain or i != chain[0]):
            chain.append(i)
            end = sum(self._ends[i]) - end
            a, b = b, a
            i = self._at[end][a]
        return chain

    def _swap(self, chain: list[int], a: int, b: int) -> None:
        self._swaps += len(chain)
        old = [self.colour[i] for i in chain]
        for i, c in zip(chain, old, strict=True):
            self._set(i, c, False)
        for i, c in zip(chain, old, strict=True):
            self._set(i, b if c == a else a)

    def _spread(self) -> None:
        """Exchange two colours of connected circuits while fewer circuits then exceed edge capacities."""
        for _ in range(_PASSES):
            over, changed = self._load > self._capacity, False
            if not over.any():
                return
            for i in [i for i, edges in enumerate(self._edges) if over[self.colour[i], edges].any()]:
                changed |= self._recolour(i)
                if self._swaps > _SWAPS:
                    return
            if not changed:
                return

    def _recolour(self, i: int) -> bool:
        a = self.colour[i]
        if not (self._load[a, self._edges[i]] > self._capacity[self._edges[i]]).any():
            return False
        for b in range(self.colours):
            if b == a:
                continue
            before = self._overload(a, b)
            # All circuits of the two colours that are connected to circuit i.
            s, d = self._ends[i]
            chain = self._chain(s, a, b)
            if len(chain) == 1 or self._at[s][b] != chain[-1]:  # no cycle
                chain += self._chain(d, a, b)[1:]
            self._swap(chain, a, b)
            if self._overload(a, b) < before:
                return True
            self._swap(chain, a, b)
        return False

    def _overload(self, a: int, b: int) -> int:
        return int(np.maximum(self._load[[a, b]] - self._capacity, 0).sum())


def _lowest(bits: int) -> int:
    """Return the index of the lowest bit that is set."""
    return (bits & -bits).bit_length() - 1


def degrees(pairs: np.ndarray, tiles: int) -> np.ndarray:
    """Return the number of circuits that each tile sends, and receives, for pairs (src, dst): (2, tiles)."""
    return np.stack([np.bincount(end, minlength=tiles) for end in pairs.T])


def split_by_degree(pairs: np.ndarray, tiles: int, limit: int) -> list[np.ndarray]:
    """Split pairs of tiles into the fewest groups in which no tile has more than ``limit`` peers.

    Peers are the tiles to which a tile sends, or those from which it receives. The result has the indices of
    the pairs of each group. All groups but the last are as full as possible: a tile uses all its lasers only
    if it has at least as many peers.
    """
    src, dst = pairs.T
    most = int(degrees(pairs, tiles).max())
    if most <= limit:
        return [np.arange(len(pairs))]
    # Source-destination distance (modulo tiles) is a colouring too, and the best one for regular patterns.
    _, colour = np.unique((dst - src) % tiles, return_inverse=True)
    if colour.max() >= most:
        colour = np.array(Colouring(src.tolist(), dst.tolist(), tiles, most).colour)
    return [np.flatnonzero(colour // limit == g) for g in range(-(-most // limit))]
