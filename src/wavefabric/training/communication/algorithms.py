"""Select the algorithms for a communication call, as ``--collective`` asks, and build verified schedules."""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import gcd, lcm

import numpy as np

from wavefabric.base.errors import InputError, show
from wavefabric.collectives.builders.messages import greedy, point_to_point
from wavefabric.collectives.builders.recursive import factors
from wavefabric.collectives.builders.ring import rail_rings, ring_of_one_part
from wavefabric.collectives.builders.transfers import transfers
from wavefabric.collectives.candidates import PIECES, Candidates, Choice, refused
from wavefabric.collectives.registry import ALGORITHMS, PAIRED, build, channels_of
from wavefabric.collectives.schedule import Schedule
from wavefabric.collectives.sizes import MOST_RANKS
from wavefabric.collectives.verify import verify
from wavefabric.fabric.candidates import candidates_on, node_grid, on_rails
from wavefabric.fabric.cost_models.cost import AnyFabric
from wavefabric.fabric.electrical.fabric import Fabric
from wavefabric.fabric.photonic.fabric import PhotonicFabric

_WORDS = (
    "ring", "bidirectional-ring", "recursive:2", "recursive:4", "tree", "double-tree", "bruck", "direct",
    "hierarchical", "nvls", "nvls-tree",
)  # fmt: skip
#: Allowed collectives. After a colon, ``recursive`` takes a radix, ``tree``, ``double-tree``, ``nvls`` and
#: ``nvls-tree`` a number of pieces, and ``hierarchical`` the nodes and the GPUs per node.
CHOICES = {word: ALGORITHMS[word.partition(":")[0]].summary for word in _WORDS} | {
    "auto": "for each call whatever takes the least time, of all algorithms that the fabric can run",
    "optimal": "as auto, and for groups of up to 64 GPUs of an electrical fabric a searched schedule too",
    "zero": "communication is free",
}
#: Collectives with which all algorithms that the fabric can run are compared.
COMPARING = ("auto", "optimal")
ALIASES = {"lumorph-2": "recursive:2", "lumorph-4": "recursive:4"}
#: Largest radix that a user may choose or that `recipes` falls back to.
MOST_RADIX = 16
#: Smallest and largest number after the colon, for each family.
_PIPELINED = ("tree", "double-tree", "nvls", "nvls-tree")
_NUMBERS = {"recursive": (2, MOST_RADIX)} | dict.fromkeys(_PIPELINED, (1, 4096))
#: Circuits in total, or per GPU, above which `COMPARING` omits an algorithm because planning takes too long.
MOST_CIRCUITS, CIRCUITS_EACH = 2**13, 16

#: Message sizes that are not whole are rounded to 1/`_STEPS` of the largest size.
_STEPS = 2**40


@dataclass(frozen=True, eq=False)
class Built:
    """A schedule for one group of GPUs of a call, whose rounds are executed ``repeats`` times in sequence.

    An element of the schedule has `Call.bytes` / ``elements`` bytes. From a verified schedule, ``pre`` and
    ``post`` (what GPUs hold before and after it) are removed, because they need most of the memory.
    """

    schedule: Schedule
    elements: float
    repeats: int = 1


def parse_collective(text: str) -> str:
    """Check the collective that a user chose, and return its name with aliases replaced.

    Raises `InputError` for an unknown name or a number out of range.

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
    if colon and family in _NUMBERS and number.isascii() and number.isdigit():
        least, most = _NUMBERS[family]
        if len(number) <= 4 and least <= int(number) <= most:
            return f"{family}:{int(number)}"
        raise InputError(f"collective: {show(text)} given; allowed: {family}: and {least} to {most}")
    if family == "hierarchical" and re.fullmatch(r"[1-9]\d{0,3}x[1-9]\d{0,3}", number, re.ASCII):
        return name
    allowed = ", ".join([*CHOICES, *ALIASES])
    raise InputError(f"collective: {show(text)} given; allowed: {allowed}")


def recipes(
    text: str,
    collective: str,
    gpus: Sequence[int],
    fabric: AnyFabric,
    whole: bool = False,
) -> Candidates:
    """Return the candidate algorithms for a group of 2 or more GPUs, and why other algorithms are left out.

    Of the candidates, the caller uses the fastest. ``text`` is the algorithm that the user chose for
    all-reduces, as `parse_collective` returns it, but not ``"zero"``. With ``auto`` and ``optimal``, all
    algorithms that can run on the fabric are candidates. With any other choice they depend on ``collective``:

    - All-reduce: the chosen algorithm; for ``bruck``, recursive halving and doubling.
    - Reduce-scatter: as for all-reduce; for trees, a ring (as in NCCL).
    - All-gather: the chosen algorithm; for trees, a ring.
    - All-to-all: the chosen algorithm if it is ``bruck`` or ``direct``. Otherwise Bruck's algorithm on a
      photonic fabric (LUMORPH, appendix C); Bruck's, pairwise and direct on an electrical fabric.
    - Messages, with every choice: algorithm 3 of LUMORPH on a photonic fabric; all messages are sent at once
      on an electrical fabric.

    In a group of whole, equal parts of nodes (`wavefabric.fabric.candidates.node_grid`) rings and trees are
    those of NCCL, one through each GPU of a node; ``auto`` compares one through all GPUs too. In other groups
    the faster of ``nvls`` and ``double-tree`` stands for ``nvls-tree``, as in NCCL.

    A recursive algorithm needs a radix of at least the largest prime factor of the number of GPUs. If the
    chosen radix is smaller, the smallest that fits is used, up to `MOST_RADIX`. If an algorithm does not fit
    the group, a ring is used, else the first that fits of double tree, Bruck's algorithm and pairwise.

    ``whole``: the caller needs all rounds of a ring; if False, one round of each kind is enough (`folded`).
    Raises `InputError` if no algorithm can serve the group.
    """
    ranks = len(gpus)
    if collective == "messages":
        return Candidates((Choice("greedy" if isinstance(fabric, PhotonicFabric) else "point-to-point"),), {})

    def why_not(choice: Choice) -> str | None:
        if not whole and choice.algorithm == "ring" and collective != "all-to-all" and ranks <= MOST_RANKS:
            return None  # `folded` needs no table of all chunks
        return refused(choice, collective, ranks)

    grid = None if isinstance(fabric, PhotonicFabric) else node_grid(fabric, gpus)
    if text in COMPARING:
        wanted = candidates_on(fabric, collective, gpus)
        rings = [Choice("ring", grid=rails) for rails in dict.fromkeys((None, grid))]
        rings = [ring for ring in rings if ring not in wanted.choices and why_not(ring) is None]
        if rings:
            left_out = {name: why for name, why in wanted.left_out.items() if name != "ring"}
            wanted = Candidates((*rings, *wanted.choices), left_out)
        if not wanted.choices:
            raise InputError(next(iter(wanted.left_out.values())))
        return wanted
    words = [text]
    if text.startswith("nvls-tree") and not grid:
        aided = isinstance(fabric, Fabric) and bool(fabric.multicast_switches)
        words = [text.replace("nvls-tree", other) for other in ("nvls", "double-tree")[: 1 + aided]]
    forms = on_rails([form for word in words for form in _forms(word, collective, gpus, fabric)], grid)
    fitting = [choice for choice in forms if why_not(choice) is None]
    if not fitting:
        others = on_rails(map(Choice, ("ring", "double-tree", "bruck", "pairwise")), grid)
        fitting = [choice for choice in others if why_not(choice) is None][:1]
    if not fitting:
        raise InputError(why_not(forms[0]) or "ranks: no algorithm")
    return Candidates(tuple(fitting), {})


def check_circuits(schedule: Schedule) -> None:
    """Raise `InputError` if so many GPU pairs communicate that planning circuits would take too long."""
    t, most = schedule.transfers, max(MOST_CIRCUITS, CIRCUITS_EACH * schedule.ranks)
    circuits = np.unique(t["src"].astype(np.int64) * schedule.ranks + t["dst"]).size
    if circuits > most:
        raise InputError(f"circuits: {circuits} of {schedule.name}; compared are algorithms of up to {most}")


def _forms(text: str, collective: str, gpus: Sequence[int], fabric: AnyFabric) -> list[Choice]:
    """Return the algorithms to try for ``collective`` if the user chose the algorithm ``text``."""
    family, _, parameter = text.partition(":")
    if collective == "all-to-all":
        every = ("bruck",) if isinstance(fabric, PhotonicFabric) else ("bruck", "pairwise", "direct")
        return list(map(Choice, (text,) if text in ("bruck", "direct") else every))
    if family == "bruck" and collective != "all-gather":
        family, parameter = "recursive", "2"
    if family == "recursive":
        radices = range(int(parameter), MOST_RADIX + 1)
        fitting = (Choice(family, radix) for radix in radices if factors(len(gpus), radix) is not None)
        return [next(fitting, Choice("ring"))]
    if family in ("bruck", "ring"):
        return [Choice(family)]
    if family == "hierarchical" and parameter:
        return [Choice(family, grid=tuple(map(int, parameter.split("x"))))]
    if parameter:
        return [Choice(family, pieces=int(parameter))]
    every = candidates_on(fabric, collective, gpus, pieces=PIECES).choices
    return [choice for choice in every if choice.algorithm == family] or [Choice(family)]


@lru_cache(maxsize=32)
def built(choice: Choice, collective: str, ranks: int) -> Built:
    """Return the verified schedule of ``collective`` among ``ranks`` GPUs with the algorithm ``choice``."""
    return _proved(complete(choice, collective, ranks))


@lru_cache(maxsize=32)
def folded(choice: Choice, collective: str, ranks: int) -> Built:
    """Return the verified schedule of ``collective`` among ``ranks`` GPUs; shorten the schedule of a ring.

    A ring has rounds with sums and rounds without. Rounds of one kind differ only in the chunks that move, so
    the shortened schedule has one round of each kind, and `Built.repeats` says how many times these are
    executed. Only the path of one chunk is verified: other chunks take the same path, rotated around the
    ring, and never share a link in the same round. Rings on a grid differ in the order of ranks alone.
    """
    if choice.algorithm != "ring":
        return built(choice, collective, ranks)
    part, order = ring_of_one_part(collective, ranks), rail_rings(*(choice.grid or (ranks, 1)))
    verify(part)
    reduce = np.unique(part.transfers["reduce"])[::-1]
    number, channel, at = np.indices((reduce.size, *order.shape)).reshape(3, -1)
    src, dst = order[channel, at], order[channel, (at + 1) % ranks]
    rounds = transfers(number, src, dst, channel, reduce=reduce[number])
    sizes = (np.ones(order.T.shape, np.int64),)
    kinds = replace(part, sizes=sizes, transfers=rounds, pre={}, post={})
    return Built(kinds, order.size, part.communication_rounds // reduce.size)


def complete(choice: Choice, collective: str, ranks: int) -> Built:
    """Return the schedule of ``collective`` with the algorithm ``choice``, without verifying it."""
    parts = (1 + (choice.algorithm in PAIRED)) * channels_of(choice.algorithm, choice.grid)
    elements = ranks * choice.pieces * parts
    return Built(build(choice.algorithm, collective, ranks, elements, **choice.options), elements)


def _proved(group: Built) -> Built:
    verify(group.schedule)
    return Built(replace(group.schedule, pre={}, post={}), group.elements)


Messages = tuple[tuple[int, int, float], ...]


@lru_cache(maxsize=4)
def built_messages(group: tuple[int, ...], messages: Messages, lasers: int | None) -> Built:
    """Return the verified schedule of ``messages`` (source, destination, size) between GPUs of ``group``."""
    return _proved(complete_messages(group, messages, lasers))


def complete_messages(group: Sequence[int], messages: Messages, lasers: int | None) -> Built:
    """Return the schedule of ``messages`` between the GPUs of ``group``, without verifying it.

    ``messages``: (source, destination, size) of each. ``lasers``: lasers per GPU of a photonic fabric, on
    which algorithm 3 of LUMORPH divides the messages into rounds; None: all messages are sent in one round.

    The schedule has the `pre` and `post` that a verification needs: what GPUs hold before and after it. Sizes
    are scaled to whole numbers of elements, if necessary rounded to 2⁻⁴⁰ of the largest.
    """
    rank = {gpu: r for r, gpu in enumerate(group)}
    moving = [(rank[src], rank[dst], size) for src, dst, size in messages if size > 0 and src != dst]
    counts, scale = _whole_sizes([size for _, _, size in moving])
    wanted = [(src, dst, count) for (src, dst, _), count in zip(moving, counts, strict=True)]
    if lasers is None:
        return Built(point_to_point("messages", len(group), wanted), scale)
    return Built(greedy(len(group), wanted, lasers), scale)


def _whole_sizes(sizes: Sequence[float]) -> tuple[list[int], float]:
    """Multiply ``sizes`` by a factor that makes them whole; return the whole numbers and the factor."""
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
    # The inverse of sizes below about 1e-308 overflows a float, so the scale is limited.
    scale = min(_STEPS / max(sizes), sys.float_info.max)
    return [max(1, round(size * scale)) for size in sizes], scale
