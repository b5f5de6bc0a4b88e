"""Arrays that listen: reciprocity, echoes, tones, images; elements against the series at grid points."""

import numpy as np
import pytest
from scipy.signal import hilbert

from wavefabric.acoustics import (
    ContinuousWave,
    Grid,
    Material,
    Medium,
    Sensor,
    Source,
    annular_array,
    bowl,
    delay_and_sum,
    disc,
    frequency_response,
    join,
    layered_medium,
    line,
    linear_array,
    log_compress,
    rectangle,
    simulate,
    spherical_array,
    surfaces,
    time_gain,
)
from wavefabric.acoustics.transducers.beamforming import _analytic
from wavefabric.base.errors import InputError
from wavefabric.runtime.device import get_device

WATER = Medium(1500.0, 1000.0)
DT = 1.5e-7


@pytest.fixture(scope="module", params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return get_device(request.param, threads=1)


def pulse(steps=60):
    t = np.arange(steps) * DT
    return np.exp(-(((t - 3e-6) / 1e-6) ** 2))


def heard(grid, sender, listener, device, **more):
    options = {"dt": DT, "steps": 150, "precision": "double", "device": device} | more
    source = sender.source(pulse(), precision="double")
    return simulate(grid, WATER, source, Sensor.elements(listener), **options)["p"]


def pair(grid):
    return (
        disc(grid, (-8e-3, 1e-3, 0.3e-3), "7 mm", (1, 0, 0)),
        join(
            bowl(grid, (7.4e-3, -2e-3, 1e-3), "20 mm", "9 mm", (0, 0, 0)),
            rectangle(grid, (2e-3, 8e-3, 0), "5 mm", "3 mm", (0, 0, 0)),
        ),
    )


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(40, 36, 32), (39, 35, 33)])
def test_elements_hear_each_other_alike(shape, device):
    grid = Grid(shape, 1e-3, pml_size=0)
    one, others = pair(grid)
    there = heard(grid, one, others, device)
    for number, part in enumerate((slice(0, 1), slice(1, 2))):
        other = join(others)
        alone = type(other)(
            other.shape,
            other.index,
            other.weights[:, [number]],
            other.centres[part],
            other.areas[part],
            other.point_areas,
        )
        back = heard(grid, alone, one, device)[0]
        sent, returned = there[number] * others.areas[number], back * one.areas[0]
        assert np.abs(sent - returned).max() < 1e-12 * np.abs(sent).max()


@pytest.mark.slow
def test_elements_are_weighted_sums_of_grid_points(device):
    grid = Grid((40, 36, 32), 1e-3, pml_size=6, pml_inside=False)
    one, others = pair(grid)
    options = {"dt": DT, "steps": 80, "precision": "double", "device": device}
    source = one.source(pulse(), precision="double")
    record = ("p", "p_max", "u", "p_amp")
    more = {"record": record, "frequencies": 1 / (20 * DT)}
    points = simulate(grid, WATER, source, Sensor(others.mask, ("p", "u")), **options)
    result = simulate(grid, WATER, source, Sensor.elements(others, **more), **options)
    for name in ("p", "ux"):
        expected = others.receiving @ points[name]
        assert result[name].shape == (2, 80)
        np.testing.assert_allclose(result[name], expected, atol=1e-13 * np.abs(expected).max())
    np.testing.assert_allclose(result["p_max"], result["p"].max(axis=1), rtol=1e-12)
    tone = np.abs(result["p"] @ np.exp(2j * np.pi * np.arange(80) / 20)) * 2 / 80
    np.testing.assert_allclose(result["p_amp"][0], tone, rtol=1e-10)


@pytest.mark.slow
def test_a_plate_answers_at_the_right_time_and_height(device):
    """A plane wave, sent and heard by a line across the whole of a periodic grid."""
    grid = Grid((300, 12), 0.5e-3, pml_size=(20, 0), pml_inside=False)
    x, y = grid.coordinates
    whole = line(grid, (x[60], y[0]), (x[60], y[0] + 5.5e-3), tolerance=0)
    # The ends of a line do not meet: one signal for all points of the plane is the plane wave.
    mask = np.zeros(grid.shape, bool)
    mask[60] = True
    plate = 61.3e-3
    water, steel = Material(1500, 1000), Material(3000, 2000)
    medium = layered_medium(grid, [(water, plate), (steel, None)])
    dt = 5e-8
    t = np.arange(200) * dt
    wave = np.exp(-(((t - 5e-6) / 1.7e-6) ** 2))
    options = {"dt": dt, "steps": 1100, "precision": "double", "device": device}
    result = simulate(grid, medium, Source(p_mask=mask, p=wave), Sensor.elements(whole), **options)["p"][0]
    echo = result[300:]
    at = 300 + int(np.argmax(echo))
    delay = 2 * (plate - 60 * 0.5e-3) / 1500
    assert at * dt == pytest.approx(5e-6 + delay, rel=0.01)
    reflection = (3000 * 2000 - 1.5e6) / (3000 * 2000 + 1.5e6)
    assert echo.max() / result[:200].max() == pytest.approx(reflection, rel=0.01)


@pytest.mark.slow
@pytest.mark.parallel(2)
def test_elements_over_ranks(comm):
    grid = Grid((24, 20, 18), 1e-3, pml_size=4)
    one = disc(grid, (-5e-3, 1e-3, 0.3e-3), "4 mm", (1, 0, 0))
    others = linear_array(grid, (4e-3, 0, 0), 3, "3 mm", "3 mm", "3.2 mm", (0, 0, 0))
    wave = ContinuousWave(1 / (20 * DT), [2.0, 1.0, 3.0], [0.0, 1.0, -2.0])
    options = {"dt": DT, "steps": 60, "precision": "double"}
    for source, listener in ((one.source(pulse(), precision="double"), others), (others.source(wave), one)):
        sensor = Sensor.elements(listener, ("p", "p_rms"))
        ours = simulate(grid, WATER, source, sensor, comm=comm, **options)
        alone = simulate(grid, WATER, source, sensor, device=comm.device, comm=solo(comm), **options)
        for name in ("p", "p_rms"):
            assert np.abs(alone[name]).max() > 0
            np.testing.assert_allclose(ours[name], alone[name], atol=1e-12 * np.abs(alone[name]).max())


def solo(comm):
    from wavefabric.runtime.exchange.communicator import solo as alone

    return alone(comm.device)


# --- Continuous waves ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["additive", "additive_no_correction"])
@pytest.mark.parametrize("shape", [(30, 27), (24, 20, 18)])
@pytest.mark.parametrize("phase", [0.4, [0.4, -1.0, 2.0]])
def test_a_continuous_wave_is_its_series(shape, mode, phase, device):
    grid = Grid(shape, 1e-3, pml_size=4)
    n = len(shape)
    length = "3 mm" if n == 3 else None
    array = linear_array(grid, (-3e-3, *[0] * (n - 1)), 3, "2 mm", length, "3 mm", (1, *[0] * (n - 1)))
    frequency, steps = 1 / (18 * DT), 70
    wave = ContinuousWave(frequency, [1.0, 2.0, 0.5], phase, ramp=2)
    t = np.arange(steps) * DT
    rise = 0.5 - 0.5 * np.cos(np.pi * np.minimum(t * frequency / 2, 1))
    phases = np.broadcast_to(phase, 3)[:, None]
    series = rise * np.array([[1.0], [2.0], [0.5]]) * np.cos(2 * np.pi * frequency * t + phases)
    options = {"dt": DT, "steps": steps, "precision": "double", "device": device, "record": "p_final"}
    ours = simulate(grid, WATER, array.source(wave, mode), **options)["p_final"]
    long = simulate(grid, WATER, array.source(series, mode, "double"), **options)["p_final"]
    np.testing.assert_allclose(ours, long, atol=1e-12 * np.abs(long).max())


def test_a_continuous_wave_at_points_has_one_amplitude_each(device):
    grid = Grid((30, 27), 1e-3, pml_size=4)
    mask = np.zeros(grid.shape, bool)
    mask[10, 5:9] = True
    wave = ContinuousWave("250 kHz", np.arange(1.0, 5), 0.3)
    source = Source(p_mask=mask, p=wave, u_mask=mask, ux=ContinuousWave("250 kHz", 1e-6, [0, 1, 2, 3]))
    record = {"record": "p_final", "dt": DT, "steps": 40, "precision": "double", "device": device}
    ours = simulate(grid, WATER, source, **record)["p_final"]
    t = np.arange(40) * DT * 250e3
    rise = 0.5 - 0.5 * np.cos(np.pi * np.minimum(t / 4, 1))
    p = rise * np.arange(1.0, 5)[:, None] * np.cos(2 * np.pi * t + 0.3)
    ux = rise * 1e-6 * np.cos(2 * np.pi * t + np.arange(4.0)[:, None])
    long = simulate(grid, WATER, Source(p_mask=mask, p=p, u_mask=mask, ux=ux), **record)["p_final"]
    np.testing.assert_allclose(ours, long, atol=1e-12 * np.abs(long).max())
    with pytest.raises(InputError, match=r"source.p.amplitude: 3; allowed: a number, or one for each of 4"):
        simulate(grid, WATER, Source(p_mask=mask, p=ContinuousWave(1e5, np.ones(3))), **record)


# --- Shapes --------------------------------------------------------------------------------------------


def test_arrays_of_all_kinds_cover_their_areas():
    grid = Grid((40, 40, 40), 1e-3, pml_size=0)
    rings = annular_array(grid, (-10e-3, 0, 0), [(0.0, "6 mm"), ("8 mm", "12 mm")], (1, 0, 0), radius="30 mm")
    sphere = spherical_array(
        grid, (-12e-3, 0, 0), "25 mm", "20 mm", (1, 0, 0), elements=7, element_diameter="4 mm"
    )
    own = surfaces(grid, [np.random.default_rng(1).uniform(-4e-3, 4e-3, (4000, 3))], [5e-6])
    both = join(rings, sphere, own)
    assert both.elements == 10
    np.testing.assert_allclose(both.weights.sum(axis=0) * 1e-6, both.areas, rtol=0.05)
    np.testing.assert_allclose(sphere.areas, np.pi * 4e-6)
    # All face the centre of curvature.
    np.testing.assert_allclose(np.linalg.norm(sphere.centres - [13e-3, 0, 0], axis=1), 25e-3)
    np.testing.assert_allclose(both.receiving.sum(axis=1), 1, rtol=0.05)


@pytest.mark.parametrize("radius", [None, "20 mm"])
def test_a_piston_on_an_axisymmetric_grid_is_that_in_three_dimensions(radius):
    flat = Grid((40, 20), 1e-3, pml_size=0, axisymmetric=True)
    whole = Grid((40, 40, 40), 1e-3, pml_size=0)
    one = annular_array(flat, (-8.3e-3, 0), [("4 mm", "14 mm")], (1, 0), radius=radius)
    other = annular_array(whole, (-8.3e-3, 0, 0), [("4 mm", "14 mm")], (1, 0, 0), radius=radius)
    assert one.areas == pytest.approx(other.areas)
    plane = np.zeros(np.prod(whole.shape))
    plane[other.index] = np.asarray(other.weights.sum(axis=1))
    plane = plane.reshape(whole.shape, order="F")[:, 20:, 20]
    field = np.zeros(np.prod(flat.shape))
    field[one.index] = np.asarray(one.weights.sum(axis=1))
    field = field.reshape(flat.shape, order="F")
    # Beside the edges, near which the cut tails differ.
    assert np.abs(field - plane)[:, 2:].max() < 0.2 * np.abs(plane).max()
    assert (one.weights.sum(axis=1) @ one.point_areas) == pytest.approx(one.areas[0], rel=0.02)


# --- Beamforming ---------------------------------------------------------------------------------------


def test_an_image_of_one_scatterer_peaks_where_it_is():
    centres = np.stack([np.zeros(32), (np.arange(32) - 15.5) * 0.4e-3], axis=1)
    where, dt, c = np.array([12e-3, 2e-3]), 4e-8, 1540.0
    delay = (where[0] + np.linalg.norm(where - centres, axis=1)) / c
    t = np.arange(800) * dt
    carrier = 2 * np.pi * 2e6 * (t - delay[:, None])
    signals = np.exp(-(((t - delay[:, None]) / 0.4e-6) ** 2)) * np.cos(carrier)
    x, y = np.meshgrid(np.arange(9e-3, 15e-3, 0.1e-3), np.arange(-2e-3, 5e-3, 0.1e-3), indexing="ij")
    points = np.stack([x, y], axis=-1)
    image = delay_and_sum(signals, centres, points, dt=dt, sound_speed=c, sent=x / c, f_number=1.0)
    best = np.unravel_index(np.argmax(np.abs(image)), image.shape)
    np.testing.assert_allclose(points[best], where, atol=0.051e-3)
    assert np.abs(image).max() == pytest.approx(1, abs=2e-3)  # the envelope's height
    levels = log_compress(image, 30)
    assert (levels.max(), levels.min()) == (0, -30)
    with pytest.raises(InputError, match=r"centres: \[2, 2\]; allowed: \(32, dimensions\)"):
        delay_and_sum(signals, centres[:2], points, dt=dt, sound_speed=c)


def test_a_gaussian_response_halves_at_half_its_width():
    dt, n = 5e-8, 4000
    t = np.arange(n) * dt
    window = np.hanning(n)
    for f, factor in ((1e6, 1.0), (1.25e6, 0.5), (0.75e6, 0.5)):
        tone = window * np.sin(2 * np.pi * f * t)
        got = np.abs(hilbert(frequency_response(tone, dt, "1 MHz", "0.5 MHz")))[n // 2]
        assert got == pytest.approx(factor, rel=5e-3)
    gain = time_gain(np.ones((1, 100)), 1e-6, 1500, 50.0)
    assert 20 * np.log10(gain[0, -1]) == pytest.approx(50 * 99e-6 * 1500)


def scatterer(dt, elements=24, frequency=3e6):
    """Signals of one scatterer by their formula, their array, and the echo on a line through it, exactly."""
    centres = np.stack([np.zeros(elements), (np.arange(elements) - elements / 2) * 0.3e-3], axis=1)
    where, c = np.array([12e-3, 1e-3]), 1540.0
    points = where + np.stack([np.linspace(-0.8e-3, 0.8e-3, 33), np.zeros(33)], axis=1)

    def pulse(t):
        return np.exp(-((t / 0.8e-6) ** 2)) * np.exp(2j * np.pi * frequency * t)

    delay = (where[0] + np.linalg.norm(where - centres, axis=1)) / c
    signals = pulse(np.arange(round(30e-6 / dt)) * dt - delay[:, None]).real
    path = points[:, :1] + np.linalg.norm(points[:, None] - centres, axis=2)
    return signals, centres, points, c, pulse(path / c - delay).mean(axis=1)


@pytest.mark.parametrize("samples", [33, 6, 4, 3])
def test_few_samples_to_a_period_give_the_same_image(samples):
    dt = 1 / (3e6 * samples)
    signals, centres, points, c, expected = scatterer(dt)
    image = delay_and_sum(signals, centres, points, dt=dt, sound_speed=c, sent=points[:, 0] / c)
    assert np.linalg.norm(image - expected) < 1e-3 * np.linalg.norm(expected)


def test_signals_that_alias_are_warned_of():
    dt = 1 / (3e6 * 2.1)
    signals, centres, points, c, _ = scatterer(dt)
    with pytest.warns(UserWarning, match=r"signals: .* % of their energy .* near 3\.15 MHz.*aliased"):
        delay_and_sum(signals, centres, points, dt=dt, sound_speed=c, sent=points[:, 0] / c)
    with pytest.warns(UserWarning, match=r"centre: 3\.5 MHz, but samples every .* nothing above 3\.15 MHz"):
        frequency_response(signals, dt, "3.5 MHz", "1 MHz")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"signals": np.ones((90, 24))}, r"signals: .*other order: give signals\.T"),
        ({"signals": np.ones(90)}, r"signals: has the shape \(90,\); allowed: \(24, steps\)"),
        ({"signals": np.full((24, 90), np.nan)}, "signals: .*not finite"),
        ({"signals": "s"}, "signals: is of type"),
        ({"centres": None}, "centres: is of type"),
        ({"points": [["x", "y"]]}, "points: is of type"),
        ({"sent": "late"}, "sent: is of type"),
        ({"sent": np.zeros(7)}, r"sent: has the shape \(7,\); allowed: \(\) or"),
        ({"apodization": "hann"}, "apodization: .*; allowed: real numbers"),
        ({"dt": 0}, "dt: "),
        ({"f_number": "wide"}, "f_number: "),
    ],
)
def test_what_beamforming_refuses(words, message):
    _, centres, points, c, _ = scatterer(1e-7)
    inputs = {"signals": np.ones((24, 90)), "centres": centres, "points": points}
    inputs |= {"dt": 1e-7, "sound_speed": c}
    with pytest.raises(InputError, match=message):
        delay_and_sum(**inputs | words)


def test_signals_in_the_other_order_are_said():
    grid = Grid((32, 32), 1e-4, pml_size=4)
    array = join(*(disc(grid, (0, y), 2e-4, (1, y)) for y in (-5e-4, 0, 5e-4)))
    with pytest.raises(InputError, match=r"signal: .*its axes are in the other order"):
        array.source(np.ones((50, 3)))
    with pytest.raises(InputError, match=r"points: .*the axes of points go into one"):
        array.element_signals(np.ones((2, 3, 4)))
    source = Source(p_mask=array.mask, p=np.ones((7, int(array.mask.sum()))))
    with pytest.raises(InputError, match=r"source\.p: .*other order: give source\.p\.T"):
        simulate(grid, Medium(1500.0, 1000.0), source, steps=2)


@pytest.mark.parametrize("samples", [4, 7, 64, 65])
def test_analytic_signals(samples):
    signals = np.random.default_rng(samples).normal(size=(3, samples))
    expected = hilbert(signals, axis=1)
    np.testing.assert_allclose(_analytic(signals), expected, rtol=0, atol=1e-14 * np.abs(expected).max())
