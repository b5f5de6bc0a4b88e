"""List the candidates for a collective operation: every algorithm with the parameters worth trying."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wavefabric.base.errors import show
from wavefabric.collectives.builders.recursive import factors
from wavefabric.collectives.plans.plan import MOST_RANKS as MOST_PLANNED
from wavefabric.collectives.plans.plan import PROTOCOLS
from wavefabric.collectives.registry import ALGORITHMS, BY_RAILS, options_of, why_refused

#: Values of `Choice.protocol`: the transport's default, copy engines, or kernels with one of the `PROTOCOLS`.
VARIANTS = ("auto", "copies", *PROTOCOLS)
#: Numbers of pieces to try for pipelined algorithms.
PIECES = (1, 4, 16, 64)
#: From `MANY` ranks on, schedules take long to build and verify, so that only `FEW` radices are tried.
MANY, FEW = 128, 3


@dataclass(frozen=True)
class Choice:
    """An algorithm of the registry with its options, and the protocol (of `VARIANTS`) that runs it."""

    algorithm: str
    radix: int | None = None
    pieces: int = 1
    protocol: str = "auto"
    grid: tuple[int, ...] | None = None

    def __str__(self) -> str:
        """Describe this choice in words, such as ``recursive, radix 4, packets``."""
        words = [self.algorithm]
        words += [] if self.grid is None else ["x".join(map(str, self.grid))]
        words += [] if self.radix is None else [f"radix {self.radix}"]
        words += [] if self.pieces == 1 else [f"{self.pieces} pieces"]
        words += [] if self.protocol == "auto" else [self.protocol]
        return ", ".join(words)

    @property
    def options(self) -> dict[str, Any]:
        """Return the options as keyword arguments for `wavefabric.collectives.registry.build`."""
        return {"radix": self.radix, "pieces": self.pieces, "grid": self.grid}


@dataclass(frozen=True)
class Candidates:
    """Holds the choices to compare, fewest pieces first, and the reason why each other one is excluded."""

    choices: tuple[Choice, ...]
    left_out: dict[str, str]

    def without(self, failures: Mapping[Choice, str]) -> "Candidates":
        """Return a copy in which the choices that are keys of ``failures`` are left out, with these reasons.

        If all choices of an algorithm failed, `left_out` names only the algorithm.
        """
        choices = tuple(choice for choice in self.choices if choice not in failures)
        names = {choice.algorithm for choice in choices}
        failed = {str(c) if c.algorithm in names else c.algorithm: why for c, why in failures.items()}
        return Candidates(choices, self.left_out | failed)


def refused(choice: Choice, collective: str, ranks: int) -> str | None:
    """Return in one line why ``choice`` cannot be built or run on ``ranks`` ranks; None if it can."""
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
    pieces: Sequence[int] = PIECES,
) -> Candidates:
    """Return the candidates for a collective operation: every algorithm with each set of options to try.

    ``switches``: the reason to exclude algorithms that need multicasts and reductions by a switch; None to
    include them. ``grids``, such as (nodes, GPUs per node), are tried before all other two-axis grids;
    ``pieces`` are tried for pipelined algorithms. With `MANY` ranks or more only the first grid and the `FEW`
    smallest radices are tried.

    Examples
    --------
    >>> from wavefabric.collectives.candidates import candidates
    >>> result = candidates("all-reduce", 6, switches="no switch")
    >>> [str(choice) for choice in result.choices][:4]
    ['ring', 'bidirectional-ring', 'tree', 'double-tree']
    >>> sorted(result.left_out)
    ['nvls', 'nvls-one-shot', 'squares']
    """
    # A halo exchange on another grid is another operation, so no other grid is tried.
    axes = [(n, ranks // n) for n in range(2, ranks) if ranks % n == 0] if collective != "halo" else []
    shapes = list(dict.fromkeys([*grids, *axes]))[: 1 if ranks >= MANY else None] or [None]
    rails = [None, *grids[:1]]
    allowed: list[Choice] = []
    left_out: dict[str, str] = {}
    for name, algorithm in ALGORITHMS.items():
        if collective not in algorithm.collectives:
            continue
        options = options_of(name, collective)
        forms = [
            Choice(name, radix, length, grid=shape)
            for shape in (rails if name in BY_RAILS else shapes if "grid" in options else [None])
            for radix in (_radices(name, shape[0] if shape else ranks) if "radix" in options else [None])
            for length in (pieces if collective in algorithm.pipelined else (1,))
        ]
        fitting = [choice for choice in forms if refused(choice, collective, ranks) is None]
        if algorithm.switched and switches is not None:
            left_out[name] = switches
        elif not fitting:
            left_out[name] = str(refused(forms[0], collective, ranks))
        else:
            allowed += fitting
    if allowed and ranks >= MANY:
        left_out["other radices and grids"] = f"{ranks} ranks; all are compared between fewer than {MANY}"
    # Sorting keeps the order of the registry among equals.
    return Candidates(tuple(sorted(allowed, key=lambda choice: (choice.pieces, choice.radix or 0))), left_out)


def _radices(algorithm: str, count: int) -> list[int]:
    """Return the radices of ``algorithm`` that are worth trying for ``count`` ranks or nodes.

    Of radices that divide the ranks into groups of the same sizes, only the smallest is returned.
    """
    every = [
        n for n in range(2, count + 1) if n & (n - 1) == 0 or n == count or (count % n == 0 and n < 32)
    ] or [2]
    if algorithm != "bruck":  # Bruck works with any radix
        groups = {factors(count, radix): radix for radix in reversed(every)}
        every = sorted(radix for group, radix in groups.items() if group is not None)
    return every[: FEW if count >= MANY else None]
