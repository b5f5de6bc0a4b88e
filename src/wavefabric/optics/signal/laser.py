"""Phase noise of lasers: a Wiener process over the periodic window."""

import math
from typing import Any

import numpy as np

from wavefabric.device import philox
from wavefabric.errors import InputError
from wavefabric.optics.signal.wdm import WdmGrid
from wavefabric.quantities import number

#: Lasers of a channel: one transmits all its modes, one is the local oscillator of all of them.
TRANSMITTER, LOCAL_OSCILLATOR = 0, 1


def check_linewidth(linewidth: Any) -> float:
    """Return ``linewidth``, a number in Hz or text, if it is from 0 to 1e16 Hz, else raise InputError."""
    linewidth = number(linewidth, "Hz", "linewidth")
    if not 0 <= linewidth <= 1e16:
        raise InputError(f"linewidth: {linewidth!r} given; allowed: 0 Hz or more, up to 1e16")
    return linewidth


def laser_phase(grid: WdmGrid, linewidth: float, seed: int, laser: int, channel: int) -> np.ndarray:
    """Phase (rad) of the laser of a ``channel`` at 2 samples per symbol: float64, shape (2 symbols,).

    ``linewidth`` (Hz) is the full width at half maximum Δν of its Lorentzian line: over a time t the phase
    walks by a Gaussian of variance 2πΔν t (C. H. Henry, "Theory of the phase noise and power spectrum of a
    single mode injection laser", IEEE J. Quantum Electron. 19 (1983), doi 10.1109/JQE.1983.1071721). The walk
    is tied to its start at the end of the window T (a Brownian bridge), so that the window stays periodic:
    the variance is 2πΔν t (1 − t/T). ``laser`` is `TRANSMITTER` or `LOCAL_OSCILLATOR`. The phase follows from
    ``seed``, ``laser`` and ``channel`` alone, on any rank.
    """
    n = 2 * grid.symbols
    walk = np.zeros(n, np.complex128)
    philox.add_complex_normal(walk, 1.0, seed, philox.stream(philox.LASER, laser, channel), 0)
    phase = np.cumsum(walk.real * math.sqrt(4 * math.pi * linewidth * grid.duration / n))
    return phase - phase[-1] * np.arange(1, n + 1) / n


def laser_turn(device, grid: WdmGrid, linewidth: float, seed: int, laser: int):
    """Factor of each channel's field by the phase noise of its ``laser``: (channels, 2 symbols)."""
    phases = [laser_phase(grid, linewidth, seed, laser, channel) for channel in range(grid.channels)]
    # The carrier is exp(−iω₀t), and so is the sign of the phase.
    return device.xp.asarray(np.exp(-1j * np.array(phases)))
