"""Propagation split over ranks against one rank: all integrators and step controls."""

import math
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from fibre_cases import ALL, RATE, distance, make_fibre, smooth_field

from wavefabric.base.errors import FieldLost, InputError
from wavefabric.optics.propagation.operators_ranks import RankOperators
from wavefabric.optics.propagation.propagate import PropagationOptions, Propagator, propagate

#: Groups of 1, 2, 3 and 2 modes, with delays and loss; κ is not symmetric.
GROUPS = np.array([1, 2, 2, 3, 3, 3, 4, 4])
_KAPPA = np.random.default_rng(5).uniform(0.3, 1.0, (4, 4))
_BETA = np.column_stack([0.3e-15 * (GROUPS - 1), -20e-27 - 1e-27 * GROUPS, np.full(8, 0.1e-39), np.zeros(8)])
FIBRE8 = make_fibre(_KAPPA, "group", beta=_BETA, alpha=0.05e-3, groups=GROUPS)
#: Cuts inside of groups, uneven; None: even.
SPLITS = {2: [[3, 5], None], 3: [[1, 4, 3], None], 4: [[1, 1, 5, 1], None]}


def launch8(n=192, power=4e-3):
    return smooth_field(16, n, power, seed=3)


@pytest.fixture(scope="session")
def device(comm):
    """Where this rank's rows lie."""
    return comm.device


def shared(comm, device, power=4e-3, **options):
    """Field and report of a run by all ranks: 15 steps of 100 m in three check intervals, or about as
    many.
    """
    common = {"sample_rate": RATE, "device": device, "check_interval": 7}
    return propagate(launch8(power=power), FIBRE8, 1.5e3, comm=comm, **common, **options)


@cache
def by_one(device, power=4e-3, **options):
    """The same run by one rank."""
    return propagate(
        launch8(power=power), FIBRE8, 1.5e3, sample_rate=RATE, device=device, check_interval=7, **options
    )


def check_answer(comm, device, integrator, exchange, split, chunks):
    options = {"integrator": integrator, "step": 100.0, "power": 20e-3}
    out, report = shared(comm, device, exchange=exchange, split=split, chunks=chunks, **options)
    alone, one = by_one(device, **options)
    assert distance(out, alone) < 1e-12
    # The light did turn.
    assert distance(out, launch8(power=20e-3)) > 0.1
    assert (report.ranks, report.exchange, report.transport) == (comm.size, exchange, comm.label)
    assert (report.steps, report.ffts) == (one.steps, one.ffts)
    assert report.local_error == pytest.approx(one.local_error, rel=1e-4)
    assert report.energy_drift == pytest.approx(one.energy_drift, rel=1e-6, abs=1e-13)


@pytest.mark.parallel(2)
@pytest.mark.parametrize("exchange", [pytest.param("dense", marks=pytest.mark.slow), "factored"])
@pytest.mark.parametrize(
    "integrator", [pytest.param(each, marks=[pytest.mark.slow] * (each not in ALL[::2])) for each in ALL]
)
def test_the_answer_does_not_depend_on_the_ranks(comm, device, integrator, exchange):
    for chunks, split in zip((3, 1), SPLITS[2], strict=True):
        check_answer(comm, device, integrator, exchange, split, chunks)


@pytest.mark.parallel([3, 4])
@pytest.mark.parametrize("exchange", ["dense", "factored"])
def test_more_ranks_give_the_same_answer(comm, device, exchange):
    check_answer(comm, device, "rk4ip", exchange, None, 1)
    check_answer(comm, device, "erk43ip", exchange, SPLITS[comm.size][0], 3)


@pytest.mark.parallel([2, 3])
def test_rounds_and_bytes_of_a_step(comm, device):
    _, report = shared(comm, device, step=100.0, exchange="dense", chunks=2)
    # Four a step, and one at the start of each of 3 check intervals.
    assert report.exchanges == 4 * 15 + 3
    received = (comm.size - 1) * 16 * 192 * 8
    assert report.bytes_per_step == pytest.approx(received * report.exchanges / 15)
    _, factored = shared(comm, device, step=100.0, chunks=2)
    assert factored.exchange == "factored"
    assert factored.bytes_per_step <= report.bytes_per_step * (4 + comm.size - 1) / 16


def exchanges_of_the_page():
    """Exchanges a step by integrator, as docs/ranks.md has them."""
    lines = (Path(__file__).parents[3] / "docs" / "ranks.md").read_text(encoding="utf-8").splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("| exchanges a step |"))
    names, counts = (line.strip("|").split("|")[1:] for line in (lines[at - 2], lines[at]))
    pairs = [(re.findall(r"`(\w+)`", cell), int(n)) for cell, n in zip(names, counts, strict=True)]
    return {name: n for result, n in pairs for name in result}


@pytest.mark.slow
@pytest.mark.parallel(2)
def test_exchanges_of_a_step_are_those_of_the_page(comm, device, monkeypatch):
    if comm.one_sided:
        pytest.skip("kernels store in peers; no call sends")
    page, sent, send = exchanges_of_the_page(), [], RankOperators._send
    assert page.keys() == set(ALL)
    monkeypatch.setattr(RankOperators, "_send", lambda *inputs: (sent.append(1), send(*inputs)))
    for name, each in page.items():
        counts = []
        for steps in (5, 6):
            sent.clear()
            length = 100.0 * steps
            options = {"sample_rate": RATE, "device": device, "comm": comm, "chunks": 1, "integrator": name}
            _, report = propagate(launch8(), FIBRE8, length, step=100.0, **options)
            counts.append(np.array([len(sent), report.exchanges]))
        # Of what one step more needs, and not of how the local error of a run is measured.
        assert (counts[1] - counts[0]).tolist() == [each, each], name


@pytest.mark.parallel(2)
@pytest.mark.parametrize(
    ("integrator", "control"),
    [
        ("rk4ip", {"step": 100.0}),
        pytest.param("rk4ip", {"max_phase": 0.05}, marks=pytest.mark.slow),
        pytest.param("strang", {"max_phase": 0.02}, marks=pytest.mark.slow),
        pytest.param("ssfm_agrawal", {"max_phase": 0.02}, marks=pytest.mark.slow),
        ("erk43ip", {"tolerance": 1e-8}),
    ],
)
def test_step_control_and_repetition(comm, device, integrator, control):
    options = {"integrator": integrator, "power": 20e-3, **control}
    cut = {"split": SPLITS[comm.size][0], "chunks": 3}
    out, report = shared(comm, device, **options, **cut)
    alone, one = by_one(device, **options)
    assert distance(out, alone) < 1e-12
    assert (report.steps, report.rejected) == (one.steps, one.rejected)
    assert report.steps > 8
    again, _ = shared(comm, device, **options, **cut)
    assert (again == out).all()
    # And every rank has the same field to the bit.
    assert len({part.tobytes() for part in comm.control.all_gather(out)}) == 1


@pytest.mark.slow
@pytest.mark.parallel(2)
def test_single_precision_over_ranks(comm, device):
    out, _ = shared(comm, device, step=100.0, precision="single", chunks=2)
    alone, _ = by_one(device, step=100.0, precision="single")
    assert out.dtype == np.complex64
    assert distance(out, alone) < 5e-6


@pytest.mark.parallel(2)
def test_a_resumed_run_over_ranks_is_the_same_to_the_bit(comm, device):
    def make():
        options = PropagationOptions(step=100.0, check_interval=7, split=SPLITS[comm.size][0], chunks=2)
        runner = Propagator(FIBRE8, 192, RATE, device, options, comm)
        return runner, runner.operators.empty()

    kept = []
    first, A = make()
    A[...] = device.asarray(np.ascontiguousarray(launch8()[first.local_modes.slice]))
    first.run(A, 1.5e3, on_check=lambda state: kept.append((dict(state), A.copy())))
    state, field = kept[1]
    assert state["z"] < 1.5e3
    second, B = make()
    B[...] = field
    second.run(B, 1.5e3, state)
    assert (A == B).all()


@pytest.mark.parallel([2, 3])
def test_a_lost_field_is_noticed_by_all_ranks(comm, device):
    runner = Propagator(FIBRE8, 64, RATE, device, PropagationOptions(step=100.0), comm)
    A = runner.operators.empty()
    A[...] = 0
    if comm.rank == comm.size - 1:
        A[-1, 5] = np.nan
    with pytest.raises(FieldLost, match="mode M8 is not finite at z = 0 km"):
        runner.run(A, 1e3)
    # A NaN anywhere is the largest rate everywhere.
    assert math.isnan(runner.operators.max_phase_rate(A))


@pytest.mark.parallel([2, 3])
@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"kerr": "svd"}, 'kerr: "svd"'),
        ({"exchange": "best"}, "exchange"),
        ({"exchange": "dense", "kerr": "factored"}, "exchange"),
        ({"split": [8]}, "split"),
    ],
)
def test_refusals_over_ranks(comm, device, change, word):
    with pytest.raises(InputError, match=word):
        Propagator(FIBRE8, 64, RATE, device, PropagationOptions(step=100.0, **change), comm)


@pytest.mark.parallel([2, 3])
def test_too_few_modes_for_the_ranks(comm, device):
    with pytest.raises(InputError, match=rf"ranks: {comm.size} given for 1 modes"):
        Propagator(make_fibre([[1.0]]), 64, RATE, device, PropagationOptions(step=100.0), comm)


@pytest.mark.parallel([2, 3])
def test_memory_of_one_rank_is_refused_by_all(comm, device, monkeypatch):
    if comm.rank == 1:
        monkeypatch.setattr(type(device), "memory", lambda self: (10 << 20, 4 << 30))
    with pytest.raises(InputError, match=r"memory: .* rows x 16384 samples needs .* GiB on "):
        Propagator(FIBRE8, 1 << 14, RATE, device, PropagationOptions(step=100.0), comm)


@pytest.mark.parallel(2)
def test_only_communication_leaves_the_others_out(comm, device):
    """What figure 3 of Brehler et al. calls so: powers travel, and only the own ones turn the field."""
    if comm.one_sided:
        pytest.skip("kernels that store in peers are compiled for it")
    runner = Propagator(FIBRE8, 96, RATE, device, PropagationOptions("strang", step=100.0, chunks=2), comm)
    start = launch8(96)[runner.local_modes.slice]
    A = runner.operators.empty()
    A[...] = device.asarray(start)
    runner.operators.use_received = runner.operators._couple_at_once = False
    runner.operators.kerr_rotate(A, 100.0)
    own = runner.local_modes.slice
    kappa = FIBRE8.gamma * FIBRE8.kappa_rows()[own, own]
    wanted = start * np.exp(1j * 100.0 * kappa @ abs(start) ** 2)
    assert distance(device.to_host(A), wanted) < 1e-13
    runner.operators.finish_exchanges()
