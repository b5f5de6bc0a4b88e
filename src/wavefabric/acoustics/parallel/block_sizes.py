"""Block sizes that tile an axis, made of small prime factors where that is possible."""

from __future__ import annotations

from functools import lru_cache

#: A block may be so much longer than an even division would make it, to have a size of small factors.
SLACK = 0.15


def smooth(n: int) -> bool:
    """Whether ``n`` has no prime factor above 7, which every transform is fast for."""
    for prime in (2, 3, 5, 7):
        while n % prime == 0:
            n //= prime
    return n == 1


def even(n: int, blocks: int) -> tuple[int, ...]:
    """Sizes that differ by one point at most, the larger first."""
    size, more = divmod(n, blocks)
    return tuple(size + (i < more) for i in range(blocks))


@lru_cache(maxsize=1024)
def widened(n: int, blocks: int, overlap: int) -> tuple[int, ...]:
    """Block sizes that tile ``n`` points, such that size + 2 overlap is smooth for each.

    The longest is as short as it can be, since it sets the pace. Even sizes where none within `SLACK` is
    found; a block shorter than the overlap is none.
    """
    if blocks == 1:
        return (n,)
    equal = even(n, blocks)
    if all(smooth(size + 2 * overlap) for size in equal):
        return equal
    total = n + 2 * overlap * blocks
    longest = -(-total // blocks)
    for limit in range(longest, int((1 + SLACK) * longest) + 1):
        if smooth(limit) and (sizes := _filled(total, blocks, limit, 3 * overlap)):
            return tuple(size - 2 * overlap for size in sizes)
    return equal


def _filled(total: int, blocks: int, limit: int, least: int) -> list[int] | None:
    """``blocks`` smooth sizes from ``least`` to ``limit`` that add up to ``total``, longest first; or None.

    The fewest steps from ``blocks`` · ``limit`` down to ``total``, each the shortening of one block.
    """
    excess = blocks * limit - total
    shortenings = [
        limit - size for size in range(max(least, 1), limit) if smooth(size) and limit - size <= excess
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
