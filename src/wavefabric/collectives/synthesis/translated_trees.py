"""Find spanning trees of one rank whose translations, as trees of all other ranks, use links evenly.

Ranks are the positions of a periodic grid, and a machine is nearly the same seen from each of them. So a few
trees of rank 0, shifted to each rank, serve thousands of ranks: the linear program has one variable per rank
and difference, not per pair of ranks. Links need not be the same everywhere; loads are summed exactly.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from scipy.sparse import csr_array, hstack, vstack

from wavefabric.collectives.builders.transfers import assemble, transfers
from wavefabric.collectives.conditions import layout
from wavefabric.collectives.schedule import Schedule
from wavefabric.collectives.sizes import within_groups
from wavefabric.collectives.synthesis.deadline import OutOfTime, check, fraction, now

#: Numbers of trees to try, and the relative distance from the best time of any number that is small enough.
_TREES, _NEAR = (1, 2, 3, 4, 6, 8), 0.005
#: Seconds for the search for whole numbers with one number of trees.
_SECONDS = 10.0
#: Weight of the time of trees whose levels are sent one after another, beside that of a full pipeline.
_DEPTH = 1e-3
#: Collectives that translated trees serve.
SERVED = ("all-gather", "reduce-scatter", "all-reduce")


@dataclass(frozen=True)
class TranslatedTrees:
    """Holds spanning trees of rank 0 on a periodic grid, and how long links take for them.

    ``parent[t, y]``: the rank from which tree t reaches rank y; ``level[y]``: links from rank 0 to y, the
    same in all trees. Rank r has the same trees, shifted by its position. ``seconds``: the time of the
    busiest link if each rank sends one byte in all.
    """

    shape: tuple[int, ...]
    parent: np.ndarray
    level: np.ndarray
    seconds: float

    @property
    def depth(self) -> int:
        """Return the number of levels below rank 0."""
        return int(self.level.max())


def shifted(rank: np.ndarray, by: np.ndarray, shape: Sequence[int], times: int = 1) -> np.ndarray:
    """Return the ranks at the positions of ``rank`` plus ``times`` those of ``by``, on a periodic grid."""
    positions = (
        (a + times * b) % n
        for a, b, n in zip(np.unravel_index(rank, shape), np.unravel_index(by, shape), shape, strict=True)
    )
    return np.ravel_multi_index(tuple(positions), tuple(shape))


def translated_trees(
    shape: tuple[int, ...], differences: np.ndarray, loads: np.ndarray, until: float = inf
) -> TranslatedTrees | None:
    """Return the trees over steps by ``differences`` whose translations take the busiest link least time.

    ``differences``: ranks, as seen from rank 0, to which a rank may send. ``loads[i, d]``: seconds for which
    link i is busy if each rank sends a byte by difference d. Each tree reaches a rank over the fewest steps.
    None if the steps do not reach all ranks; `OutOfTime` after ``until``.
    """
    ranks = int(np.prod(shape))
    from_ = shifted(np.arange(ranks)[:, None], differences[None], shape, -1)
    level = np.full(ranks, -1)
    level[0] = depth = 0
    while (level < 0).any():
        near = (level < 0) & (level[from_] == depth).any(axis=1)
        if not near.any():
            return None
        level[near] = depth = depth + 1
    rank, step = np.nonzero((level[from_] == level[:, None] - 1) & (level > 0)[:, None])
    program = _Program(np.unique(loads, axis=0), rank, step, level)
    best = program.solve(None, until)
    if best is None:
        raise OutOfTime
    result: TranslatedTrees | None = None
    for trees in _TREES:
        check(until)
        counts = program.solve(trees, fraction(until, 0.5, _SECONDS))
        if counts is None:
            continue
        seconds = program.seconds(counts) / trees
        if result is None or seconds < result.seconds * (1 - _NEAR):
            # Rank y is listed once per tree, with its parents in that order.
            listed = np.repeat(np.arange(rank.size), counts.astype(np.int64))
            parent = np.zeros((trees, ranks), np.int64)
            parent[within_groups(rank[listed]), rank[listed]] = from_[rank[listed], step[listed]]
            result = TranslatedTrees(shape, parent, level, seconds)
        if seconds <= program.seconds(best) * (1 + _NEAR):
            break
    if result is None:
        raise OutOfTime
    return result


def translated_schedule(collective: str, trees: TranslatedTrees, elements: int, pieces: int) -> Schedule:
    """Build a collective of `SERVED` in which each rank is the root of translated copies of ``trees``.

    Each tree carries an equal part of the root's data, in ``pieces`` pieces, one after the other. A tree of
    depth d takes d + pieces − 1 rounds of communication, an all-reduce twice as many. If several terms of a
    sum arrive in a round, the first is added at once and the others wait in ``scratch``.
    """
    ranks, count = trees.level.size, len(trees.parent)
    tree, y = (each.ravel() for each in np.indices((count, ranks - 1)))
    y += 1
    parent = trees.parent[tree, y]
    conditions = layout(
        collective, ranks, elements, count * pieces * (ranks if collective == "all-reduce" else 1)
    )
    root = np.arange(ranks)[:, None]
    ends = shifted(root, parent[None], trees.shape), shifted(root, y[None], trees.shape)
    above, below = (np.repeat(end[..., None], pieces, axis=-1) for end in ends)
    piece = np.arange(pieces)
    chunk = (root[..., None] * count + tree[:, None]) * pieces + piece
    level = np.broadcast_to(trees.level[y][:, None] - 1 + piece, above.shape)
    parts, scratch, first = [], None, 0
    if collective != "all-gather":
        step = trees.depth + pieces - 2 - level
        turn = within_groups(((step * ranks + above) * conditions.sizes[0].shape[1] + chunk).ravel())
        turn, late = turn.reshape(step.shape), turn.reshape(step.shape) > 0
        apart = int(turn.max(initial=0)) + 1  # a round of communication, then rounds of local sums
        size = conditions.sizes[0][0][chunk]
        # Waiting terms of one size share the chunks of scratch, which are free again after each step.
        small = size < size.max(initial=0)
        key = (step * ranks + above) * 2 + small
        wait = np.zeros_like(chunk)
        wait[late] = 2 * within_groups(key[late]) + small[late]
        scratch = np.zeros((ranks, int(wait.max(initial=-1)) + 1 if late.any() else 0), np.int64)
        scratch[above[late], wait[late]] = size[late]
        target = np.where(late, wait, chunk)
        parts.append(
            transfers(step * apart, below, above, chunk, target, buffers=(0, late * 1), reduce=~late)
        )
        adder, when = above[late], (step * apart + turn)[late]
        parts.append(transfers(when, adder, adder, wait[late], chunk[late], buffers=(1, 0), reduce=True))
        first = (int(step.max(initial=0)) + 1) * apart
    if collective != "reduce-scatter":
        parts.append(transfers(first + level, above, below, chunk))
    return assemble(f"translated trees {collective}", conditions, parts, scratch)


class _Program:
    """The linear program for how many trees reach each rank by each of its possible last steps.

    ``rank`` and ``step`` list the choices: a rank and the number of a difference. Minimised is the time of
    the busiest link for all levels together, and with little weight the sum of such times level by level.
    """

    def __init__(self, loads: np.ndarray, rank: np.ndarray, step: np.ndarray, level: np.ndarray):
        choices, depth = rank.size, int(level.max())
        self._unit, self._choices = float(loads.max()), choices
        busy = loads[:, step] / self._unit
        self._used, links = csr_array(busy), len(busy)
        # Columns: choices, time of all levels together, time of each level.
        rows = [hstack([self._used, csr_array(-np.ones((links, 1))), csr_array((links, depth))])]
        for number in range(1, depth + 1):
            time = np.zeros((links, 1 + depth))
            time[:, number] = -1.0
            rows.append(csr_array(np.hstack([busy * (level[rank] == number), time])))
        self._links = vstack(rows)
        reach = csr_array((np.ones(choices), (rank - 1, np.arange(choices))), shape=(level.size - 1, choices))
        self._reach = hstack([reach, csr_array((level.size - 1, 1 + depth))])
        self._goal = np.r_[np.zeros(choices), 1.0, np.full(depth, _DEPTH)]

    def seconds(self, counts: np.ndarray) -> float:
        """Return the time of the busiest link, in s, if ``counts`` trees each carry a byte."""
        return float((self._used @ counts).max() * self._unit)

    def solve(self, trees: int | None, until: float) -> np.ndarray | None:
        """Return how many of ``trees`` make each choice; with None the fractions of one tree.

        None if there is no solution in whole numbers before the time ``until``.
        """
        from scipy.optimize import Bounds, LinearConstraint, milp  # a quarter of a second, for this alone

        amount = trees or 1
        options = {"mip_rel_gap": _NEAR / 2}
        if until < inf:
            options["time_limit"] = max(until - now(), 0.01)
        result = milp(
            self._goal,
            constraints=[
                LinearConstraint(self._links, ub=0.0),
                LinearConstraint(self._reach, amount, amount),
            ],
            bounds=Bounds(
                0, np.r_[np.full(self._choices, amount), np.full(self._goal.size - self._choices, inf)]
            ),
            integrality=np.r_[
                np.full(self._choices, trees is not None), np.zeros(self._goal.size - self._choices)
            ],
            options=options,
        )
        if result.x is None:
            return None
        counts = result.x[: self._choices]
        return counts if trees is None else np.rint(counts)
