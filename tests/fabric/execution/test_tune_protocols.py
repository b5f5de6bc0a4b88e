"""The search for the fastest where it may be copies or kernels: GPUs are threads, see `fake_gpus`."""

from dataclasses import replace

import numpy as np
import pytest
from fake_gpus import fake_cupy, ranks_of, together

from wavefabric.collectives import build
from wavefabric.collectives.plans.plan import PROTOCOLS
from wavefabric.collectives.tuning import Choice, TimedChoice, tuning_from_json, tuning_to_json
from wavefabric.fabric import cost, load
from wavefabric.fabric.electrical.fabric import Fabric, KernelTimes, Link
from wavefabric.fabric.execution import tune as module
from wavefabric.fabric.execution import tune_candidates, tune_report
from wavefabric.fabric.execution.run_schedule import as_run
from wavefabric.fabric.execution.tune import tune
from wavefabric.fabric.execution.tune_candidates import choices, elements_of, is_promising, of_protocols

VARIANTS = ("copies", *PROTOCOLS)


def candidates(collective, ranks, *how, fabric=None):
    return tune_candidates.candidates(collective, ranks, choices(collective, ranks, fabric).choices, *how)


PLAIN = [choice for choice, _ in candidates("all-reduce", 2, True)]


@pytest.fixture(scope="module")
def transports():
    with fake_cupy() as modules:
        yield modules


@pytest.fixture
def quick(monkeypatch):
    """Samples as short as can be."""
    monkeypatch.setattr(module, "_SAMPLE", 1e-5)


@pytest.fixture
def no_switch(monkeypatch):
    """Nothing that switches multicast or add up."""
    monkeypatch.setattr(
        tune_candidates, "choices", lambda collective, ranks, *where: choices(collective, ranks)
    )


def pair(**times):
    """Two GPUs and what kernels take on them."""
    links = tuple(Link(a, b, 100e9, 1e-6) for a, b in (("GPU0", "GPU1"), ("GPU1", "GPU0")))
    known = {"launch": 2e-6, "signal": 3e-6, "packet": 1e-6, "bandwidth": 50e9, "memory": 1e15, "issue": 9e-6}
    return Fabric("pair", ("GPU0", "GPU1"), (), links, alpha=20e-6, kernels=KernelTimes(**known | times))


# --- measured -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_candidate_is_timed_with_every_protocol(transports, no_switch, quick):
    def work(comm):
        return tune(("all-reduce", "broadcast"), [8, 4096], ranks=ranks_of(comm), repeats=1)

    result = together(transports, "p2p", 2, work)[0]
    tuning = result.tuning
    assert (result.wrong, result.unavailable) == ((), {})
    counts = [len(VARIANTS) * len(dict(candidates(name, 2, True))) for name in ("all-reduce", "broadcast")]
    assert result.measured == (2 * sum(counts), 2 * sum(counts))
    assert [(table.collective, table.transport) for table in tuning.tables] == [
        ("all-reduce", "p2p"),
        ("broadcast", "p2p"),
    ]
    wanted = {replace(choice, protocol=protocol) for choice in PLAIN for protocol in VARIANTS}
    for size in tuning.tables[0].sizes:
        assert {each.choice for each in size.candidates} == wanted
        assert all(each.measured_us > 0 for each in size.candidates)
    assert tuning_from_json(tuning_to_json(tuning)) == tuning


@pytest.mark.slow
def test_what_was_fastest_is_what_calls_take(transports, no_switch, monkeypatch):
    """Packets up to 64 KiB, copies above: found by a search, written, read, and used by calls."""
    us = {"packets": lambda n: n, "copies": lambda n: 1e5 + n / 10, "signals": lambda n: 2 * n}

    def check_and_time(ranks, comm, plan, work, buffers, repeats):
        own = getattr(work.__self__, "_plan", None)
        time = us["copies" if own is None else own.protocol](plan.bytes)
        return {"us": time + PLAIN.index(Choice(plan.schedule.name.split()[0])), "wrong": 0}

    monkeypatch.setattr(module.timed_schedule, "check_and_time", check_and_time)

    def search(comm):
        return tune(("all-reduce",), [1 << 10, 1 << 16, 1 << 18], ranks=ranks_of(comm))

    result = together(transports, "p2p", 2, search)[0]
    tuning = tuning_from_json(tuning_to_json(result.tuning))
    first = PLAIN[0]
    best = [size.best.choice for size in tuning.tables[0].sizes]
    assert best == [replace(first, protocol=each) for each in ("packets", "packets", "copies")]
    lines = [" ".join(str(cell) for cell in column.cells) for column in tune_report.table(result)[0].columns]
    assert lines[1] == f"{first}, packets {first}, packets {first}, copies"

    def call(comm):
        seen, bind, bind_plan = [], comm._transport.bind, comm._transport.bind_plan

        def noted(*inputs):
            seen.append(inputs[2] if len(inputs) > 3 else "copies")
            return (bind_plan if len(inputs) > 3 else bind)(*inputs)

        comm._transport.bind = comm._transport.bind_plan = noted
        for elements in (100, 1 << 14, 1 << 16):
            array = np.full(elements, comm.rank + 0.5, "float32")
            assert (comm.all_reduce(array) == 2).all()
        return seen

    assert together(transports, "p2p", 2, call, tunings=[tuning] * 2)[1] == ["packets", "packets", "copies"]


def test_wrong_data_of_one_protocol_do_not_count_against_others(transports, monkeypatch):
    def check_and_time(ranks, comm, plan, work, buffers, repeats):
        own = getattr(work.__self__, "_plan", None)
        return {"us": 1.0, "wrong": 3 * (own is not None and own.packets)}

    monkeypatch.setattr(module.timed_schedule, "check_and_time", check_and_time)
    result = together(transports, "p2p", 2, lambda comm: tune(("all-gather",), [64], ranks=ranks_of(comm)))[0]
    (size,) = result.tuning.tables[0].sizes
    assert {each.choice.protocol for each in size.candidates} == {"copies", "signals"}
    assert result.wrong[0] == "all-gather by ring, packets (P2P, 64 B): 3 elements wrong"


def test_a_rank_that_came_too_late_ends_the_search(transports, quick, monkeypatch):
    def check_and_time(ranks, comm, plan, work, buffers, repeats):
        if hasattr(work.__self__, "_timeout"):
            work.__self__._timeout._late[0] = 1 + 1  # what the kernel writes
        return {"us": 1.0, "wrong": 0}

    monkeypatch.setattr(module.timed_schedule, "check_and_time", check_and_time)
    with pytest.raises(RuntimeError, match="rank 1 did not come to the exchange in time"):
        together(transports, "p2p", 2, lambda comm: tune(("all-gather",), [64], ranks=ranks_of(comm)))


@pytest.mark.parametrize(
    ("gpus", "memory", "left", "why"),
    [
        # Kernels of ranks that share a GPU would wait for each other.
        ([0, 0], 1 << 40, {"copies"}, "protocol: ranks 0, 1 share a GPU; allowed: copies, or a GPU for each"),
        # 128 MiB of expected values, up to 3 of buffers; staging of signals 2 + 1 + …, of packets 4 + 2 + ….
        (None, (1 << 27) + (9 << 20), {"copies", "signals"}, "sizes: 1048576 bytes need"),
    ],
)
def test_protocols_that_cannot_serve_are_left_out_and_said(
    transports, no_switch, monkeypatch, gpus, memory, left, why
):
    monkeypatch.setattr(module.timed_schedule, "check_and_time", lambda *inputs: {"us": 1.0, "wrong": 0})
    sizes = [64, 1 << 20]

    def work(comm):
        return tune(("all-reduce",), sizes, ranks=ranks_of(comm, memory))

    result = together(transports, "p2p", 2, work, gpus)[0]
    for size in result.tuning.tables[0].sizes:
        assert {each.choice.protocol for each in size.candidates} == left
    assert set(result.unavailable) == {f"p2p, {each}" for each in set(VARIANTS) - left}
    assert result.unavailable["p2p, packets"].startswith(why)
    notes = "\n".join(tune_report.notes(result))
    assert f"P2P, packets: not measured; {why}" in notes
    assert result.measured == (len(sizes) * len(left) * len(PLAIN),) * 2


@pytest.mark.parametrize("transport", ["p2p", "nccl"])
def test_sums_by_switches_are_timed_where_there_are_some(transports, monkeypatch, transport):
    """By signals of p2p; elsewhere a line says why not."""
    monkeypatch.setattr(module.timed_schedule, "check_and_time", lambda *inputs: {"us": 1.0, "wrong": 0})
    fabric = replace(pair(), switches=("S",), multicast_switches=("S",))
    links = tuple(Link(a, b, 100e9) for g in fabric.gpus for a, b in ((g, "S"), ("S", g)))

    def work(comm):
        return tune(
            ("all-reduce",), [4096], ranks=ranks_of(comm), fabric=replace(fabric, links=links), within=9
        )

    result = together(transports, transport, 2, work)[0]
    (size,) = result.tuning.tables[0].sizes
    switched = [each for each in size.candidates if each.choice.algorithm.startswith("nvls")]
    if transport == "p2p":
        assert {each.choice.protocol for each in switched} == {"signals"}
        assert any(each.measured_us for each in switched)
        assert not result.left_out.keys() & {"nvls", "nvls-one-shot"}
        # What was tuned so is used where switches take part, and not elsewhere.
        first = replace(
            result.tuning.tables[0], sizes=(replace(size, candidates=(*switched[:1], *size.candidates)),)
        )
    else:
        assert not switched
        assert "NCCL: nccl has no multicasts and sums by a switch" in result.left_out["nvls"]
        assert any(line.startswith("left out: nvls (NCCL") for line in tune_report.notes(result))
        nvls = TimedChoice(Choice("nvls", protocol="signals"), 1.0)
        first = replace(result.tuning.tables[0], sizes=(replace(size, candidates=(nvls, *size.candidates)),))
    tuning = replace(result.tuning, tables=(first,))

    def call(comm):
        array = np.full(1024, comm.rank + 0.5, "float32")
        odd = np.full(3, comm.rank + 0.5, "float16")  # no whole words for a switch
        return (comm.all_reduce(array) == 2).all() and (comm.all_reduce(odd) == 2).all()

    assert all(together(transports, transport, 2, call, tunings=[tuning] * 2))


def test_transports_of_one_way_name_no_protocol(transports, no_switch, quick):
    def work(comm):
        return tune(("all-reduce",), [64], ranks=ranks_of(comm), fabric=pair(), model="kernel", repeats=1)

    result = together(transports, "nccl", 2, work)[0]
    (size,) = result.tuning.tables[0].sizes
    assert {each.choice for each in size.candidates} == set(PLAIN)
    assert all(each.predicted_us is None for each in size.candidates)  # of kernels alone


# --- predicted, and measured where it is promising -------------------------------------------------------


@pytest.mark.slow
def test_predictions_of_kernels_name_the_protocol():
    fabric = load("hgx-h200")
    plain = dict(candidates("all-reduce", 8, fabric=fabric))
    fabric = replace(fabric, kernels=replace(fabric.kernels, issue=9e-6))
    tuning = tune(("all-reduce",), [4 << 10, 4 << 20], fabric=fabric, model="kernel").tuning
    assert tuning.model == "kernel"
    small, large = tuning.tables[0].sizes

    def seconds(choice, size, **options):
        schedule, width = plain[replace(choice, protocol="auto")], size.bytes / elements_of(8)
        return cost(schedule, fabric, width, "kernel", protocol=choice.protocol, **options).seconds

    for size in (small, large):
        # Sums within a switch run by signals alone.
        by_switch = sum(choice.algorithm.startswith("nvls") for choice in plain)
        assert by_switch > 0
        assert len({each.choice for each in size.candidates}) == 2 * len(plain) - by_switch
        assert {each.choice.protocol for each in size.candidates} == set(PROTOCOLS)
        for each in size.candidates:
            assert each.predicted_us == pytest.approx(seconds(each.choice, size) * 1e6)
    best = large.best.choice.algorithm
    others = [each for each in large.candidates if each.choice.algorithm != best]
    assert large.best.us < 0.9 * others[0].us
    # All small ones take what a host needs to launch them: those first that keep the GPUs least.
    equal = [each.choice for each in small.candidates if each.us == small.best.us]
    times = [seconds(choice, small, graph=True) for choice in equal]
    assert times == pytest.approx(sorted(times))
    assert times[0] < 0.8 * times[-1]


@pytest.mark.parametrize("model", ["alpha-beta", "kernel"])
def test_only_what_is_promising_is_measured(transports, monkeypatch, model):
    monkeypatch.setattr(module.timed_schedule, "check_and_time", lambda *inputs: {"us": 1.0, "wrong": 0})
    fabric, nbytes, within = pair(), 1 << 22, 1.3

    def work(comm):
        options = {"ranks": ranks_of(comm), "fabric": fabric, "model": model, "within": within}
        return tune(("all-reduce",), [nbytes], **options)

    result = together(transports, "p2p", 2, work)[0]
    (size,) = result.tuning.tables[0].sizes
    assert len(size.candidates) == len(VARIANTS) * len(PLAIN)
    seconds = {}
    for choice in PLAIN:
        schedule = as_run(build(choice.algorithm, "all-reduce", 2, elements_of(2)))
        for protocol in PROTOCOLS if model == "kernel" else ("copies",):
            options = {"protocol": protocol} if model == "kernel" else {}
            own = cost(schedule, fabric, nbytes / elements_of(2), model, **options).seconds
            seconds[replace(choice, protocol=protocol)] = own * 1e6
    good = {choice for choice, time in seconds.items() if time <= within * min(seconds.values())}
    algorithms = {choice.algorithm for choice in good}
    assert 0 < len(good) < len(seconds)
    for each in size.candidates:
        if each.choice in seconds:
            assert each.predicted_us == pytest.approx(seconds[each.choice])
            assert (each.measured_us is not None) == (each.choice in good)
        else:
            assert each.predicted_us is None
            assert (each.measured_us is not None) == (each.choice.algorithm in algorithms)
    measured = sum(each.measured_us is not None for each in size.candidates)
    assert result.measured == (measured, len(size.candidates))


def test_what_stands_for_a_protocol():
    ring, direct = Choice("ring"), Choice("direct")
    by_rounds = [TimedChoice(ring, 3.0), TimedChoice(direct, 9.0)]
    assert of_protocols(by_rounds, ["auto"]) == by_rounds
    assert of_protocols(by_rounds[:1], ["copies", "packets"]) == [
        TimedChoice(replace(ring, protocol="copies"), 3.0),
        TimedChoice(replace(ring, protocol="packets")),
    ]
    of_kernels = [TimedChoice(replace(ring, protocol="packets"), 3.0)]
    assert of_protocols(of_kernels, ["copies", "packets"]) == [
        TimedChoice(replace(ring, protocol="copies")),
        *of_kernels,
    ]
    chosen = {replace(ring, protocol="packets")}
    kernels = [TimedChoice(replace(each, protocol=p), 1.0) for each in (ring, direct) for p in PROTOCOLS]
    for choice, wanted in (
        (replace(ring, protocol="packets"), True),
        (replace(ring, protocol="signals"), False),
        (replace(ring, protocol="copies"), True),
        (replace(direct, protocol="copies"), False),
    ):
        assert is_promising(choice, kernels, chosen) == wanted
