"""The timeline of a step: closed forms, and what holds for any step."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavefabric.fabric.planner.timeline import StepTimeline, StepTimes, steady_step


def lived(*calls, host=0.0):
    """The times of calls of methods, each a name and arguments."""
    timeline = StepTimeline(host)
    for name, *arguments in calls:
        getattr(timeline, name)(*arguments)
    return timeline.spent()


@pytest.mark.parametrize(
    ("calls", "wanted"),
    [
        # One after the other; all hidden; half hidden.
        ([("work", 3), ("start", "a", 2), ("finish", "a")], (5, 3, 0, 2, 2)),
        ([("start", "a", 2), ("work", 3), ("finish", "a")], (3, 3, 0, 2, 0)),
        ([("start", "a", 2), ("work", 1), ("work", 0.5, "pack"), ("finish", "a")], (2, 1, 0.5, 2, 0.5)),
        # One exchange after another, in whatever order they are waited for.
        ([("start", "a", 2), ("start", "b", 3), ("finish", "b"), ("finish", "a")], (5, 0, 0, 5, 5)),
        ([("start", "a", 2), ("work", 4), ("start", "b", 3), ("finish", "b")], (7, 4, 0, 5, 3)),
        # What did not begin is not waited for, nor is anything twice.
        ([("finish", "a", 1), ("start", "a", 2), ("finish", "a"), ("finish", "a", 1)], (2, 0, 0, 2, 2)),
        # Work waits for the memory, at most as long again as it takes; waiting leaves the memory free.
        ([("start", "a", 5, 1), ("work", 3), ("finish", "a")], (5, 3, 0, 5, 2)),
        ([("start", "a", 5, 1), ("work", 6), ("finish", "a")], (7, 6, 0, 5, 1)),
        ([("start", "a", 5, 4), ("work", 1), ("finish", "a"), ("work", 1)], (6, 2, 0, 5, 4)),
        # The host waits and goes on a little later, even for what has come.
        ([("start", "a", 1), ("work", 3), ("finish", "a", 0.5)], (3.5, 3, 0, 1, 0.5)),
    ],
)
def test_closed_forms(calls, wanted):
    assert lived(*calls) == StepTimes(*wanted)


def test_a_host_launches_kernel_by_kernel():
    assert lived(("work", 0.5, "compute", 2), host=1) == StepTimes(2.5, 0.5, 0, 0, 2)
    # It runs ahead of long kernels, and is behind again after a wait of its own.
    assert lived(("work", 5), ("work", 1), ("work", 1), host=1) == StepTimes(8, 7, 0, 0, 1)
    waits = [("work", 5), ("start", "a", 1), ("finish", "a", 2), ("work", 1)]
    assert lived(*waits, host=1) == StepTimes(1 + 5 + 3 + 1 + 1, 6, 0, 1, 5)
    # A GPU that waits by itself has the next kernel already.
    waits[2] = ("finish", "a")
    assert lived(*waits, host=1) == StepTimes(1 + 5 + 1 + 1, 6, 0, 1, 2)


def test_a_step_among_others():
    def step(timeline):
        timeline.finish("p")
        timeline.work(1)
        timeline.start("p", 3)

    assert steady_step(step) == StepTimes(4, 1, 0, 3, 3)
    assert lived(("finish", "p"), ("work", 1), ("start", "p", 3)) == StepTimes(1, 1, 0, 3, 0)


SECONDS, NAMES = st.floats(0, 10), st.sampled_from("ab")
CALLS = st.lists(
    st.tuples(st.just("work"), SECONDS, st.sampled_from(["compute", "pack"]), st.integers(0, 3))
    | st.tuples(st.just("start"), NAMES, SECONDS, SECONDS)
    | st.tuples(st.just("finish"), NAMES, SECONDS),
    max_size=20,
)


@given(CALLS, SECONDS)
def test_of_any_step(calls, host):
    times = lived(*calls, host=host)
    assert min(vars(times).values()) >= 0
    assert times.step == pytest.approx(times.compute + times.pack + times.exposed)
    assert times.step >= (times.compute + times.pack) * (1 - 1e-12)
    later = sum(call[2] for call in calls if call[0] == "finish")
    later += sum(call[3] for call in calls if call[0] == "start")
    later += host * sum(call[3] for call in calls if call[0] == "work")
    most = times.compute + times.pack + times.exchange + later
    assert times.step <= most * (1 + 1e-12)
