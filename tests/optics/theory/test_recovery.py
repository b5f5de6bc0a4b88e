"""What a receiver's own estimates cost, against receptions over several seeds."""

import numpy as np
import pytest

from wavefabric.optics.fibre.presets import single_mode
from wavefabric.optics.signal.equaliser import Equaliser
from wavefabric.optics.signal.receiver import Receiver
from wavefabric.optics.signal.transmitter import Transmitter
from wavefabric.optics.signal.wdm import WdmGrid
from wavefabric.optics.theory.expected import expected_quality
from wavefabric.optics.theory.line import Spans

#: OSNR (dB) over the signal-to-noise ratio of a symbol.
OSNR = 10 * np.log10(32 / 12.5)
DARK = single_mode(gamma=0.0)


def compared(cpu, modulation, snr_db, seeds=4, symbols=4096, transmitted=0.0, **options):
    """Q² in dB of the mean error of some receptions back to back, and what theory expects."""
    grid, errors = WdmGrid.centred(193.4e12, 50e9, 1, 32e9, 2, symbols), []
    for seed in range(1, seeds + 1):
        transmitter = Transmitter(grid, modulation, 0.1, 1e-3, seed, linewidth=transmitted)
        receiver = Receiver(transmitter, snr_db + OSNR, seed, **options)
        field = cpu.empty((2, grid.samples), np.complex128)
        transmitter.fill(cpu, field)
        errors.append(receiver.receive(cpu, field).evm ** 2)
    expected = expected_quality(DARK, receiver, Spans(1e3))["back_to_back"]
    return -10 * np.log10(np.mean(errors)), float(expected.q_squared_db[0, 0])


@pytest.mark.parametrize(
    ("modulation", "snr_db", "phase", "window", "within"),
    [
        ("qpsk", 6, "auto", 16, 0.03),
        ("qpsk", 6, "none", 16, 0.03),
        ("qpsk", 6, "viterbi-viterbi", 64, 0.03),
        ("qpsk", 4, "viterbi-viterbi", 64, 0.06),
        ("qpsk", 8, "viterbi-viterbi", 16, 0.05),
        ("qpsk", 8, "blind-search", 16, 0.04),
        ("qpsk", 20, "blind-search", 8, 0.03),
        ("16qam", 11, "blind-search", 64, 0.06),
        ("16qam", 16, "blind-search", 16, 0.04),
        ("64qam", 18, "blind-search", 64, 0.06),
        ("gaussian", 10, "data-aided", 64, 0.04),
    ],
)
def test_carrier_phase_of_noisy_symbols(cpu, modulation, snr_db, phase, window, within):
    measured, expected = compared(cpu, modulation, snr_db, phase=phase, phase_window=window)
    assert measured == pytest.approx(expected, abs=within)


def test_a_blind_phase_is_not_free():
    """The fourth power costs (9σ⁴ + 12σ⁶ + 3σ⁸)/4 over the neighbours, times 1 + σ²."""
    grid = WdmGrid.centred(193.4e12, 50e9, 1, 32e9, 2, 4096)
    transmitter, error = Transmitter(grid, "qpsk", 0.1, 1e-3), 10**-0.8
    for window, part in ((256, 1 / 255.5), (None, 0.0), (4096, 0.0)):
        receiver = Receiver(transmitter, 8 + OSNR, phase="viterbi-viterbi", phase_window=window)
        one = expected_quality(DARK, receiver, Spans(1e3))["back_to_back"]
        extra = part * (1 + error) * (9 * error**2 + 12 * error**3 + 3 * error**4) / 4
        assert one.recovery[0, 0] / 1e-3 == pytest.approx(extra, rel=2e-3, abs=1e-12)


@pytest.mark.parametrize("widths", [(2e5, 1e5), (0.0, 3e5)])
def test_lasers(cpu, widths):
    options = {"transmitted": widths[0], "linewidth": widths[1], "phase_window": 32}
    measured, expected = compared(cpu, "16qam", 25, **options)
    assert measured == pytest.approx(expected, abs=0.05)
    # One phase over a short sequence, of which many are needed: the walk is another for each.
    options |= {"phase_window": None, "symbols": 256, "seeds": 60}
    measured, expected = compared(cpu, "16qam", 25, **options)
    assert 25 - expected > 0.5
    assert measured == pytest.approx(expected, abs=0.2)


@pytest.mark.parametrize("options", [{}, {"decision_directed": False}, {"memory": 1024}])
def test_taps_from_few_symbols(cpu, options):
    equaliser = Equaliser(16, 1024, **options)
    measured, expected = compared(cpu, "qpsk", 8, 2, 8192, equaliser=equaliser)
    assert 8 - expected > 0.03
    assert measured == pytest.approx(expected, abs=0.1)


def test_what_a_window_follows_of_the_fibres_own_phase_noise():
    """Without recovery no more of it is taken away than by one phase for the whole sequence."""
    grid = WdmGrid.centred(193.4e12, 50e9, 3, 32e9, 8, 1024)
    transmitter = Transmitter(grid, "gaussian", 0.1, 1e-3)
    link, fibre = Spans(80e3), single_mode(alpha="0.2 dB/km")
    options = [{"phase": "none"}, {"phase_window": None}, {}]
    none, mean, window = (
        expected_quality(fibre, Receiver(transmitter, **each), link)["span_1"].nli for each in options
    )
    np.testing.assert_array_equal(none, mean)
    assert (none > 1.05 * window).all()
