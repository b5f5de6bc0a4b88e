"""Divides a grid among ranks: one Fourier basis for the whole grid, or one per block.

*Global*: exact; transforms of the whole grid need transposes between ranks (`spectral.distributed`).

*Local*: blocks on a torus, each widened by overlaps that are filled from its neighbours before every
transform. A window fades the overlaps out, after which each block is periodic. This is an approximation whose
error decreases with the width of the overlap (Israeli, Vozovoi & Averbuch 1993, J. Sci. Comput. 8, 135).
"""

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal

from wavefabric.acoustics.decomposition.subdomain import Subdomain, Triple
from wavefabric.acoustics.decomposition.window import WINDOWS
from wavefabric.base.arguments import is_whole
from wavefabric.base.errors import InputError
from wavefabric.runtime.exchange.halos_transposes import Message
from wavefabric.runtime.kernels.roots import factorised
from wavefabric.runtime.spectral.distributed import boxes

KINDS = ("global", "local")
_AXES = "xyz"
#: Largest relative excess of a block over an even division, to get a size with small prime factors.
SLACK = 0.15


@dataclass(frozen=True)
class Decomposition:
    """Describes how to divide a grid among ranks; `InputError` for values that no problem allows.

    Parameters
    ----------
    kind : str
        ``"global"`` or ``"local"``.
    grid : tuple of int, optional
        Blocks along x, y and z; their product is the number of ranks. Default: global, slabs along z or
        nearly square pencils; local, the blocks with the smallest overlaps.
    overlap : int
        Local: points added to a block on each side of every divided axis.
    bell : str
        Local: the window, one of `window.WINDOWS`.
    """

    kind: Literal["global", "local"] = "global"
    grid: Triple | None = None
    overlap: int = 16
    bell: str = "nested-sine"

    def __post_init__(self):
        if self.kind not in KINDS:
            raise InputError(f"decomposition: {self.kind!r} given; allowed: {', '.join(KINDS)}")
        if self.bell not in WINDOWS:
            raise InputError(f"bell: {self.bell!r} given; allowed: {', '.join(WINDOWS)}")
        if not _positive(self.overlap):
            raise InputError(f"overlap: {self.overlap!r} given; allowed: a whole number of points, 1 or more")
        if self.grid is not None and not (len(self.grid) == 3 and all(map(_positive, self.grid))):
            raise InputError(f"grid: {self.grid!r} given; allowed: numbers of blocks along x, y and z")


def _positive(value) -> bool:
    return is_whole(value) and value >= 1


@dataclass(frozen=True)
class Partition:
    """Holds the subdomains of all ranks in rank order: blocks count along z fastest, then y, then x."""

    #: Options of the decomposition; ``grid`` is set.
    options: Decomposition
    subdomains: list[Subdomain]
    #: Advice to the user, one sentence each.
    notes: list[str] = field(default_factory=list)

    @property
    def ranks(self) -> int:
        """Return the number of subdomains."""
        return len(self.subdomains)

    @property
    def grid(self) -> Triple:
        """Return the numbers of blocks along x, y and z."""
        assert self.options.grid is not None
        return self.options.grid

    @property
    def shape(self) -> Triple:
        """Return the shape of the whole grid, (Nx, Ny, Nz)."""
        return self.subdomains[0].shape

    def describe(self) -> str:
        """Return the decomposition in words, for the report of a run."""
        words = f"{self.options.kind}, grid {'x'.join(map(str, self.grid))}"
        local = f", overlap {self.options.overlap}, bell {self.options.bell}"
        return words + (local if self.options.kind == "local" else "")


def decompose(
    shape: Triple, ranks: int, options: Decomposition | None = None, stacked: bool = False
) -> Partition:
    """Divide a grid of (Nx, Ny, Nz) points, Nz = 1 in 2-D, among ranks; a stack of planes has one rank.

    Raises `InputError` if the blocks do not fit the ranks or the points, or are shorter than the overlap.
    """
    options = options or Decomposition()
    shape = tuple(int(n) for n in shape)  # type: ignore[assignment]
    if options.grid is not None and math.prod(options.grid) != ranks:
        actual = "x".join(map(str, options.grid))
        raise InputError(
            f"grid: {actual} is {math.prod(options.grid)} blocks; allowed: one per rank, {ranks}"
        )
    if ranks == 1:
        return Partition(replace(options, grid=(1, 1, 1)), [Subdomain.whole(shape, stacked)])
    if options.kind == "global":
        grid = options.grid or _global_grid(shape, ranks)
        return Partition(replace(options, grid=grid), _global_subdomains(shape, grid))
    grid = options.grid or _local_grid(shape, ranks, options.overlap)
    options = replace(options, grid=grid)
    return Partition(options, _local_subdomains(shape, grid, options.overlap), _notes(shape, grid, options))


def has_small_factors(n: int) -> bool:
    """Return whether ``n`` has no prime factor above 7, so that transforms of this length are fast."""
    return n == 1 or bool(factorised(n, (7, 5, 3, 2)))


def equal_blocks(n: int, blocks: int) -> tuple[int, ...]:
    """Divide ``n`` points into ``blocks`` sizes that differ by at most one point, the larger first."""
    size, more = divmod(n, blocks)
    return tuple(size + (i < more) for i in range(blocks))


@lru_cache(maxsize=1024)
def smooth_blocks(n: int, blocks: int, overlap: int, multiple: int = 1) -> tuple[int, ...]:
    """Divide ``n`` points into blocks whose sizes + 2 ``overlap`` have no prime factor above 7.

    Return the sizes without overlaps. If possible, each size + 2 ``overlap`` is also a multiple of
    ``multiple``. The longest block is as short as possible, since it limits the speed. Return `equal_blocks`
    if the longest block would be longer than in an even division by more than a fraction `SLACK`, or another
    one shorter than the overlap.
    """
    if blocks == 1:
        return (n,)
    for unit in dict.fromkeys((multiple, 1)):
        if sizes := _smooth_sizes(n, blocks, overlap, unit):
            return sizes
    return equal_blocks(n, blocks)


def _smooth_sizes(n: int, blocks: int, overlap: int, unit: int) -> tuple[int, ...] | None:
    """Return ``blocks`` sizes with sum ``n`` for which transforms are fast, or None if there are none.

    The transform of a block has size + 2 ``overlap`` points, a multiple of ``unit`` without prime factors
    above 7. The limits on the sizes are those of `smooth_blocks`.
    """
    equal = equal_blocks(n, blocks)
    if all(_is_smooth(size + 2 * overlap, unit) for size in equal):
        return equal
    total = n + 2 * overlap * blocks
    longest = -(-total // blocks)
    for limit in range(longest, int((1 + SLACK) * longest) + 1):
        if _is_smooth(limit, unit) and (sizes := _sizes_of_sum(total, blocks, limit, 3 * overlap, unit)):
            return tuple(size - 2 * overlap for size in sizes)
    return None


def _is_smooth(n: int, unit: int) -> bool:
    return n % unit == 0 and has_small_factors(n)


def _sizes_of_sum(total: int, blocks: int, limit: int, least: int, unit: int) -> list[int] | None:
    """Return ``blocks`` sizes in descending order whose sum is ``total``; None if there are none.

    The sizes are multiples of ``unit`` without prime factors above 7, from ``least`` to ``limit``. As few of
    them as possible are below ``limit``.
    """
    excess = blocks * limit - total
    shortenings = [
        limit - size
        for size in range(max(least, 1), limit)
        if _is_smooth(size, unit) and limit - size <= excess
    ]
    count, last = [0] + [blocks + 1] * excess, [0] * (excess + 1)
    for amount in range(1, excess + 1):
        for less in shortenings:
            if less <= amount and count[amount - less] + 1 < count[amount]:
                count[amount], last[amount] = count[amount - less] + 1, less
    if count[excess] > blocks:
        return None
    sizes = []
    while excess:
        sizes.append(limit - last[excess])
        excess -= last[excess]
    return sorted(sizes + [limit] * (blocks - len(sizes)), reverse=True)


def _divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


def block_grids(ranks: int) -> list[Triple]:
    """Return all divisions of a grid into one block per rank, as numbers of blocks along x, y and z."""
    return [(x, y, ranks // (x * y)) for x in _divisors(ranks) for y in _divisors(ranks // x)]


def _global_limits(shape: Triple) -> Triple:
    """Return the most blocks along x, y, z with which all ranks have points of grid and spectrum."""
    nx, ny, nz = shape
    return 1, min(ny, nx // 2 + 1), min(ny, max(1, nz // 2))  # two planes, or a block would be taken for 2-D


def _global_fits(shape: Triple, grid: Triple) -> bool:
    return all(blocks <= most for blocks, most in zip(grid, _global_limits(shape), strict=True))


def _global_grid(shape: Triple, ranks: int) -> Triple:
    """Return the numbers of blocks along x, y, z: slabs along z if these fit, else the squarest pencils."""
    slabs = (1, 1, ranks)
    fitting = [grid for grid in block_grids(ranks) if _global_fits(shape, grid)]
    shapes = {grid: (grid != slabs, max(grid[1:]) / min(grid[1:]), grid[1]) for grid in fitting}
    return min(fitting, key=shapes.__getitem__, default=slabs)


def _triple(values: Iterable[int]) -> Triple:
    x, y, z = values
    return x, y, z


def _global_subdomains(shape: Triple, grid: Triple) -> list[Subdomain]:
    if grid[0] != 1:
        raise InputError(f"grid: {grid[0]} blocks along x given; allowed in a global decomposition: 1")
    if not _global_fits(shape, grid):
        (nx, ny, nz), (_, most_y, most_z), ranks = shape, _global_limits(shape), math.prod(grid)
        raise InputError(
            f"ranks: {ranks} as {grid[1]} blocks along y and {grid[2]} along z; allowed for a grid of "
            f"{nx}x{ny}x{nz}: up to {most_y} along y and {most_z} along z"
        )
    space, _, _, spectral = boxes(shape, grid)
    subdomains = []
    for box, spectrum in zip(space, spectral, strict=True):
        first, size = _triple(start for start, _ in box), _triple(b - a for a, b in box)
        subdomains.append(Subdomain(shape, first, size, first, size, shape, spectrum))
    return subdomains


#: Fused kernels on a GPU take twice as long for rows of an odd number of points along x.
_MULTIPLES = (2, 1, 1)


def _too_short(n: int, blocks: int, multiple: int, overlap: int) -> bool:
    """Return whether one of the `smooth_blocks` of ``n`` points is shorter than the overlap."""
    # If blocks cannot fit, skip the search of `smooth_blocks`, which would take long for large numbers.
    return blocks > 1 and (blocks * overlap > n or min(smooth_blocks(n, blocks, overlap, multiple)) < overlap)


def _local_grid(shape: Triple, ranks: int, overlap: int) -> Triple:
    """Return the numbers of blocks along x, y and z with the fewest overlap points per rank.

    Of several such divisions, return the one with most blocks along z, then along y.
    """
    grids, overlaps = block_grids(ranks), (overlap,) * 3
    fitting = [grid for grid in grids if not any(map(_too_short, shape, grid, _MULTIPLES, overlaps))]
    if not fitting:
        actual = "x".join(map(str, shape))
        raise InputError(
            f"overlap: {overlap} points between {ranks} ranks on a grid of {actual}; allowed: blocks of "
            f"{overlap} points or more along each cut axis: fewer ranks, a narrower overlap or a larger grid"
        )
    return min(fitting, key=lambda grid: (_halo(shape, grid, overlap), -grid[2], -grid[1]))


def _block_sizes(shape: Triple, grid: Triple, overlap: int) -> list[tuple[int, ...]]:
    """Return for each axis the sizes of its blocks in points, without overlaps: `smooth_blocks`."""
    return list(map(smooth_blocks, shape, grid, (overlap,) * 3, _MULTIPLES))


def _halo(shape: Triple, grid: Triple, overlap: int) -> int:
    """Return the largest number of overlap points of any rank."""
    owned = list(map(max, _block_sizes(shape, grid, overlap)))
    wide = [n + 2 * overlap * (blocks > 1) for n, blocks in zip(owned, grid, strict=True)]
    return math.prod(wide) - math.prod(owned)


def _local_subdomains(shape: Triple, grid: Triple, overlap: int) -> list[Subdomain]:
    for axis, n, blocks, multiple in zip(_AXES, shape, grid, _MULTIPLES, strict=True):
        if _too_short(n, blocks, multiple, overlap):
            size = n // blocks
            raise InputError(
                f"overlap: {overlap} points, but {blocks} blocks along {axis} have {size} of its {n}; "
                f"allowed: blocks of {overlap} points or more, so up to {max(1, n // overlap)} along {axis}"
                + (f", or an overlap of up to {size}" if size else "")
            )
    axes = []  # for each axis and block: first owned point, owned points, overlap on each side
    for sizes in _block_sizes(shape, grid, overlap):
        starts = itertools.accumulate(sizes[:-1], initial=0)
        axes.append([(at, size, overlap * (len(sizes) > 1)) for at, size in zip(starts, sizes, strict=True)])
    subdomains = []
    for block in itertools.product(*axes):
        start, owned, over = zip(*block, strict=True)
        first = _triple(s - o for s, o in zip(start, over, strict=True))
        size = _triple(n + 2 * o for n, o in zip(owned, over, strict=True))
        alone = Subdomain.whole(size)
        subdomains.append(replace(alone, shape=shape, first=first, owned_first=start, owned_size=owned))
    return subdomains


def _notes(shape: Triple, grid: Triple, options: Decomposition) -> list[str]:
    """Return advice to the user, one sentence for each axis whose transforms have prime factors above 7."""
    notes, overlap = [], options.overlap
    for axis, n, blocks, multiple in zip(_AXES, shape, grid, _MULTIPLES, strict=True):
        sizes = [size + 2 * overlap * (blocks > 1) for size in smooth_blocks(n, blocks, overlap, multiple)]
        if all(map(has_small_factors, sizes)):
            continue
        actual = " and ".join(map(str, sorted(set(sizes))))
        why = "with prime factors above 7, which makes them slow"
        text = f"transforms along {axis} have {actual} points, {why}"
        for better in range(overlap + 1, min(2 * overlap + 8, n // blocks) + 1) if blocks > 1 else ():
            sizes = [size + 2 * better for size in smooth_blocks(n, blocks, better, multiple)]
            if all(map(has_small_factors, sizes)):
                text += f"; an overlap of {better} would give {max(sizes)}"
                break
        notes.append(text)
    return notes


def halo_messages(decomposition: Partition) -> list[Message]:
    """Return the messages between ranks that fill all overlaps, up to 26 per block; the grid is periodic."""
    grid, overlap = decomposition.grid, decomposition.options.overlap
    blocks = list(itertools.product(*map(range, grid)))
    number = {block: rank for rank, block in enumerate(blocks)}
    steps = [(-1, 0, 1) if count > 1 else (0,) for count in grid]
    messages = []
    for dst, block in enumerate(blocks):
        for offset in itertools.product(*steps):
            if any(offset):
                neighbour = ((b + o) % count for b, o, count in zip(block, offset, grid, strict=True))
                src = number[tuple(neighbour)]
                source = _box(decomposition.subdomains[src], offset, overlap, owned=True)
                target = _box(decomposition.subdomains[dst], offset, overlap, owned=False)
                messages.append(Message(src, dst, source, target))
    return messages


def _box(subdomain: Subdomain, offset, overlap: int, owned: bool) -> tuple[slice, slice, slice]:
    """Return slices (z, y, x) of an overlap of a block, or of the points that fill a neighbour's overlap.

    The overlap is ``overlap`` points wide, on the side ``offset``: −1, 0 or 1 along x, y and z. If ``owned``,
    return instead the block's own points at the opposite edge, which fill this overlap of the neighbour
    there.
    """
    box = []
    for step, inside in zip(reversed(offset), subdomain.owned, strict=True):
        low, high = inside.start, inside.stop
        before, after = slice(low - overlap, low), slice(high, high + overlap)
        first, last = slice(low, low + overlap), slice(high - overlap, high)
        box.append((inside, first if owned else after, last if owned else before)[step])
    return tuple(box)  # type: ignore[return-value]
