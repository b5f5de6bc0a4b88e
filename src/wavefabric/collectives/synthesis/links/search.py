"""So many steps and rounds over electrical links, or the fewest steps: bounds, seeds, and then solvers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from wavefabric.collectives.synthesis import deadline as clock
from wavefabric.collectives.synthesis.bounds import (
    UNREACHABLE,
    Bound,
    cut_bound,
    link_bound,
    nearer_sets,
    nearest,
)
from wavefabric.collectives.synthesis.deadline import Deadline, OutOfTime
from wavefabric.collectives.synthesis.demand import Demand, Move
from wavefabric.collectives.synthesis.links.capacity import fits
from wavefabric.collectives.synthesis.links.seeds import greedy, known
from wavefabric.collectives.synthesis.model import Model
from wavefabric.collectives.synthesis.problem import Links, Undecided, nothing_yet
from wavefabric.collectives.synthesis.solve import TOO_MANY, Answer, decide
from wavefabric.collectives.synthesis.spread import FAR, Spread, distances
from wavefabric.errors import InputError

_ATTEMPTS = 6


@dataclass(frozen=True)
class Half:
    """Moves of one spreading, the rounds of its steps, and what is proved."""

    moves: list[Move]
    rounds: list[int]
    lower: int
    why: str
    status: tuple[tuple[int, str], ...]


def bounds(demand: Demand, links: Links, deadline: float) -> tuple[Bound, Bound]:
    """Lower bounds of steps by distance, and of rounds by what cuts and all links together carry.

    A quarter of the time until the deadline, of `clock.now`, at most.
    """
    until = clock.share(clock.now(), deadline, 1 / 4)
    hops = distances(demand.ranks, [link for link, n in links.capacity.items() if n])
    farthest: Bound = (0, "nothing to be sent")
    stop = Deadline(until)
    try:
        for have, need in dict.fromkeys((c.have, c.need) for c in demand.chunks if c.need):
            stop.check()
            hop = nearest(hops, have, need)
            if max(hop) > farthest[0]:
                rank = sorted(need)[hop.index(max(hop))]
                farthest = max(hop), f"rank {rank} is {max(hop)} links away from what it needs"
    except OutOfTime:
        pass
    together = link_bound(demand, links.capacity, links.groups, hops, until)
    sets = nearer_sets(hops, links.capacity) if clock.now() < until else []
    cuts = cut_bound(demand, links.capacity, links.groups, until=until, sets=sets)
    return farthest, max(together, cuts, key=lambda b: b[0])


def decide_steps(
    demand: Demand,
    links: Links,
    steps: int,
    rounds: int,
    deadline: float,
    workers: int,
    say: Callable,
    bound_by: tuple[Bound, Bound] | None = None,
) -> Half | str:
    """A schedule of exactly so many steps and rounds, or what proves that there is none.

    With `bound_by`, of `bounds`, known schedules are not tried again.

    Returns
    -------
    Half or str
        `lower`: rounds that are needed in exactly so many steps, by counting; fewer steps may need fewer.

    Raises
    ------
    Undecided
        If time runs out.
    """
    (least, far), (fewest, why) = bound_by or bounds(demand, links, deadline)
    if least > steps or fewest > rounds:
        return f"a bound ({far if least > steps else why})"
    lower = max(steps, fewest)
    bound = why if fewest > steps else "no step takes less than one"
    text = f"{_so_many(rounds, 'round')} in exactly {_so_many(steps, 'step')}"
    text += f", which need at least {lower}: {bound}"
    if fewest < steps:
        text += "; fewer steps may need fewer"

    def half(moves: list[Move], taken: list[int], method: str) -> Half:
        return Half(moves, taken, lower, f"found by {method}; {text}", ((rounds, f"feasible: {method}"),))

    if bound_by is None:
        try:
            stop = Deadline(clock.share(clock.now(), deadline, 1 / 4))
            for taken, method, moves in _stepped(demand, links, steps, rounds - steps, stop):
                if fits(moves, links, taken):
                    return half(moves, taken, method)
        except OutOfTime:
            pass
    say(f"{steps} steps, {rounds} rounds")
    try:
        answer, moves, taken = _ask(demand, links, steps, rounds, deadline, workers)
    except OutOfTime:
        answer, moves, taken = Answer(None, None, "time"), [], []
    if answer.feasible is False:
        return answer.solver
    if answer.feasible is None:
        raise Undecided(
            f"time_limit: over before {steps} steps and {rounds} rounds were decided; allowed: more time"
        )
    return half(moves, taken, answer.solver)


def _stepped(
    demand: Demand, links: Links, steps: int, extra: int, stop: Deadline
) -> Iterator[tuple[list[int], str, list[Move]]]:
    """Schedules to be tried: rounds of the steps, what made the moves, and the moves."""
    even = [1 + extra // steps + (i >= steps - extra % steps) for i in range(steps)]
    last = [1] * (steps - 1) + [1 + extra]
    for method, moves in known(demand, links, stop, 2):
        yield last, method, moves
    for seed in range(_ATTEMPTS):
        taken = even if seed % 2 else last
        moves = greedy(demand, links, taken, seed, stop)
        if moves is not None:
            yield taken, "greedy steps", moves


def _ask(
    demand: Demand, links: Links, steps: int, rounds: int, deadline: float, workers: int
) -> tuple[Answer, list[Move], list[int]]:
    """The solvers' answer, and the moves and the rounds of each step if there are any."""
    size = steps * sum(bool(c.need) for c in demand.chunks) * len(links.capacity)
    if size > TOO_MANY:
        raise Undecided(
            f"layout: {size} variables for the solvers; allowed: {TOO_MANY}, or links that a ring fits"
        )
    model = Model(deadline)
    spread = Spread(model, demand, [e for e, n in links.capacity.items() if n], steps, forward=True)
    takes = [model.variable(rounds - steps + 1, 1) for _ in range(steps)]
    model.row(takes, rounds, rounds)
    for step in range(steps):
        carried = [((link,), n) for link, n in links.capacity.items()] + list(links.groups)
        for members, n in carried:
            columns = [c for s, d in members for c in spread.sent.get((s, d, step), ())]
            if rounds > steps:
                model.row([*columns, takes[step]], -math.inf, 0, [1] * len(columns) + [-n])
            else:
                model.limit(columns, n)
    answer = decide(model, deadline, workers)
    if answer.values is None:
        return answer, [], []
    return answer, spread.moves(answer.values), [int(answer.values[t]) for t in takes]


def least(
    demand: Demand, links: Links, max_steps: int | None, deadline: float, workers: int, say: Callable
) -> Half:
    """A schedule of the fewest steps of one round each, as far as time allows.

    Raises
    ------
    InputError
        If some rank cannot be reached, or not within `max_steps`.
    Undecided
        If no schedule, or none of at most `max_steps`, was found in time.
    """
    bound_by = bounds(demand, links, deadline)
    lower, proof = max(bound_by, key=lambda b: b[0])
    if lower >= min(UNREACHABLE, FAR):
        raise InputError("links: some rank cannot get what it needs; allowed: links that join the ranks")
    verdicts = {lower - 1: f"infeasible: proved by a bound ({proof})"} if lower > 1 else {}
    proof = f"a bound ({proof})"
    steps, method, moves = _known(demand, links, lower, deadline)
    tried = lower
    while tried < steps and (max_steps is None or tried <= max_steps) and clock.now() < deadline:
        until = deadline if tried == steps - 1 else clock.share(clock.now(), deadline, 1 / 2)
        try:
            half = decide_steps(demand, links, tried, tried, until, workers, say, bound_by)
        except Undecided:
            verdicts[tried] = "unknown: out of time"
        else:
            if not isinstance(half, str):
                steps, method, moves = tried, half.status[0][1].removeprefix("feasible: "), half.moves
                break
            lower, proof = tried + 1, half
            verdicts[tried] = f"infeasible: proved by {half}"
            for fewer in verdicts:
                # One could always wait for a step.
                if verdicts[fewer].startswith("unknown"):
                    verdicts[fewer] = f"infeasible: proved by {half}, of {_so_many(tried, 'step')}"
        tried += 1
    if max_steps is not None and steps > max_steps:
        if lower > max_steps:
            raise InputError(f"max_steps: {max_steps}; allowed: from {lower}, as proved by {proof}")
        raise Undecided(
            f"time_limit: over before {lower} to {max_steps} steps were decided; allowed: more time"
        )
    verdicts[steps] = f"feasible: {method}"
    open_ones = f"{lower}" if lower == steps - 1 else f"{lower} to {steps - 1}"
    missing = "fewer" if steps == lower else f"{open_ones} not decided; fewer than {lower}"
    why = f"{_so_many(steps, 'step')} found by {method}; {missing} are impossible: proved by {proof}"
    return Half(moves, [1] * steps, lower, why, tuple(sorted(verdicts.items())))


def _so_many(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"


def _known(demand: Demand, links: Links, lower: int, deadline: float) -> tuple[int, str, list[Move]]:
    """The best schedule that needs no solver: steps, method, moves.

    Once there is one, better ones are looked for in a quarter of the time.
    """
    best: tuple[int, str, list[Move]] | None = None
    quarter, stop = clock.share(clock.now(), deadline, 1 / 4), Deadline(deadline)
    try:
        for method, moves in known(demand, links, stop, _ATTEMPTS):
            steps = 1 + max((m[0] for m in moves), default=-1)
            if best is None or steps < best[0]:
                best = steps, method, moves
            stop.at = quarter
            if best[0] == lower or clock.now() > quarter:
                break
    except OutOfTime:
        if best is None:
            raise nothing_yet() from None
    if best is None:
        raise InputError("links: some rank cannot get what it needs; allowed: links that join the ranks")
    return best
