"""How fields and spectra of a step lie over ranks, and what carries them between: on one device nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np

from wavefabric.acoustics.decomposition.decompose import Partition
from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.solver.coefficients import Coefficients, Fields
from wavefabric.exchange.communicator import Communicator


class FieldLayout:
    """The whole grid on one device, and whole-array transforms; base of the layouts over ranks."""

    #: What an exchange that is under way between steps brings; None if there is none.
    pending: Any = None
    #: What fills overlaps, where there are any.
    halo: Any = None

    def __init__(self, coefficients: Coefficients, comm: Communicator | None, decomposition: Partition):
        self.coefficients, self.fields = coefficients, Fields(coefficients)
        coefficients.kernels.load(coefficients.dtype, wait=comm is not None)
        #: Those who share the step; None on one device.
        self.comm: Any = comm
        #: How they share the grid.
        self.partition = decomposition
        self._connect()
        #: A half spectrum for each dimension.
        self.spectra = self._new_spectra(coefficients.problem.dimensions)
        self._prepare()

    def _connect(self) -> None:
        """Make ready what carries fields and spectra to other ranks."""

    def _prepare(self) -> None:
        """Make ready what works on the spectra."""

    @classmethod
    def supports(cls, decomposition: Partition, dtype: np.dtype) -> bool:
        """Whether a grid can be cut so."""
        return True

    @classmethod
    def nbytes(cls, problem: Problem, dtype: np.dtype, decomposition: Partition, rank: int) -> int:
        """Bytes of what a rank sends, receives and holds besides for that."""
        return 0

    @property
    def captured(self) -> bool:
        """Return whether steps are captured as graphs: on one device, or with one-sided kernels."""
        return self.comm is None or self.comm.one_sided

    def _new_spectra(self, count: int) -> list:
        return [self.new_spectrum() for _ in range(count)]

    def new_spectrum(self) -> Any:
        """Memory for a half spectrum."""
        return self.coefficients.device.empty(self._spectrum_shape(), self.coefficients.complex)

    def _spectrum_shape(self) -> tuple[int, ...]:
        return self.coefficients.half_shape

    @cached_property
    def fft(self) -> Any:
        """Transforms of whole arrays."""
        return self.coefficients.device.real_fft(self.coefficients.shape, self.coefficients.dtype)

    def fill_overlaps(self, fields: list) -> None:
        """Fill the overlaps of ``fields`` from neighbouring ranks; do nothing if the layout has none."""

    @contextmanager
    def overlaps(self, fields: list, results: list, adjoint: bool = False) -> Iterator[None]:
        """Around transforms of ``fields`` into ``results``: overlaps are filled before.

        ``adjoint``: the transpose. Overlaps are emptied before, and what has come there is added to its
        owners after.
        """
        if self.halo is None or not adjoint:
            self.fill_overlaps(fields)
            yield
            return
        self.finish_exchanges()
        self.halo.empty(fields)
        yield
        self.halo.give_back(results)

    def finish_exchanges(self) -> None:
        """Complete pending exchanges before the fields are freed or the last step is over; collective."""
