"""The theory against the simulator: interference behind the matched filter, without noise."""

import math

import numpy as np
import pytest

from wavefabric.optics.fibre.fibre import Fibre
from wavefabric.optics.fibre.presets import single_mode
from wavefabric.optics.propagation.propagate import propagate
from wavefabric.optics.signal.receiver import Receiver
from wavefabric.optics.signal.transmitter import Transmitter
from wavefabric.optics.signal.wdm import WdmGrid
from wavefabric.optics.theory.gaussian_noise import Options, nonlinear_interference
from wavefabric.optics.theory.line import Spans
from wavefabric.optics.theory.response import Steps
from wavefabric.runtime.device import get_device

LOSS, LENGTH, POWER = 0.2e-3 * math.log(10) / 10, 80e3, 0.5e-3
SINGLE = single_mode(-21.7e-27, 1.3e-3, LOSS)
B2 = -21.7e-27
#: Three modes with delay, in phase 50 GHz apart, and faster.
THREE = Fibre.from_coefficients(
    [[0, B2, 0.1e-39], [B2 * 2 * math.pi * 50e9, 1.1 * B2, 0], [-1.5e-13, 0.9 * B2, 0]],
    [[8 / 9, 0.5, 0.4], [0.5, 0.7, 0.3], [0.4, 0.3, 0.6]],
    1.3e-3,
    LOSS,
)


def ratio(fibre, sent, spans, seeds, window=None, step=250.0, integrator="strang", **theory):
    """Simulated over expected interference after some numbers of spans, mean over seeds, modes, channels."""
    cpu, grid, measured = get_device("cpu", 1), sent.grid, []
    for seed in range(1, seeds + 1):
        transmitter = Transmitter(grid, sent.format, sent.rolloff, sent.launch_power, seed)
        receiver = Receiver(
            transmitter, clock="none", phase="auto" if window else "none", phase_window=window
        )
        A = cpu.zeros((fibre.rows, grid.samples), np.complex128)
        transmitter.fill(cpu, A)
        for span in range(1, max(spans) + 1):
            how = {"sample_rate": grid.sample_rate, "step": step, "integrator": integrator, "device": cpu}
            A, _ = propagate(A, fibre, LENGTH, **how)
            A *= math.exp(LOSS * LENGTH / 2)
            if span in spans:
                result = receiver.receive(cpu, A, LENGTH * span, fibre.beta)
                measured.append(result.evm**2 * transmitter.powers(fibre.modes))
    mean = np.array(measured).reshape(seeds, len(spans), -1).mean(axis=(0, 2))
    options = Options(symbols=grid.symbols, phase_window=window, **theory)
    return mean / [nonlinear_interference(fibre, sent, Spans(LENGTH, n), options).mean() for n in spans]


def sent(channels, form="gaussian", samples=16, symbols=2048):
    grid = WdmGrid.centred(193.4e12, 50e9, channels, 32e9, samples, symbols)
    return Transmitter(grid, form, 0.1, POWER)


def test_one_channel():
    for form, within in (("gaussian", 0.08), ("qpsk", 0.09)):
        (one,) = ratio(SINGLE, sent(1, form, 4, 2048), [1], 4, step=2000.0)
        assert one == pytest.approx(1, abs=within)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "window", "within"),
    [
        ("gaussian", None, 0.035),
        ("gaussian", 64, 0.03),
        ("qpsk", None, 0.05),
        ("qpsk", 64, 0.05),
        ("16qam", 64, 0.03),
    ],
)
def test_five_channels_after_each_of_three_spans(form, window, within):
    assert abs(ratio(SINGLE, sent(5, form), [1, 2, 3], 8, window) - 1).max() < within


@pytest.mark.slow
@pytest.mark.parametrize(("form", "within"), [("gaussian", 0.05), ("qpsk", 0.1)])
def test_three_modes_with_delay(form, within):
    assert abs(ratio(THREE, sent(3, form, 12, 1024), [1, 2], 8) - 1).max() < within


@pytest.mark.slow
@pytest.mark.parametrize("integrator", ["strang", "rk4ip"])
def test_the_numerical_part_of_long_steps(integrator):
    """Interference grows by 80 % (33 % with RK4IP) with steps of 4 km, seven times the resonance limit."""
    steps = Steps(4000.0, integrator)
    stepped = ratio(SINGLE, sent(5), [1], 6, step=4000.0, integrator=integrator, steps=steps)
    assert stepped == pytest.approx(1, abs=0.05)
    assert ratio(SINGLE, sent(5), [1], 6, step=4000.0, integrator=integrator) > 1.25


@pytest.mark.slow
def test_the_numerical_part_of_a_narrow_band():
    """Products beyond the sampling rate come back: 8 samples per symbol hold little but the channels."""
    narrow = sent(5, samples=8)
    plain = ratio(SINGLE, narrow, [1], 8)
    folded = ratio(SINGLE, narrow, [1], 8, sample_rate=narrow.grid.sample_rate)
    assert plain > 1.06
    assert folded == pytest.approx(1, abs=0.035)
