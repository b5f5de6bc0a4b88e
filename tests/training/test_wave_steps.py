"""Steps of our own simulations as tasks: what they exchange is what the simulations exchange."""

import math
from itertools import pairwise
from math import prod

import pytest

from wavefabric.acoustics.decomposition.decompose import Decomposition, decompose, halo_messages
from wavefabric.base.errors import InputError
from wavefabric.fabric import load
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


def test_one_gpu_takes_what_was_measured():
    """docs/lab-book.md: 10.8 ms per step of 15 modes and 2²¹ samples, 7.49 and 11.5 ms at 512³."""
    fibre = simulate_tasks(fibre_step(15, 2**21, 1, H200), SWITCH)
    assert fibre.seconds == pytest.approx(10.8e-3, rel=0.02)
    for heterogeneous, seconds in ((False, 7.49e-3), (True, 11.5e-3)):
        graph = ultrasound_step((512, 512, 512), 1, H200, decomposition="local", heterogeneous=heterogeneous)
        assert simulate_tasks(graph, SWITCH).seconds == pytest.approx(seconds, rel=0.05)
        assert not calls(graph)


@pytest.mark.parametrize(("groups", "rows"), [(None, 240), (34, 34)])
def test_powers_of_a_fibre(groups, rows):
    """Two rounds in each of two Kerr kernels, each of all powers: what `RankOperators` sends."""
    result = calls(fibre_step(120, 2**18, 8, H200, groups=groups))
    assert {call.collective for call in result} == {"all-gather"}
    assert sum(call.bytes for call in result) == pytest.approx(4 * rows * 2**18 * 8)


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


@pytest.mark.parametrize(("shape", "gpus", "a_transform"), [((32, 32, 32), 4, 1), ((32, 32, 32), 64, 2)])
def test_transposes_are_all_to_alls(shape, gpus, a_transform):
    """Of slabs among all; of pencils in rows, then in columns; every GPU sends its part of the spectrum."""
    result = calls(ultrasound_step(shape, gpus, H200, heterogeneous=False))
    assert len(result) == 10 * a_transform
    for call in result:
        assert call.collective in ("all-to-all", "messages")
        assert sorted(gpu for group in call.groups for gpu in group) == list(range(gpus))


def test_local_blocks_exchange_less_than_transposes():
    fabric = Communication(load("switch:8"), "auto")
    steps = {
        kind: simulate_tasks(ultrasound_step((1024, 1024, 1024), 8, H200, decomposition=kind), fabric)
        for kind in ("global", "local")
    }
    assert steps["local"].exposed_seconds < 0.2 * steps["global"].exposed_seconds


def test_refusals():
    with pytest.raises(InputError, match="allowed"):
        fibre_step(4, 2**10, 5, H200)
    with pytest.raises(InputError, match=r"groups: 0.*allowed"):
        fibre_step(4, 2**10, 2, H200, groups=0)
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


@pytest.mark.parametrize("grid", [(1, 1, 4), (1, 1, 3), (1, 2, 3), (1, 4, 4)])
@pytest.mark.parametrize("shape", [(16, 16, 16), (13, 9, 17)])
def test_transposes_are_the_messages_between_boxes(shape, grid):
    _, rows, planes, columns = boxes(shape, grid)
    layouts = [rows] + [planes] * (grid[1] > 1) + [columns] * (grid[2] > 1)
    for before, after in pairwise(layouts):
        messages = [m for m in transpose_messages(before, after) if m.src != m.dst]
        wanted = {(m.src, m.dst): prod(s.stop - s.start for s in m.src_box) for m in messages}
        call = wave_steps._transpose(before, after, 8)
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
