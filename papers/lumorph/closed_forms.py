"""All-reduce on LIGHTPATH and on an ideal switch in closed form: as the LUMORPH paper has it, and as it is.

The paper, "Programmable optical interconnects for server-scale multi-GPU systems", prints no formulas. Those
under *as printed* reproduce all points of its figures 7 and 8. The others pay for what those leave out, or
use what those leave idle. Every function takes bytes as a number or an array and gives seconds alike;
schedules that are costed round by round (`wavefabric.fabric.cost_models.cost`) need none of this.

``alpha`` is paid once a round, however many messages a rank sends in it, and so is the reconfiguration.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.collectives.builders.recursive import factors
from wavefabric.collectives.builders.trees import double_tree as double_tree_schedule

MIB = 2**20
#: Bytes of the all-reduce of figure 8a, which the paper does not give: from its ring, 418.0 µs.
BUFFER_8A = (418.0e-6 - 2 * 255 * 0.7e-6) * 300 * 2**30 / (2 * 255 / 256)


@dataclass(frozen=True)
class Numbers:
    """What the formulas need to know of a fabric.

    Parameters
    ----------
    alpha : float
        s a round.
    reconfiguration : float
        s a round, to set up circuits.
    bandwidth : float
        B/s that a GPU sends, and receives, in all. The paper's 300 GB/s are 300 · 2³⁰.
    lasers : int or None
        Of which each carries the same share of the bandwidth and serves one peer at a time. None: bandwidth
        is divided among peers at will, as by a switch.
    """

    alpha: float = 0.7e-6
    reconfiguration: float = 3.7e-6
    bandwidth: float = 300.0 * 2**30
    lasers: int | None = 16


#: LIGHTPATH, and the ideal switch that it is compared with.
PAPER = Numbers()
SWITCH = Numbers(reconfiguration=0.0, lasers=None)

# --- as printed ------------------------------------------------------------------------------------------


def ring(ranks: int, nbytes, numbers: Numbers = PAPER) -> Any:
    """Ring on the ideal switch: 2(N − 1)α + 2B(N − 1)/(N·BW). Honest too: it is what the schedule costs."""
    return 2 * (ranks - 1) * numbers.alpha + _least_transfer(ranks, nbytes, numbers)


def tree(ranks: int, nbytes, numbers: Numbers = PAPER) -> Any:
    """Binary tree on the ideal switch: 2 log₂N·α + 4B/BW.

    No schedule costs this. Without pieces, 4B/BW would be paid at every level; with pieces (then it is the
    limit of infinitely many), every piece costs rounds, which are not counted here. See `pipelined_tree`.
    """
    return 2 * _log(ranks, 2) * numbers.alpha + 4 * nbytes / numbers.bandwidth


def lumorph2(ranks: int, nbytes, numbers: Numbers = PAPER) -> Any:
    """Recursive halving, then doubling: 2 log₂N (α + ρ) + 2B(N − 1)/(N·BW)."""
    return 2 * _log(ranks, 2) * _round(numbers) + _least_transfer(ranks, nbytes, numbers)


def lumorph4(ranks: int, nbytes, numbers: Numbers = PAPER) -> Any:
    """Recursive quartering, then quadrupling: 2⌈log₄N⌉(α + ρ) + 4/3 · 2B(N − 1)/(N·BW).

    4/3: each of the 3 peers gets BW/4, and a quarter of the lasers is idle. Where N is no power of 4 the last
    round has fewer peers; that it is cheaper is not counted.
    """
    return 2 * _log(ranks, 4) * _round(numbers) + 4 / 3 * _least_transfer(ranks, nbytes, numbers)


def divide_and_conquer(ranks: int, nbytes, numbers: Numbers = PAPER) -> Any:
    """Squares of four first, then pairs of squares and so on: (log₂N − 1)(α + ρ + B/BW).

    The first round is costed like the others, though there each GPU sends its whole array to three others.
    """
    return (_log(ranks, 2) - 1) * (_round(numbers) + nbytes / numbers.bandwidth)


#: The series of figure 7 by the names that they have there.
PRINTED: dict[str, Callable] = {
    "Ring": ring,
    "Tree": tree,
    "Lumorph-2": lumorph2,
    "Lumorph-4": lumorph4,
    "D&C": divide_and_conquer,
}

# --- as it is --------------------------------------------------------------------------------------------


def recursive(
    ranks: int, nbytes, numbers: Numbers = PAPER, radix: int = 2, groups: Sequence[int] | None = None
) -> Any:
    """Recursive dividing, then multiplying, by any radix: two rounds for every factor f of N.

    In the i-th round of the first half, which takes the factors backwards, each rank sends B/(f₁…fᵢ) to each
    of fᵢ − 1 peers, and gives each as many lasers as it can: ⌊L/(fᵢ − 1)⌋ of L. With 16 lasers and radix 4
    these are 5, and 4/3 becomes 16/15. With `SWITCH` nothing is left over and the transfer term is the least
    possible, whatever the radix.

    Parameters
    ----------
    ranks : int
    nbytes : float or ndarray
        Bytes of the array, the same on each rank.
    numbers : Numbers
    radix : int
    groups : sequence of int, optional
        Factors of `ranks`, first round of the second half first; by default as few as can be, the largest
        first.

    Returns
    -------
    float or ndarray
        s.

    Raises
    ------
    InputError
        If `ranks` cannot be factored so, or a rank has more peers than lasers.

    References
    ----------
    R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in MPICH", Int.
    J. High Perform. Comput. Appl. 19, 49 (2005), doi:10.1177/1094342005051521 (radix 2).
    """
    total, part = 0.0, nbytes
    for factor in reversed(groups or _groups(ranks, radix)):
        part = part / factor
        total = total + 2 * (_round(numbers) + part / _to_one_peer(factor - 1, numbers))
    return total


def recursive_exchange(ranks: int, nbytes, numbers: Numbers = PAPER, radix: int = 2) -> Any:
    """Whole arrays exchanged with all peers of one digit of the rank, a round for every factor f of N.

    Half as many rounds as `recursive`, and B to each of f − 1 peers in every one of them.
    """
    total = 0.0
    for factor in _groups(ranks, radix):
        total = total + _round(numbers) + nbytes / _to_one_peer(factor - 1, numbers)
    return total


def pipelined_tree(ranks: int, nbytes, numbers: Numbers = SWITCH, pieces: int | None = None) -> Any:
    """Binary tree in p pieces, up and down at once: (2h + p − 1)α + (4h + 3(p − 1))B/(p·BW), h = ⌊log₂N⌋.

    In a round a rank hears from two children, tells two, or both, with its parent's piece a third. Exact for
    full trees of 1, 3 or more pieces; others need up to 2B/(p·BW) less.

    Parameters
    ----------
    ranks : int
    nbytes : float or ndarray
    numbers : Numbers
    pieces : int, optional
        `best_pieces` by default.
    """
    return _pipelined("tree", ranks, nbytes, numbers, pieces)


def double_tree(ranks: int, nbytes, numbers: Numbers = SWITCH, pieces: int | None = None) -> Any:
    """Two complementary binary trees for half of the array each, in p pieces, up and down at once.

    2(L + p − 1)α + (L + 2(p − 1))B/(p·BW): in a round a rank sends and receives one piece of B/(2p) upwards,
    and one downwards. L ≤ 2⌊log₂N⌋ is the number of rounds in which the first piece of each tree gets up, or
    down, and is that of `wavefabric.collectives.builders.trees.double_tree`.

    References
    ----------
    P. Sanders, J. Speck, J. L. Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
    Parallel Computing 35, 581 (2009), doi:10.1016/j.parco.2009.09.001.
    """
    return _pipelined("double-tree", ranks, nbytes, numbers, pieces)


def best_pieces(algorithm: str, ranks: int, nbytes: float, numbers: Numbers = SWITCH) -> int:
    """Pieces with which a pipelined tree takes least time: each is smaller, and needs rounds of its own.

    Parameters
    ----------
    algorithm : {"tree", "double-tree"}
    ranks : int
    nbytes : float
    numbers : Numbers

    Returns
    -------
    int
        √(c·B/(b·α·BW)) as a whole number, for b rounds a piece and c pieces' time to fill and empty the
        pipeline.
    """
    _, more, fill, _ = _pipeline(algorithm, ranks)
    ideal = math.sqrt(max(0, fill) * nbytes / (more * numbers.alpha * numbers.bandwidth))
    low = max(1, math.floor(ideal))
    return min((low, low + 1), key=lambda p: _in_pieces(algorithm, ranks, nbytes, numbers, p))


# --- parts of formulas -------------------------------------------------------------------------------------


@cache
def _pipeline(algorithm: str, ranks: int) -> tuple[int, int, int, int]:
    """(a, b, c, d): a + b p rounds, in which c + d p times a p-th of the array passes the busiest rank."""
    if algorithm == "tree":
        depth = ranks.bit_length() - 1
        return 2 * depth - 1, 1, 4 * depth - 3, 3
    route = double_tree_schedule("all-reduce", ranks, 2).communication_rounds // 2
    return 2 * route - 2, 2, route - 2, 2


def _in_pieces(algorithm: str, ranks: int, nbytes: float, numbers: Numbers, pieces: int) -> float:
    rounds, more, fill, each = _pipeline(algorithm, ranks)
    transfer = (fill + each * pieces) * nbytes / (pieces * numbers.bandwidth)
    return (rounds + more * pieces) * numbers.alpha + transfer


def _pipelined(algorithm: str, ranks: int, nbytes, numbers: Numbers, pieces: int | None) -> Any:
    def one(size: float) -> float:
        best = pieces or best_pieces(algorithm, ranks, size, numbers)
        return _in_pieces(algorithm, ranks, size, numbers, best)

    result = np.vectorize(one, otypes=[float])(nbytes)
    return result if result.ndim else float(result)


def _groups(ranks: int, radix: int) -> tuple[int, ...]:
    result = factors(ranks, radix)
    if result is None:
        raise InputError(f"ranks: {ranks} given; allowed: products of numbers up to the radix, {radix}")
    return result


def _round(numbers: Numbers) -> float:
    return numbers.alpha + numbers.reconfiguration


def _least_transfer(ranks: int, nbytes, numbers: Numbers):
    return 2 * nbytes * (ranks - 1) / (ranks * numbers.bandwidth)


def _to_one_peer(peers: int, numbers: Numbers) -> float:
    """B/s to each of so many peers."""
    if numbers.lasers is None:
        return numbers.bandwidth / peers
    if peers > numbers.lasers:
        raise InputError(
            f"radix: {peers} peers in a round; allowed: up to the number of lasers, {numbers.lasers}"
        )
    return numbers.bandwidth * (numbers.lasers // peers) / numbers.lasers


def _log(ranks: int, base: int) -> int:
    """⌈log_base ranks⌉, exact."""
    result, reached = 0, 1
    while reached < ranks:
        result, reached = result + 1, reached * base
    return result
