"""Propagate all rows of a field linearly, A ← exp(h L̂) A, by the fastest method of each device."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

#: Largest number of cached transfer functions: ``blanes_moan`` needs six lengths.
MOST_LENGTHS = 6


class LinearPropagation(ABC):
    """Applies exp(h L̂) to rows, and caches the transfer functions of the most recent lengths h, m."""

    #: Bytes of one transfer function.
    table_bytes = 0

    def __init__(self):
        self.factors: dict[float, Any] = {}
        #: Number of transfer functions replaced; when it grows, a captured step must be captured again.
        self.replaced = 0

    def prepare(self, length: float) -> Any:
        """Return the transfer function of propagation over ``length`` m, from the cache if possible."""
        factor = self.factors.pop(length, None)
        if factor is None:
            free = None
            if len(self.factors) >= MOST_LENGTHS:
                free = self.factors.pop(next(iter(self.factors)))
                self.replaced += 1
            factor = self._fill(free, length)
        self.factors[length] = factor
        return factor

    @abstractmethod
    def propagate(self, field, length: float) -> None:
        """Set ``field`` (rows, N) ← exp(length · L̂) field, in place."""

    @abstractmethod
    def _fill(self, free: Any, length: float) -> Any:
        """Compute the transfer function of ``length`` m, in the memory of an old table ``free`` if given."""


class TransformsAndTable(LinearPropagation):
    """Propagates rows by separate transforms (``fft``) and a product with the table of a transfer function.

    ``coefficients`` (table rows, 1 + orders): α, β1, β2, … in SI; ``table_row``: that of each field row.
    """

    def __init__(self, device, kernels, coefficients, table_row, n: int, sample_rate: float, fft):
        super().__init__()
        self._device, self._kernels, self._n = device, kernels, n
        self._coefficients = device.asarray(coefficients)
        self.table_row = device.asarray(table_row)
        self._domega = 2 * np.pi * sample_rate / n
        self._fft = fft
        self.table_bytes = 16 * len(coefficients) * n

    def propagate(self, field, length: float) -> None:
        self._fft.forward(field)
        self._kernels.apply_transfer(field, self.prepare(length), self.table_row)
        self._fft.backward(field)

    def _fill(self, free, length):
        shape = len(self._coefficients), self._n
        table = self._device.empty(shape, np.complex128) if free is None else free
        self._kernels.transfer_table(table, self._coefficients, self._domega, length)
        return table


class ProductsInTransforms(TransformsAndTable):
    """Propagates on a CPU by one kernel that transforms a row, multiplies it and transforms it back."""

    def propagate(self, field, length: float) -> None:
        self._fft.multiply(field, self.prepare(length), self.table_row)

    def _fill(self, free, length):
        return self._fft.arrange(super()._fill(None, length), free)
