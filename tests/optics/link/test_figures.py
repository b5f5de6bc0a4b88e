"""Pictures of the spectrum and of power along the link say what the result says."""

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.base.results import ResultWriter, read_result
from wavefabric.optics.link.figures import (
    constellation_figure,
    penalty_figure,
    plot_result,
    power_figure,
    q_squared_figure,
    spectrum_figure,
)

MODES, CHANNELS, BINS = 3, 2, 8


def payload(**changes):
    """A link of two spans: level spectra of 1 and 2 µW/Hz, power that halves every 10 km."""
    z = np.array([0.0, 10e3, 20e3, 20e3, 30e3])
    power = 1e-3 * np.outer([1, 0.5, 0.25, 1, 0.5], [1, 2, 2])
    q = np.full((MODES, CHANNELS), 15.0)
    received = {
        name: {
            "attrs": {"distance_m": length},
            "q_squared_db": (q - loss, "dB", ""),
            "spectrum": (np.full((MODES, BINS), density), "W/Hz", ""),
        }
        for name, length, loss, density in (("back_to_back", 0.0, 0, 1e-6), ("span_1", 20e3, 1, 2e-6))
    }
    losses = (("back_to_back", 0), ("span_1", 2))
    whole = {
        "fibre": {"groups": ([1, 2, 2], "", "")},
        "signal": {"spectrum_frequencies": (193e12 + 1e9 * np.arange(BINS), "Hz", "")},
        "received": received,
        "along_z": {"distance": (z, "m", ""), "power": (power, "W", "")},
        "theory": {name: {"q_squared_db": (q - loss, "dB", "")} for name, loss in losses},
    }
    for key, value in changes.items():
        group, name = key.split("__")
        whole[group][name] = value
    return whole


@pytest.fixture
def result(tmp_path):
    return lambda **changes: read_result(
        ResultWriter(tmp_path / "r.h5", force=True).write(payload(**changes))
    )


def test_levels_of_the_spectra(result):
    sent, after = spectrum_figure(result()).axes[0].lines
    assert [sent.get_label(), after.get_label()] == ["sent", "20 km"]
    np.testing.assert_allclose(sent.get_xdata(), 193 + 1e-3 * np.arange(BINS))
    np.testing.assert_allclose(sent.get_ydata(), 10 * np.log10(1e-6 * 12.5e9 / 1e-3))
    np.testing.assert_allclose(after.get_ydata() - sent.get_ydata(), 10 * np.log10(2))


def test_power_of_a_mode_by_group(result):
    lines = power_figure(result()).axes[0].lines
    assert [line.get_label() for line in lines] == ["1", "2"]
    np.testing.assert_allclose(lines[0].get_ydata(), 10 * np.log10([1, 0.5, 0.25, 1, 0.5]))
    np.testing.assert_allclose(lines[1].get_ydata() - lines[0].get_ydata(), 10 * np.log10(2))
    np.testing.assert_allclose(lines[0].get_xdata(), [0, 10, 20, 20, 30])


def test_theory_stands_beside(result):
    q = {line.get_label(): line.get_ydata() for line in q_squared_figure(result()).axes[0].lines}
    np.testing.assert_allclose([q["mean"], q["theory"]], [[14.0] * MODES, [13.0] * MODES])
    lines = {line.get_label(): line.get_ydata() for line in penalty_figure(result()).axes[0].lines}
    np.testing.assert_allclose([lines["20 km"], lines["theory"]], [[-1.0] * MODES, [-2.0] * MODES])


def test_files(result):
    names = [path.name for path in plot_result(result().path)]
    assert names == [f"r-{name}.png" for name in ("q2", "penalty", "spectrum", "power")]


def test_a_file_without(result, tmp_path):
    whole = payload()
    for name in ("along_z", "theory", "signal"):
        del whole[name]
    bare = read_result(ResultWriter(tmp_path / "bare.h5").write(whole))
    assert spectrum_figure(bare) is None
    assert power_figure(bare) is None
    one = result(along_z__distance=(np.zeros(1), "m", ""), along_z__power=(np.ones((1, MODES)), "W", ""))
    assert power_figure(one) is None


@pytest.mark.parametrize(
    ("changes", "draw", "text"),
    [
        ({"along_z__power": (np.ones((4, MODES)), "W", "")}, power_figure, "has 4 positions; allowed: 5"),
        ({"along_z__power": (["a", "b"], "", "")}, power_figure, "allowed: numbers of 2 dimensions"),
        ({"signal__spectrum_frequencies": (np.ones(3), "Hz", "")}, spectrum_figure, "has 8 bins; allowed: 3"),
    ],
)
def test_damaged_files(result, changes, draw, text):
    with pytest.raises(InputError, match=text):
        draw(result(**changes))


def symbols_of(result, points, **signal):
    """What `constellation_figure` shows of ``points`` behind span 1, one panel after the other."""
    whole = payload()
    whole["received"]["span_1"]["constellation"] = (points, "", "")
    file = read_result(ResultWriter(result().path, force=True).write(whole))
    figure = constellation_figure(file, **signal)
    return [axes.lines[0].get_xdata()[0] for axes in figure.axes]


def test_constellation_of_any_mode_and_channel(result):
    points = (np.arange(MODES * CHANNELS).reshape(MODES, CHANNELS, 1, 1) + np.zeros((2, 4))).astype(complex)
    assert symbols_of(result, points) == [1, 5]  # the middle channel of the first and the last mode
    assert symbols_of(result, points, mode=2) == [3]
    assert symbols_of(result, points, mode=2, channel=1) == [2]
    assert symbols_of(result, points[:, 1], mode=3, channel=2) == [5]
    for signal, text in (
        ({"mode": 4}, "mode: 4 given; allowed: 1 to 3"),
        ({"channel": 0}, "channel: 0 given; allowed: 1 to 2"),
    ):
        with pytest.raises(InputError, match=text):
            symbols_of(result, points, **signal)
    with pytest.raises(InputError, match=r"channel: 1 given, .* keeps symbols of channel 2 alone"):
        symbols_of(result, points[:, 1], channel=1)
