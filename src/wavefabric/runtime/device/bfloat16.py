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
    """Return the dtype of bfloat16; `MissingExtra` without ml_dtypes."""
    try:
        from ml_dtypes import bfloat16 as scalar
    except ImportError:
        raise MissingExtra("bfloat16", "bfloat16") from None
    return np.dtype(scalar)


def named(dtype: Any) -> np.dtype:
    """Return ``dtype`` as a NumPy dtype; the name "bfloat16" needs ml_dtypes, else `MissingExtra`."""
    return bfloat16() if isinstance(dtype, str) and dtype == NAME else np.dtype(dtype)


def viewed(array: Any, view: Callable[[Any], Any]) -> Any:
    """Return ``view(array)``; ``view`` gets bfloat16 tensors of PyTorch, unknown to NumPy, as int16."""
    if str(getattr(array, "dtype", "")) != f"torch.{NAME}":
        return view(array)
    result = view(array.view(sys.modules["torch"].int16))
    return None if result is None else result.view(bfloat16())
