"""Computes time steps on a CPU by kernels that fuse updates, transforms and sources (`plane_kernels`).

The spectrum of p in each plane is stored between steps, so each stage starts with data still in cache.
"""

import math
from typing import Any

import numpy as np

from wavefabric.acoustics.decomposition.subdomain import Subdomain
from wavefabric.acoustics.fused.plane_kernels import (
    DOWN,
    LOSSLESS,
    NONE,
    POWER_LAW,
    STOKES,
    TABLE,
    UP,
    MediumState,
    StepSource,
    VelocityComponent,
)
from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.solver.layout import FieldLayout
from wavefabric.acoustics.solver.source_terms import SourceTerm
from wavefabric.acoustics.solver.split_density import SplitLayers
from wavefabric.acoustics.solver.stages import Stages
from wavefabric.runtime.spectral.line_transforms import LineTransforms, pitch


class FusedCpuStages(Stages):
    """Computes time steps on a CPU like `PlainStages`, to round-off, in fewer passes over memory.

    Gradients never leave the cache. The axes of the kernels' grid are called outer, middle and x: it is
    (Nz, Ny, Nx) in 3-D, (Ny, 1, Nx) in 2-D.
    """

    kernels_alone = True

    def __init__(self, layout: FieldLayout):
        super().__init__(layout)
        c, f = self.coefficients, self.fields
        self._kernels: Any = c.device.kernels(TABLE)
        nz, ny, nx = c.shape
        #: Axis (0: x) that is the middle and the outer one of the kernels; -1: none.
        self._middle, self._outer = {1: (-1, -1), 2: (-1, 1), 3: (1, 2)}[c.axes]
        shape = (nz, ny, nx) if c.axes == 3 else (ny, 1, nx)
        factors = ([each[0], each[self._middle], each[self._outer]] for each in (c.up, c.down))
        self._lines = LineTransforms(shape, c.dtype, *factors)
        self._medium = MediumState(c.speed, c.density, c.ratio, c.tau, c.eta_factor)
        self._layers = f.split_layers if c.axes == 3 else _by_outer_axis(f.split_layers)
        if c.axes == 1:  # a step needs a second spectrum
            self._spectra = [*self._spectra, c.device.zeros(c.half_shape, c.complex)]
        _ = c.kappa  # compute κ before the first step

    @classmethod
    def pitch(cls, subdomain: Subdomain, dtype: np.dtype) -> int:
        return pitch(subdomain.basis[0], dtype)

    @classmethod
    def nbytes(cls, problem: Problem, dtype: np.dtype, device: Any, subdomain: Subdomain) -> int:
        kappa = dtype.itemsize * math.prod(subdomain.spectral_shape)
        return super().nbytes(problem, dtype, device, subdomain) + kappa

    def velocity(self, active: tuple[bool, ...]) -> None:
        super().velocity(active)
        self.transforms += 2 * self.coefficients.axes

    def _by_axis(self) -> list:
        """Return the spectra of the velocity components along x, y and z; None along missing axes."""
        s0, s1, *more = self._spectra
        spectra = [s1, s0, *more] if self._middle > 0 else [s0, s1]
        return (spectra if self.coefficients.axes > 1 else [s0]) + [None] * (3 - self.coefficients.axes)

    def _along_lines(self, by_axis: list, missing: Any = None) -> list:
        """Return three values in the order of the kernels' axes: x, middle, outer.

        ``by_axis`` has the values in the order x, y, z. An axis of the kernels that the grid lacks gets the
        value ``missing``.
        """
        return [by_axis[axis] if axis >= 0 else missing for axis in (0, self._middle, self._outer)]

    def _update_velocity(self, pml: list, dt: Any, active: tuple[bool, ...]) -> None:
        c, f = self.coefficients, self.fields
        self.sources.refresh(f.clock, active)  # now, while one spectrum is free
        s0, s1, *_ = self._spectra
        none = VelocityComponent()
        sources = [self._source(source) for source in self.sources.active_velocity(active)]
        parts = zip(f.u, c.staggered, pml, sources, self._by_axis(), strict=False)
        components = self._along_lines([VelocityComponent(*part) for part in parts], none)
        outer = s1 if self._outer > 0 else None
        self._kernels.gradient_columns(self._lines, s0, outer, c.kappa)
        self._kernels.velocity_planes(self._lines, s0, outer, dt, *components, self._delayed(active[-1]))

    def density(self, active: tuple[bool, ...]) -> None:
        c, f = self.coefficients, self.fields
        source = self._source(self.sources.pressure if active[0] else None)
        losses = LOSSLESS if not c.lossy else STOKES if c.stokes else POWER_LAW
        spectra = self._along_lines(self._by_axis())
        for number, spectrum in enumerate(spectra):
            if spectrum is not None:
                derivative = DOWN if number == 2 else NONE
                self._kernels.multiply_columns(self._lines, spectrum, c.kappa, derivative, None)
        s0, s1, *_ = self._spectra
        self._kernels.density_planes(
            self._lines, f.rho, *spectra, self._layers, f.p, self._medium, c.dt, source, c.dimensions,
            c.nonlinear, losses, s0, s1 if losses == POWER_LAW and c.disperses else None,
        )  # fmt: skip
        self.transforms += c.axes + 1 + c.disperses

    def pressure(self) -> None:
        c, f = self.coefficients, self.fields
        if not c.lossy or c.stokes:
            return  # `density` has computed p
        s0, s1, *_ = self._spectra
        for spectrum, operator in [(s0, c.nabla1), (s1, c.nabla2)][: 1 + c.disperses]:
            self._kernels.multiply_columns(self._lines, spectrum, operator, NONE, None)
        shift = s1 if c.disperses else None
        self._kernels.pressure_planes(self._lines, f.p, s0, shift, f.rho, self._medium, c.nonlinear)
        self.transforms += 2 + c.disperses

    def transform_pressure(self) -> None:
        """Recompute the stored spectrum of p in each plane, after p was set or the spectrum overwritten."""
        self._kernels.transform_planes(self._lines, self.fields.p, self._spectra[0])

    def apply_operator(self, field, operator, axis=None, adjoint=False, out=None) -> None:
        """Write F⁻¹{operator F{field}} to ``out``, by default ``field``; the last spectrum is scratch."""
        spectrum = self._spectra[-1]
        self._kernels.transform_planes(self._lines, field, spectrum)
        self._kernels.multiply_columns(self._lines, spectrum, operator, NONE, None)
        target = field if out is None else out
        self._kernels.transform_planes_back(self._lines, target, spectrum, NONE, NONE)
        self.transforms += 2

    def adjoint_divergence(self, fields) -> None:
        c = self.coefficients
        by_axis = zip(self._along_lines(list(fields)), self._along_lines(self._by_axis()), strict=True)
        for axis, (field, spectrum) in enumerate(by_axis):
            if field is not None:
                by_x, by_y, by_z = (UP if axis == each else NONE for each in range(3))
                self._kernels.transform_planes(self._lines, field, spectrum)
                self._kernels.multiply_columns(self._lines, spectrum, c.kappa, by_z, None)
                self._kernels.transform_planes_back(self._lines, field, spectrum, by_x, by_y)
        self.transforms += 2 * c.axes

    def _summed_divergence(self, fields, out, adjoint) -> None:
        c, spectra = self.coefficients, self._along_lines(self._by_axis())
        for field, spectrum in zip(self._along_lines(list(fields)), spectra, strict=True):
            if field is not None:
                self._kernels.transform_planes(self._lines, field, spectrum)
        along_x, along_y, along_z = spectra
        self._kernels.add_derivatives(self._lines, along_x, along_x, along_y)
        self._kernels.multiply_columns(self._lines, along_x, c.kappa, NONE, along_z)
        self._kernels.transform_planes_back(self._lines, out, along_x, NONE, NONE)
        self.transforms += c.axes + 1

    def _free_spectrum(self):
        """Return the last spectrum's memory, without padding of rows, for whole-array transforms."""
        nz, ny, nx = self.coefficients.shape
        shape = nz, ny, nx // 2 + 1
        return self._spectra[-1].reshape(-1)[: math.prod(shape)].reshape(shape)

    def _source(self, source: SourceTerm | None) -> StepSource:
        """Return the `StepSource` by which kernels read a source, an empty one for None."""
        if source is None:
            return StepSource()
        clock = self.fields.clock
        if source.form == "points":
            first, index, order = source.rows
            return StepSource(None, first, index, order, source.signal, False, source.replace, clock)
        return StepSource(source.field, signal=source.amplitude, clock=clock)

    def _delayed(self, on: bool) -> StepSource:
        """Return the `StepSource` by which kernels read the transducer, an empty one unless it is ``on``."""
        source = self.sources.transducer
        if source is None or not on:
            return StepSource()
        first, index, _ = source.rows
        return StepSource(None, first, index, source.delays, source.signal, True, False, self.fields.clock)


def _by_outer_axis(layers: SplitLayers) -> SplitLayers:
    """Reorder the PML layers of a 2-D grid (1, Ny, Nx) for the kernels' grid (Ny, 1, Nx): z stands for y."""
    nothing, one = np.full(1, -1, np.int32), layers.pml_z
    _, ny, nx = layers.z.shape
    x, y = layers.x.reshape(ny, 1, -1), layers.y.reshape(-1, 1, nx)
    return layers._replace(
        x=x, y=layers.z.reshape(ny, 0, nx), z=y, at_y=nothing, at_z=layers.at_y, pml_y=one, pml_z=layers.pml_y
    )
