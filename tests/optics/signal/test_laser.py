"""Phase noise of lasers and its removal, against closed forms."""

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.optics.signal.constellation import Constellation
from wavefabric.optics.signal.receiver import Receiver
from wavefabric.optics.signal.recovery import blind_phase, sliding_sum
from wavefabric.optics.signal.transmitter import LOCAL_OSCILLATOR, TRANSMITTER, Transmitter, laser_phase
from wavefabric.optics.signal.wdm import WdmGrid
from wavefabric.runtime.device import get_device

CPU = get_device("cpu")
RATE = 32e9


def grid(symbols, channels=1, samples=2):
    return WdmGrid.centred(193.4e12, 50e9, channels, RATE, samples, symbols)


def field(transmitter, rows=2):
    out = CPU.empty((rows, transmitter.grid.samples), np.complex128)
    transmitter.fill(CPU, out)
    return out


def received(modulation, osnr_db, linewidths, symbols=1 << 15, **options):
    """Of one mode back-to-back; linewidths (Hz) of the transmitter and of the local oscillator."""
    transmitter = Transmitter(grid(symbols), modulation, 0.1, 1e-3, 2, linewidth=linewidths[0])
    receiver = Receiver(transmitter, osnr_db, linewidth=linewidths[1], **options)
    return receiver.receive(CPU, field(transmitter))


def test_the_walk_is_a_brownian_bridge():
    short, linewidth = grid(64), 1e6
    phases = np.array([laser_phase(short, linewidth, seed, TRANSMITTER, 0) for seed in range(4000)])
    assert phases.shape == (4000, 128)
    n, step = 128, 2 * np.pi * linewidth / (2 * RATE)
    for lag in (1, 16, 64):
        apart = phases[:, lag:] - phases[:, :-lag]
        assert apart.var() == pytest.approx(step * lag * (1 - lag / n), rel=0.05)
    # Over the end of the window as anywhere else.
    assert (phases[:, 0] - phases[:, -1]).var() == pytest.approx(step * (1 - 1 / n), rel=0.1)


def test_lasers_are_independent_and_the_same_anywhere():
    wide = grid(4096)
    drawn = [(1, TRANSMITTER, 0), (1, LOCAL_OSCILLATOR, 0), (1, TRANSMITTER, 1), (2, TRANSMITTER, 0)]
    steps = np.array([np.diff(laser_phase(wide, 1e5, *which)) for which in drawn])
    assert abs(np.corrcoef(steps) - np.eye(4)).max() < 0.05
    np.testing.assert_array_equal(laser_phase(wide, 1e5, *drawn[1]), laser_phase(wide, 1e5, *drawn[1]))
    assert not laser_phase(wide, 0.0, 1, TRANSMITTER, 0).any()


def test_the_transmitted_phase_is_that_of_the_laser_in_all_modes():
    """A channel alone on its grid is the clean one, turned; neighbours only add."""
    clean, noisy = (
        Transmitter(grid(512, 1), "qpsk", 0.1, 1e-3, 5, linewidth=width) for width in (0, "1 MHz")
    )
    turn = np.exp(-1j * laser_phase(clean.grid, 1e6, 5, TRANSMITTER, 0))
    np.testing.assert_allclose(field(noisy, 4), field(clean, 4) * turn, atol=1e-14)
    grids = grid(512, 3, 8)
    powers = ([1e-3, 0, 0], [0, 2e-3, 0], [0, 0, 3e-3], [1e-3, 2e-3, 3e-3])
    parts = [field(Transmitter(grids, "qpsk", 0.1, power, 5, linewidth=1e8)) for power in powers]
    np.testing.assert_allclose(sum(parts[:3]), parts[3], atol=1e-14)
    assert (abs(parts[3]) ** 2).mean() == pytest.approx(3e-3, rel=0.05)


@pytest.mark.parametrize("parts", [(1, 0), pytest.param((0, 1), marks=pytest.mark.slow), (0.5, 0.5)])
@pytest.mark.parametrize(("per_symbol", "window"), [(1e-4, 32), (1e-5, 256)])
def test_what_a_sliding_window_leaves_of_the_walk(parts, per_symbol, window):
    """A mean over n neighbours misses the walk by 2πΔνT (n² − 1)/(12 n) rad²; noise is not changed."""
    linewidths = [part * per_symbol * RATE for part in parts]
    options = {"phase_window": window}
    both = [received("16qam", 20.0, widths, **options) for widths in (linewidths, (0, 0))]
    errors = [10 ** (-float(each.q_squared_db[0, 0]) / 10) for each in both]
    expected = 2 * np.pi * per_symbol * (window**2 - 1) / (12 * window)
    assert errors[0] - errors[1] == pytest.approx(expected, rel=0.12)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "per_symbol"), [("qpsk", 4.1e-4), ("16qam", 1.4e-4), ("64qam", 4e-5)])
def test_the_blind_search_tolerates_the_published_linewidths(name, per_symbol):
    """1 dB of penalty at a bit error ratio of 1e-3: T. Pfau et al. (2009), doi 10.1109/JLT.2008.2010511."""
    form = Constellation(name)
    levels = np.linspace(5, 30, 2501)
    needed = levels[np.argmax(form.ber(10 ** (levels / 10)) < 1e-3)]
    osnr = needed + 1 + 10 * np.log10(RATE / 12.5e9)
    result = received(name, osnr, (0, per_symbol * RATE), 1 << 16, phase="blind-search", phase_window=19)
    # Differential coding, which they need against cycle slips, doubles the ratio.
    assert 0.3e-3 < float(result.ber_counted[0, 0]) < 1e-3
    # Without any window the same walk is fatal.
    assert received(name, osnr, (0, per_symbol * RATE), phase_window=None).ber_counted > 0.1


def test_the_blind_search_sees_a_phase_between_two_test_phases():
    form, rng = Constellation("16qam"), np.random.default_rng(3)
    sent = form.map(np, rng.integers(0, 16, (2, 4096)))
    noise = (rng.normal(size=sent.shape) + 1j * rng.normal(size=sent.shape)) * 0.05
    for phase in (0.0, 0.013, 0.4, 1.56):
        result = blind_phase(np, form, 256, (sent + noise) * np.exp(1j * phase))
        wrong = (result - phase + np.pi / 4) % (np.pi / 2) - np.pi / 4
        assert abs(wrong).max() < 0.02


@pytest.mark.parametrize("size", [2, 7, 8])
def test_sums_beyond_the_ends(size):
    values = np.random.default_rng(1).normal(size=(3, 40))
    ones = np.pad(values, ((0, 0), (size, size)))
    expected = [ones[:, k + size - size // 2 : k + 2 * size - size // 2].sum(axis=1) for k in range(40)]
    got = sliding_sum(np, values, size, centre_weight=1.0, periodic=False)
    np.testing.assert_allclose(got, np.array(expected).T, atol=1e-12)


@pytest.mark.slow
def test_dispersion_turns_the_oscillators_phase_noise_into_noise():
    """Equalisation-enhanced phase noise: frequencies of a symbol meet a walk over T = 2π|β₂|LR.

    The mean over a band of the squared distance of a walk from its mean is 2πΔν T/6. W. Shieh, K.-P. Ho
    (2008), doi 10.1364/OE.16.015718, have 3/2 of it, which counts what the phase recovery removes.
    """
    total, linewidth = -21.7e-27 * 2000e3, 2e5
    transmitter = Transmitter(grid(1 << 15), "qpsk", 0.01, 1e-3, 2)
    omega = 2 * np.pi * np.fft.fftfreq(transmitter.grid.samples, 1 / transmitter.grid.sample_rate)
    far = np.fft.ifft(np.fft.fft(field(transmitter)) * np.exp(0.5j * total * omega**2))
    beta = np.array([[0, total, 0, 0]])
    options = {"clock": "none", "linewidth": linewidth}
    error = [
        Receiver(transmitter, None, seed, **options).receive(CPU, far, 1.0, beta).evm ** 2
        for seed in range(16)
    ]
    expected = 2 * np.pi * linewidth * 2 * np.pi * abs(total) * RATE / 6
    assert float(np.mean(error)) == pytest.approx(expected, rel=0.08)
    # The transmitter's phase noise goes the same way as its signal.
    noisy = Transmitter(transmitter.grid, "qpsk", 0.01, 1e-3, 2, linewidth=linewidth)
    far = np.fft.ifft(np.fft.fft(field(noisy)) * np.exp(0.5j * total * omega**2))
    result = Receiver(noisy, clock="none", phase_window=16).receive(CPU, far, 1.0, beta)
    assert float(result.evm[0, 0]) ** 2 < 0.1 * expected


def test_refusals():
    with pytest.raises(InputError, match=r"linewidth: -1\.0 given; allowed: 0 Hz or more"):
        Transmitter(grid(16), "qpsk", 0.1, 1e-3, linewidth=-1)
    transmitter = Transmitter(grid(16), "gaussian", 0.1, 1e-3)
    with pytest.raises(InputError, match="linewidth: inf given"):
        Receiver(transmitter, linewidth=np.inf)
    with pytest.raises(InputError, match="phase: 'blind-search' given for gaussian"):
        Receiver(transmitter, phase="blind-search")
