"""The fused GPU stages of slabs of a grid that has one Fourier basis (`stages_axes`, `stages_global`).

A rank holds planes for the passes along x and y, and columns for those along z; spectra change between the
two by transposes. Those of the three velocities follow one another, each under the work on its neighbours.
"""

from __future__ import annotations

from wavefabric.acoustics.parallel.decomposition import Decomposition
from wavefabric.acoustics.solver import axis_passes_cuda, operators
from wavefabric.acoustics.solver.coefficients import Constants, Fields
from wavefabric.acoustics.solver.fused_cuda import AxisStages
from wavefabric.acoustics.solver.parts import whole
from wavefabric.exchange import Communicator
from wavefabric.exchange.regions import RegionExchange
from wavefabric.spectral.distributed import boxes, transpose_messages


def usable(decomposition: Decomposition, dtype) -> bool:
    """Whether these stages can serve on GPUs: slabs, three dimensions, sizes made of 2, 3, 5 and 7."""
    nx, ny, nz = decomposition.shape
    slabs = decomposition.grid[:2] == (1, 1)
    return slabs and nz > 1 and axis_passes_cuda.usable((nz, ny, nx), dtype)


class GlobalAxisStages(AxisStages):
    """Same answers as `GlobalStages`, to round-off; see there for the arguments."""

    def __init__(
        self, constants: Constants, fields: Fields, comm: Communicator, decomposition: Decomposition
    ):
        c = constants
        nx, ny, _ = decomposition.shape
        pitch = c.half_shape[2]
        self._planes_shape = (c.shape[0], ny, pitch)
        _, planes, _, columns = boxes(decomposition.shape, decomposition.grid)
        there, back = transpose_messages(planes, columns), transpose_messages(columns, planes)
        flat, tall = self._planes_shape, c.half_shape
        self._there = [RegionExchange(comm, there, flat, tall, c.complex) for _ in range(3)]
        self._back = [RegionExchange(comm, back, tall, flat, c.complex) for _ in range(3)]
        self._columns = [c.device.empty(c.half_shape, c.complex) for _ in range(3)]
        # Along y a rank has all of k_y, unlike in its columns.
        everything = whole((nx, ny, c.part.basis[2]))
        self._full_up, self._full_down = (
            [c.device.asarray(d, c.complex) for d in operators.derivatives(c.problem, sign, everything)[:2]]
            for sign in (1, -1)
        )
        unstagger = operators.unstaggering(c.problem, everything)[1]
        self._unstagger_y = c.device.asarray(unstagger, c.complex)
        self._z = self._passes(c, (*c.half_shape[:2], nx), "Z")
        super().__init__(constants, fields)

    @staticmethod
    def _passes(constants: Constants, shape, axes: str) -> axis_passes_cuda.Kernels:
        return AxisStages._passes(constants, shape, "XY" if axes == "XYZ" else axes)

    def _empty_spectrum(self):
        return self.constants.device.empty(self._planes_shape, self.constants.complex)

    def _send(self, number: int) -> None:
        self._there[number].start([self._spectra[number]])

    def _receive(self, number: int) -> None:
        self._there[number].finish([self._columns[number]])

    def _return(self, number: int) -> None:
        self._back[number].start([self._columns[number]])

    def _home(self, number: int) -> None:
        self._back[number].finish([self._spectra[number]])

    def _gradient_spectra(self) -> None:
        c = self.constants
        self._axes.y_transform(self._spectra[:1], False)
        self._send(0)
        self._receive(0)
        self._z.z_gradient(self._columns[0], self._columns[1], c.kappa, c.up[2])
        self._return(0)
        self._return(1)
        self._home(0)
        self._home(1)
        self._axes.y_gradient(*self._spectra, *self._full_up)

    def _divergence_spectra(self) -> None:
        c = self.constants
        for number, spectrum in enumerate(self._spectra):
            self._axes.y_transform([spectrum], False)
            self._send(number)
        for number in range(3):
            self._receive(number)
            self._z.z_divergence(self._columns, c.kappa, c.down, only=number)
            self._return(number)
        for number, spectrum in enumerate(self._spectra):
            self._home(number)
            self._axes.y_transform([spectrum], True)

    def _absorption_spectra(self, both: list) -> None:
        c = self.constants
        for number, spectrum in enumerate(both):
            self._axes.y_transform([spectrum], False)
            self._send(number)
        for number in range(len(both)):
            self._receive(number)
            operator, column = (c.nabla1, c.nabla2)[number], self._columns[number]
            self._z.z_scale(column, column, operator, operator, 1)
            self._return(number)
        for number, spectrum in enumerate(both):
            self._home(number)
            self._axes.y_transform([spectrum], True)

    def _multiply_spectrum(self, spectrum, operator) -> None:
        column = self._columns[2]
        self._axes.y_transform([spectrum], False)
        self._send(2)
        self._receive(2)
        self._z.z_scale(column, column, operator, operator, 1)
        self._return(2)
        self._home(2)
        self._axes.y_transform([spectrum], True)

    def _translate_y(self, spectrum, factor, scale) -> None:
        super()._translate_y(spectrum, self._unstagger_y, scale)

    def _translate_z(self, spectrum, factor, scale) -> None:
        self._send(2)
        self._receive(2)
        self._z.z_translate(self._columns[2], factor, scale)
        self._return(2)
        self._home(2)

    def graph(self, work):
        # A captured step could not wait for other ranks.
        return work
