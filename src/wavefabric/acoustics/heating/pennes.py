"""Solves Pennes's bioheat equation: Fourier in space, time steps that are exact for uniform tissue.

    ρC ∂θ/∂t = ∇·(k∇θ) − ρ_b C_b w θ + Q,   θ = T − T_b   (Pennes 1948, doi:10.1152/jappl.1948.1.2.93)

Let λ = D q² + P, with wavenumber q and the tissue's largest diffusivity D and cooling rate P by blood. A step
is θ += F⁻¹{Δt φ₁(−λΔt) F{∂θ/∂t}}, where φ₁(x) = (eˣ − 1)/x. If tissue is not uniform, a second stage makes
the step second order (ETD2RK; Cox & Matthews 2002, doi:10.1006/jcph.2002.6995). The flux k∇θ is computed
half a spacing off the points of θ, with harmonic means of the conductivity k.
"""

from typing import Any

import numpy as np

from wavefabric.acoustics.choose_stages import make_stages
from wavefabric.acoustics.grid import Grid
from wavefabric.acoustics.heating.tissue import ThermalMedium
from wavefabric.acoustics.medium import Medium, stagger
from wavefabric.acoustics.parallel.restrict import restrict_array
from wavefabric.runtime.exchange.communicator import Communicator

#: An arbitrary medium: only the transforms of the stages are used, sound is not simulated.
_SOUND = Medium(1500.0, 1000.0)
_DTYPE = np.dtype(np.float64)
#: Fields of the grid's size that a step needs, transforms included.
FIELDS = 30


class PennesStep:
    """Takes time steps of the temperature rise θ, (Nz, Ny, Nx) on each rank; all ranks call each method."""

    def __init__(self, grid: Grid, medium: ThermalMedium, power: Any, comm: Communicator):
        several = comm if comm.size > 1 else None
        problem = grid.silent_problem(_SOUND, 1e-9)
        self.stages = make_stages(comm.device, problem, _DTYPE, plain=True, comm=several)
        c = self.stages.coefficients
        self._grid, self._uniform = grid, medium.uniform
        resistance: Any = 1 / np.asarray(medium.conductivity)
        if resistance.ndim:
            resistance = grid.to_memory(resistance, "thermal.conductivity")
        self._flux = [self._local(1 / stagger(resistance, *each)) for each in enumerate(grid.periodic)]
        capacity, cooling = medium.heat_capacity, medium.blood_cooling
        self._inverse, self._cooling = self.put(1 / np.asarray(capacity)), self.put(cooling)
        self._power = self.put(power)
        #: Largest diffusivity, m²/s, and cooling, 1/s.
        self._reference = float(np.max(medium.conductivity / capacity)), float(np.max(cooling / capacity))
        self.theta = c.device.zeros(c.shape, _DTYPE)
        # Fields of sound serve as scratch.
        fields = self.stages.fields
        self._rate, self._gradient, self._scratch = fields.p, fields.u[0], fields.rho
        self._dt = 0.0

    def put(self, values: Any) -> Any:
        """Return a number unchanged; of a field [x, y(, z)], copy this rank's part to its device."""
        return self._local(self._grid.to_memory(values, "thermal") if np.ndim(values) else values)

    def _local(self, values: Any) -> Any:
        """Return a number unchanged; of a field (Nz, Ny, Nx), copy this rank's part to its device."""
        if np.ndim(values) == 0:
            return float(values)
        c = self.stages.coefficients
        return c.device.asarray(restrict_array(np.asarray(values, float), c.subdomain), _DTYPE)

    def set_step(self, dt: float) -> None:
        """Compute the operators of a time step ``dt``, s."""
        if dt == self._dt:
            return
        self._dt = dt
        c = self.stages.coefficients
        xp = c.device.xp
        kx2, ky2, kz2 = (c.device.asarray(k2) for k2 in c.squares)
        diffusivity, perfusion = self._reference
        z = dt * (perfusion + diffusivity * (kz2[:, None, None] + ky2[None, :, None] + kx2[None, None, :]))
        small = z < 1e-4
        safe = xp.where(small, 1.0, z)
        decay = xp.exp(-z)
        first = xp.where(small, 1 - z / 2 + z**2 / 6, -xp.expm1(-safe) / safe)
        scale = dt * c.scale
        self._first = scale * first
        if not self._uniform:
            # φ₂(−z) by its series near 0, where the quotient cancels.
            second = xp.where(
                z < 1e-2, 0.5 - z / 6 + z**2 / 24 - z**3 / 120, (xp.expm1(-safe) + safe) / safe**2
            )
            self._second = scale * second
            self._difference_factors = scale * (first - second * decay)

    def take(self, factor: float) -> None:
        """Take a step with the power times ``factor``."""
        self._set_rate(self.theta, factor)
        if self._uniform:
            self.stages.apply_operator(self._rate, self._first)
            self.theta += self._rate
            return
        change = self._rate.copy()
        self.stages.apply_operator(self._rate, self._first)
        self._rate += self.theta
        ahead = self._rate.copy()
        self._set_rate(ahead, factor)
        self.stages.apply_operator(self._rate, self._second)
        self.stages.apply_operator(change, self._difference_factors)
        self.theta += self._rate
        self.theta += change

    def _set_rate(self, theta: Any, factor: float) -> None:
        """Compute ∂θ/∂t from ``theta``, with the power times ``factor``, and store it in `_rate`."""
        c, rate = self.stages.coefficients, self._rate
        rate[...] = factor * self._power - self._cooling * theta
        for axis, conductivity in enumerate(self._flux):
            self.stages.translate(theta, axis, c.up[axis], self._gradient)
            self._gradient *= conductivity
            self.stages.translate(self._gradient, axis, c.down[axis], self._scratch)
            rate += self._scratch
        rate *= self._inverse
