"""Find the fastest schedule of a collective operation on an electrical fabric, by every method there is."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from wavefabric.base.arguments import positive, whole
from wavefabric.base.errors import choice
from wavefabric.base.units import time_words
from wavefabric.collectives.conditions import (
    COLLECTIVES,
    CUT_BY_RANK,
    ArrayCut,
)
from wavefabric.collectives.schedule import Schedule
from wavefabric.collectives.synthesis.deadline import now
from wavefabric.collectives.synthesis.problem import Undecided
from wavefabric.fabric.cost_models.cost import Cost, model_for
from wavefabric.fabric.electrical.fabric import Fabric
from wavefabric.fabric.schedule_search import EQUAL, MOST_CHUNKS, Attempt, ScheduleSearch


@dataclass(frozen=True)
class FastestSchedule:
    """Holds the fastest schedule found, the method that made it, its cost, and all attempts in order."""

    schedule: Schedule
    method: str
    cost: Cost
    attempts: tuple[Attempt, ...]

    @property
    def gap(self) -> float:
        """Return how much longer than the bound of any schedule it takes, as a fraction of the bound."""
        return (self.cost.ratio(self.cost.bound) or 1.0) - 1


def fastest_schedule(
    collective: str,
    fabric: Fabric,
    nbytes: float,
    cut: ArrayCut | None = None,
    *,
    model: str = "auto",
    until: float = inf,
    progress: Callable[[str], object] = lambda text: None,
) -> FastestSchedule:
    """Return the fastest schedule of ``nbytes`` B of the whole array, verified, of all that the methods find.

    Methods: every algorithm of the registry; on machines that repeat along the axes of a grid, trees of one
    GPU and their translations; spanning trees over evenly divided links and over the division of
    `collectives.synthesis.division`, which reaches the shortest time of any trees; for all-to-alls, routes
    over other GPUs that load links evenly; on fabrics whose GPUs are joined by direct links, the fewest steps
    by a solver. The search ends when a schedule meets the bound, or at the time ``until`` (`deadline.now`).

    ``cut``: how the array is cut, by default as is fastest. ``model``: the cost model, as in `cost`; with
    ``"flow"`` a GPU sends on what it has at any moment, which matters for small arrays. ``progress`` is
    called with a line of text at each improvement. `InputError` for an unknown collective, and for numbers
    out of range; `Undecided` if no schedule was found.
    """
    cut = cut or ArrayCut()
    choice("collective", collective, COLLECTIVES)
    whole("pieces", 1 if cut.pieces is None else cut.pieces, 1, max(1, most_pieces(collective, fabric.ranks)))
    if not isinstance(cut.elements, np.ndarray):
        whole("elements", 1 if cut.elements is None else cut.elements, 1)
    whole("root", cut.root, 0, fabric.ranks - 1)
    positive(nbytes, "", "nbytes")
    search = ScheduleSearch(collective, fabric, nbytes, cut, model_for(fabric, fabric.ranks, model), until)
    attempts: list[Attempt] = []
    best: FastestSchedule | None = None
    for attempt, schedule, price in search.attempts():
        attempts.append(attempt)
        least = inf if best is None else best.cost.seconds * (1 - EQUAL)
        if schedule is not None and price is not None and price.seconds < least:
            best = FastestSchedule(schedule, attempt.method, price, ())
            progress(f"{time_words(price.seconds)}: {attempt.method}")
        if now() > until or (best is not None and best.gap <= EQUAL):
            break
    if best is None and now() <= until:
        why = next((each.why for each in attempts), "no method serves it")
        raise Undecided(f"--fabric: no {collective} found on {fabric.name}: {why}")
    if best is None:
        raise Undecided(f"--fabric: {fabric.name} is too large; allowed: fewer GPUs, or more time")
    return replace(best, attempts=tuple(attempts))


def most_pieces(collective: str, ranks: int) -> int:
    """Return the largest number of pieces with which all ranks together have at most `MOST_CHUNKS` chunks."""
    chunks = ranks * (ranks if collective in CUT_BY_RANK else 1)
    return MOST_CHUNKS // (2 * chunks if collective == "all-to-all" else chunks)
