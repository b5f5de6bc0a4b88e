"""Sources: scaling, order of points, smoothing, what is refused."""

import numpy as np
import pytest

from wavefabric.acoustics import Grid, Source, Transducer, smooth
from wavefabric.base.errors import InputError

GRID = Grid((8, 6, 5), (1e-4, 2e-4, 3e-4), pml_size=1)
DT = 2e-8
MASK = np.zeros(GRID.shape, bool)
MASK[2, 1, 1] = MASK[1, 3, 1] = MASK[5, 0, 2] = True
#: x fastest: (2, 1, 1), (1, 3, 1), (5, 0, 2).
SPEEDS = np.array([1500.0, 1600.0, 1700.0])


def sound_speed():
    c = np.full(GRID.shape, 1400.0)
    c[2, 1, 1], c[1, 3, 1], c[5, 0, 2] = SPEEDS
    return GRID.to_memory(c, "c")


def signals(rows, steps=7):
    return np.random.default_rng(3).standard_normal((rows, steps))


@pytest.mark.parametrize("mode", ["additive", "additive_no_correction"])
def test_pressure_becomes_density(mode):
    p = signals(3)
    source = Source(p_mask=MASK, p=p, p_mode=mode).on(GRID, sound_speed(), DT)["pressure_source"]
    np.testing.assert_array_equal(source.index, [2 + 8 * (1 + 6 * 1), 1 + 8 * (3 + 6 * 1), 5 + 8 * 6 * 2])
    np.testing.assert_allclose(source.signal, p.T * 2 * DT / (3 * SPEEDS * 1e-4), rtol=1e-14)
    assert source.mode == mode


def test_dirichlet_pressure_becomes_density():
    p = signals(3)
    facts = Source(p_mask=MASK, p=p, p_mode="dirichlet").on(GRID, sound_speed(), DT)
    np.testing.assert_allclose(facts["pressure_source"].signal, p.T / (3 * SPEEDS**2), rtol=1e-14)


def test_one_signal_for_all_points():
    p = signals(1)[0]
    same = Source(p_mask=MASK, p=p).on(GRID, 1500.0, DT)["pressure_source"].signal
    assert same.shape == (7, 1)
    np.testing.assert_allclose(same[:, 0], p * 2 * DT / (3 * 1500 * 1e-4), rtol=1e-14)
    # Where the sound speed differs, so does the scale.
    each = Source(p_mask=MASK, p=p).on(GRID, sound_speed(), DT)["pressure_source"].signal
    np.testing.assert_allclose(each, p[:, None] * 2 * DT / (3 * SPEEDS * 1e-4), rtol=1e-14)


def test_velocity_is_scaled_along_its_own_axis():
    uy, uz = signals(3), signals(1)
    source = Source(u_mask=MASK, uy=uy, uz=uz).on(GRID, sound_speed(), DT)["velocity_source"]
    x, y, z = source.signals
    assert x is None
    np.testing.assert_allclose(y, uy.T * 2 * SPEEDS * DT / 2e-4, rtol=1e-14)
    np.testing.assert_allclose(z, uz.T * 2 * SPEEDS * DT / 3e-4, rtol=1e-14)
    fixed = Source(u_mask=MASK, uy=uy, u_mode="dirichlet").on(GRID, sound_speed(), DT)["velocity_source"]
    np.testing.assert_array_equal(fixed.signals[1], uy.T)


def test_single_precision_is_kept():
    source = Source(p_mask=MASK, p=signals(3).astype(np.float32)).on(GRID, sound_speed(), DT)
    assert source["pressure_source"].signal.dtype == np.float32
    assert source["pressure_source"].signal.flags.c_contiguous


def test_transducer():
    signal = np.arange(1.0, 11.0)
    facts = Source(transducer=Transducer(MASK, signal, [0, 3, 1])).on(GRID, sound_speed(), DT)["transducer"]
    np.testing.assert_allclose(facts.signal, signal * 2 * SPEEDS.mean() * DT / 1e-4, rtol=1e-14)
    np.testing.assert_array_equal(facts.delay, [0, 3, 1])
    assert facts.steps == 7
    delays = np.zeros(GRID.shape, np.uint16)
    delays[1, 3, 1], delays[5, 0, 2] = 3, 1
    again = Source(transducer=Transducer(MASK, signal, delays)).on(GRID, 1500.0, DT)["transducer"]
    np.testing.assert_array_equal(again.delay, [0, 3, 1])


def test_initial_pressure_is_smoothed_after_the_pml_was_added():
    grid = Grid((12, 9), 1e-4, pml_size=3, pml_inside=False)
    p0 = np.zeros((12, 9))
    p0[5, 4] = 2.0
    plain = Source(p0=p0, smooth=False).on(grid, 1500.0, DT)["initial_pressure"]
    assert plain.shape == (1, 15, 18)
    assert plain[0, 7, 8] == plain.sum() == 2.0
    np.testing.assert_allclose(Source(p0=p0).on(grid, 1500.0, DT)["initial_pressure"], smooth(plain))


def spectrum_window(shape):
    """The window of `smooth`, measured with a delta."""
    delta = np.zeros(shape)
    delta[(0,) * len(shape)] = 1
    return np.fft.fftshift(np.fft.fftn(smooth(delta, restore_max=False)))


@pytest.mark.parametrize("shape", [(16, 16), (17, 17), (12, 12, 12)])
def test_window_is_blackman_along_the_axes_and_round(shape):
    window = spectrum_window(shape)
    n = shape[0]
    # NumPy's Blackman window is symmetric; an even number of points lacks the last one.
    blackman = np.blackman(n + 1 - n % 2)[:n]
    line = window[(slice(None), *(n // 2,) * (len(shape) - 1))]
    np.testing.assert_allclose(line, np.abs(blackman), atol=1e-15)
    centre = (n // 2,) * (len(shape) - 1)
    # (3, 4) is as far out as (5, 0).
    assert window[(n // 2 + 3, n // 2 + 4, *centre[1:])] == pytest.approx(line[n // 2 + 5], abs=1e-15)
    assert abs(window[(0,) * len(shape)]) < 1e-15


def test_smoothing_restores_the_largest_value():
    field = np.random.default_rng(2).standard_normal((9, 14, 11)).astype(np.float32)
    out = smooth(field)
    assert out.dtype == np.float32
    assert abs(out).max() == pytest.approx(abs(field).max(), rel=1e-6)
    np.testing.assert_array_equal(smooth(np.zeros((4, 6))), 0)
    # Singleton axes do not count.
    np.testing.assert_allclose(smooth(field[None, 0]), smooth(field[0])[None], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "source: drives nothing"),
        ({"p": [1.0, 2.0]}, "source.p"),
        ({"p_mask": MASK}, "source.p"),
        ({"u_mask": MASK}, "source.u_mask"),
        ({"ux": [1.0]}, "source.u_mask"),
        ({"p_mask": MASK, "p": np.ones((2, 7))}, r"source.p: has the shape \(2, 7\)"),
        ({"p_mask": MASK, "p": np.ones((3, 0))}, "source.p"),
        ({"p_mask": MASK, "p": ["a"]}, "source.p"),
        ({"p_mask": MASK[0], "p": [1.0]}, "source.p_mask"),
        ({"p_mask": MASK, "p": [1.0], "p_mode": "hard"}, "source.p_mode"),
        ({"u_mask": MASK, "uz": [1.0], "u_mode": "additive-no-correction"}, "source.u_mode"),
        ({"p0": np.zeros((5, 6, 8))}, "source.p0"),
        ({"transducer": Transducer(MASK, np.ones((2, 3)))}, "source.transducer.signal"),
        ({"transducer": Transducer(MASK, np.ones(4), [0, 1])}, "source.transducer.delay"),
        ({"transducer": Transducer(MASK, np.ones(4), [0, 1, -1])}, "source.transducer.delay"),
        ({"transducer": Transducer(MASK, np.ones(4), [0, 1, 4])}, "source.transducer.delay"),
    ],
)
def test_bad_sources_are_refused(arguments, text):
    with pytest.raises(InputError, match=text):
        Source(**arguments).on(GRID, 1500.0, DT)


def test_a_flat_grid_has_no_uz():
    with pytest.raises(InputError, match=r"source\.uz"):
        Source(u_mask=np.ones((8, 6)), uz=[1.0]).on(Grid((8, 6), 1.0, pml_size=1), 1500.0, DT)


def test_half_precision_signals_are_not_scaled_in_half_precision():
    from wavefabric.acoustics import Grid, Medium, Sensor, Source, to_problem

    grid, mask = Grid((16, 16), 1e-3, pml_size=2), np.zeros((16, 16), bool)
    mask[8, 8] = True
    made = [
        to_problem(
            grid,
            Medium(1500.0, 1000.0),
            Source(p_mask=mask, p=np.ones(5, dtype)),
            Sensor(mask, "p"),
            1e-7,
            9,
        )[0]
        for dtype in (np.float16, np.float64)
    ]
    signals = [problem.pressure_source.signal for problem in made]
    np.testing.assert_allclose(signals[0], signals[1], rtol=1e-6)


def test_ragged_lists_are_named():
    from wavefabric.acoustics import Grid, Medium, Sensor, Source, to_problem
    from wavefabric.base.errors import InputError

    grid = Grid((16, 16), 1e-3, pml_size=2)
    with pytest.raises(InputError, match=r"p0: lists of different lengths"):
        to_problem(
            grid,
            Medium(1500.0, 1000.0),
            Source(p0=[[1.0], [1.0, 2.0]]),
            Sensor(record="p_final"),
            1e-7,
            9,
        )
    with pytest.raises(InputError, match=r"source: None given"):
        to_problem(grid, Medium(1500.0, 1000.0), None, Sensor(record="p_final"), 1e-7, 9)  # type: ignore[arg-type]


def test_smoothing_knows_no_edge_on_the_axis():
    """Of an axisymmetric grid: the other side of the axis belongs to the field."""
    grid = Grid((40, 20), 1.0, pml_size=0, axisymmetric=True)
    x, r = np.meshgrid(*grid.coordinates, indexing="ij")
    ball = np.exp(-(x**2 + r**2) / 4.0**2)
    p0 = Source(p0=ball).on(grid, 1500.0, 1e-8)["initial_pressure"][0].T
    assert np.abs(p0 - ball).max() < 0.05
    np.testing.assert_allclose(p0[20, 0], 1, rtol=1e-3)
    # As along the axis, which goes on beyond its origin too.
    np.testing.assert_allclose(p0[20, :12], p0[20:32, 0], atol=2e-3)


def test_smoothing_in_one_dimension():
    spike = np.zeros(32)
    spike[16] = 1.0
    smoothed = smooth(spike)
    assert smoothed[16] == 1
    assert smoothed[15] == pytest.approx(smoothed[17])
    assert 0.2 < smoothed[15] < 0.9
