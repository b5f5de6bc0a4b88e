"""The event engine on tasks written by hand: order, queues and batches of calls under each policy."""

import pytest
from random_models import PlainFabric

from wavefabric.base.errors import InputError
from wavefabric.training.iteration.engine import POLICIES, run
from wavefabric.training.iteration.task_graph import Call, TaskGraph


class Tasks:
    """A graph whose calls take as many seconds as they have bytes; worker w is GPU w."""

    def __init__(self, workers):
        self.graph = TaskGraph(workers)
        self.graph.program += [[] for _ in range(workers)]

    def compute(self, worker, seconds, waits=(), kind="backward"):
        task = self.graph.compute(kind, f"task {len(self.graph)}", worker, seconds, waits, 0)
        self.graph.program[worker].append(task)
        return task

    def call(self, ports, seconds, waits=(), purpose="gradients"):
        call = Call("all-reduce", (tuple(ports),), seconds, purpose)
        return self.graph.communicate(f"call {len(self.graph)}", call, tuple(ports), waits, 0)

    def begins(self, policy, concurrent=True):
        timeline = run(self.graph, PlainFabric(byte=1.0, concurrent=concurrent), policy)
        return timeline.begin.tolist()


class Recorder(PlainFabric):
    """Keeps which calls it was asked about together."""

    def __init__(self, concurrent):
        super().__init__(byte=1.0, concurrent=concurrent)
        self.requested = []

    def seconds(self, calls):
        self.requested.append(tuple(call.bytes for call in calls))
        return super().seconds(calls)


def test_a_worker_runs_its_program_in_order():
    tasks = Tasks(2)
    a = tasks.compute(0, 3)
    b = tasks.compute(1, 1, [a])
    tasks.compute(1, 1)  # could run at once, but comes second
    assert tasks.begins("batched") == [0, 3, 4]
    timeline = run(tasks.graph, PlainFabric(), "batched")
    assert timeline.released_by.tolist() == [-1, a, b]
    assert timeline.seconds == 5


@pytest.mark.parametrize("concurrent", [True, False])
def test_layers_are_served_before_gradients(concurrent):
    tasks = Tasks(1)
    a = tasks.compute(0, 1)
    tasks.call([0], 10, [a])
    tasks.call([0], 10, [a])
    b = tasks.compute(0, 2)
    layer = tasks.call([0], 5, [b], "tensor")
    tasks.compute(0, 1, [layer])
    # The first is in progress when the layer's call becomes ready at 3; the second has to wait for it.
    assert tasks.begins("batched", concurrent) == [0, 1, 16, 1, 11, 16]
    assert tasks.begins("in-order", concurrent) == [0, 1, 11, 1, 21, 26]
    assert tasks.begins("end", concurrent) == [0, 9, 19, 1, 3, 8]
    # No layer-to-layer transfer: gradients wait for the last layer here, too.
    assert tasks.begins("boundaries", concurrent) == [0, 9, 19, 1, 3, 8]


@pytest.mark.parametrize("concurrent", [True, False])
def test_gradients_go_at_boundaries_of_layer_to_layer_transfers(concurrent):
    tasks = Tasks(1)
    a = tasks.compute(0, 1)
    tasks.call([0], 10, [a])
    b = tasks.compute(0, 2)
    layer = tasks.call([0], 5, [b], "layer-to-layer")
    c = tasks.compute(0, 1, [layer])
    tasks.call([0], 4, [c])
    tasks.compute(0, 30)
    assert tasks.begins("boundaries", concurrent) == [0, 8, 1, 3, 8, 39, 9]
    assert tasks.begins("batched", concurrent) == [0, 1, 1, 11, 16, 17, 17]
    timeline = run(tasks.graph, PlainFabric(byte=1.0, concurrent=concurrent), "boundaries")
    assert timeline.released_by[1] == layer
    assert timeline.released_by[5] == 6


@pytest.mark.parametrize(
    ("policy", "concurrent", "expected"),
    [
        ("batched", True, [0, 5, 0, 0]),  # the third and fourth share no GPU with the first
        ("in-order", True, [0, 4, 7, 0]),  # the third waits for the second, which came first
        ("end", True, [0, 4, 7, 0]),
        ("batched", False, [0, 5, 0, 0]),  # a batch of three, as long as the longest, and the second
        ("boundaries", False, [0, 5, 0, 0]),
        ("in-order", False, [0, 4, 7, 12]),  # one at a time
        ("end", False, [0, 4, 7, 12]),
    ],
)
def test_ready_calls_of_disjoint_gpus(policy, concurrent, expected):
    tasks = Tasks(4)
    for ports, seconds in (([0], 4), ([0, 1], 3), ([1], 5), ([2, 3], 2)):
        tasks.call(ports, seconds)
    assert tasks.begins(policy, concurrent) == expected


def test_a_batch_ends_as_one_and_is_asked_for_as_one():
    tasks = Tasks(3)
    tasks.call([0], 4)
    second = tasks.call([1], 9)
    third = tasks.call([1, 2], 2)
    fabric = Recorder(concurrent=False)
    timeline = run(tasks.graph, fabric, "batched")
    assert timeline.end.tolist() == [9, 9, 11]
    assert fabric.requested == [(4, 9), (2,)]
    assert timeline.fabric_busy == 11
    assert timeline.released_by[third] in (0, second)
    fabric = Recorder(concurrent=True)
    run(tasks.graph, fabric, "batched")
    assert sorted(fabric.requested) == [(2,), (4,), (9,)]


def test_layers_and_gradients_are_batches_of_their_own():
    tasks = Tasks(2)
    tasks.call([0], 9)
    tasks.call([1], 2, purpose="tensor")
    # A gradient in the batch of what a layer waits for would hold the layer up.
    assert tasks.begins("batched", concurrent=False) == [2, 0]
    assert tasks.begins("batched", concurrent=True) == [0, 0]


def test_time_in_which_the_fabric_is_busy():
    tasks = Tasks(2)
    tasks.call([0], 4)
    tasks.call([1], 6)
    a = tasks.compute(0, 10)
    tasks.call([0], 1, [a])
    assert run(tasks.graph, PlainFabric(byte=1.0), "batched").fabric_busy == 7


def test_equal_calls_are_costed_once():
    tasks = Tasks(1)
    call = Call("all-reduce", ((0, 1),), 3.0, "gradients")
    for number in range(5):
        tasks.graph.communicate(f"call {number}", call, (0,), [], 0)
    fabric = Recorder(concurrent=True)
    assert run(tasks.graph, fabric, "batched").seconds == 15
    assert fabric.requested == [(3.0,)]


def test_no_tasks_take_no_time():
    timeline = run(TaskGraph(0), PlainFabric(), "batched")
    assert (timeline.seconds, timeline.fabric_busy) == (0, 0)


@pytest.mark.parametrize("policy", POLICIES)
def test_tasks_in_a_circle_are_refused(policy):
    tasks = Tasks(2)
    a = tasks.compute(0, 1)
    b = tasks.call([0], 1, [a], "tensor")
    tasks.graph.waits[a].append(b)
    with pytest.raises(InputError, match=r'^tasks: "task 0" never begins; allowed: .*$'):
        tasks.begins(policy)


def test_a_program_that_contradicts_dependencies_is_refused():
    tasks = Tasks(1)
    a = tasks.compute(0, 1)
    tasks.compute(0, 1)
    tasks.graph.waits[a].append(a + 1)
    with pytest.raises(InputError, match="never begins"):
        tasks.begins("batched")


def test_an_unknown_policy_is_refused():
    with pytest.raises(InputError) as refused:
        run(TaskGraph(1), PlainFabric(), "fastest\n")
    assert str(refused.value) == ('policy: "fastest\\n" given; allowed: batched, boundaries, in-order, end')


def test_computation_goes_on_slower_during_calls():
    """4 s of work, of which 2 s in a call are at half the speed; and 1 s within a longer call."""
    tasks = Tasks(2)
    tasks.graph.slowdown = 2.0
    first = tasks.compute(0, 1.0)
    tasks.call([0], 2.0, [first])
    work = tasks.compute(0, 4.0)
    inside, _ = tasks.compute(1, 1.0), tasks.call([1], 9.0)
    ends = run(tasks.graph, PlainFabric(byte=1.0), "batched").end
    assert (ends[work], ends[inside]) == (1 + 2 + 3, 2.0)
