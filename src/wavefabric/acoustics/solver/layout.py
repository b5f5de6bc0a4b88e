"""Defines how ranks share and exchange fields and spectra of a time step; one device exchanges nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np

from wavefabric.acoustics.decomposition.decompose import Partition
from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.solver.coefficients import Coefficients, Fields
from wavefabric.runtime.exchange.communicator import Communicator


class FieldLayout:
    """The layout of a whole grid on one device with whole-array transforms; base of layouts over ranks."""

    #: Arrays that an exchange pending between steps will fill; None without such an exchange.
    pending: Any = None
    #: Object that fills overlaps; None if the layout has none.
    halo: Any = None

    def __init__(self, coefficients: Coefficients, comm: Communicator | None, decomposition: Partition):
        self.coefficients, self.fields = coefficients, Fields(coefficients)
        coefficients.kernels.load(coefficients.dtype, wait=comm is not None)
        #: Communicator of the ranks that share the step; None on one device.
        self.comm: Any = comm
        #: Division of the grid among the ranks.
        self.partition = decomposition
        self._connect()
        #: One half spectrum per dimension, which the stages of a step use in turn.
        self.spectra = self._new_spectra(coefficients.problem.dimensions)
        self._prepare()

    def _connect(self) -> None:
        """Prepare the exchanges of fields and spectra with other ranks."""

    def _prepare(self) -> None:
        """Prepare the kernels and factors that work on the spectra."""

    @classmethod
    def supports(cls, decomposition: Partition, dtype: np.dtype) -> bool:
        """Return whether this layout supports a decomposition."""
        return True

    @classmethod
    def nbytes(cls, problem: Problem, dtype: np.dtype, decomposition: Partition, rank: int) -> int:
        """Return the bytes that a rank needs for exchanges: send and receive buffers, and extra arrays."""
        return 0

    @property
    def captured(self) -> bool:
        """Return whether steps are captured as graphs: on one device, or if kernels write to other ranks."""
        return self.comm is None or self.comm.one_sided

    def _new_spectra(self, count: int) -> list:
        return [self.new_spectrum() for _ in range(count)]

    def new_spectrum(self) -> Any:
        """Return uninitialised memory for a half spectrum."""
        return self.coefficients.device.empty(self._spectrum_shape(), self.coefficients.complex)

    def _spectrum_shape(self) -> tuple[int, ...]:
        return self.coefficients.half_shape

    @cached_property
    def fft(self) -> Any:
        """Return the object that computes transforms of whole arrays, real to half spectrum and back."""
        return self.coefficients.device.real_fft(self.coefficients.shape, self.coefficients.dtype)

    def fill_overlaps(self, fields: list) -> None:
        """Copy neighbouring ranks' values into the overlaps of ``fields``; do nothing if there are none."""

    @contextmanager
    def overlaps(self, fields: list, results: list, adjoint: bool = False) -> Iterator[None]:
        """Context for transforms of ``fields`` into ``results``: on entry, overlaps of ``fields`` are filled.

        If ``adjoint``, the transpose of this is done: overlaps of ``fields`` are set to zero on entry, and on
        exit the values of ``results`` in overlaps are added to those of the ranks that own these points.
        """
        if self.halo is None or not adjoint:
            self.fill_overlaps(fields)
            yield
            return
        self.finish_exchanges()
        self.halo.empty(fields)
        yield
        self.halo.add_overlaps_to_owners(results)

    def finish_exchanges(self) -> None:
        """Complete pending exchanges before the fields are freed or the last step is over; collective."""
