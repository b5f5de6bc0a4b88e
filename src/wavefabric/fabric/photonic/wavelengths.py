"""Assigns wavelengths and waveguides to the circuits of a round whose routes are known."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from wavefabric.collectives.sizes import within_groups
from wavefabric.fabric.photonic.circuit_plan import Bundle, CircuitRound
from wavefabric.fabric.photonic.edge_colouring import Colouring, degrees
from wavefabric.fabric.photonic.fabric import PhotonicFabric
from wavefabric.fabric.photonic.routing.cuts import parts_bound
from wavefabric.fabric.photonic.tile_grid import Route, edge_loads, flat_edges, tile_grid

#: Ways to divide a tile's ports among its peers; see `fewest_wavelengths`.
SHARING = ("even", "paper")


def most_peers(fabric: PhotonicFabric, sharing: str) -> int:
    """Return the largest number of peers that a tile can send to, and receive from, at once."""
    return fabric.ports if sharing == "even" else max(1, fabric.ports - 1)


def fewest_wavelengths(fabric: PhotonicFabric, sharing: str, pairs: np.ndarray) -> np.ndarray:
    """Return the number of wavelengths of each pair if all pairs are up together: shape (pairs,).

    A tile gives each peer ⌊ports / peers⌋ if ``sharing`` is ``"even"``. If it is ``"paper"``, this is ⌊ports
    / (peers + 1)⌋, as in the LUMORPH paper, where each of three peers gets a quarter of the bandwidth; a
    single peer gets all ports there too. The smaller number of a pair's two tiles counts.
    """
    peers = np.minimum(degrees(pairs, fabric.ranks), most_peers(fabric, sharing))
    peers = np.take_along_axis(peers, pairs.T, axis=1)
    left_over = (peers > 1) & (sharing == "paper")
    return (fabric.ports // (peers + left_over)).min(axis=0)


def least_parts(fabric: PhotonicFabric, pairs: np.ndarray, sharing: str, size: int) -> int:
    """Return a lower bound, by ports and cuts, on the number of parts of a round.

    ``size``: smallest number of wavelengths that a pair may get; ``sharing``: one of `SHARING`.
    """
    peers = int(degrees(pairs, fabric.ranks).max())
    return max(
        -(-peers // most_peers(fabric, sharing)), parts_bound(fabric, pairs, np.full(len(pairs), size))
    )


def assign_wavelengths(
    fabric: PhotonicFabric, pairs: np.ndarray, routes: Sequence[Route], wavelengths: np.ndarray
) -> list[int] | None:
    """Return each pair's wavelengths as a bit mask such that all circuits fit at once; None if not found.

    ``wavelengths`` is the number of wavelengths of each pair. On no edge may more circuits use a wavelength
    than there are waveguides. The search is not exhaustive: None is no proof that no assignment exists.
    """
    size = int(wavelengths.min())
    alike = size == wavelengths.max()
    # If all pairs have the same number, a colour is a block of this number of wavelengths.
    colours = fabric.lasers // size if alike else fabric.lasers
    owner = np.arange(len(pairs)) if alike else np.repeat(np.arange(len(pairs)), wavelengths)
    src, dst = pairs[owner].T.tolist()
    capacity = tile_grid(fabric).capacity
    edges, first = flat_edges(fabric.columns, routes)
    weight = None if alike else np.repeat(wavelengths, np.diff(first))
    load = np.bincount(edges, weight, minlength=capacity.size)
    if (load > capacity * colours).any():
        return None
    passed, limit = [], None
    if (np.bincount(edges, minlength=capacity.size) > capacity).any():
        passed, limit = [edges[first[i] : first[i + 1]] for i in owner], capacity
    colouring = Colouring(src, dst, fabric.ranks, colours, passed, limit)
    if not colouring.fits:
        return None
    masks, block = [0] * len(pairs), size if alike else 1
    for i, c in zip(owner.tolist(), colouring.colour, strict=True):
        masks[i] |= (1 << block) - 1 << c * block
    return masks


def circuit_round(
    fabric: PhotonicFabric, pairs: np.ndarray, routes: Sequence[Route], masks: Sequence[int], bound: int
) -> CircuitRound:
    """Return the circuits of a round, with their waveguides on each edge.

    ``masks``: wavelengths of each pair, as bit masks. On an edge no wavelength may occur more often than
    there are waveguides. A circuit has waveguides to itself if there are enough. Else circuits without a
    common wavelength share them; circuits are divided by wavelength only if whole ones do not fit. ``bound``:
    lower bound of the overlap.
    """
    parts = list(enumerate(masks))
    guides = _waveguides(fabric, routes, masks)
    if guides is None:
        parts = [(i, 1 << w) for i, m in parts for w in range(m.bit_length()) if m >> w & 1]
        guides = _waveguides(fabric, [routes[i] for i, _ in parts], [mask for _, mask in parts])
    if guides is None:
        raise AssertionError("more circuits of one wavelength than waveguides")
    joined: dict[tuple[int, Route], int] = defaultdict(int)
    for (i, mask), g in zip(parts, guides, strict=True):
        joined[i, g] |= mask
    ends = [(int(s), int(d)) for s, d in pairs]
    bundles = tuple(Bundle(*ends[i], mask, routes[i], g) for (i, g), mask in joined.items())
    return CircuitRound(0, 0, bundles, int(edge_loads(fabric, routes).max()), bound)


def _waveguides(fabric: PhotonicFabric, routes: Sequence[Route], masks: Sequence[int]) -> list[Route] | None:
    """Return each route's waveguide number on each of its edges; None if first fit runs out of waveguides."""
    capacity = tile_grid(fabric).capacity
    edges, first = flat_edges(fabric.columns, routes)
    number = within_groups(edges)
    crowded = np.bincount(edges, minlength=capacity.size) > capacity
    if crowded.any():
        owner = np.repeat(np.arange(len(routes)), np.diff(first))
        order = np.argsort(edges, kind="stable")
        at = order[crowded[edges[order]]]
        for run in np.split(at, np.flatnonzero(np.diff(edges[at])) + 1):
            guides = int(capacity[edges[run[0]]])
            if not _share_waveguides(run, [masks[i] for i in owner[run]], guides, number):
                return None
    flat, cuts = number.tolist(), first.tolist()
    return [tuple(flat[i:j]) for i, j in pairwise(cuts)]


def _share_waveguides(positions: np.ndarray, masks: list[int], guides: int, number: np.ndarray) -> bool:
    """Assign the ``guides`` waveguides of one edge to its circuits; return False if they are too few.

    The results are written to ``number[positions]``. ``masks``: wavelengths of each circuit, as bit masks.
    """
    used = [0] * guides
    full = dict.fromkeys(masks, 0)  # mask → number of guides, from the first, without space for it
    order = sorted(zip(masks, positions.tolist(), strict=True), key=lambda one: (-one[0].bit_count(), *one))
    for mask, position in order:
        guide = next((g for g in range(full[mask], guides) if not used[g] & mask), None)
        if guide is None:
            return False
        used[guide] |= mask
        number[position], full[mask] = guide, guide + 1
    return True
