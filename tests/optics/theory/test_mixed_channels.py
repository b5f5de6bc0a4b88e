"""Theory for channels of different rate, roll-off and format, against dense sums and simulation."""

import math

import numpy as np
import pytest

from wavefabric.base.results import read_result
from wavefabric.optics.fibre.presets import single_mode
from wavefabric.optics.link.run import run_link
from wavefabric.optics.run_file.load import RunFile
from wavefabric.optics.signal.receiver import Receiver
from wavefabric.optics.signal.transmitter import Transmitter, root_raised_cosine
from wavefabric.optics.signal.wdm import WdmGrid
from wavefabric.optics.theory.expected import expected_quality
from wavefabric.optics.theory.gaussian_noise import Options, Spans, nonlinear_interference
from wavefabric.runtime.exchange import solo

LOSS = 0.2e-3 * math.log(10) / 10
FIBRE = single_mode(-21.7e-27, 1.3e-3, LOSS)
RATES, ROLLOFFS, POWERS = np.array([32e9, 96e9, 64e9]), np.array([0.1, 0.3, 0.0]), [1e-3, 3e-3, 1.5e-3]
GRID = WdmGrid([193.3e12, 193.4e12, 193.5e12], RATES, 16, 512)


def sent(form="gaussian", rates=RATES, rolloffs=ROLLOFFS, powers=POWERS):
    return Transmitter(WdmGrid(GRID.frequencies, rates, 16, 512), form, rolloffs, powers)


def dense(transmitter, channel):
    """The double integral of the Gaussian-noise model as a sum over a fine grid, W."""
    grid, length, df = transmitter.grid, 80e3, 0.25e9
    rates, rolloffs = grid.symbol_rates, transmitter.rolloffs
    axis = np.arange(-160e9 + df / 2, 160e9, df)

    def spectrum(f):
        return sum(
            root_raised_cosine((f - offset) / rate, rolloff) ** 2 * power / 2 / rate
            for offset, rate, rolloff, power in zip(
                grid.offsets, rates, rolloffs, transmitter.powers(1)[0], strict=True
            )
        )

    u, weights = np.polynomial.legendre.leggauss(16)
    half, total = rates[channel] * (1 + rolloffs[channel]) / 2, 0.0
    for f, weight in zip(u * half + grid.offsets[channel], weights * half, strict=True):
        matched = root_raised_cosine((f - grid.offsets[channel]) / rates[channel], rolloffs[channel]) ** 2
        third = np.add.outer(axis, axis) - f
        mismatch = -21.7e-27 * (2 * math.pi) ** 2 * np.outer(axis - f, f - axis)
        rate = 1j * mismatch - LOSS
        product = np.outer(spectrum(axis), spectrum(axis)) * spectrum(third)
        integral = (product * abs(np.expm1(rate * length) / rate) ** 2).sum() * df**2
        total += 2 * weight * matched * 3 * (1.3e-3 * 8 / 9) ** 2 * integral
    return total


@pytest.mark.slow
@pytest.mark.parametrize(
    "channel", [pytest.param(0, marks=pytest.mark.slow), 1, pytest.param(2, marks=pytest.mark.slow)]
)
def test_gaussian_symbols_against_a_dense_sum(channel):
    """Three rates and roll-offs, unlike powers: the smallest spectrum beside and inside the widest."""
    ours = nonlinear_interference(FIBRE, sent(), Spans(80e3))[0, channel]
    assert ours == pytest.approx(dense(sent(), channel), rel=0.02)


def test_one_channel_of_any_rate_is_that_channel_alone():
    """A dark neighbour of another rate changes nothing, whichever of them sets the window."""
    for form in ("gaussian", "16qam"):
        alone = Transmitter(WdmGrid([193.4e12], 96e9, 16, 1536), form, 0.3, 3e-3)
        lit = sent(form, powers=[0, 3e-3, 0])
        one = nonlinear_interference(FIBRE, alone, Spans(80e3, 2), Options(phase_window=64, symbols=1536))
        three = nonlinear_interference(FIBRE, lit, Spans(80e3, 2), Options(phase_window=64, symbols=512))
        assert three[0, 1] == pytest.approx(one[0, 0], rel=5e-3)


def test_only_the_interferers_format_counts_between_channels():
    """The excess of a weak channel under two strong ones is half that of each strong channel alone."""
    powers, shape = [2e-3, 1e-9, 2e-3], {"rates": [64e9, 32e9, 64e9], "rolloffs": 0.1}
    gaussian, left, both, outer = (
        nonlinear_interference(FIBRE, sent(form, powers=powers, **shape), Spans(80e3, 3))[0, 1]
        for form in (
            "gaussian",
            ["qpsk", "gaussian", "gaussian"],
            ["qpsk", "gaussian", "qpsk"],
            ["qpsk", "16qam", "qpsk"],
        )
    )
    assert both < 0.98 * gaussian
    assert gaussian - left == pytest.approx((gaussian - both) / 2, rel=1e-3)
    assert outer == pytest.approx(both, rel=1e-3)


@pytest.mark.slow
def test_noise_is_that_of_each_matched_filter():
    receiver = Receiver(sent("qpsk"), osnr_db=20)
    last = expected_quality(FIBRE, receiver, Spans("80 km", 2), noise_figure_db=5)["span_2"]
    np.testing.assert_allclose(last.ase[0] / last.ase[0, 0], RATES / 32e9, rtol=1e-12)
    np.testing.assert_allclose(last.loaded[0] / last.signal[0], RATES / 12.5e9 / 100, rtol=1e-12)


@pytest.mark.slow
def test_a_run_of_mixed_channels_meets_theory(cpu, tmp_path):
    """32, 64 and 96 GBaud with QPSK, 16-QAM, 64-QAM: Q² of each channel within 0.3 dB after each span."""
    signal = {
        "modulation": ["64qam", "qpsk", "16qam", "16qam", "qpsk"],
        "symbol_rate": [32e9, 64e9, 96e9, 64e9, 32e9],
        "rolloff": [0.1, 0.1, 0.05, 0.2, 0.1],
        "symbols": 1024,
        "samples_per_symbol": 24,
        "launch_power": [1.25e-3, 2.5e-3, 3.2e-3, 2e-3, 1.25e-3],
        "frequencies": [193.3e12, 193.37e12, 193.47e12, 193.57e12, 193.64e12],
    }
    difference = []
    for seed in (1, 2, 3):
        tables = {
            "seed": seed,
            "fibre": {"preset": "single-mode", "attenuation": LOSS},
            "link": {"length": 80e3, "spans": 3, "noise_figure": 5.0},
            "signal": signal,
            # Longer than dispersion spreads a channel, as theory assumes: 3 ns at 96 GBaud.
            "receiver": {"phase_window": 256},
            "solver": {"step": 200.0, "integrator": "strang"},
            "output": {"theory": True},
        }
        run = RunFile.model_validate(tables)
        done = run_link(run, tmp_path / f"{seed}.h5", comm=solo(cpu), warn=lambda _: None)
        result = read_result(done.path)
        for name in ("span_1", "span_2", "span_3"):
            q_squared = (result[f"{kind}/{name}/q_squared_db"] for kind in ("received", "theory"))
            difference.append(np.subtract(*q_squared))
    mean = np.reshape(difference, (3, 3, 5)).mean(axis=0)
    assert abs(mean).max() < 0.3
    assert abs(mean.mean()) < 0.1
