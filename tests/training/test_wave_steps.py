"""Steps of our own simulations as tasks: they take and exchange what the planner and the solvers say."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest

from wavefabric.acoustics.decomposition.decompose import Decomposition, decompose, halo_messages
from wavefabric.base.errors import InputError
from wavefabric.fabric import load
from wavefabric.fabric.planner.exchange_times import ExchangeTimes
from wavefabric.fabric.planner.rates import load_rates
from wavefabric.fabric.planner.ultrasound_step import StepMedium, UltrasoundStep, exchanges
from wavefabric.runtime.spectral.distributed import boxes, transpose_messages
from wavefabric.training import wave_steps
from wavefabric.training.communication.times import Communication
from wavefabric.training.gpu.device_file import load_device
from wavefabric.training.iteration.simulate import simulate_tasks
from wavefabric.training.wave_steps import fibre_step, parse_wave_step, ultrasound_step

H200 = load_device("h200")
SWITCH = Communication(load("switch:8"), "direct")


def calls(graph):
    return [call for call in graph.call if call is not None]


@pytest.mark.parametrize(("groups", "seconds"), [(None, 13.2e-3), (5, 9.55e-3)])
def test_light_on_one_gpu_takes_what_was_measured(groups, seconds):
    """30 rows of 2²¹ samples, dense and factored (tests/fabric/planner/measured.py)."""
    fibre = simulate_tasks(fibre_step(15, 2**21, 1, H200, groups=groups), SWITCH)
    assert fibre.seconds == pytest.approx(seconds, rel=0.05)


@pytest.mark.parametrize(("heterogeneous", "seconds"), [(False, 7.49e-3), (True, 11.5e-3)])
def test_ultrasound_on_one_gpu_takes_what_was_measured(heterogeneous, seconds):
    """docs/performance.md: a step at 512³ points."""
    graph = ultrasound_step((512, 512, 512), 1, H200, decomposition="local", heterogeneous=heterogeneous)
    assert simulate_tasks(graph, SWITCH).seconds == pytest.approx(seconds, rel=0.05)
    assert not calls(graph)


@pytest.mark.parametrize("decomposition", ["global", "local"])
@pytest.mark.parametrize(("shape", "gpus"), [((512, 512, 512), 8), ((256, 256, 512), 2)])
def test_a_step_takes_what_the_planner_says(decomposition, shape, gpus):
    """Exchanges slow down no work here (`overlap_slowdown` is 1), as they do in the plan by their memory."""
    fabric = load(f"switch:{gpus}")
    graph = ultrasound_step(shape, gpus, H200, decomposition=decomposition)
    result = simulate_tasks(graph, Communication(fabric, "direct"))
    cut = decompose(shape, gpus, Decomposition(kind=decomposition))
    how = {"precision": "single", "rates": load_rates("h200"), "exchange": ExchangeTimes(fabric, "p2p")}
    times = UltrasoundStep(cut, StepMedium("heterogeneous", 2), "fused", **how).times()
    assert 0.95 * times.step <= result.seconds <= times.step * (1 + 1e-9)
    assert result.compute_seconds[0] == pytest.approx(times.compute + times.pack)


def test_another_gpu_takes_longer_as_its_memory_is_slower():
    slow = replace(H200, bandwidth=H200.bandwidth / 2)
    fast, double = (sum(fibre_step(15, 2**21, 1, gpu).seconds) for gpu in (H200, slow))
    assert double == pytest.approx(2 * fast, rel=0.01)


@pytest.mark.parametrize("groups", [None, 34])
def test_powers_of_a_fibre(groups):
    """Two rounds in each of two Kerr kernels; each GPU sends the powers of all groups that it has rows of."""
    result = calls(fibre_step(120, 2**18, 8, H200, groups=groups))
    sent = sum(len({row * (groups or 240) // 240 for row in range(30 * k, 30 * k + 30)}) for k in range(8))
    assert {call.collective for call in result} == {"all-gather"}
    assert sum(call.bytes for call in result) == pytest.approx(4 * sent * 2**18 * 8)


def test_chunks_of_time_travel_while_others_are_worked_on():
    step = simulate_tasks(fibre_step(30, 2**19, 4, H200), SWITCH)
    alone = sum(SWITCH.seconds([call]) for call in calls(step.graph))
    assert 0.1 * alone < step.exposed_seconds < 0.95 * alone
    assert simulate_tasks(fibre_step(30, 2**19, 2, H200, groups=4), SWITCH).exposed_seconds == 0


def test_halos_are_those_of_the_solver():
    graph = ultrasound_step((64, 48, 256), 8, H200, decomposition="local", overlap=8)
    cut = decompose((64, 48, 256), 8, Decomposition(kind="local", overlap=8))
    points = sum(math.prod(s.stop - s.start for s in m.src_box) for m in halo_messages(cut))
    sent = sum(call.bytes * sum(size for *_, size in call.messages) for call in calls(graph))
    assert sent == pytest.approx((1 + 3 + 2) * 4 * points)


@pytest.mark.parametrize(("shape", "gpus", "count"), [((32, 32, 32), 4, 9), ((32, 32, 32), 64, 2 * 10)])
def test_transposes_are_all_to_alls(shape, gpus, count):
    """Of slabs among all; of pencils in rows, then in columns; every GPU sends its part of the spectrum.

    Fused kernels for slabs keep one of the spectra in columns, which plain transforms of pencils do not.
    """
    result = calls(ultrasound_step(shape, gpus, H200, heterogeneous=False))
    assert len(result) == count
    for call in result:
        assert call.collective in ("all-to-all", "messages")
        assert sorted(gpu for group in call.groups for gpu in group) == list(range(gpus))


def test_local_blocks_exchange_less_than_transposes():
    fabric = Communication(load("switch:8"), "auto")
    steps = {
        kind: simulate_tasks(ultrasound_step((1024, 1024, 1024), 8, H200, decomposition=kind), fabric)
        for kind in ("global", "local")
    }
    assert steps["local"].exposed_seconds < 0.3 * steps["global"].exposed_seconds


def test_refusals():
    with pytest.raises(InputError, match="allowed"):
        fibre_step(4, 2**10, 5, H200)
    for groups in (0, 9):
        with pytest.raises(InputError, match=rf"groups: {groups}; allowed: 1 to 8, the rows"):
            fibre_step(4, 2**10, 2, H200, groups=groups)
    with pytest.raises(InputError, match=r"samples: 0; allowed: 1 or more"):
        fibre_step(4, 0, 2, H200)
    with pytest.raises(InputError, match="allowed"):
        ultrasound_step((32, 32, 32), 5000, H200)


def test_steps_by_name():
    by_name = parse_wave_step("ultrasound:64x64x64:local")(8, H200)
    wanted = ultrasound_step((64, 64, 64), 8, H200, decomposition="local")
    assert (by_name.seconds, by_name.call) == (wanted.seconds, wanted.call)
    fibre = parse_wave_step("fibre:6x262144:3")(2, H200)
    assert len(calls(fibre)) == len(calls(fibre_step(6, 2**18, 2, H200)))


@pytest.mark.parametrize(
    "text",
    [
        "bert-large",
        "fibre",
        "fibre:",
        "fibre:12",
        "fibre:0x4",
        "fibre:4x1e3",
        "fibre:4x8:",
        "fibre:4x8:a",
        "ultrasound:8x8",
        "ultrasound:8x8x8:x",
    ],
)
def test_names_that_are_wrong(text):
    with pytest.raises(InputError, match=r"model: .* given; allowed: "):
        parse_wave_step(text)


@pytest.mark.parametrize("grid", [(1, 1, 4), (1, 1, 3), (1, 4, 1), (1, 2, 3), (1, 4, 4)])
@pytest.mark.parametrize("shape", [(16, 16, 16), (13, 9, 17)])
def test_calls_are_the_messages_between_boxes(shape, grid):
    cut = decompose(shape, math.prod(grid), Decomposition("global", grid))
    _, rows, planes, columns = boxes(shape, grid)
    layouts = [rows] + [planes] * (grid[1] > 1) + [columns] * (grid[2] > 1)
    for (before, after), exchanged in zip(pairwise(layouts), exchanges(cut), strict=True):
        messages = [m for m in transpose_messages(before, after) if m.src != m.dst]
        wanted = {(m.src, m.dst): m.points for m in messages}
        call = wave_steps._call(exchanged, cut.ranks, 8)
        if call.collective == "messages":
            assert call.bytes == 8
            assert {(src, dst): size for src, dst, size in call.messages} == wanted
        else:
            pairs = {(a, b) for group in call.groups for a in group for b in group if a != b}
            assert pairs == set(wanted)
            assert set(wanted.values()) == {call.bytes / 8 / len(call.groups[0])}


def test_a_step_that_no_gpu_holds_is_refused():
    for name in ("ultrasound:2000000x2000000x2000000:local", "fibre:120x1000000000"):
        with pytest.raises(InputError, match="GB needed a GPU at least, 141 GB there; allowed: more GPUs"):
            parse_wave_step(name)(8, load_device("h200"))
