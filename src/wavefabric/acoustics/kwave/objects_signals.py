"""Rows of k-wave-python's source signals: one a point of a mask, in one of two orders."""

from __future__ import annotations

from typing import Any

import numpy as np

from wavefabric.errors import InputError
from wavefabric.units import show


def check_order(order: Any) -> None:
    """Refuse an order that does not exist.

    Raises
    ------
    InputError
    """
    if order not in ("C", "F"):
        raise InputError(f"signal_order: {show(order)}; allowed: 'C' or 'F'")


def in_memory_order(values: Any, mask: np.ndarray | None, order: str) -> np.ndarray | None:
    """Rows in the order of `Source`, that of Fortran, from the order of C or Fortran.

    Parameters
    ----------
    values : array_like, shape (points, Nt), (1, Nt) or (Nt,); or None
    mask : ndarray of bool, grid's shape, or None
    order : str
        ``"C"`` or ``"F"``: how the rows run through the points of the mask.
    """
    if values is None:
        return None
    signal = np.atleast_2d(np.asarray(values))
    if order == "F" or mask is None or signal.shape[0] != np.count_nonzero(mask):
        return signal
    rank = np.zeros(mask.shape, np.int64)
    rank[mask] = np.arange(signal.shape[0])
    return signal[rank.T[mask.T]]
