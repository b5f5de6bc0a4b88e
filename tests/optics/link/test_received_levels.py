"""OSNR, GSNR and dispersion of a result against closed forms; delays that a result stores."""

import math

import numpy as np
import pytest
from link_cases import AMPLIFIER, DCF, piece, settings

from wavefabric.base.results import read_result
from wavefabric.base.units import PLANCK, SPEED_OF_LIGHT
from wavefabric.optics.link.figures import plot_result
from wavefabric.optics.link.result import channel_rows, group_rows
from wavefabric.optics.link.run import run_link
from wavefabric.optics.link.signal_figures import delay_figure, eye_figure, ratio_figure
from wavefabric.optics.link.transfer import modal_figures

NOISY = AMPLIFIER | {"noise_figure": "5 dB"}
LINEAR = {"fibre": {"gamma": "0 1/W/km"}, "fibres": {"dcf": {"gamma": "0 1/W/km"}}}


@pytest.fixture
def simulate(tmp_path):
    def run(settings):
        run_link(settings, tmp_path / "out.h5", warn=lambda _: None, force=True)
        return read_result(tmp_path / "out.h5")

    return run


def test_osnr_and_dispersion_of_spans(simulate):
    """OSNR of P/(N (GF − 1) hν 12.5 GHz), with loaded noise inverse ratios add; D z of β2 and β3."""
    link = {"length": "80 km", "spans": 2, "noise_figure": "5 dB"}
    result = simulate(
        settings(
            link=link,
            receiver={"osnr": "25 dB"},
            signal={"launch_power": ["0 dBm", "1 dBm", "2 dBm"]},
            **LINEAR,
        )
    )
    noise = (10**1.6 * 10**0.5 - 1) * PLANCK * 193.4e12 * 12.5e9
    for name, spans in (("back_to_back", 0), ("span_1", 1), ("span_2", 2)):
        loaded = 10**-2.5
        wanted = -10 * np.log10(loaded + spans * noise / (1e-3 * 10 ** np.array([0, 0.1, 0.2])))
        np.testing.assert_allclose(result[f"received/{name}/osnr_db"][0], wanted, atol=1e-6)
        frequency = np.asarray(result["signal/frequencies"])
        w = 2 * math.pi * (frequency - SPEED_OF_LIGHT / 1550e-9)
        beta2 = -21.7e-27 + 0.13e-39 * w
        dispersion = -2 * math.pi * beta2 * frequency**2 / SPEED_OF_LIGHT * 80e3 * spans
        np.testing.assert_allclose(result[f"received/{name}/dispersion"][0], dispersion, rtol=1e-9)
        wider = 10 * math.log10(32 / 12.5)
        gsnr, q = (result[f"received/{name}/{key}_db"] for key in ("gsnr", "q_squared"))
        np.testing.assert_allclose(gsnr, q + wider, atol=1e-12)


def test_gsnr_of_a_linear_link_is_its_osnr(simulate):
    signal = {"symbols": 8192, "modulation": "qpsk", "launch_power": "-15 dBm"}
    result = simulate(settings(piece("80 km"), NOISY, piece("16 km", "dcf"), NOISY, signal=signal, **LINEAR))
    for name in ("span_1", "span_2"):
        osnr, gsnr = (result[f"received/{name}/{key}_db"] for key in ("osnr", "gsnr"))
        np.testing.assert_allclose(gsnr, osnr, atol=0.15)
    left = 80e3 * 21.7e-27 - 16e3 * 108.5e-27
    assert left == 0
    assert abs(result["received/span_2/dispersion"]).max() < 1e-12
    assert result["received/span_1/dispersion"].min() > 1.3
    assert DCF["beta2"] == "108.5 ps^2/km"


def test_summaries_have_the_worst_signal(simulate):
    signal = {"modulation": ["qpsk", "16qam", "qpsk"], "launch_power": ["0 dBm", "-3 dBm", "1 dBm"]}
    result = simulate(settings(piece("80 km"), NOISY, signal=signal))
    (row,) = group_rows(result)
    levels = row["received"]["span_1"]
    for key in ("osnr", "gsnr"):
        values = result[f"received/span_1/{key}_db"]
        assert levels[f"{key}_min_db"] == values.min()
        assert [each[f"{key.upper()}_dB"] for each in channel_rows(result)] == pytest.approx(values[0])
    assert row["received"]["back_to_back"]["osnr_min_db"] is None


def test_direct_detection_has_no_gsnr(simulate):
    result = simulate(settings(piece("1 km"), NOISY, signal={"modulation": "ook"}))
    assert np.isnan(result["received/span_1/gsnr_db"]).all()
    assert np.isfinite(result["received/span_1/osnr_db"]).all()
    (axes,) = eye_figure(result).axes
    assert axes.get_ylabel() == "current"


def test_figures_of_signals(simulate, tmp_path):
    result = simulate(settings(piece("80 km"), NOISY, receiver={"constellations": "all"}))
    upper, lower = eye_figure(result, channel=1).axes
    assert (upper.get_ylabel(), lower.get_ylabel()) == ("in phase", "quadrature")
    assert "of channel 1" in upper.figure.get_suptitle()
    # Traces cross at the symbols: at times −1, 0 and 1.
    traces = np.array([line.get_ydata() for line in upper.lines])
    time = upper.lines[0].get_xdata()
    symbols = traces[:, np.isin(time, (-1, 0, 1))]
    levels = np.sqrt(0.1) * np.array([-3, -1, 1, 3])
    assert abs(symbols[..., None] - levels).min(axis=-1).max() < 0.2
    (axes,) = ratio_figure(result).axes
    lines = {line.get_label(): line for line in axes.lines}
    np.testing.assert_allclose(lines["OSNR"].get_ydata(), result["received/span_1/osnr_db"][0])
    assert axes.get_xlabel() == "optical frequency (THz)"
    stems = [path.stem.removeprefix("out-") for path in plot_result(tmp_path / "out.h5")]
    assert stems == ["q2", "constellation", "eye", "snr", "spectrum", "power"]
    stems = [path.stem.removeprefix("out-") for path in plot_result(tmp_path / "out.h5", brief=True)]
    assert stems == ["q2", "constellation", "spectrum", "power"]


def test_delays_of_a_coupled_link(simulate):
    coupling = {"correlation_length": "2 km", "pmd": "1 ps/sqrt(km)", "within": "polarisations"}
    run = settings(piece("80 km"), NOISY, fibre={"random_coupling": coupling}, solver={"step": "2 km"})
    result, figures = simulate(run), modal_figures(run)
    for name, values in figures.arrays().items():
        np.testing.assert_allclose(result[f"modal/{name}"], values, rtol=1e-9, atol=1e-25)
    left, right = delay_figure(result).axes
    np.testing.assert_allclose(left.lines[0].get_ydata(), figures.delay_spread * 1e12)
    assert right.get_legend_handles_labels()[1] == ["Maxwellian of the same mean"]
    area = np.trapezoid(right.lines[0].get_ydata(), right.lines[0].get_xdata())
    assert 0.5 < area < 1.001  # a density, up to 1.5 times the largest delay
    result = simulate(settings(piece("80 km"), NOISY))
    assert not result.groups("modal")
    assert delay_figure(result) is None
