"""Edge colouring for wavelength assignment: no laser or photodiode twice, no edge with a colour too often.

Tiles as senders and tiles as receivers are the two sides of a bipartite graph, circuits its edges,
wavelengths their colours. As many colours as the busiest tile has circuits are always enough (Kőnig 1916,
doi:10.1007/BF01456961).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

#: How often circuits on edges with too much of one colour are looked at again.
_PASSES = 4
#: Circuits that may change their colour in all while colours are spread: a bound on the time that takes.
_SWAPS = 50_000


class Colouring:
    """A proper edge colouring that grows circuit by circuit: `colour` of each, as many as `colours`.

    No tile may send, or receive, more circuits than there are colours. With `edges` (numbers of the edges
    that each circuit passes) and `capacity` (circuits of one colour that each edge can carry), colours are
    chosen, and exchanged along alternating chains (Kempe), so that edges are not overloaded.
    """

    def __init__(
        self,
        src: Sequence[int],
        dst: Sequence[int],
        tiles: int,
        colours: int,
        edges: Sequence[np.ndarray] | None = None,
        capacity: np.ndarray | None = None,
    ):
        self._ends = list(zip(src, dst, strict=True))
        self.colours = colours
        self.colour = [-1] * len(self._ends)
        # Which circuit a sender, or receiver, uses each colour for; and the colours that are left, as bits.
        self._at = [[[-1] * colours for _ in range(tiles)] for _ in range(2)]
        self._free = [[(1 << colours) - 1] * tiles for _ in range(2)]
        self._swaps = 0
        self._spreads = edges is not None and capacity is not None
        self._edges: Sequence[np.ndarray] = edges if edges is not None else ()
        self._capacity = capacity if capacity is not None else np.zeros(0, np.int64)
        self._load = np.zeros((colours, self._capacity.size), np.int64)
        for i in range(len(self._ends)):
            self._add(i)
        if self._spreads:
            self._spread()

    @property
    def fits(self) -> bool:
        """Whether no edge has more circuits of one colour than there is room for."""
        return not (self._load > self._capacity).any()

    def _add(self, i: int) -> None:
        s, d = self._ends[i]
        common = self._free[0][s] & self._free[1][d]
        if common:
            self._set(i, self._choose(i, common))
            return
        # Swap colours a and b along the chain that begins at the receiver with a: it cannot end at the
        # sender.
        a, b = _lowest(self._free[0][s]), _lowest(self._free[1][d])
        self._swap(self._chain(1, d, a, b), a, b)
        self._set(i, a)

    def _choose(self, i: int, common: int) -> int:
        if not self._spreads:
            return _lowest(common)
        candidates = [c for c in range(self.colours) if common >> c & 1]
        there = self._load[candidates][:, self._edges[i]] - self._capacity[self._edges[i]]
        return candidates[int(np.argmin(there.max(axis=1)))]

    def _set(self, i: int, c: int, add: bool = True) -> None:
        """Give circuit i the colour c, or take it away."""
        for side, tile in enumerate(self._ends[i]):
            self._at[side][tile][c] = i if add else -1
            self._free[side][tile] ^= 1 << c
        self.colour[i] = c if add else -1
        if self._spreads:
            self._load[c, self._edges[i]] += 1 if add else -1

    def _chain(self, side: int, tile: int, a: int, b: int) -> list[int]:
        """Circuits of colours a, b, a, … from a tile on, once round if that is a circle."""
        chain = []
        i = self._at[side][tile][a]
        while i >= 0 and (not chain or i != chain[0]):
            chain.append(i)
            side = 1 - side
            a, b = b, a
            i = self._at[side][self._ends[i][side]][a]
        return chain

    def _swap(self, chain: list[int], a: int, b: int) -> None:
        self._swaps += len(chain)
        old = [self.colour[i] for i in chain]
        for i, c in zip(chain, old, strict=True):
            self._set(i, c, False)
        for i, c in zip(chain, old, strict=True):
            self._set(i, b if c == a else a)

    def _spread(self) -> None:
        """Exchange two colours along chains as long as that lowers the overload of edges."""
        for _ in range(_PASSES):
            over = np.maximum(self._load - self._capacity, 0)
            if not over.any():
                return
            crowded = [i for i, edges in enumerate(self._edges) if over[self.colour[i], edges].any()]
            changed = False
            for i in crowded:
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
            chain = self._component(i, a, b)
            self._swap(chain, a, b)
            if self._overload(a, b) < before:
                return True
            self._swap(chain, a, b)
        return False

    def _component(self, i: int, a: int, b: int) -> list[int]:
        """All circuits of colours a and b that are connected with circuit i, of colour a."""
        s, d = self._ends[i]
        onwards = self._chain(0, s, a, b)
        if len(onwards) > 1 and self._at[0][s][b] == onwards[-1]:  # a circle
            return onwards
        return onwards + self._chain(1, d, a, b)[1:]

    def _overload(self, a: int, b: int) -> int:
        return int(np.maximum(self._load[[a, b]] - self._capacity, 0).sum())


def _lowest(bits: int) -> int:
    """Number of the lowest bit that is set."""
    return (bits & -bits).bit_length() - 1


def degrees(pairs: np.ndarray, tiles: int) -> np.ndarray:
    """How many circuits each tile sends and receives: shape (2, tiles)."""
    return np.stack([np.bincount(end, minlength=tiles) for end in pairs.T])


def split_by_degree(pairs: np.ndarray, tiles: int, limit: int) -> list[np.ndarray]:
    """Indices of pairs in the fewest groups in which no tile sends to, or receives from, more than `limit`.

    ⌈peers of the busiest tile / limit⌉ groups. All but the last are as full as they can be: lasers are best
    used by as many peers as there are lasers.
    """
    src, dst = pairs.T
    most = int(degrees(pairs, tiles).max())
    if most <= limit:
        return [np.arange(len(pairs))]
    # How far round from source to destination is a colouring as well, and for regular patterns the best.
    _, colour = np.unique((dst - src) % tiles, return_inverse=True)
    if colour.max() >= most:
        colour = np.array(Colouring(src.tolist(), dst.tolist(), tiles, most).colour)
    return [np.flatnonzero(colour // limit == g) for g in range(-(-most // limit))]
