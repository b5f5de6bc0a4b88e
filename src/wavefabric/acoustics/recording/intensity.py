"""Acoustic intensity I = p u at the points and times of the pressure.

The velocity lives half a time step before the pressure of the same step. It is brought to the pressure's
time by six-point Lagrange interpolation, which errs by 2.8·10⁻⁴ at ten steps a period and 5·10⁻⁶ at
twenty. It needs velocities of later steps, so products lag three steps behind.
"""

from __future__ import annotations

from typing import Any

import numpy as np

#: Weights of u at −5/2, −3/2, …, +5/2 steps.
WEIGHTS = np.array([3.0, -25.0, 150.0, 150.0, -25.0, 3.0]) / 256.0


class Intensity:
    """Products and time averages of p and u at the sensor, for the axes ``"xy"`` or ``"xyz"``."""

    #: Steps by which products lag behind, and steps needed before the first.
    lag = 3
    reach = 2

    def __init__(self, device, axes: str, samples: int, dtype):
        self._device, self._axes = device, axes
        shape = (len(axes), samples)
        self._u = [device.zeros(shape, dtype) for _ in range(6)]
        self._p = [device.zeros(samples, dtype) for _ in range(4)]
        self.sums = device.zeros(shape, np.float64)
        self._weights = [np.dtype(dtype).type(w) for w in WEIGHTS]
        self._recorded = 0

    def pressure(self, values) -> None:
        """This step's pressure, (samples,)."""
        self._p = [*self._p[1:], self._p[0]]
        self._p[-1][...] = values
        self._u = [*self._u[1:], self._u[0]]

    def velocity(self, axis: int, values) -> None:
        """This step's velocity at the pressure's points, half a step earlier."""
        self._u[-1][axis] = values

    def advance(self, recorded: int) -> list:
        """Products that are complete after ``recorded`` rows (counted from the start of recording)."""
        self._recorded = max(recorded, 0)
        return [self._product()] if recorded > self.lag else []

    def flush(self) -> list:
        """The last products: beyond the end the velocity is taken to go on as it was."""
        rows = []
        for late in range(self.lag):
            last = self._u[-1].copy()
            self.pressure(self._p[-1].copy())
            self._u[-1][...] = last
            if late >= self.lag - self._recorded:  # else from before the start of recording
                rows.append(self._product())
        return rows

    def resume(self, recorded: int) -> int:
        """Go on after ``recorded`` steps; the rows of products that were written by then."""
        self._recorded = recorded
        return max(0, recorded - self.lag)

    def averages(self, rows: int) -> dict[str, np.ndarray]:
        """⟨I⟩ over the recording, by name."""
        sums = np.asarray(self._device.to_host(self.sums)) / rows
        dtype = self._p[0].dtype
        return {f"I{axis}_avg": sums[i].astype(dtype) for i, axis in enumerate(self._axes)}

    def state(self) -> dict[str, Any]:
        """Arrays that a checkpoint must hold."""
        velocities = {f"I_u{i}": array for i, array in enumerate(self._u)}
        pressures = {f"I_p{i}": array for i, array in enumerate(self._p)}
        return velocities | pressures | {"I_sums": self.sums}

    def _product(self):
        # p[0] is three steps old; the six velocities surround its time.
        between = sum(w * u for w, u in zip(self._weights, self._u, strict=True))
        product = self._p[0] * between
        self.sums += product
        return product
