"""Register the algorithms of collective operations by name in `ALGORITHMS`, and build their schedules."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod

import numpy as np

from wavefabric.base.arguments import whole
from wavefabric.base.errors import InputError, choice, ensure, not_one_of
from wavefabric.collectives.builders import (
    bruck,
    direct,
    messages,
    node_trees,
    recursive,
    ring,
    switched,
    trees,
)
from wavefabric.collectives.builders.hierarchical import hierarchical
from wavefabric.collectives.conditions import COLLECTIVES, CUT_BY_RANK, ROOTED
from wavefabric.collectives.schedule import Schedule
from wavefabric.collectives.sizes import MOST_CHUNKS, MOST_MOVES, MOST_RANKS


@dataclass(frozen=True)
class Algorithm:
    """Describes an algorithm of the registry: the collectives that it performs, and a one-line summary.

    ``options``: which of ``pieces``, ``radix``, ``root`` and ``grid`` `build` accepts. ``builder`` is called
    with collective, ranks, elements, and the options as keywords; it returns a `Schedule`. ``switched``: its
    transfers are multicasts and reductions by a switch. ``pipelined``: collectives whose ``pieces`` form a
    pipeline.
    """

    name: str
    collectives: tuple[str, ...]
    summary: str
    options: tuple[str, ...]
    builder: Callable[..., Schedule] = field(repr=False)
    switched: bool = False
    pipelined: tuple[str, ...] = ()


#: Algorithms that run without a grid too; on one each local rank has a ring or tree between nodes.
BY_RAILS = ("ring", "tree", "double-tree", "nvls-tree")
#: Of these, with two trees, each for half of the array.
PAIRED = ("double-tree", "nvls-tree")
_SUMS = ("all-gather", "reduce-scatter", "all-reduce")
_TREES = ("broadcast", "reduce", "all-reduce")
_PIPELINED = {
    "ring": ("broadcast", "reduce"),
    "tree": _TREES,
    "double-tree": _TREES,
    "nvls": ("all-reduce",),
    "nvls-tree": ("all-reduce",),
    "hierarchical": ("all-to-all",),
}
_PAIRS = ("all-to-all", "reduce-scatter", "all-gather")
_SUMMARIES = {
    "ring": "everybody sends to the next rank; on nodes (--grid NODESxGPUS) a ring by each GPU's adapter",
    "bidirectional-ring": "a ring used both ways at once: half the rounds",
    "tree": "binary tree, pipelined by pieces; on nodes (--grid NODESxGPUS) a tree of nodes by each adapter",
    "double-tree": "two complementary binary trees, each for half of the array; on nodes as tree",
    "binomial": "binomial tree: as few rounds as one message a round allows",
    "recursive": "doubling and halving, or any radix: few rounds, least volume",
    "recursive-exchange": "whole arrays exchanged in growing groups: fewest rounds",
    "bruck": "logarithmic rounds for any number of ranks",
    "direct": "all pairs at once: one round of communication",
    "pairwise": "one pair after the other: N - 1 rounds",
    "hierarchical": "within nodes, between equal local ranks of nodes, within nodes: --grid NODESxGPUS",
    "squares": "divide and conquer on a grid: whole arrays among squares of four, then pairs of squares",
    "nvls": "a switch multicasts and reduces: each rank reads the sum of its share, and writes it to all",
    "nvls-tree": "nvls within nodes, two trees of nodes by each GPU's adapter: --grid NODESxGPUS",
    "nvls-one-shot": "a switch reduces: each rank reads the sum of the whole array",
    "torus": "each rank to its neighbours on a periodic grid",
    "mesh": "each rank to its neighbours on a grid with ends",
}

ALGORITHMS: dict[str, Algorithm] = {
    name: Algorithm(
        name,
        collectives,
        _SUMMARIES[name],
        options,
        builder,
        switched=name.startswith("nvls"),
        pipelined=_PIPELINED.get(name, ()),
    )
    for name, collectives, options, builder in (
        ("ring", (*_SUMS, "broadcast", "reduce"), ("pieces", "root", "grid"), ring.ring),
        ("bidirectional-ring", _SUMS, ("pieces",), ring.bidirectional_ring),
        ("tree", _TREES, ("pieces", "root", "grid"), node_trees.tree),
        ("double-tree", _TREES, ("pieces", "root", "grid"), node_trees.double_tree),
        ("binomial", ("broadcast", "reduce", "gather", "scatter"), ("pieces", "root"), trees.binomial),
        ("recursive", _SUMS, ("pieces", "radix"), recursive.recursive),
        ("recursive-exchange", ("all-reduce",), ("pieces", "radix"), recursive.recursive_exchange),
        ("bruck", ("all-gather", "all-to-all"), ("pieces", "radix"), bruck.bruck),
        ("direct", COLLECTIVES, ("pieces", "root"), direct.direct),
        ("pairwise", _PAIRS, ("pieces",), direct.pairwise),
        (
            "hierarchical",
            (*_SUMS, "broadcast", "all-to-all"),
            ("pieces", "radix", "root", "grid"),
            hierarchical,
        ),
        ("squares", ("all-reduce",), ("pieces", "grid"), recursive.squares),
        ("nvls", (*_SUMS, "broadcast", "reduce"), ("pieces", "root"), switched.nvls),
        ("nvls-tree", ("all-reduce",), ("pieces", "grid"), switched.nvls_tree),
        ("nvls-one-shot", ("all-reduce",), ("pieces",), switched.nvls_one_shot),
        ("torus", ("halo",), ("grid",), partial(messages.halo, "torus")),
        ("mesh", ("halo",), ("grid",), partial(messages.halo, "mesh")),
    )
}


def why_refused(algorithm: str, collective: str, ranks: int, **options) -> str | None:
    """Return in one line why `build` refuses these arguments; None if it accepts them."""
    try:
        _checked(algorithm, collective, ranks, **options)
    except InputError as error:
        return str(error)
    return None


def build(
    algorithm: str,
    collective: str,
    ranks: int,
    elements: int | np.ndarray,
    *,
    pieces: int = 1,
    radix: int | None = None,
    root: int = 0,
    grid: Sequence[int] | None = None,
) -> Schedule:
    """Build the schedule of a collective operation by a named algorithm of `ALGORITHMS`.

    ``collective`` is one of the algorithm's `collectives`. ``elements``: the size of the whole array, or for
    an all-to-all what each rank sends to each (see `wavefabric.collectives.conditions.layout`); for a halo
    the size of each message. ``pieces``: chunks per part
    of the array, sent as a pipeline where the algorithm has one. ``radix``: from 2, the default. ``grid``:
    ranks along each axis, numbered with the last axis fastest; by default two nearly equal axes, for a ring
    none. `InputError` for the reason that `why_refused` returns.

    Examples
    --------
    >>> from wavefabric.collectives import verify
    >>> from wavefabric.collectives.registry import build
    >>> schedule = build("recursive", "all-reduce", 12, 1000, radix=4)
    >>> verify(schedule)
    >>> schedule.name, schedule.communication_rounds
    ('recursive all-reduce, radix 4', 4)
    """
    options = _checked(algorithm, collective, ranks, pieces=pieces, radix=radix, root=root, grid=grid)
    if not isinstance(elements, np.ndarray):
        elements = whole("elements", elements, 0)
    return ALGORITHMS[algorithm].builder(collective, ranks, elements, **options)


def _checked(
    algorithm: str, collective: str, ranks: int, pieces=1, radix=None, root=0, grid=None
) -> dict[str, object]:
    """Validate the arguments of `build` and return the options of the algorithm, with defaults."""
    choice("algorithm", algorithm, ALGORITHMS)
    known = ALGORITHMS[algorithm]
    if collective not in known.collectives:
        raise InputError(f"collective: {not_one_of(collective, known.collectives)} ({algorithm})")
    whole("ranks", ranks, 1, MOST_RANKS)
    for option, value, default in (("pieces", pieces, 1), ("radix", radix, None), ("grid", grid, None)):
        if value != default and option not in options_of(algorithm, collective):
            lacks = algorithm if option not in known.options else f"{algorithm} {collective}"
            raise InputError(f"{option}: {value!r} given; allowed: none, {lacks} has no {option}")
    whole("pieces", pieces, 1)
    whole("root", root, 0, ranks - 1)
    ensure(not root or collective in ROOTED, "root", f"{root} given", f"0, {collective} has no root")
    radix = 2 if radix is None else whole("radix", radix, 2)
    if algorithm in ("recursive", "recursive-exchange") and recursive.factors(ranks, radix) is None:
        allowed = f"products of numbers up to the radix, {radix} ({algorithm})"
        raise InputError(f"ranks: {ranks} given; allowed: {allowed}")
    shape = _grid(algorithm, ranks, grid) if "grid" in known.options else ()
    # Refuse schedules that would not fit into memory, or take very long to verify.
    channels = channels_of(algorithm, shape)
    chunks, moves = size_bounds(algorithm, collective, ranks, channels, radix)
    most = min(MOST_CHUNKS // chunks, MOST_MOVES // max(moves, 1))
    if not most:
        several = f" of {channels} channels" if channels > 1 else ""
        actual = (
            f"{ranks} given, {algorithm} {collective}{several} has up to {chunks} chunks and moves {moves}"
        )
        raise InputError(f"ranks: {actual}; allowed: fewer ranks, {MOST_CHUNKS} chunks, {MOST_MOVES} moves")
    allowed = f"whole numbers from 1 to {most} ({ranks} ranks, {algorithm})"
    ensure(pieces <= most, "pieces", f"{pieces} given", allowed)
    options = {"pieces": pieces, "radix": radix, "root": root, "grid": shape}
    return {option: options[option] for option in known.options}


def options_of(algorithm: str, collective: str) -> tuple[str, ...]:
    """Return the options of `build` that an algorithm's schedule of a collective operation depends on."""
    options = ALGORITHMS[algorithm].options
    # Data of the all-to-all go from node to node at once, not in groups of nodes.
    relayed = (algorithm, collective) == ("hierarchical", "all-to-all")
    return tuple(option for option in options if not (relayed and option == "radix"))


def channels_of(algorithm: str, grid: Sequence[int] | None) -> int:
    """Return how many rings or (double) trees run in parallel on a ``grid``: GPUs per node, else 1."""
    return grid[1] if algorithm in BY_RAILS and grid else 1


def size_bounds(
    algorithm: str, collective: str, ranks: int, pieces: int = 1, radix: int = 2
) -> tuple[int, int]:
    """Return upper bounds on the size of a schedule of `build` without building it: (chunks, moves).

    *Chunks* are those of all ranks together; a *move* takes one chunk from one position to another.
    """
    if collective == "halo":  # at most log2(ranks) axes, each with messages both ways
        return 4 * ranks * ranks.bit_length(), 2 * ranks * ranks.bit_length()
    shared = algorithm in ("ring", "bidirectional-ring", "recursive", "nvls") and collective == "all-reduce"
    shared |= algorithm == "hierarchical"
    chunks = pieces * (ranks if shared or collective in CUT_BY_RANK else 1 + (algorithm in PAIRED))
    data, scratch, moves = ranks * chunks, 0, 4 * ranks * chunks
    if collective == "all-to-all":
        data *= 2
        digits = next(d for d in range(ranks.bit_length() + 1) if radix**d >= ranks)
        if algorithm == "hierarchical":
            scratch = ranks * chunks
        if algorithm == "bruck":
            scratch, moves = 2 * digits * ranks * chunks, (2 * digits + 2) * ranks * chunks
    elif algorithm in ("recursive-exchange", "squares", "direct") and collective in ("all-reduce", "reduce"):
        groups = {"squares": (4, *(2,) * (ranks.bit_length() - 3)), "direct": (ranks,)}.get(algorithm)
        groups = groups or recursive.factors(ranks, radix) or ()
        scratch = ranks * (max(groups, default=1) - 1) * chunks
        moves = 2 * ranks * sum(f - 1 for f in groups) * chunks
    elif algorithm == "nvls-one-shot":
        scratch, moves = ranks * chunks, (ranks + 1) * ranks * chunks
    elif algorithm != "ring" and collective != "broadcast":
        scratch = ranks * chunks
    if algorithm == "binomial" and collective in CUT_BY_RANK:
        moves = chunks * ranks.bit_length()
    return data + scratch, moves


def _grid(algorithm: str, ranks: int, grid: Sequence[int] | None) -> tuple[int, ...]:
    if algorithm == "squares" and (ranks < 4 or ranks & (ranks - 1)):
        raise InputError(f"ranks: {ranks} given; allowed: powers of two from 4 (squares)")
    of_nodes = f"nodes and GPUs of each, such as 4x8 ({algorithm})"
    if grid is None:
        ensure(algorithm != "nvls-tree", "grid", "none given", of_nodes)
        return () if algorithm in BY_RAILS else messages.near_square(ranks)
    try:
        axes = tuple(grid)
    except TypeError:
        axes = ()
    ensure(axes, "grid", f"{grid!r} given", "ranks along each axis")
    shape = tuple(whole(f"grid[{i}]", n, 1) for i, n in enumerate(axes))
    actual = f"grid: {'x'.join(map(str, shape))} given"
    if prod(shape) != ranks:
        raise InputError(f"{actual}; allowed: a product of {ranks}, the ranks")
    if algorithm in ("hierarchical", *BY_RAILS) and len(shape) != 2:
        raise InputError(f"{actual}; allowed: {of_nodes}")
    if algorithm == "squares" and (len(shape) != 2 or any(n < 2 or n & (n - 1) for n in shape)):
        raise InputError(f"{actual}; allowed: two powers of two from 2 (squares)")
    return shape
