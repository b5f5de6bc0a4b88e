"""Whether so many rounds of light suffice: first without wavelengths, then with them."""

from __future__ import annotations

import math
from collections.abc import Callable

from wavefabric.collectives.synthesis import deadline
from wavefabric.collectives.synthesis.circuits.edges import Net
from wavefabric.collectives.synthesis.circuits.question import (
    Coloured,
    Counted,
    OneRound,
    by_round,
    first_fit,
)
from wavefabric.collectives.synthesis.circuits.seeds import Plan, Way, plan
from wavefabric.collectives.synthesis.demand import Demand, Move
from wavefabric.collectives.synthesis.solve import TOO_MANY, Answer, decide

#: What a proof that rests on routes says of itself.
GIVEN = "for the routes given"
#: Seconds for the wavelengths of one round whose circuits are known.
_ONE_ROUND = 10.0


def too_large(demand: Demand, net: Net, rounds: int) -> bool:
    """Whether the question has more variables than are written down."""
    chunks = sum(1 if c.direct else demand.ranks for c in demand.chunks if c.need)
    ways = sum(len(ways) for ways in net.routes.values())
    lasers = 0 if net.all_wide else net.lights.lasers
    return rounds * (chunks * demand.ranks + ways * lasers) > TOO_MANY


def enough(
    demand: Demand,
    net: Net,
    rounds: int,
    until: float,
    workers: int,
    known: Plan | None,
    say: Callable[[str], None],
) -> Plan | str | None:
    """A plan of so many rounds; or what proves that there is none; or None if time ran out.

    Parameters
    ----------
    demand : Demand
    net : Net
    rounds : int
    until : float
        Of `clock.now`. Questions that cannot be written down by then raise `OutOfTime`.
    workers : int
    known : Plan or None
        To begin with, whatever its rounds.
    say : function of one str
    """
    moves = () if known is None else known.moves
    say("without wavelengths")
    counted = Counted(demand, net, rounds, until)
    counted.spread.hint(counted.model, moves)
    now = deadline.now()
    half = now + (until - now) / 2 if math.isfinite(until) else now + 600.0
    answer = decide(counted.model, until if net.all_wide else half, workers)
    if answer.feasible is False:
        everywhere = net.all_wide and len(net.routes) == demand.ranks * (demand.ranks - 1)
        return f"{answer.solver}, without wavelengths" + ("" if everywhere else f", {GIVEN}")
    if answer.values is not None:
        found = _with_wavelengths(counted, answer, until, workers)
        if found is not None:
            return found
    if net.all_wide or deadline.now() >= until:
        return None
    say("with wavelengths")
    coloured = Coloured(demand, net, rounds, until)
    coloured.spread.hint(coloured.model, moves)
    answer = decide(coloured.model, until, workers)
    if answer.feasible is False:
        return f"{answer.solver}, with wavelengths, {GIVEN}"
    if answer.values is None:
        return None
    ways = coloured.ways(answer.values)
    chosen = {m: ways[m[2], m[3], m[0]].pop() for m in coloured.spread.moves(answer.values)}
    return plan(chosen, answer.solver)


def _with_wavelengths(counted: Counted, answer: Answer, until: float, workers: int) -> Plan | None:
    """Wavelengths for circuits that were only counted, round by round."""
    assert answer.values is not None
    moves = counted.spread.moves(answer.values)
    wanted = by_round(moves, counted.routes(answer.values))
    chosen: dict[Move, Way] = {}
    how = "edge colouring"
    for r, circuits in sorted(wanted.items()):
        ways = first_fit(counted.net, circuits, 20, until)
        if ways is None:
            how = "a question a round"
            one = OneRound(counted.net, circuits, until)
            found = decide(one.model, min(until, deadline.now() + _ONE_ROUND), workers)
            if found.values is None:
                return None
            ways = one.ways(found.values, circuits)
        chosen.update(zip([m for m in moves if m[0] == r], ways, strict=True))
    return plan(chosen, f"{answer.solver}, wavelengths by {how}")
