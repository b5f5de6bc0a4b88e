"""Which algorithm of the registry serves a call, from what a user asks for with ``--collective``."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import gcd, lcm
from typing import Any

import numpy as np

from wavefabric.collectives.arguments import MOST_RANKS
from wavefabric.collectives.builders.messages import greedy, point_to_point
from wavefabric.collectives.builders.recursive import factors
from wavefabric.collectives.builders.ring import ring_of_one_part
from wavefabric.collectives.builders.transfers import transfers
from wavefabric.collectives.registry import build, why_refused
from wavefabric.collectives.schedule import Schedule
from wavefabric.collectives.verify import verify
from wavefabric.errors import InputError, show

#: What a user may ask for; behind a colon ``recursive`` takes a radix, ``double-tree`` a number of pieces.
CHOICES = {
    "ring": "everybody sends to the next GPU only",
    "bidirectional-ring": "a ring used both ways at once",
    "recursive:2": "recursive halving and doubling; LUMORPH-2",
    "recursive:4": "recursive quartering and quadrupling; LUMORPH-4",
    "double-tree": "two complementary binary trees, with the number of pieces that takes the least time",
    "bruck": "Bruck's all-gather and all-to-all; sums as recursive:2",
    "direct": "all pairs of GPUs at once",
    "auto": "for each call whatever takes the least time",
    "zero": "communication is free",
}
ALIASES = {"lumorph-2": "recursive:2", "lumorph-4": "recursive:4"}
#: Largest radix, asked for or fallen back to.
MOST_RADIX = 16
#: Numbers of pieces that ``double-tree`` and ``auto`` try; ``auto`` on a photonic fabric tries `FEW_PIECES`,
#: since every round of a pipeline has to set up its circuits.
PIECES, FEW_PIECES = (1, 4, 16, 64), (1, 4)
#: Most GPUs of a group for which ``auto`` tries all pairs at once, and on a photonic fabric one pair after
#: the other, each round of which has circuits of its own.
MOST_DIRECT, MOST_PAIRWISE = 16, 64

#: Sizes of messages that are no whole numbers are rounded to so many steps of the largest.
_STEPS = 2**40


@dataclass(frozen=True)
class Recipe:
    """An algorithm of `wavefabric.collectives.registry` with its options.

    ``greedy`` and ``point-to-point``, of messages, are those of `collectives.builders.messages`.
    """

    algorithm: str
    options: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        return ", ".join([self.algorithm, *(f"{key} {value}" for key, value in self.options)])

    def refused(self, collective: str, ranks: int, whole: bool = False) -> str | None:
        """Why it cannot be, in one line; ``whole``: with all its rounds."""
        if not whole and self.algorithm == "ring" and collective != "all-to-all" and ranks <= MOST_RANKS:
            return None  # `folded` needs no table of all chunks
        return why_refused(self.algorithm, collective, ranks, **dict(self.options))


@dataclass(frozen=True, eq=False)
class Built:
    """The proved schedule of one group, and how many of its elements B bytes of the call are.

    B is `Call.bytes`: an element is ``bytes / elements`` bytes. Once it is proved, what the schedule is to
    hold before and after is left out, which takes more memory than all the rest. All rounds follow one
    another `repeats` times.
    """

    schedule: Schedule
    elements: float
    repeats: int = 1


def parse_collective(text: str) -> str:
    """What a user asks for as one of `CHOICES`, an alias replaced; radix and pieces stay behind a colon.

    `InputError` for anything else.

    Examples
    --------
    >>> from wavefabric.training.communication.algorithms import parse_collective
    >>> parse_collective("lumorph-4"), parse_collective("double-tree:8")
    ('recursive:4', 'double-tree:8')
    """
    name = ALIASES.get(text, text) if isinstance(text, str) else ""
    family, colon, number = name.partition(":")
    if name in CHOICES:
        return name
    if colon and family in ("recursive", "double-tree") and number.isascii() and number.isdigit():
        least, most = (2, MOST_RADIX) if family == "recursive" else (1, 4096)
        if len(number) <= 4 and least <= int(number) <= most:
            return f"{family}:{int(number)}"
        raise InputError(f"collective: {show(text)} given; allowed: {family}: and {least} to {most}")
    allowed = ", ".join([*CHOICES, *ALIASES])
    raise InputError(f"collective: {show(text)} given; allowed: {allowed}")


def recipes(
    choice: str, collective: str, ranks: int, photonic: bool, whole: bool = False
) -> tuple[Recipe, ...]:
    """Algorithms of which the one that takes the least time serves a group of so many GPUs, at least 2.

    ``choice``: as `parse_collective` returns it, not ``"zero"``. It is for all-reduces; the same family
    serves reduce-scatters and all-gathers, but trees, which do neither, leave them to rings (as in NCCL), and
    Bruck's algorithm leaves sums to recursive halving and doubling. An all-to-all is Bruck's on a photonic
    fabric (LUMORPH, appendix C) and the fastest of Bruck's, one pair after the other, and all pairs at once
    on an electrical one, unless the choice is ``bruck``, ``direct`` or ``auto``. Messages: LUMORPH's
    algorithm 3 on a photonic fabric, all at once on an electrical one. Where a prime factor of the GPUs
    exceeds the radix of a recursive algorithm, the smallest radix that fits is taken, up to `MOST_RADIX`;
    beyond that, and for groups that an algorithm refuses otherwise, a ring; else the first that can of trees,
    Bruck's algorithm and one pair after the other.

    ``whole``: all rounds are needed, also those of a ring, which are alike. `InputError` if no algorithm can
    serve so many.
    """
    if collective == "messages":
        return (Recipe("greedy" if photonic else "point-to-point"),)
    if collective == "all-to-all":
        wanted = _all_to_all(choice, ranks, photonic)
    else:
        wanted = _sums(choice, collective, ranks, FEW_PIECES if photonic else PIECES)
    fitting = [r for r in wanted if r.refused(collective, ranks, whole) is None]
    if not fitting:
        others = (Recipe(name) for name in ("ring", "double-tree", "bruck", "pairwise"))
        fitting = [r for r in others if r.refused(collective, ranks, whole) is None][:1]
    if not fitting:
        raise InputError(wanted[0].refused(collective, ranks, whole) or "ranks: no algorithm")
    return tuple(fitting)


def _sums(choice: str, collective: str, ranks: int, pieces: Sequence[int]) -> list[Recipe]:
    """Of an all-reduce, reduce-scatter or all-gather; `pieces`: numbers of them that ``auto`` tries."""
    family, _, number = choice.partition(":")
    gather = collective == "all-gather"
    if family == "recursive":
        return [_recursive(int(number), ranks)]
    if family == "bruck":
        return [Recipe("bruck") if gather else _recursive(2, ranks)]
    if family == "double-tree":
        if collective != "all-reduce":
            return [Recipe("ring")]
        return [_tree(int(number))] if number else [_tree(n) for n in PIECES]
    if family != "auto":
        return [Recipe(family)]
    every = [Recipe("ring"), Recipe("bidirectional-ring"), _recursive(2, ranks), _recursive(4, ranks)]
    every += [_tree(n) for n in pieces if collective == "all-reduce"]
    every += [Recipe("bruck")] * gather + [Recipe("direct")] * (ranks <= MOST_DIRECT)
    return list(dict.fromkeys(every))


def _all_to_all(choice: str, ranks: int, photonic: bool) -> list[Recipe]:
    every = [Recipe(name) for name in ("bruck", "pairwise", "direct")]
    if choice in ("bruck", "direct"):
        return [Recipe(choice)]
    if not photonic:
        return every
    if choice != "auto":
        return every[:1]
    return every[: 1 + (ranks <= MOST_PAIRWISE) + (ranks <= MOST_DIRECT)]


def _recursive(radix: int, ranks: int) -> Recipe:
    for fitting in range(radix, MOST_RADIX + 1):
        if factors(ranks, fitting) is not None:
            return Recipe("recursive", (("radix", fitting),))
    return Recipe("ring")


def _tree(pieces: int) -> Recipe:
    return Recipe("double-tree", (("pieces", pieces),) if pieces > 1 else ())


@lru_cache(maxsize=32)
def built(recipe: Recipe, collective: str, ranks: int) -> Built:
    """The schedule of one group, proved (`wavefabric.collectives.verify`), all chunks of the same size."""
    return _proved(complete(recipe, collective, ranks))


@lru_cache(maxsize=32)
def folded(recipe: Recipe, collective: str, ranks: int) -> Built:
    """As `built`; of a ring one round of each kind, since all of them are alike but for whose share moves.

    Proved by one share: those of the others go the same way, further around the ring, and meet nowhere.
    """
    if recipe.algorithm != "ring":
        return built(recipe, collective, ranks)
    part = ring_of_one_part(collective, ranks)
    verify(part)
    reduce = np.unique(part.transfers["reduce"])[::-1]
    number, rank = np.divmod(np.arange(reduce.size * ranks), ranks)
    rounds = transfers(number, rank, (rank + 1) % ranks, 0, reduce=reduce[number])
    kinds = replace(part, transfers=rounds, pre={}, post={})
    return Built(kinds, ranks, part.communication_rounds // reduce.size)


def complete(recipe: Recipe, collective: str, ranks: int) -> Built:
    """What `built` proves, with what it must hold before and after."""
    options: dict[str, Any] = dict(recipe.options)
    elements = ranks * options.get("pieces", 1) * (2 if recipe.algorithm == "double-tree" else 1)
    return Built(build(recipe.algorithm, collective, ranks, elements, **options), elements)


def _proved(group: Built) -> Built:
    verify(group.schedule)
    return Built(replace(group.schedule, pre={}, post={}), group.elements)


Messages = tuple[tuple[int, int, float], ...]


@lru_cache(maxsize=4)
def built_messages(group: tuple[int, ...], messages: Messages, lasers: int | None) -> Built:
    """The proved schedule of messages between the GPUs of a group."""
    return _proved(complete_messages(group, messages, lasers))


def complete_messages(group: Sequence[int], messages: Messages, lasers: int | None) -> Built:
    """The schedule of messages between the GPUs of a group, with what it must hold before and after.

    With `lasers` in rounds by algorithm 3 of LUMORPH, else all at once. Sizes become whole elements: exactly
    if they are whole, or fractions of them, or else to 2⁻⁴⁰ of the largest.
    """
    rank = {gpu: r for r, gpu in enumerate(group)}
    moving = [(rank[src], rank[dst], size) for src, dst, size in messages if size > 0 and src != dst]
    counts, scale = _whole_sizes([size for _, _, size in moving])
    wanted = [(src, dst, count) for (src, dst, _), count in zip(moving, counts, strict=True)]
    if lasers is None:
        return Built(point_to_point("messages", len(group), wanted), scale)
    return Built(greedy(len(group), wanted, lasers), scale)


def _whole_sizes(sizes: Sequence[float]) -> tuple[list[int], float]:
    """Sizes as whole numbers, and by what they were multiplied."""
    if not sizes:
        return [], 1.0
    whole = [size for size in sizes if isinstance(size, int)]
    if len(whole) == len(sizes):
        common = gcd(*whole)
        return [size // common for size in whole], 1 / common
    exact = [Fraction(size) for size in sizes]
    multiple = lcm(*(f.denominator for f in exact))
    counts = [int(f * multiple) for f in exact]
    common = gcd(*counts)
    if max(counts) // common <= _STEPS and multiple // common <= sys.float_info.max:
        return [n // common for n in counts], multiple / common
    # The inverse of the smallest numbers is no float: what is below 1e-308 counts as that.
    scale = min(_STEPS / max(sizes), sys.float_info.max)
    return [max(1, round(size * scale)) for size in sizes], scale
