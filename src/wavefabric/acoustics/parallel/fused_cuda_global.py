"""The fused GPU stages of slabs of a grid that has one Fourier basis.

A rank holds planes for the passes along x and y, and columns for those along z; spectra change between the
two by transposes. Those of the three velocities follow one another, each under the work on its neighbours.
"""

from __future__ import annotations

import math

from wavefabric.acoustics.parallel.decomposition import Decomposition
from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.solver import operators
from wavefabric.acoustics.solver.coefficients import Coefficients, Fields
from wavefabric.acoustics.solver.fused_cuda import FusedCudaStages
from wavefabric.acoustics.solver.subdomain import Subdomain
from wavefabric.exchange import Communicator
from wavefabric.exchange.halos_transposes import RegionExchange
from wavefabric.spectral.distributed import boxes, transpose_messages


class FusedCudaGlobalStages(FusedCudaStages):
    """Same answers as `GlobalStages`, to round-off."""

    _local_axes = "XY"

    def __init__(
        self, coefficients: Coefficients, fields: Fields, comm: Communicator, decomposition: Decomposition
    ):
        c = coefficients
        nx, ny, _ = decomposition.shape
        self._planes_shape = (c.shape[0], ny, c.half_shape[2])
        _, planes, _, columns = boxes(decomposition.shape, decomposition.grid)
        forth, back = transpose_messages(planes, columns), transpose_messages(columns, planes)
        flat, tall = self._planes_shape, c.half_shape
        self._forth = [RegionExchange(comm, forth, flat, tall, c.complex) for _ in range(3)]
        self._back = [RegionExchange(comm, back, tall, flat, c.complex) for _ in range(3)]
        self._columns = [c.device.empty(c.half_shape, c.complex) for _ in range(3)]
        # Along y a rank has all of k_y, unlike in its columns.
        whole = Subdomain.whole((nx, ny, c.subdomain.basis[2]))
        self._up = [c.device.asarray(d, c.complex) for d in operators.derivatives(c.problem, 1, whole)[:2]]
        self._unstagger_y = c.device.asarray(operators.unstaggering(c.problem, whole)[1], c.complex)
        self._z = self._passes(c, (*c.half_shape[:2], nx), "Z")
        super().__init__(coefficients, fields, comm, decomposition)

    @classmethod
    def supports(cls, decomposition: Decomposition, dtype) -> bool:
        """Slabs alone."""
        return decomposition.grid[:2] == (1, 1) and super().supports(decomposition, dtype)

    @classmethod
    def nbytes(cls, problem: Problem, dtype, device, decomposition: Decomposition, rank: int) -> int:
        """With three spectra once more as columns, and what leaves and comes of each, there and back."""
        subdomain = decomposition.subdomains[rank]
        nx, ny, _ = decomposition.shape
        columns = math.prod(subdomain.spectral_shape)
        planes = subdomain.size[2] * ny * (nx // 2 + 1)
        stays = subdomain.size[2] * subdomain.spectral_shape[1] * subdomain.spectral_shape[2]
        exchanged = 2 * dtype.itemsize * (3 * columns + 6 * (planes + columns - 2 * stays))
        return super().nbytes(problem, dtype, device, decomposition, rank) + exchanged

    def _spectrum_shape(self) -> tuple[int, ...]:
        return self._planes_shape

    # --- Transposes: from planes to columns and back --------------------------------------------------------

    def _send_planes(self, number: int) -> None:
        self._forth[number].start([self._spectra[number]])

    def _receive_columns(self, number: int) -> None:
        self._forth[number].finish([self._columns[number]])

    def _send_columns(self, number: int) -> None:
        self._back[number].start([self._columns[number]])

    def _receive_planes(self, number: int) -> None:
        self._back[number].finish([self._spectra[number]])

    def _gradient_spectra(self) -> None:
        c = self.coefficients
        self._axes.y_transform(self._spectra[:1], False)
        self._send_planes(0)
        self._receive_columns(0)
        self._z.z_gradient(self._columns[0], self._columns[1], c.kappa, c.up[2])
        self._send_columns(0)
        self._send_columns(1)
        self._receive_planes(0)
        self._receive_planes(1)
        self._axes.y_gradient(*self._spectra, *self._up)

    def _pipeline(self, spectra: list, along_z) -> None:
        """Along y, transposed, ``along_z(number)``, transposed back, and back along y; one after another."""
        for number, spectrum in enumerate(spectra):
            self._axes.y_transform([spectrum], False)
            self._send_planes(number)
        for number in range(len(spectra)):
            self._receive_columns(number)
            along_z(number)
            self._send_columns(number)
        for number, spectrum in enumerate(spectra):
            self._receive_planes(number)
            self._axes.y_transform([spectrum], True)

    def _divergence_spectra(self) -> None:
        c = self.coefficients
        self._pipeline(
            self._spectra, lambda number: self._z.z_divergence(self._columns, c.kappa, c.down, only=number)
        )

    def _absorption_spectra(self, spectra: list) -> None:
        operators_of_k = self.coefficients.nabla1, self.coefficients.nabla2

        def along_z(number: int) -> None:
            column, operator = self._columns[number], operators_of_k[number]
            self._z.z_scale(column, column, operator, operator, 1)

        self._pipeline(spectra, along_z)

    def _transposed(self, along_z) -> None:
        """``along_z(column)`` on the columns of the last spectrum."""
        self._send_planes(2)
        self._receive_columns(2)
        along_z(self._columns[2])
        self._send_columns(2)
        self._receive_planes(2)

    def _scale_along_z(self, spectrum, operator) -> None:
        self._transposed(lambda column: self._z.z_scale(column, column, operator, operator, 1))

    def _factor_y(self, factor):
        return self._unstagger_y

    def _translate_along_z(self, spectrum, factor, scale) -> None:
        self._transposed(lambda column: self._z.z_translate(column, factor, scale))
