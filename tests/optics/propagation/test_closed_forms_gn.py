"""Closed form 11: a single-mode WDM link against the incoherent GN model.

P. Poggiolini 2012, doi 10.1109/JLT.2012.2217729; P. Poggiolini et al. 2014,
doi 10.1109/JLT.2013.2295208. For circular Gaussian symbols the model is exact to first order.
"""

import math

import numpy as np
import pytest

from wavefabric.optics.fibre.presets import single_mode
from wavefabric.optics.propagation.propagate import propagate
from wavefabric.optics.signal.receiver import Receiver
from wavefabric.optics.signal.transmitter import Transmitter, root_raised_cosine
from wavefabric.optics.signal.wdm import WdmGrid
from wavefabric.runtime.device import get_device

RATE, SPACING, CHANNELS, ROLLOFF, POWER = 32e9, 37.5e9, 3, 0.05, 0.5e-3
BETA2, GAMMA, LENGTH = -21.7e-27, 1.3e-3, 80e3
LOSS = 0.2e-3 * math.log(10) / 10


def gn_snr(powers, channel: int) -> float:
    """Signal over nonlinear interference after the matched filter of one channel, linear.

    G_NLI(f) = (16/27) γ² ∬ G(f1) G(f2) G(f1 + f2 − f) |∫e^{(iΔβ − α)z}dz|² df1 df2 with
    Δβ = 4π²β2 (f1 − f)(f2 − f) and α of power; G is the density of both polarisations.
    """
    centres = (np.arange(CHANNELS) - CHANNELS // 2) * SPACING

    def density(f):
        total = np.zeros_like(f)
        for power, centre in zip(powers, centres, strict=True):
            total += power / RATE * root_raised_cosine((f - centre) / RATE, ROLLOFF) ** 2
        return total

    df = 0.4e9
    edge = centres[-1] + RATE * (1 + ROLLOFF) / 2
    axis = np.arange(-edge + df / 2, edge, df)
    g = density(axis)
    out = (np.arange(32) + 0.5) / 32 * RATE * (1 + ROLLOFF) - RATE * (1 + ROLLOFF) / 2
    matched = root_raised_cosine(out / RATE, ROLLOFF) ** 2
    interference = 0.0
    for f, weight in zip(centres[channel] + out, matched, strict=True):
        mismatch = 4 * math.pi**2 * BETA2 * np.multiply.outer(axis - f, axis - f)
        rate = 1j * mismatch - LOSS
        length2 = abs(np.expm1(rate * LENGTH) / rate) ** 2
        third = density(np.add.outer(axis, axis) - f)
        interference += weight * 16 / 27 * GAMMA**2 * (np.outer(g, g) * third * length2).sum() * df**2
    interference *= out[1] - out[0]
    return powers[channel] / interference


@pytest.mark.slow
@pytest.mark.parametrize(("integrator", "step"), [("strang", 250.0), ("rk4ip", 1000.0)])
def test_nonlinear_interference_of_one_span(integrator, step):
    cpu = get_device("cpu", threads=1)
    grid = WdmGrid.centred(193.4e12, SPACING, CHANNELS, RATE, 8, 8192)
    transmitter = Transmitter(grid, "gaussian", ROLLOFF, POWER, seed=7)
    field = cpu.zeros((2, grid.samples), np.complex128)
    transmitter.fill(cpu, field)
    fibre = single_mode(BETA2, GAMMA, alpha=LOSS)
    # Equal steps make false phase matching at β2 Ω1Ω2 h = 2π: beyond the band for these steps.
    band = 2 * math.pi * (CHANNELS * SPACING)
    assert abs(BETA2) * band**2 * step / 4 < 2 * math.pi
    out, _ = propagate(
        field, fibre, LENGTH, sample_rate=grid.sample_rate, step=step, integrator=integrator, device=cpu
    )
    out *= math.exp(LOSS * LENGTH / 2)
    # Sent powers differ from the nominal ones by what so many Gaussian symbols do.
    sent = [
        sum((abs(transmitter.symbols(cpu, row, channel)) ** 2).mean() for row in (0, 1)) * POWER / 2
        for channel in range(CHANNELS)
    ]
    assert sent == pytest.approx([POWER] * CHANNELS, rel=0.05)
    receiver = Receiver(transmitter, clock="data-aided", phase="none")
    measured = receiver.receive(cpu, out, LENGTH, fibre.beta).q_squared_db[0]
    predicted = 10 * np.log10([gn_snr(sent, channel) for channel in range(CHANNELS)])
    difference = measured - predicted
    assert 25 < predicted.min() < predicted.max() < 45
    assert abs(difference).max() < 0.3
    assert abs(difference.mean()) < 0.2
