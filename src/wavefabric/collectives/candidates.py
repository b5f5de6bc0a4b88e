"""Candidates of a collective operation: every algorithm of the registry, with the parameters worth trying."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from wavefabric.collectives.builders.recursive import factors
from wavefabric.collectives.plans.plan import MOST_RANKS as MOST_PLANNED
from wavefabric.collectives.plans.plan import PROTOCOLS
from wavefabric.collectives.registry import ALGORITHMS, Algorithm, extent, why_refused
from wavefabric.errors import show

#: Ways to run a schedule that a choice may name: what a transport does by itself, copy engines, kernels.
VARIANTS = ("auto", "copies", *PROTOCOLS)
#: Numbers of pieces that are tried where an algorithm is pipelined by them.
PIECES = (1, 4, 16, 64)
#: Forms of each algorithm, on the first grid, that are compared between however many ranks.
_FIRST = 2


@dataclass(frozen=True)
class Choice:
    """An algorithm of the registry and its options, and the protocol of `VARIANTS` that runs it."""

    algorithm: str
    radix: int | None = None
    pieces: int = 1
    protocol: str = "auto"
    grid: tuple[int, ...] | None = None

    def __str__(self) -> str:
        """In words: ``recursive, radix 4, packets``."""
        words = [self.algorithm]
        words += [] if self.grid is None else ["x".join(map(str, self.grid))]
        words += [] if self.radix is None else [f"radix {self.radix}"]
        words += [] if self.pieces == 1 else [f"{self.pieces} pieces"]
        words += [] if self.protocol == "auto" else [self.protocol]
        return ", ".join(words)

    @property
    def options(self) -> dict[str, Any]:
        """Keyword arguments of `wavefabric.collectives.registry.build`."""
        return {"radix": self.radix, "pieces": self.pieces, "grid": self.grid}


@dataclass(frozen=True)
class Candidates:
    """Choices to compare, fewest options first, and what was left out of the comparison, with the reason."""

    choices: tuple[Choice, ...]
    left_out: dict[str, str]

    def without(self, failures: Mapping[Choice, str]) -> "Candidates":
        """Leave out choices that fail; an algorithm is named alone where none of its choices remains."""
        choices = tuple(choice for choice in self.choices if choice not in failures)
        remaining = {choice.algorithm for choice in choices}
        forms: dict[str, list[Choice]] = {}
        for choice in failures:
            forms.setdefault(choice.algorithm, []).append(choice)
        left_out = dict(self.left_out)
        for name, failed in forms.items():
            more = f"; … ({len(failed)} in all)" if len(failed) > 3 else ""
            words = "; ".join(map(str, failed[:3])) + more if name in remaining else name
            left_out[words] = failures[failed[0]]
        return Candidates(choices, left_out)


def refused(choice: Choice, collective: str, ranks: int) -> str | None:
    """Why a choice cannot be built or run between so many ranks, in one line; None if it can."""
    if choice.protocol not in VARIANTS:
        return f"protocol: {show(choice.protocol)} given; allowed: {', '.join(VARIANTS)}"
    if choice.protocol in PROTOCOLS and ranks > MOST_PLANNED:
        return f"protocol: {choice.protocol} given for {ranks} ranks; allowed: up to {MOST_PLANNED}"
    return why_refused(choice.algorithm, collective, ranks, **choice.options)


def candidates(
    collective: str,
    ranks: int,
    *,
    switches: str | None = None,
    grids: Sequence[tuple[int, ...]] = (),
    radices: Sequence[int] | None = None,
    pieces: Sequence[int] = PIECES,
    most_moves: float = inf,
) -> Candidates:
    """Return what every command compares: all algorithms that do a collective operation, with parameters.

    Parameters
    ----------
    collective : str
        Of `wavefabric.collectives.conditions.COLLECTIVES`, or ``"halo"``.
    ranks : int
    switches : str, optional
        Why no switch multicasts and reduces between these ranks; None: one does.
    grids : sequence of tuple of int
        Grids of the ranks, such as (nodes, GPUs of each), that are tried before all others of two axes.
    radices : sequence of int, optional
        By default powers of two below the ranks (the nodes of a grid), their largest prime factor, and all.
    pieces : sequence of int
        Tried where an algorithm is pipelined by them.
    most_moves : float
        Chunks that may move in all candidates together (`registry.extent`), but for the first two forms of
        each algorithm: a bound on time. What would exceed it is left out.

    Examples
    --------
    >>> from wavefabric.collectives.candidates import candidates
    >>> result = candidates("all-reduce", 6, switches="no switch")
    >>> [str(choice) for choice in result.choices][:4]
    ['ring', 'bidirectional-ring', 'tree', 'double-tree']
    >>> sorted(result.left_out)
    ['nvls', 'nvls-one-shot', 'squares']
    """
    left_out: dict[str, str] = {}
    allowed: list[tuple[int, Choice]] = []
    for name, algorithm in ALGORITHMS.items():
        if collective not in algorithm.collectives:
            continue
        forms = _forms(algorithm, collective, ranks, grids, radices, pieces)
        fitting = [pair for pair in forms if refused(pair[1], collective, ranks) is None]
        if algorithm.switched and switches is not None:
            left_out[name] = switches
        elif not fitting:
            left_out[name] = str(refused(forms[0][1], collective, ranks))
        else:
            allowed += fitting
    # Sorting keeps the order of the registry among equals.
    allowed.sort(key=lambda pair: (pair[1].pieces, pair[0] > 0, pair[1].radix or 0, pair[0]))
    moved, too_many, forms = 0, {}, Counter()
    for number, choice in allowed:
        forms[choice.algorithm] += number == 0
        moves = extent(choice.algorithm, collective, ranks, choice.pieces, choice.radix or 2)[1]
        if number == 0 and forms[choice.algorithm] <= _FIRST:
            continue
        moved += moves
        if moved > most_moves:
            too_many[choice] = f"up to {moves} chunks move, in all that are compared {most_moves:.3g}"
            moved -= moves
    return Candidates(tuple(choice for _, choice in allowed), left_out).without(too_many)


def _forms(
    algorithm: Algorithm,
    collective: str,
    ranks: int,
    grids: Sequence[tuple[int, ...]],
    radices: Sequence[int] | None,
    pieces: Sequence[int],
) -> list[tuple[int, Choice]]:
    """Choices of one algorithm, each with the number of its grid."""
    shapes: list[tuple[int, ...] | None] = [None]
    if "grid" in algorithm.options:
        axes = [(n, ranks // n) for n in range(2, ranks) if ranks % n == 0] if collective != "halo" else []
        shapes = [*dict.fromkeys([*grids, *axes])] or [None]
    lengths = pieces if collective in algorithm.pipelined else (1,)
    made = []
    for number, shape in enumerate(shapes):
        count = ranks if shape is None else shape[0]
        meeting = _radices(algorithm.name, count) if radices is None else radices
        for radix in meeting if "radix" in algorithm.options else (None,):
            for length in lengths:
                made.append((number, Choice(algorithm.name, radix, length, grid=shape)))
    return made


def _radices(algorithm: str, count: int) -> list[int]:
    """Return how many ranks may meet in a round; of radices with the same groups the smallest."""
    largest_prime, rest = 2, count
    for factor in range(2, int(count**0.5) + 1):
        while rest % factor == 0:
            largest_prime, rest = factor, rest // factor
    powers = [1 << k for k in range(1, count.bit_length()) if 1 << k < count]
    every = sorted({*powers, max(largest_prime, rest), max(2, count)})
    if algorithm == "bruck":  # its digits are those of any number
        return every
    groups = {factors(count, radix): radix for radix in reversed(every)}
    return sorted(radix for group, radix in groups.items() if group is not None)
