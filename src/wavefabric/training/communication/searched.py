"""Search for the fastest schedule of a communication call in one group of GPUs, by every method there is."""

from dataclasses import replace
from math import log

from wavefabric.base.errors import InputError
from wavefabric.collectives.candidates import Choice
from wavefabric.collectives.conditions import CUT_BY_RANK, layout, whole_elements
from wavefabric.collectives.synthesis.deadline import now
from wavefabric.collectives.synthesis.problem import Undecided
from wavefabric.fabric.cost_models.cost import AnyFabric
from wavefabric.fabric.electrical.fabric import Fabric
from wavefabric.fabric.electrical.subfabric import subfabric
from wavefabric.training.communication.algorithms import Built
from wavefabric.training.iteration.task_graph import Call

#: Largest group of GPUs that a schedule is searched for, and after how many s the search ends.
MOST_GPUS, SECONDS = 64, 5.0
#: Calls whose bytes are nearest to the same power of this number share a schedule.
CLASS = 16


class SearchedSchedules:
    """Searches schedules for the calls on an electrical fabric, once for groups and sizes that are alike.

    A search (`wavefabric.fabric.fastest.fastest_schedule`) sees only the links between the GPUs of the first
    group of a call (`subfabric`), without other groups. It ends after `SECONDS` or with the method that then
    runs, so that a slower or busier machine may find a slower schedule.
    """

    def __init__(self, fabric: AnyFabric):
        self._fabric = fabric
        self._parts: dict[tuple[int, ...], Fabric] = {}
        self._results: dict[tuple[Fabric, str, int], tuple[Choice, Built] | None] = {}

    def size_class(self, call: Call) -> int | None:
        """Return the exponent of the power of `CLASS` nearest to the call's bytes; None without a search."""
        large = not call.groups or len(call.groups[0]) > MOST_GPUS
        if large or call.collective == "messages" or not isinstance(self._fabric, Fabric):
            return None
        return round(log(call.bytes, CLASS))

    def find(self, call: Call) -> tuple[Choice, Built] | None:
        """Return the name and the verified schedule of the fastest method; None if no method has one."""
        number = self.size_class(call)
        if number is None or not isinstance(self._fabric, Fabric):
            return None
        gpus = call.groups[0]
        if gpus not in self._parts:
            # Training frameworks do not use Wavefabric's kernels.
            self._parts[gpus] = replace(subfabric(self._fabric, gpus), kernels=None)
        key = self._parts[gpus], call.collective, number
        if key not in self._results:
            self._results[key] = _search(*key)
        return self._results[key]


def _search(part: Fabric, collective: str, number: int) -> tuple[Choice, Built] | None:
    from wavefabric.fabric.fastest import fastest_schedule  # and the solvers, which no other choice needs

    if not part.links:
        return None
    try:
        best = fastest_schedule(collective, part, float(CLASS) ** number, until=now() + SECONDS)
    except (Undecided, InputError):
        return None
    elements = whole_elements(best.schedule)
    return Choice(f"searched: {best.method}"), Built(replace(best.schedule, pre={}, post={}), elements)


def with_conditions(group: Built, collective: str) -> Built:
    """Return the schedule with the `pre` and `post` that `find` removed."""
    ranks, chunks = group.schedule.ranks, group.schedule.sizes[0].shape[1]
    pieces = chunks // (ranks if collective in CUT_BY_RANK else 1)
    data = layout(collective, ranks, int(group.elements), pieces)
    return replace(group, schedule=replace(group.schedule, pre=data.pre, post=data.post))
