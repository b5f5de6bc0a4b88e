"""The stages of a 3-D time step on a CPU, fused with their transforms (`plane_kernels`), sources included.

Between steps the planes' spectrum of p is kept, so each stage begins where the one before has left the data
in cache.
"""

import math
from typing import Any

import numpy as np

from wavefabric.acoustics.decomposition.subdomain import Subdomain, Triple
from wavefabric.acoustics.fused import plane_kernels
from wavefabric.acoustics.fused.plane_kernels import StepSource
from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.solver.layout import FieldLayout
from wavefabric.acoustics.solver.row_kernels import MediumArrays
from wavefabric.acoustics.solver.source_terms import SourceTerm, sorted_points
from wavefabric.acoustics.solver.stages import Stages
from wavefabric.spectral.vector_axes import (
    X_BACK_BY_UP,
    Y_BACK_BY_UP,
    Z_BACK,
    Z_BACK_BY_DOWN,
    Z_BACK_BY_UP,
    AxisTransforms,
    pitch,
    usable,
)

kernels: Any = plane_kernels  # compiled functions, whose many arguments come in groups


class FusedCpuStages(Stages):
    """Same stages, same answers to round-off as `PlainStages`, fewer passes over memory.

    Gradients never leave the cache.
    """

    def __init__(self, layout: FieldLayout):
        super().__init__(layout)
        c, device = self.coefficients, self.coefficients.device
        device.kernels(plane_kernels.__name__)  # which sets the number of threads
        nz, ny, nx = c.shape
        width, threads = c.half_shape[2], device.threads
        self._axes = AxisTransforms(c.shape, c.dtype, c.up, c.down)
        self._fft_axes, batch = self._axes.addresses(), self._axes.batch
        self._columns = device.zeros((threads, nz, self._axes.slab, width), c.complex)
        self._pairs: Any = None
        self._plane = device.zeros((threads, ny, width), c.complex)
        self._rows = device.zeros((threads, 3, batch, nx), c.dtype)
        self._row = device.zeros((threads, 2, nx), c.dtype)
        self._medium = MediumArrays(c.speed, c.density, c.ratio, c.tau, c.eta_factor)
        pattern, none, first = np.zeros((0, 0, 0), c.dtype), np.zeros(0, c.dtype), np.zeros(nz + 1, np.int64)
        self._no_source = StepSource(pattern, c.dtype.type(1), first, first[:0], none, False)
        self._points: dict[int, tuple] = {}
        _ = c.kappa  # before the first step

    @classmethod
    def supports(cls, shape: Triple, bases: set[Triple], dtype: np.dtype) -> bool:
        """In three dimensions, with sizes of prime factors up to 31 that are not too long: `usable`."""
        return shape[2] > 1 and all(map(usable, bases))

    @classmethod
    def pitch(cls, subdomain: Subdomain, dtype: np.dtype) -> int:
        return pitch(subdomain.basis[0], dtype)

    @classmethod
    def nbytes(cls, problem: Problem, dtype: np.dtype, device: Any, subdomain: Subdomain) -> int:
        kappa = dtype.itemsize * math.prod(subdomain.spectral_shape)
        return super().nbytes(problem, dtype, device, subdomain) + kappa

    def velocity(self, active: tuple[bool, ...]) -> None:
        super().velocity(active)
        self.transforms += 6

    def _update_velocity(self, pml: list, dt: Any, active: tuple[bool, ...]) -> None:
        c, f = self.coefficients, self.fields
        self.sources.refresh(f.clock, active)  # now, while one spectrum is free
        s0, s1, _ = self._spectra
        step = int(f.clock[0])
        sources = (self._source(source, step) for source in self.sources.active_velocity(active))
        kernels.gradient_columns(self._fft_axes, s0, s1, c.kappa, self._columns)
        kernels.velocity_planes(
            self._fft_axes, tuple(self._spectra), tuple(f.u), tuple(c.staggered), tuple(pml), dt,
            *sources, self._delayed(step, active[-1]), self._plane, self._rows,
        )  # fmt: skip

    def density(self, active: tuple[bool, ...]) -> None:
        c, f = self.coefficients, self.fields
        source = self._source(self.sources.pressure if active[0] else None, int(f.clock[0]))
        mode = 0 if not c.lossy else 1 if c.stokes else 2
        self._multiply_columns(self._spectra, [c.kappa] * 3, Z_BACK_BY_DOWN)
        kernels.density_planes(
            self._fft_axes, tuple(self._spectra), f.rho, f.split_layers, f.p, self._medium, c.dt, source,
            c.dimensions, c.nonlinear, mode, c.disperses, self._rows, self._row,
        )  # fmt: skip
        self.transforms += 4 + c.disperses

    def pressure(self) -> None:
        c, f = self.coefficients, self.fields
        if not c.lossy or c.stokes:
            return  # `density` has done it in the same pass
        s0, s1, _ = self._spectra
        count = 1 + c.disperses
        self._multiply_columns(self._spectra[:count], [c.nabla1, c.nabla2][:count])
        rows = self._rows, self._row
        kernels.pressure_planes(
            self._fft_axes, s0, s1, f.rho, f.p, self._medium, c.nonlinear, c.disperses, *rows
        )
        self.transforms += 2 + c.disperses

    def transform_pressure(self) -> None:
        """Planes' spectrum of a p that was set from outside, or lost to other use of the spectra."""
        kernels.transform_planes(self._fft_axes, self._axes.batch, self.fields.p, self._spectra[0])

    def apply_operator(self, field, operator, axis=None, adjoint=False, out=None) -> None:
        """field ← F⁻¹{operator F{field}}; the last spectrum is free when sources ask for this."""
        axes, batch, spectrum = self._fft_axes, self._axes.batch, self._spectra[-1]
        kernels.transform_planes(axes, batch, field, spectrum)
        self._multiply_columns([spectrum], [operator])
        kernels.transform_planes_back(axes, batch, spectrum, field if out is None else out)
        self.transforms += 2

    def _multiply_columns(self, spectra: list, operators: list, last: int = Z_BACK) -> None:
        kernels.multiply_columns(self._fft_axes, tuple(spectra), tuple(operators), last, self._columns)

    def adjoint_divergence(self, fields) -> None:
        c, axes, batch = self.coefficients, self._fft_axes, self._axes.batch
        for field, spectrum in zip(fields, self._by_axis(), strict=True):
            kernels.transform_planes(axes, batch, field, spectrum)
        self._multiply_columns(self._spectra, [c.kappa] * 3, Z_BACK_BY_UP)
        kernels.derivative_planes(axes, batch, self._by_axis(), tuple(fields), X_BACK_BY_UP, Y_BACK_BY_UP)
        self.transforms += 6

    def _summed_divergence(self, fields, out, adjoint) -> None:
        c, axes, batch = self.coefficients, self._fft_axes, self._axes.batch
        if self._pairs is None:
            threads, *shape = self._columns.shape
            self._pairs = c.device.zeros((threads, 2, *shape), c.complex)
        dx, dy, dz = c.down
        s0, _, s2 = self._spectra
        kernels.gather_planes(axes, batch, tuple(fields), self._by_axis(), dx, dy)
        kernels.gather_columns(axes, s0, s2, dz, c.kappa, self._pairs)
        kernels.transform_planes_back(axes, batch, s0, out)
        self.transforms += 4

    def _by_axis(self) -> tuple:
        """Spectra of the x, y and z components."""
        s0, s1, s2 = self._spectra
        return s1, s0, s2

    def _free_spectrum(self):
        """Rows of whole-array transforms are not padded."""
        nz, ny, nx = self.coefficients.shape
        shape = nz, ny, nx // 2 + 1
        return self._spectra[-1].reshape(-1)[: math.prod(shape)].reshape(shape)

    def _source(self, source: SourceTerm | None, step: int) -> StepSource:
        """One source, or none, in this step."""
        if source is None:
            return self._no_source
        if source.form == "points":
            first, index, order = self._sorted(source.host_index)
            values = source.host_signal[step]
            values = values[order] if values.size > 1 else values
            return self._no_source._replace(first=first, index=index, values=values, replace=source.replace)
        amplitude = source.host_signal[step, 0] if source.form == "pattern" else self._no_source.amplitude
        return self._no_source._replace(pattern=source.field, amplitude=amplitude)

    def _delayed(self, step: int, on: bool) -> StepSource:
        """The transducer in this step."""
        source = self.sources.transducer
        if source is None or not on:
            return self._no_source
        first, index, order = self._sorted(source.host_index)
        sample = source.host_delay[order] + step
        signal, last = source.host_signal, source.host_signal.size - 1
        values = np.where(sample <= last, signal[np.minimum(sample, last)], self.coefficients.dtype.type(0))
        return self._no_source._replace(first=first, index=index, values=values)

    def _sorted(self, index: np.ndarray) -> tuple:
        """Offsets of the planes, indices within them, sorted, and the order that sorts."""
        if id(index) not in self._points:
            nz, ny, nx = self.coefficients.shape
            self._points[id(index)] = sorted_points(index, ny * nx, nz)
        return self._points[id(index)]
