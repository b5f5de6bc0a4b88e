"""Provide the type bfloat16, which NumPy lacks, from ml_dtypes if that is installed."""

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from wavefabric.base.errors import MissingExtra

NAME = "bfloat16"


@cache
def bfloat16() -> np.dtype:
    """Return the NumPy dtype of bfloat16; raise `MissingExtra` if ml_dtypes is not installed."""
    try:
        from ml_dtypes import bfloat16 as scalar
    except ImportError:
        raise MissingExtra("bfloat16", "bfloat16") from None
    return np.dtype(scalar)


def named(dtype: Any) -> np.dtype:
    """Convert a type or its name to a NumPy dtype; `MissingExtra` for "bfloat16" without ml_dtypes."""
    return bfloat16() if isinstance(dtype, str) and dtype == NAME else np.dtype(dtype)


def viewed(array: Any, view: Callable[[Any], Any]) -> Any:
    """Return ``view(array)``, which is ``array`` as an array of NumPy or CuPy in the same memory.

    NumPy does not know PyTorch's bfloat16: of such a tensor ``view`` gets an int16 view, and its result is
    converted to a view of type bfloat16.
    """
    if str(getattr(array, "dtype", "")) != f"torch.{NAME}":
        return view(array)
    result = view(array.view(sys.modules["torch"].int16))
    return None if result is None else result.view(bfloat16())
