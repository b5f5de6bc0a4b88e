"""Movies along z: curves with units against closed forms, frames of files, what is refused."""

import numpy as np
import pytest
from fibre_cases import times
from PIL import Image

from wavefabric.base.errors import InputError
from wavefabric.optics import PulseMovie, propagate, single_mode

BETA2, GAMMA, T0, DT = -20e-27, 1.3e-3, 10e-12, 0.5e-12
DISPERSION_LENGTH = T0**2 / abs(BETA2)
T = times(1024, DT)
PEAK = abs(BETA2) / (GAMMA * T0**2)


def fields_of(cpu, field, gamma, z, **options):
    inputs = np.array([field, 0 * T]), single_mode(BETA2, gamma, kappa=1.0), z[-1]
    return propagate(*inputs, at=z, sample_rate=1 / DT, step="20 m", device=cpu, **options)[2]


def rms(grid, weights):
    return np.sqrt((weights * grid**2).sum(axis=1) / weights.sum(axis=1))


def test_a_gaussian_pulse_broadens_and_its_spectrum_stays(cpu):
    """Root-mean-square duration T0 √((1 + (z/L_D)²)/2) in ps, power in W, spectrum 1/(2π T0 √2) in THz."""
    z = np.linspace(0, 2, 5) * DISPERSION_LENGTH
    fields = fields_of(cpu, 0.3 * np.exp(-(T**2) / (2 * T0**2)), 0.0, z)
    movie = PulseMovie(fields, z, "2 THz")
    assert movie.labels == ["time (ps)", "power (W)"]
    broader = np.sqrt(1 + (z / DISPERSION_LENGTH) ** 2)
    np.testing.assert_allclose(movie.curves.max(axis=1), 0.09 / broader, rtol=1e-6)
    np.testing.assert_allclose(rms(movie.x, movie.curves), 10 * broader / np.sqrt(2), rtol=0.02)
    # The axis ends where the power of the broadest pulse is 1/1000 of the highest.
    end = 10 * broader[-1] * np.sqrt(np.log(1e3 / broader[-1]))
    assert movie.x[-1] == pytest.approx(end, abs=1.0)
    spectrum = PulseMovie(fields, z, "2 THz", "spectrum", mode=1)
    width = rms(spectrum.x, 10 ** (spectrum.curves / 10))
    np.testing.assert_allclose(width, 1 / (2 * np.pi * 10 * np.sqrt(2)), rtol=0.01)
    assert spectrum.curves.max(axis=1) == pytest.approx(0, abs=1e-9)


def test_a_soliton_of_second_order_returns(cpu):
    """Four times its peak after half a period, its own again after a period."""
    z = np.linspace(0, np.pi / 2, 5) * DISPERSION_LENGTH
    movie = PulseMovie(fields_of(cpu, 2 * np.sqrt(PEAK) / np.cosh(T / T0), GAMMA, z), z, 1 / DT)
    np.testing.assert_allclose(movie.curves.max(axis=1)[[0, 2, 4]], PEAK * np.array([4, 16, 4]), rtol=2e-3)
    np.testing.assert_allclose(movie.curves[4], movie.curves[0], atol=4e-3 * PEAK)


def test_a_line_of_the_spectrum_is_at_its_optical_frequency():
    """A channel at +Δf is exp(−i2πΔf t); the modes have different lines."""
    rows = np.zeros((4, 1000), complex)
    t = np.arange(1000) / 1e12
    rows[1], rows[2] = np.exp(-2j * np.pi * 50e9 * t), np.exp(2j * np.pi * 80e9 * t)
    for mode, line in ((1, 0.05), (2, -0.08)):
        movie = PulseMovie([rows], [0], 1e12, "spectrum", mode)
        assert movie.x[movie.curves[0].argmax()] == pytest.approx(line, abs=1e-12)
    both = PulseMovie([rows], [0], 1e12, "spectrum")
    assert (both.curves[0] > -1).sum() == 2


def test_a_gif_has_a_frame_for_each_position(cpu, tmp_path, monkeypatch):
    z = np.linspace(0, 2, 4) * DISPERSION_LENGTH
    movie = PulseMovie(fields_of(cpu, np.exp(-(T**2) / (2 * T0**2)), 0.0, z), z, 1 / DT, mode=1)
    titles = []
    monkeypatch.setattr("matplotlib.axes.Axes.set_title", lambda _, text: titles.append(text))
    assert movie.draw(tmp_path / "pulse.gif", fps=10) == tmp_path / "pulse.gif"
    assert titles == ["mode 1", *(f"mode 1, z = {k * 10 / 3:.3f} km" for k in range(4))]
    with Image.open(tmp_path / "pulse.gif") as image:
        assert (image.n_frames, image.info["duration"]) == (4, 100)
        first = np.asarray(image.convert("L"), float)
        image.seek(3)
        assert np.ptp(np.asarray(image.convert("L"), float) - first) > 50
    assert [path.name for path in tmp_path.iterdir()] == ["pulse.gif"]


LIGHT = np.ones((2, 8))


@pytest.mark.parametrize(
    ("inputs", "line"),
    [
        (([LIGHT], [0, 1], 1e12), "fields: 1 given, of 1 lengths, for 2 positions; allowed: one for"),
        (([], [], 1e12), "fields: 0 given, of 0 lengths, for 0 positions"),
        (([LIGHT, np.ones((2, 9))], [0, 1], 1e12), "fields: 2 given, of 2 lengths, for 2 positions"),
        (([np.ones(8)], [0], 1e12), r"fields: shape \(8,\) given; allowed: \(2M, N\), two rows per mode"),
        (([0 * LIGHT], [0], 1e12), "fields: the largest power is 0 W; allowed: light"),
        (([LIGHT * np.nan], [0], 1e12), "fields: the largest power is nan W"),
        (([LIGHT], [0], "1 m"), 'sample_rate: "1 m" has the unit "m"'),
        (([LIGHT], ["1 s"], 1e12), 'positions: "1 s" has the unit "s"'),
        (([LIGHT], [0], 1e12, "phase"), 'quantity: "phase" given; allowed: power, spectrum'),
        (([LIGHT], [0], 1e12, "power", 2), "mode: 2; allowed: whole numbers from 1 to 1"),
        (([LIGHT], [0], 1e12, "power", 0), "mode: 0; allowed: whole numbers from 1 to 1"),
    ],
)
def test_what_is_no_movie(inputs, line):
    with pytest.raises(InputError, match=line):
        PulseMovie(*inputs)


def test_files_that_are_no_movie(tmp_path):
    movie = PulseMovie([LIGHT], [0], 1e12)
    for name, fps, line in (("p.avi", 20, "for a movie; allowed: .gif"), ("p.gif", 0, "--fps: 0 given")):
        with pytest.raises(InputError, match=line):
            movie.draw(tmp_path / name, fps)
    assert not list(tmp_path.iterdir())
