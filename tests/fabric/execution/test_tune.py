"""The search for the fastest: candidates, predictions, measured times between ranks."""

import weakref
from collections import Counter
from itertools import chain, repeat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.base.errors import InputError
from wavefabric.base.system.progress import Progress
from wavefabric.collectives import ALGORITHMS, build, kind, levels, verify, why_refused
from wavefabric.collectives.conditions import COLLECTIVES
from wavefabric.collectives.structure import transfer_elements
from wavefabric.collectives.tuning import Choice, tuning_from_json, tuning_to_json
from wavefabric.fabric import cost, load
from wavefabric.fabric.electrical.fabric import Fabric, Link
from wavefabric.fabric.execution import tune as module
from wavefabric.fabric.execution import tune_candidates
from wavefabric.fabric.execution.run_schedule import as_run, sizes_between
from wavefabric.fabric.execution.timing import Ranks
from wavefabric.fabric.execution.tune import tune
from wavefabric.fabric.execution.tune_candidates import PIECES, choices, elements_of

#: Measured in every run of the tests.
COMMON = "all-reduce", "all-gather", "broadcast"


def built(choice, collective, ranks, elements):
    return build(choice.algorithm, collective, ranks, elements, **choice.options)


def candidates(collective, ranks, *how):
    return tune_candidates.candidates(collective, ranks, choices(collective, ranks).choices, *how)


def traffic(schedule):
    """What goes from whom to whom in which round."""
    t = schedule.transfers
    rows = zip(*(t[name].tolist() for name in ("round", "src", "dst", "reduce")), strict=True)
    return frozenset(Counter(zip(rows, transfer_elements(schedule).tolist(), strict=True)).items())


# --- candidates -----------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=40)
@given(collective=st.sampled_from(COLLECTIVES), ranks=st.integers(2, 13), run=st.booleans())
def test_every_algorithm_is_there_once(collective, ranks, run):
    result = dict(candidates(collective, ranks, run))
    seen = {traffic(schedule) for schedule in result.values()}
    assert len(seen) == len(result)
    for choice, schedule in result.items():
        verify(schedule)
        assert kind(schedule)[0] == collective
        own = built(choice, collective, ranks, elements_of(ranks))
        assert traffic(schedule) == traffic(as_run(own) if run else own)
        assert schedule.rounds == (levels(own).max() + 1 if run else own.rounds)
    # An algorithm that is not there is the same as one that is, or says why not.
    plain_ones = {name: each for name, each in ALGORITHMS.items() if not each.switched}
    for name, algorithm in plain_ones.items():
        if collective in algorithm.collectives and why_refused(name, collective, ranks) is None:
            plain = build(name, collective, ranks, elements_of(ranks))
            assert traffic(as_run(plain) if run else plain) in seen
    every = choices(collective, ranks)
    named = {choice.algorithm for choice in every.choices}
    for name, algorithm in ALGORITHMS.items():
        if collective in algorithm.collectives:
            assert (name in named) != (name in every.left_out)
            why = every.left_out.get(name, "allowed: ")
            assert "allowed: " in why or (algorithm.switched and why == "CPUs have no switches that add up")


def test_radices_and_pieces():
    result = list(dict(candidates("all-reduce", 12)))
    radices = [choice.radix for choice in result if choice.algorithm == "recursive"]
    assert radices == [3, 4, 12]  # 2 is refused, 8 has the groups of 4
    assert Choice("direct") in result
    assert Choice("recursive-exchange", 12) not in result  # that is direct
    for name, pieces in (
        ("tree", PIECES),
        ("double-tree", PIECES),
        ("ring", (1,)),
        ("bidirectional-ring", (1,)),
    ):
        assert [choice.pieces for choice in result if choice.algorithm == name] == list(pieces), name
    assert [choice.pieces for choice in dict(candidates("broadcast", 5)) if choice.algorithm == "ring"] == [
        1,
        4,
        16,
        64,
    ]


def test_what_is_run_at_once_is_one_candidate():
    plain, run = (
        [choice.algorithm for choice, _ in candidates("all-to-all", 4, run)] for run in (False, True)
    )
    assert "pairwise" in plain
    assert "pairwise" not in run
    # Levels order chunks, so that pieces do not follow each other.
    assert {choice.pieces for choice, _ in candidates("broadcast", 5, True)} == {1}
    told = []
    list(candidates("all-reduce", 8, False, told.append))
    assert len(told) == len(choices("all-reduce", 8).choices)
    assert told[0] == "all-reduce: ring"


# --- predicted ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fabric", "model"),
    [
        pytest.param("dgx-1", "auto", marks=pytest.mark.slow),
        ("ring:4", "flow"),
        pytest.param("lightpath:2x3", "auto", marks=pytest.mark.slow),
    ],
)
def test_predictions_are_those_of_the_cost_model(fabric, model):
    fabric, sizes = load(fabric), [4 << 10, 300_000, 16 << 20]
    result = tune(("all-reduce", "broadcast"), sizes[::-1] + sizes[:1], fabric=fabric, model=model)
    tuning = result.tuning
    assert (tuning.ranks, tuning.fabric) == (fabric.ranks, fabric.name)
    assert tuning.model == {"auto": "photonic" if "light" in fabric.name else "alpha-beta"}.get(model, model)
    assert (result.measured, result.wrong, result.unavailable) == ((0, 0), (), {})
    assert [table.collective for table in tuning.tables] == ["all-reduce", "broadcast"]
    for table in tuning.tables:
        assert [size.bytes for size in table.sizes] == sizes
        for size in table.sizes:
            times = [each.predicted_us for each in size.candidates]
            assert times == pytest.approx(sorted(times))
            for each in size.candidates:
                schedule = built(each.choice, table.collective, fabric.ranks, elements_of(fabric.ranks))
                seconds = cost(schedule, fabric, size.bytes / elements_of(fabric.ranks), model).seconds
                assert each.predicted_us == pytest.approx(seconds * 1e6, rel=1e-9)
                assert each.measured_us is None
            # None of the registry is faster, whatever it is called.
            for name, algorithm in ALGORITHMS.items():
                if (
                    not algorithm.switched
                    and table.collective in algorithm.collectives
                    and name not in result.left_out
                ):
                    refusal = why_refused(name, table.collective, fabric.ranks)
                    if refusal is None:
                        schedule = build(name, table.collective, fabric.ranks, elements_of(fabric.ranks))
                        seconds = cost(
                            schedule, fabric, size.bytes / elements_of(fabric.ranks), model
                        ).seconds
                        assert seconds * 1e6 >= times[0] * (1 - 1e-9)
    assert tuning_from_json(tuning_to_json(tuning)) == tuning


def test_one_schedule_is_in_memory_at_a_time(monkeypatch):
    """Of a thousand ranks each may take 0.5 GB."""
    made, build_choice = [], tune_candidates.build_choice

    def build_one(*arguments):
        assert not any(reference() for reference in made)
        schedule = build_choice(*arguments)
        made.append(weakref.ref(schedule))
        return schedule

    monkeypatch.setattr(tune_candidates, "build_choice", build_one)
    tune(["all-reduce", "all-gather"], [1 << 20], fabric=load("switch:8"))
    assert len(made) > 10


def test_equal_times_are_in_the_order_of_candidates(monkeypatch):
    far = chain([3.0, 2.0 + 1e-12, 2.0], repeat(1e3))
    monkeypatch.setattr(tune_candidates, "_times", lambda *inputs: [next(far)])
    (size,) = tune(("all-gather",), [1 << 20], fabric=load("dgx-1")).tuning.tables[0].sizes
    order = list(dict(candidates("all-gather", 8)))
    assert [each.choice for each in size.candidates] == [order[1], order[2], order[0], *order[3:]]


def test_default_sizes_fewer_ranks_and_progress():
    said = []

    class Told(Progress):
        def start(self, total_steps, label):
            said.append((label, total_steps))

        def update(self, done, message=""):
            said.append(done)

        def finish(self):
            said.append("end")

    tuning = tune(fabric=load("ring:8"), count=3, progress=Told()).tuning
    assert tuning.ranks == 3
    assert [size.bytes for size in tuning.tables[0].sizes] == sizes_between(4 << 10, 1 << 30)
    assert [table.collective for table in tuning.tables] == ["all-reduce", "all-gather"]
    total = sum(len(choices(name, 3).choices) for name in ("all-reduce", "all-gather"))
    at = said.index(("candidates", total))
    assert said[at + 1 :] == [*range(total), total, "end"]


class _Nobody:
    """Ranks that must not be asked for anything: what is refused, is refused before."""

    size, on_gpu, rank = 2, False, 0


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({}, "fabric: none given; allowed: one, or ranks"),
        ({"fabric": load("ring:4"), "count": 5}, "ranks: 5; allowed: whole numbers from 2 to 4"),
        ({"fabric": load("ring:4"), "count": 1}, "ranks: 1; allowed: whole numbers from 2"),
        ({"fabric": Fabric("lone", ("GPU0",), (), (), 0.0)}, "fabric: lone has 1 GPU; allowed: 2 or more"),
        ({"fabric": load("ring:4"), "model": "guess"}, 'model: "guess" given'),
        ({"fabric": load("ring:4"), "within": float("nan")}, "within: nan given; allowed: from 1"),
        (
            {"fabric": load("ring:4"), "collectives": ["halo"]},
            'collective: "halo" given; allowed: all-gather',
        ),
        ({"fabric": load("ring:4"), "sizes": [0]}, "sizes: 0 bytes given"),
        ({"fabric": load("switch:2000"), "collectives": ["all-gather"]}, "ranks: 2000 given"),
        ({"ranks": _Nobody(), "dtype": "complex64"}, "dtype: 'complex64' given; allowed: float16"),
        ({"ranks": _Nobody(), "sizes": [6]}, "sizes: 6 bytes given; allowed: multiples of 4"),
        ({"ranks": _Nobody(), "repeats": 0}, "repeats: 0"),
        ({"ranks": _Nobody(), "fabric": load("ring:4")}, "fabric: ring:4 has 4 GPUs; allowed here: 2"),
    ],
)
def test_bad_input_is_refused(options, part):
    with pytest.raises(InputError) as refused:
        tune(**options)
    assert part in str(refused.value)
    assert "\n" not in str(refused.value)


# --- between ranks --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ranks():
    return Ranks(("all",), "cpu", 1)


@pytest.fixture
def quick(monkeypatch):
    """Samples as short as can be."""
    monkeypatch.setattr(module, "_SAMPLE", 1e-4)


def switch(ranks, bandwidth):
    names = tuple(f"CPU{r}" for r in range(ranks))
    links = tuple(Link(a, b, bandwidth) for a in names for b in names if a != b)
    return Fabric("made up", names, (), links, 1e-6)


@pytest.mark.parallel([2, 3])
@pytest.mark.parametrize(
    "collective",
    [pytest.param(each, marks=[pytest.mark.slow] * (each not in COMMON)) for each in COLLECTIVES],
)
def test_all_candidates_are_measured_and_right(ranks, collective, quick):
    result = tune((collective,), [12, 4096], ranks=ranks, repeats=1, dtype="int32")
    tuning, count = result.tuning, len(dict(candidates(collective, ranks.size, True)))
    assert (tuning.ranks, tuning.dtype, tuning.fabric, tuning.model) == (ranks.size, "int32", None, None)
    assert tuning.device
    assert (result.measured, result.wrong, result.unavailable) == ((2 * count, 2 * count), (), {})
    (table,) = tuning.tables
    assert (table.transport, [size.bytes for size in table.sizes]) == ("mpi", [12, 4096])
    for size in table.sizes:
        times = [each.measured_us for each in size.candidates]
        assert len(times) == count
        assert times == sorted(times)
        assert all(time > 0 for time in times)
    assert len(set(ranks.control.all_gather(tuning_to_json(tuning)))) == 1


@pytest.mark.parallel(2)
def test_measured_times_decide_where_there_are_predictions(ranks, quick):
    result = tune(("all-reduce",), [8, 1 << 16], fabric=switch(2, 1e9), ranks=ranks, repeats=1, within=1.5)
    timed, possible = result.measured
    small, large = result.tuning.tables[0].sizes
    assert possible == len(small.candidates) + len(large.candidates)
    assert timed < possible
    for size in (small, large):
        best = min(each.predicted_us for each in size.candidates)
        measured = [each.measured_us is not None for each in size.candidates]
        assert measured == sorted(measured, reverse=True)
        for each in size.candidates:
            assert (each.measured_us is not None) == (each.predicted_us <= 1.5 * best)
    schedule = as_run(build("direct", "all-reduce", 2, elements_of(2)))
    direct = next(each for each in small.candidates if each.choice == Choice("direct"))
    seconds = cost(schedule, switch(2, 1e9), 8 / elements_of(2)).seconds
    assert direct.predicted_us == pytest.approx(seconds * 1e6)
    assert (result.tuning.fabric, result.tuning.model) == ("made up", "alpha-beta")


@pytest.mark.parallel(2)
def test_the_fastest_is_chosen_and_wrong_data_are_not(ranks, monkeypatch):
    order = list(dict(candidates("all-reduce", 2, True)))
    rows = [{"us": 5.0, "wrong": 0}, {"us": 1.0, "wrong": 7}, {"us": 3.0, "wrong": 0}]
    told = dict(zip(order, rows, strict=True))
    calls = []

    def check_and_time(ranks, comm, plan, work, buffers, repeats):
        calls.append((plan.bytes, repeats))
        for buffer in buffers.values():
            buffer[...] = 0  # sums of what happens to lie there may overflow
        work()
        return next(row for choice, row in told.items() if plan.schedule.name.startswith(choice.algorithm))

    monkeypatch.setattr(module.timed_schedule, "check_and_time", check_and_time)
    result = tune(("all-reduce",), [1 << 20, 64], ranks=ranks, repeats=4)
    assert calls == [(64, 4)] * 3 + [(1 << 20, 4)] * 3
    for size in result.tuning.tables[0].sizes:
        assert [each.choice for each in size.candidates] == [order[2], order[0]]
        assert [each.us for each in size.candidates] == [3.0, 5.0]
    assert result.wrong == tuple(
        f"all-reduce by {order[1]} (MPI, {size}): 7 elements wrong" for size in ("64 B", "1 MiB")
    )
    assert result.tuning.choose("all-reduce", 100, "mpi") == order[2]


@pytest.mark.parallel(2)
def test_transports_that_cannot_be_used(quick):
    result = tune(("all-gather",), [64], ranks=Ranks(("nccl", "mpi"), "cpu", 1), repeats=1)
    assert [table.transport for table in result.tuning.tables] == ["mpi"]
    assert "needs GPUs" in result.unavailable["nccl"]
    with pytest.raises(InputError, match=r"transports: none can be used \(.*needs GPUs.*; allowed: others"):
        tune(("all-gather",), [64], ranks=Ranks(("nccl",), "cpu", 1), repeats=1)


@pytest.mark.parallel(2)
def test_default_sizes_of_a_cpu_and_memory(ranks, monkeypatch):
    monkeypatch.setattr(module.timed_schedule, "check_and_time", lambda *a: {"us": 1.0, "wrong": 0})
    tuning = tune(("all-gather",), ranks=ranks).tuning
    assert [size.bytes for size in tuning.tables[0].sizes] == sizes_between(1 << 16, 1 << 22)
    with pytest.raises(InputError, match="sizes: 1099511627776 bytes"):
        tune(("all-gather",), [1 << 40], ranks=ranks)
