"""The stages on an axisymmetric grid: x along the axis, y the radius, from the axis outwards.

Fields are even about the axis and vanish one point beyond the last; the velocity along the radius is odd, and
the divergence has u_r/r besides: Treeby, Wise, Kuklis, Jaros & Cox 2020 (doi:10.1121/10.0002177), k-Wave's
``kspaceFirstOrderAS`` with the radial symmetry "WSWA". κ takes the radial wavenumber for one of a plane, so
that it is not exact in a uniform medium.
"""

from typing import Any

import numpy as np

from wavefabric.acoustics.decomposition.subdomain import Subdomain
from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.solver.layout import FieldLayout
from wavefabric.acoustics.solver.stages import PlainStages
from wavefabric.spectral.distributed import DistributedRealFFT, box_shape, boxes
from wavefabric.spectral.symmetric import Symmetry, symmetric_fft


class _Radial:
    """Transforms along the radius, in place, of the ``symmetry`` that is set; none does nothing."""

    symmetry: Symmetry | None = None

    def __init__(self, device: Any, shape: tuple[int, int, int], dtype: Any):
        self.fft = symmetric_fft(device, shape, dtype)

    def forward(self, array: Any) -> None:
        if self.symmetry:
            self.fft.forward(array, self.symmetry)

    def backward(self, array: Any) -> None:
        if self.symmetry:
            self.fft.backward(array, self.symmetry)


class AxisymmetricFFT:
    """Transforms of whole fields, real along x and symmetric along the radius; collective over ranks.

    A spectrum has all of the radius; ``radial`` transforms it along that alone.
    """

    def __init__(self, layout: FieldLayout):
        c, partition, comm = layout.coefficients, layout.partition, layout.comm
        _, _, columns, _ = boxes(partition.shape, partition.grid)
        own = box_shape(columns[0 if comm is None else comm.rank])
        self._plan = _Radial(c.device, own, c.complex)
        self.radial = self._plan.fft
        self._rows: Any = (
            c.device.real_fft(c.shape, c.dtype, (2,))
            if comm is None
            else DistributedRealFFT(comm, partition.shape, partition.grid, c.dtype, self._plan)
        )
        self._distributed = comm is not None

    def forward(self, real: Any, spectrum: Any, symmetry: Symmetry | None) -> None:
        """``spectrum`` of ``real``, without scale; along x alone without a symmetry."""
        self._plan.symmetry = symmetry
        self._rows.forward(real, spectrum)
        if not self._distributed:
            self._plan.forward(spectrum)

    def backward(self, spectrum: Any, real: Any, symmetry: Symmetry) -> None:
        """Inverse, times 2 N; spoils ``spectrum``."""
        self._plan.symmetry = symmetry
        if not self._distributed:
            self._plan.backward(spectrum)
        self._rows.backward(spectrum, real)


class AxisymmetricStages(PlainStages):
    """Of whole-array transforms and pointwise kernels."""

    #: Of u along x, as of the pressure, and along the radius.
    _VELOCITY: tuple[Symmetry, Symmetry] = ("even", "odd_half")

    def __init__(self, layout: FieldLayout):
        self._fft = AxisymmetricFFT(layout)
        super().__init__(layout)
        c = self.coefficients
        spacing = c.problem.spacing[1]
        inverse = (1 / ((np.arange(layout.partition.shape[1]) + 0.5) * spacing)).astype(c.dtype)
        self._inverse_radius = c.device.asarray(inverse.reshape(1, -1, 1))
        self._quotient = layout.new_spectrum()

    @classmethod
    def nbytes(cls, problem: Problem, dtype: np.dtype, device: Any, subdomain: Subdomain) -> int:
        # u_r/r, and on a GPU what a radial transform copies to.
        spectra = 2 * int(np.prod(subdomain.spectral_shape)) * (1 if device.name == "cpu" else 2)
        return super().nbytes(problem, dtype, device, subdomain) + dtype.itemsize * spectra

    def _derivatives(self, fields: list, factors: list) -> None:
        """∂u_x/∂x, and ∂u_r/∂r + u_r/r: the radius divides what is transformed along x."""
        c, quotient, (axial, radial) = self.coefficients, self._quotient, self._spectra
        self._forward(fields[0], axial)
        self._fft.forward(fields[1], radial, None)
        self.transforms += 1
        self._fft.radial.forward_scaled(quotient, radial, self._inverse_radius)
        self._fft.radial.forward(radial, "odd_half")
        c.kernels.ring_divergence_spectra(axial, radial, quotient, c.kappa, *factors[:2])

    def translate(self, component: Any, axis: int, factor: Any, out: Any) -> None:
        c, spectrum = self.coefficients, self._spectra[-1]
        self._forward(component, spectrum, axis)
        c.kernels.translate_spectrum(spectrum, factor, axis, c.dtype.type(c.scale))
        self._fft.backward(spectrum, out, "odd" if axis else "even")
        self.transforms += 1

    def _forward(self, real: Any, spectrum: Any, axis: int | None = None) -> None:
        self._fft.forward(real, spectrum, self._VELOCITY[axis or 0])
        self.transforms += 1

    def _backward(self, spectrum: Any, real: Any, axis: int | None = None) -> None:
        self._fft.backward(spectrum, real, self._VELOCITY[axis or 0])
        self.transforms += 1
