"""The two problems of ``fibre-order``: one smooth enough for orders, one as a link has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from wavefabric.device import Device
from wavefabric.optics.fibre.fibre import Fibre
from wavefabric.optics.fibre.presets import graded_index_62_5
from wavefabric.optics.signal.transmitter import Transmitter
from wavefabric.optics.signal.wdm import WdmGrid


@dataclass
class Case:
    """A start field on the device, (2M, N) complex128 in √W, and what it travels through.

    ``length`` in m, ``sample_rate`` in Hz; ``steps`` is the coarsest number of steps; ``smooth`` says
    that the first term of the error rules, so that an order can be told.
    """

    title: str
    fibre: Fibre
    field: Any
    sample_rate: float
    length: float
    steps: int
    smooth: bool


def pulses(device: Device) -> Case:
    """Gaussian pulses of 8 to 13 ps, 0.3 to 0.55 W at the peak of a row, in three modes over 4 km.

    About 4 rad of nonlinear phase and one dispersion length: the spectrum stays so narrow that the
    first term of the error rules from long steps on.
    """
    fibre = graded_index_62_5(2)
    n, rate = 1024, 1.024e12
    t = (np.arange(n) - n / 2) / rate
    field = np.empty((fibre.rows, n), np.complex128)
    for row in range(fibre.rows):
        width, centre, shift = (8 + row) * 1e-12, (row - 2.5) * 4e-12, (row - 2.5) * 2e9
        pulse = np.exp(-0.5 * ((t - centre) / width) ** 2 + 2j * np.pi * shift * t)
        field[row] = np.sqrt(0.3 + 0.05 * row) * pulse
    title = f"Pulses: {fibre.modes} modes, smooth"
    return Case(title, fibre, device.asarray(field), rate, 4e3, 16, smooth=True)


def wdm(device: Device) -> Case:
    """6 modes of groups 1 to 3, 9 DP-QPSK channels on 50 GHz, −1 dBm each, 2^8 symbols, over 20 km.

    A fixed step h makes four-wave mixing of mismatch 2π/h resonant, which the fibre does not. The error
    falls about as h until h is below 2π/(|β₂|(2πB)²) = 36 m (B = 0.435 THz, the occupied band), and
    by the order of the method only from there on; inside the band, from about 4 times that.
    """
    fibre = graded_index_62_5(3)
    grid = WdmGrid.centred(193.4e12, 50e9, 9, 32e9, 32, 256)
    field = device.empty((fibre.rows, grid.samples), np.complex128)
    Transmitter(grid, "qpsk", 0.1, 10**-3.1).fill(device, field, modes=fibre.modes)
    title = f"WDM: {fibre.modes} modes, {grid.channels} channels"
    return Case(title, fibre, field, grid.sample_rate, 20e3, 40, smooth=False)


CASES = {"pulses": pulses, "wdm": wdm}
