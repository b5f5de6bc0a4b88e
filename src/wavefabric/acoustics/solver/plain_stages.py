"""The stages of a time step made of whole-array transforms and pointwise kernels: every device, every
grid.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wavefabric.acoustics.decomposition.subdomain import Subdomain
from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.solver.layout import FieldLayout
from wavefabric.acoustics.solver.stages import Stages


class PlainStages(Stages):
    """The reference for faster stages."""

    def __init__(self, layout: FieldLayout):
        super().__init__(layout)
        c = self.coefficients
        self._real = [c.device.empty(c.shape, c.dtype) for _ in self._spectra]
        _ = c.kappa  # before any step is captured

    @classmethod
    def nbytes(cls, problem: Problem, dtype: np.dtype, device: Any, subdomain: Subdomain) -> int:
        # cuFFT has work areas of its own.
        scratch = problem.dimensions + (0 if device.name == "cpu" else 2)
        kappa, fields = math.prod(subdomain.spectral_shape), scratch * math.prod(subdomain.size)
        return super().nbytes(problem, dtype, device, subdomain) + dtype.itemsize * (kappa + fields)

    def _update_velocity(self, pml: list, dt: Any, active: tuple[bool, ...]) -> None:
        c, f = self.coefficients, self.fields
        self.layout.fill_overlaps([f.p])
        self._forward(f.p, self._spectra[0])
        c.kernels.gradient_spectra(*f.three(self._spectra), c.kappa, *c.up, c.three)
        for axis, (spectrum, gradient) in enumerate(zip(self._spectra, self._real, strict=True)):
            self._backward(spectrum, gradient)
            c.kernels.update_velocity(f.u[axis], gradient, c.staggered[axis], pml[axis], axis, dt)
        self.sources.add_velocity(f.u, f.clock, active)

    def density(self, active: tuple[bool, ...]) -> None:
        c, f = self.coefficients, self.fields
        self.layout.fill_overlaps(f.u)
        for component, spectrum in zip(f.u, self._spectra, strict=True):
            self._forward(component, spectrum)
        c.kernels.divergence_spectra(*f.three(self._spectra), c.kappa, *c.down, c.three)
        for spectrum, real in zip(self._spectra, self._real, strict=True):
            self._backward(spectrum, real)
        c.kernels.update_density(
            f.rho, f.split_layers, *f.three(self._real), c.density, c.dt, c.nonlinear, c.three
        )
        self.sources.add_pressure(f, active)

    def pressure(self) -> None:
        c, f = self.coefficients, self.fields
        loss, shift = self._real[0], self._real[1]
        if c.lossy:
            c.kernels.absorption_terms(shift, loss, f.rho, *f.three(self._real), c.density, c.three)
            if not c.stokes:
                self.layout.fill_overlaps([loss, shift] if c.disperses else [loss])
                self._multiply(loss, c.nabla1)
                if c.disperses:
                    self._multiply(shift, c.nabla2)
        c.kernels.update_pressure(
            f.p, f.rho, c.speed, c.density, c.ratio, c.tau, c.eta_factor, loss, shift,
            c.nonlinear, c.lossy, c.disperses,
        )  # fmt: skip

    # --- Transforms ------------------------------------------------------------------------------------

    def apply_operator(self, field, operator) -> None:
        self.layout.fill_overlaps([field])
        self._multiply(field, operator)

    def _multiply(self, field, operator) -> None:
        self._forward(field, self._spectra[-1])
        self.coefficients.kernels.scale_spectrum(self._spectra[-1], operator)
        self._backward(self._spectra[-1], field)

    def _forward(self, real, spectrum) -> None:
        self.layout.fft.forward(real, spectrum)
        self.transforms += 1

    def _backward(self, spectrum, real) -> None:
        self.layout.fft.backward(spectrum, real)
        self.transforms += 1
