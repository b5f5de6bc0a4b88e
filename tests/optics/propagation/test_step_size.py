"""Step control: fixed, by phase, by local error; resuming; captured steps."""

import itertools
import json
import math

import numpy as np
import pytest
from fibre_cases import (
    ALL,
    FIBRE,
    FOURTH,
    RATE,
    distance,
    launch,
    make_fibre,
    propagator,
    put,
    repeated_as_captured,
)
from hypothesis import given
from hypothesis import strategies as st

from wavefabric.optics.propagation.integrators import Strang
from wavefabric.optics.propagation.propagate import propagate
from wavefabric.optics.propagation.step_size import FixedStep, on_grid
from wavefabric.runtime.device import get_device
from wavefabric.runtime.device.cpu import CpuDevice

# --- step control --------------------------------------------------------------------------------


class Marker(Strang):
    """Takes steps without doing anything."""

    def __init__(self, operators):
        self.operators = operators

    def begin(self, A, h):
        pass

    step = end = begin


@pytest.mark.slow
@given(st.floats(1.0, 1e6), st.integers(1, 20000))
def test_fixed_steps_end_at_the_end(length, total):
    """The last z is the length to the last bit: the propagation waits for it."""
    operators = propagator(get_device("cpu", threads=1), 2, step=1.0).operators
    control = FixedStep(Marker(operators), length / total)
    assert control.total(length) == total
    assert control.h(length) * total == pytest.approx(length, rel=1e-15)
    state = {"done": total - 1, "z": 0.0}
    assert list(control.advance(None, length, state, 25)) == [total]
    assert state["z"] == length


@given(st.floats(1e-6, 1e9))
def test_the_grid_of_steps(h):
    below = on_grid(h)
    assert below <= h * (1 + 1e-9)
    assert below > h / 2**0.1251
    assert on_grid(below) == below


@pytest.mark.parametrize("integrator", ALL)
@pytest.mark.parametrize("limit", [0.3, 0.02])
def test_no_step_turns_more_than_the_phase_limit(cpu, integrator, limit):
    runner = propagator(cpu, integrator=integrator, max_phase=limit)
    A = put(runner, launch(power=30e-3))
    step, turned, lengths = runner.integrator.step, [], []

    def watched(field, h):
        turned.append(h * runner.operators.max_phase_rate(field))
        lengths.append(h)
        step(field, h)

    runner.integrator.step = watched
    runner.run(A, 20e3)
    assert max(turned) <= limit * (1 + 1e-8)
    # Not needlessly short either, but for the last: the grid of steps is 9 % wide.
    assert min(turned[:-1]) > limit / 1.1
    assert sum(lengths) == pytest.approx(20e3, rel=1e-12)
    # Loss lets steps grow.
    assert lengths[-2] > 1.5 * lengths[0]
    assert runner.report.steps == len(lengths)


@pytest.mark.slow
@pytest.mark.parametrize("tolerance", [1e-4, 1e-6, 1e-8])
def test_error_control_holds_its_tolerance(cpu, tolerance):
    start = launch(power=60e-3)
    reference, _ = propagate(
        start, FIBRE, 10e3, sample_rate=RATE, step=5.0, integrator="blanes_moan", device=cpu
    )
    out, report = propagate(
        start, FIBRE, 10e3, sample_rate=RATE, tolerance=tolerance, integrator="erk43ip", device=cpu
    )
    assert 0.05 * tolerance < report.local_error <= tolerance
    # Errors of steps add up at worst, relative to a field that falls by the loss.
    assert distance(out, reference) < report.steps * tolerance
    assert report.steps < 30 * tolerance**-0.25
    assert report.rejected <= report.steps
    assert report.ffts == 8 * (report.steps + report.rejected)


@pytest.mark.slow
def test_tighter_tolerances_pay(cpu):
    start = launch(power=60e-3)
    reference, _ = propagate(
        start, FIBRE, 10e3, sample_rate=RATE, step=5.0, integrator="blanes_moan", device=cpu
    )
    errors, steps = [], []
    for tolerance in (1e-4, 1e-6, 1e-8):
        out, report = propagate(
            start, FIBRE, 10e3, sample_rate=RATE, tolerance=tolerance, integrator="erk43ip", device=cpu
        )
        errors.append(distance(out, reference))
        steps.append(report.steps)
    assert errors[0] > 10 * errors[1] > 100 * errors[2]
    assert steps[0] < steps[1] < steps[2]


@pytest.mark.slow
def test_a_step_that_is_too_long_is_taken_again(cpu):
    # A pulse that meets another only on the way: the step must shrink there.
    t = (np.arange(512) - 256) * 2e-12
    start = np.zeros((6, 512), complex)
    start[0] = 0.3 / np.cosh(t / 10e-12)
    start[2] = 2.0 / np.cosh((t + 200e-12) / 10e-12)
    beta = np.zeros((3, 4))
    beta[1, 0] = 40e-15
    fibre = make_fibre(np.ones((3, 3)), beta=beta)
    out, report = propagate(
        start, fibre, 10e3, sample_rate=RATE, tolerance=1e-7, integrator="erk43ip", device=cpu
    )
    assert report.rejected > 0
    assert report.local_error <= 1e-7
    assert np.isfinite(out).all()


def test_what_follows_an_error_above_and_below_the_tolerance(cpu):
    """Accept up to the tolerance itself; the next step follows (tolerance/error)^¼, between limits."""
    tolerance, field = 1e-6, launch()
    script = [1.001, 0.999, 2.0e4, 1e-9, 1.0, math.nan]
    runner = propagator(cpu, integrator="erk43ip", tolerance=tolerance)
    A, scale, tried, dropped = put(runner, field), np.linalg.norm(field), [], []

    def trial(_, h):
        tried.append(h)
        return script[len(tried) - 1] * tolerance * scale

    runner.integrator.trial = trial
    runner.integrator.reject = lambda _: dropped.append(len(tried))
    state = {"z": 0.0, "done": 0, "h": 64.0}
    accepted = list(runner.control.advance(A, 1e9, state, 4))
    assert accepted == [1, 2, 3, 4]
    assert dropped == [1, 3]
    assert runner.operators.counts.rejected == 2
    factors = [b / a for a, b in itertools.pairwise(tried)]
    wanted = [0.9 * 1.001**-0.25, 0.9 * 0.999**-0.25, 0.3, 2.0, 0.9]
    for factor, want in zip(factors, wanted, strict=True):
        assert want / 2**0.1251 < factor <= want * (1 + 1e-9)
    # A lost field is not retried for ever: the watch over energy says so.
    assert state["z"] == pytest.approx(sum(tried[k] for k in (1, 3, 4, 5)))


@pytest.mark.parametrize("integrator", ALL)
def test_local_error_is_that_of_one_step(cpu, integrator):
    """The estimate by two half steps, against the same step in very many."""
    start, h = launch(power=10e-3), 100.0 if integrator in FOURTH else 25.0
    _, report = propagate(start, FIBRE, h, sample_rate=RATE, step=h, integrator=integrator, device=cpu)
    one, _ = propagate(start, FIBRE, h, sample_rate=RATE, step=h, integrator=integrator, device=cpu)
    many, _ = propagate(start, FIBRE, h, sample_rate=RATE, step=h / 64, integrator="blanes_moan", device=cpu)
    # The local order is one above the global, the estimate is scaled by the global: up to a factor of 2.
    assert report.local_error == pytest.approx(distance(one, many), rel=0.15)


def test_no_local_error_without_memory_for_it(monkeypatch):
    cpu = get_device("cpu", threads=1)
    runner = propagator(cpu, step=100.0)
    monkeypatch.setattr(cpu, "memory", lambda: (1000, 1 << 30))
    runner.run(put(runner, launch()), 1e3)
    assert math.isnan(runner.report.local_error)


# --- resuming ------------------------------------------------------------------------------------

CONTROLS = [(name, {"step": 100.0}) for name in ALL]
CONTROLS += [
    ("strang", {"max_phase": 0.01}),
    ("rk4ip", {"max_phase": 0.05}),
    ("erk43ip", {"tolerance": 1e-7}),
]


@pytest.mark.parametrize(("integrator", "control"), CONTROLS, ids=lambda v: str(v).strip("{}"))
def test_a_resumed_run_is_the_same_to_the_bit(device, integrator, control):
    length, options = 5e3, control | {"integrator": integrator, "check_interval": 7}
    kept = []

    def keep(state):
        kept.append((json.dumps(state), device.to_host(A).copy()))

    runner = propagator(device, **options)
    A = put(runner, launch(power=30e-3))
    runner.run(A, length, on_check=keep)
    whole = device.to_host(A).copy()
    assert len(kept) > 3
    assert json.loads(kept[-1][0])["z"] == length
    for text, field in kept[:-1:2]:
        again = propagator(device, **options)
        B = put(again, field)
        state = again.run(B, length, json.loads(text))
        assert (device.to_host(B) == whole).all()
        assert state["done"] == json.loads(kept[-1][0])["done"]
        assert again.report.energy_drift == runner.report.energy_drift
        if "tolerance" in control:
            assert again.report.local_error == runner.report.local_error


def test_check_intervals_do_not_matter_but_for_round_off(cpu):
    outs = [
        propagate(
            launch(),
            FIBRE,
            5e3,
            sample_rate=RATE,
            step=100.0,
            integrator="strang",
            device=cpu,
            check_interval=n,
        )[0]
        for n in (1, 7, 1000)
    ]
    assert distance(outs[1], outs[0]) < 1e-13
    assert distance(outs[2], outs[0]) < 1e-13


class Capturing(CpuDevice):
    """Repeats a step as a CUDA graph does: with the tables that were there when it was captured."""

    operators = None

    def graph(self, work, kernels_alone=False):
        return repeated_as_captured(self.operators.propagation, work)


@pytest.mark.parametrize("integrator", ALL)
def test_captured_steps_find_their_tables_in_later_spans(cpu, integrator):
    options = {"integrator": integrator, "step": 100.0}
    outs = []
    for device in (cpu, Capturing(1)):
        runner = propagator(device, **options)
        device.operators = runner.operators
        A = put(runner, launch(power=30e-3))
        for _ in range(3):
            runner.run(A, 2e3)
        outs.append(A)
    assert (outs[0] == outs[1]).all()


@pytest.mark.gpu
@pytest.mark.parametrize("integrator", ALL)
def test_spans_on_the_gpu(cpu, integrator):
    outs = []
    for device in (cpu, get_device("cuda")):
        runner = propagator(device, integrator=integrator, step=100.0)
        A = put(runner, launch(power=30e-3))
        for _ in range(3):
            runner.run(A, 2e3)
        outs.append(device.to_host(A))
    assert distance(outs[1], outs[0]) < 1e-10
