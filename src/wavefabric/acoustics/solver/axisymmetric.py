"""Takes time steps on an axisymmetric grid: x is the axis of symmetry, y the radius, starting at the axis.

Fields are even about the axis and vanish one point beyond the last radial point. The radial velocity is odd,
and the divergence has the additional term u_r/r: Treeby, Wise, Kuklis, Jaros & Cox 2020
(doi:10.1121/10.0002177), k-Wave's ``kspaceFirstOrderAS`` with the radial symmetry "WSWA". κ treats the radial
wavenumber as one of a plane wave, so the scheme is not exact in a uniform medium.
"""

from typing import Any

import numpy as np

from wavefabric.acoustics.decomposition.subdomain import Subdomain
from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.solver.layout import FieldLayout
from wavefabric.acoustics.solver.stages import PlainStages
from wavefabric.runtime.spectral.distributed import DistributedRealFFT, box_shape, boxes
from wavefabric.runtime.spectral.symmetric import Symmetry, symmetric_fft


class _Radial:
    """Transforms arrays along the radius, in place.

    ``symmetry`` is that of the arrays about the axis, even or odd; if None, they are not transformed.
    """

    symmetry: Symmetry | None = None

    def __init__(self, device: Any, shape: tuple[int, int, int], dtype: Any):
        self.fft = symmetric_fft(device, shape, dtype)

    def forward(self, array: Any) -> None:
        if self.symmetry:
            self.fft.forward(array, self.symmetry)

    def backward(self, array: Any) -> None:
        if self.symmetry:
            self.fft.backward(array, self.symmetry)


class AxisymmetricStages(PlainStages):
    """Takes time steps on an axisymmetric grid by whole-array transforms and pointwise kernels.

    Transforms are real along x and symmetric along the radius. Each rank's spectrum covers the whole radius.
    """

    #: Symmetry about the axis: of u_x and of the pressure; of u_r.
    _VELOCITY: tuple[Symmetry, Symmetry] = ("even", "odd_half")

    def __init__(self, layout: FieldLayout):
        super().__init__(layout)
        c, partition, comm = layout.coefficients, layout.partition, layout.comm
        columns = boxes(partition.shape, partition.grid)[2]
        local_shape = box_shape(columns[0 if comm is None else comm.rank])
        self._radial = _Radial(c.device, local_shape, c.complex)
        self._is_single, cut = comm is None, (partition.shape, partition.grid, c.dtype)
        self._rows: Any = c.device.real_fft(c.shape, c.dtype, (2,)) if comm is None else None
        if comm is not None:
            self._rows = DistributedRealFFT(comm, *cut, self._radial)
        inverse = 1 / ((np.arange(partition.shape[1]) + 0.5) * c.problem.spacing[1])
        self._inverse_radius = c.device.asarray(inverse.astype(c.dtype).reshape(1, -1, 1))
        self._quotient = layout.new_spectrum()

    @classmethod
    def nbytes(cls, problem: Problem, dtype: np.dtype, device: Any, subdomain: Subdomain) -> int:
        # The spectrum of u_r/r, and on a GPU the copies that radial transforms make.
        spectra = 2 * int(np.prod(subdomain.spectral_shape)) * (1 if device.name == "cpu" else 2)
        return super().nbytes(problem, dtype, device, subdomain) + dtype.itemsize * spectra

    def _derivatives(self, fields: list, factors: list) -> None:
        """Compute spectra of ∂u_x/∂x and ∂u_r/∂r + u_r/r; 1/r multiplies u_r after its transform along x."""
        c, quotient, (axial, radial) = self.coefficients, self._quotient, self._spectra
        self._forward(fields[0], axial)
        self._transform(fields[1], radial, None)
        self._radial.fft.forward_scaled(quotient, radial, self._inverse_radius)
        self._radial.fft.forward(radial, "odd_half")
        c.kernels.ring_divergence_spectra(axial, radial, quotient, c.kappa, *factors[:2])

    def translate(self, component: Any, axis: int, factor: Any, out: Any) -> None:
        c, spectrum = self.coefficients, self._spectra[-1]
        self._forward(component, spectrum, axis)
        c.kernels.translate_spectrum(spectrum, factor, axis, c.dtype.type(c.scale))
        self._transform_back(spectrum, out, "odd" if axis else "even")

    def _forward(self, real: Any, spectrum: Any, axis: int | None = None) -> None:
        self._transform(real, spectrum, self._VELOCITY[axis or 0])

    def _backward(self, spectrum: Any, real: Any, axis: int | None = None) -> None:
        self._transform_back(spectrum, real, self._VELOCITY[axis or 0])

    def _transform(self, real: Any, spectrum: Any, symmetry: Symmetry | None) -> None:
        """Transform ``real`` to ``spectrum``, without scaling; with the symmetry None along x only."""
        self._radial.symmetry = symmetry
        self._rows.forward(real, spectrum)
        if self._is_single:
            self._radial.forward(spectrum)
        self.transforms += 1

    def _transform_back(self, spectrum: Any, real: Any, symmetry: Symmetry) -> None:
        """Transform ``spectrum`` to ``real``: 2N times the inverse of N points; overwrites ``spectrum``."""
        self._radial.symmetry = symmetry
        if self._is_single:
            self._radial.backward(spectrum)
        self._rows.backward(spectrum, real)
        self.transforms += 1
