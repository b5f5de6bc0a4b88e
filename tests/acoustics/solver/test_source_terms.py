"""Sources made ready for the time step: forms, shared patterns, when they are on."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_solver import PlainSolver
from random_problems import pressure_source, problem, signal, transducer, velocity_source

from wavefabric.acoustics.choose_stages import make_stages
from wavefabric.acoustics.problem import PressureSource, TransducerSource, VelocitySource
from wavefabric.acoustics.solver.source_terms import rank_one
from wavefabric.runtime.device import get_device

SHAPE = (24, 20, 18)


@pytest.fixture(scope="module", params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return get_device(request.param, threads=1)


def sources(device, dtype=np.float64, shape=SHAPE, **more):
    return make_stages(device, problem(shape, initial=0, **more), dtype).sources


# --- One waveform for all points ---------------------------------------------------------------------------


@settings(max_examples=60)
@given(
    steps=st.integers(1, 150),
    columns=st.integers(2, 6),
    seed=st.integers(0, 10**6),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_rank_one_is_found(steps, columns, seed, dtype):
    rng = np.random.default_rng(seed)
    wave, weights = rng.standard_normal((steps, 1)), rng.uniform(-2, 2, columns)
    inputs = (wave * weights).astype(dtype)
    result = rank_one(inputs)
    assert result is not None
    got_weights, got_wave = result
    assert got_wave.shape == (steps, 1)
    error = abs(got_wave.astype(float) * got_weights - inputs).max()
    assert error <= 2 * np.finfo(dtype).eps * abs(inputs).max()


@settings(max_examples=30)
@given(step=st.integers(0, 149), column=st.integers(0, 4), dtype=st.sampled_from([np.float32, np.float64]))
def test_one_sample_off_is_not_rank_one(step, column, dtype):
    inputs = (np.linspace(1, 2, 150)[:, None] * np.linspace(1, 3, 5)).astype(dtype)
    assert rank_one(inputs) is not None
    inputs[step, column] += 1e-5 * inputs.max() if dtype == np.float32 else 1e-13 * inputs.max()
    assert rank_one(inputs) is None


def test_rank_one_of_special_signals():
    weights, wave = rank_one(np.zeros((4, 3)))
    assert weights.tolist() == [0, 0, 0]
    assert not wave.any()
    weights, wave = rank_one(np.array([[1.0], [2.0]]))
    assert weights.tolist() == [1]
    assert wave.tolist() == [[1], [2]]
    # Whole numbers have no round-off to allow for.
    assert rank_one(np.array([[1, 2], [2, 4]])) is not None
    assert rank_one(np.array([[1, 2], [2, 5]])) is None
    # A delayed waveform has as many columns as delays.
    assert rank_one(np.eye(3)) is None


# --- Forms -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "rank", "form"),
    [
        ("dirichlet", False, "points"),
        ("dirichlet", True, "points"),
        ("additive_no_correction", True, "points"),
        ("additive", True, "pattern"),
        ("additive", False, "field"),
    ],
)
def test_forms(device, mode, rank, form):
    made = sources(device, pressure_source=pressure_source(SHAPE, mode, rank_one=rank))
    assert made.pressure.form == form
    assert made.velocity == [None] * 3
    assert made.transducer is None


def test_a_pattern_is_the_corrected_source(device):
    """cos(c_ref |k| dt/2) spreads the weights; its sum over the grid stays (cos 0 = 1)."""
    source = pressure_source(SHAPE, "additive", rank_one=True)
    made = sources(device, pressure_source=source)
    inputs, weights = problem(SHAPE, initial=0, pressure_source=source), rank_one(source.signal)[0]
    wanted = np.zeros(inputs.array_shape)
    wanted.reshape(-1)[source.index] = weights
    wanted = np.fft.ifftn(np.fft.fftn(wanted) * PlainSolver(inputs).source_kappa).real
    got = device.to_host(made.pressure.field)
    assert abs(got - wanted).max() < 1e-14 * abs(wanted).max()
    assert got.sum() == pytest.approx(weights.sum(), rel=1e-12)


def test_components_share_a_pattern(device):
    index = np.array([3, 100, 2000])
    wave, weights = signal(12, 1, 1.0).astype(float), np.array([0.5, -1.0, 0.25])
    columns = (wave * weights, 3.0 * wave * weights, wave * weights[::-1])
    made = sources(
        device,
        velocity_source=VelocitySource(index, columns, "additive"),
        pressure_source=PressureSource(index, wave * weights, "additive"),
    )
    x, y, z = made.velocity
    assert x.field is y.field
    assert x.field is made.pressure.field
    assert z.field is not x.field
    np.testing.assert_allclose(y.host_signal, 3 * x.host_signal, rtol=1e-15)


def test_when_sources_are_on():
    position = get_device("cpu", threads=1)
    made = sources(
        position,
        pressure_source=pressure_source(SHAPE, "dirichlet", steps=3),
        velocity_source=velocity_source(SHAPE, "dirichlet", (None, 0, 1), steps=5),
        transducer=transducer(SHAPE, steps=8),
    )
    assert made.active(0) == (True, True, False, True, True)
    assert made.active(2) == (True, True, False, True, True)
    assert made.active(3) == (False, True, False, True, True)
    assert made.active(5) == (False, False, False, False, True)
    assert made.active(7) == (False, False, False, False, True)
    assert made.active(8) == (False,) * 5
    assert sources(position).active(0) == (False,) * 5
    assert sources(position, shape=(31, 45, 1)).active(0) == (False,) * 4


def test_signals_of_different_length(device):
    """Each component ends with its own signal."""
    index = np.array([7])
    inputs = VelocitySource(index, (np.ones((2, 1)), None, np.ones((4, 1))), "dirichlet")
    made = sources(device, velocity_source=inputs)
    assert made.active(1) == (False, True, False, True, False)
    assert made.active(3) == (False, False, False, True, False)
    assert made.active(4) == (False,) * 5


def test_sources_act_in_order(device):
    """The transducer adds to what a source has set."""
    u, clock = device.zeros((18, 20, 24), np.float64), device.zeros(1, np.int64)
    index = np.array([5, 50])
    made = sources(
        device,
        velocity_source=VelocitySource(index, (np.full((3, 1), 7.0), None, None), "dirichlet"),
        transducer=TransducerSource(index, np.array([0, 1]), np.array([2.0, 3.0]), 5),
    )
    u[...] = 1.0
    made.add_velocity([u, u * 0, u * 0], clock, made.active(0))
    flat = device.to_host(u).reshape(-1)
    assert flat[index].tolist() == [7.0 + 2.0, 7.0 + 3.0]
    assert flat.sum() == pytest.approx(flat.size - 2 + 19)
