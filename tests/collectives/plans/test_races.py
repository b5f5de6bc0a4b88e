"""Which events come after which, beside a search of the graph; the first race of a log."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.collectives.plans import races
from wavefabric.collectives.plans.races import EventLog, unordered
from wavefabric.collectives.structure import ScheduleError


@st.composite
def graphs(draw):
    """Events in an order that can run, what each comes directly after, and a group that causes share."""
    size = draw(st.integers(0, 12))
    order = draw(st.permutations(range(size)))
    groups = [draw(st.integers(0, 1)) for _ in range(size)]
    causes = [[-1] for _ in range(size)]
    for at, event in enumerate(order):
        before = [other for other in order[:at] if groups[other] == groups[event]]
        causes[event] += draw(st.lists(st.sampled_from(before), max_size=3)) if before else []
    return order, causes, np.array(groups, np.int64)


def ancestors(causes, event):
    """The event, and all that precede it."""
    reached, todo = set(), [event]
    while todo:
        if (at := todo.pop()) not in reached:
            reached.add(at)
            todo += [cause for cause in causes[at] if cause >= 0]
    return reached


@pytest.mark.slow
@settings(max_examples=100)
@given(graph=graphs(), bits=st.sampled_from([1, 40, 1 << 30]), grouped=st.booleans())
def test_histories_are_those_of_a_search(graph, bits, grouped):
    """In several sweeps too, where few bits fit into memory at once."""
    order, causes, groups = graph
    later, earlier = (each.ravel() for each in np.indices((len(order),) * 2))
    wanted = [other not in ancestors(causes, event) for event, other in zip(later, earlier, strict=True)]
    if grouped:
        same = groups[later] == groups[earlier]
        later, earlier, wanted = later[same], earlier[same], np.array(wanted, bool)[same].tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(races, "_BITS", bits)
        assert unordered(order, causes, later, earlier, groups if grouped else None).tolist() == wanted


def two_writers(*signal):
    """A log of two actors that write a place; the second comes after the events ``signal`` of the first."""
    log = EventLog()
    start, done = log.event(), log.event()
    met = log.event(start, done)
    log.begin("one writes", "one")
    log.access("x", True, start, done)
    log.access("x", True, start, done)  # of the same pass
    log.begin("two reads", "two")
    log.access("x", False, -1, read := log.event())
    log.begin("two", "two")
    log.access("x", True, log.event(start, read, *(met for _ in signal)), log.event())
    return log


def test_the_first_race_is_named():
    two_writers("signal").check("program", str)
    EventLog().check("nothing", str)
    with pytest.raises(
        ScheduleError, match=r"^program: two writes X, written by one, and nothing orders them$"
    ):
        two_writers().check("program", str.upper)
