"""bfloat16, which NumPy does not have: the type of ml_dtypes, where that is installed."""

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from wavefabric.errors import MissingExtra

NAME = "bfloat16"


@cache
def bfloat16() -> np.dtype:
    """The type; `MissingExtra` without ml_dtypes."""
    try:
        from ml_dtypes import bfloat16 as scalar
    except ImportError:
        raise MissingExtra("bfloat16", "bfloat16") from None
    return np.dtype(scalar)


def named(dtype: Any) -> np.dtype:
    """An element type, also by name; `MissingExtra` for bfloat16 without ml_dtypes."""
    return bfloat16() if isinstance(dtype, str) and dtype == NAME else np.dtype(dtype)


def viewed(array: Any, view: Callable[[Any], Any]) -> Any:
    """What ``view`` makes of an array; PyTorch offers its tensors of bfloat16 to nobody, but their words."""
    if str(getattr(array, "dtype", "")) != f"torch.{NAME}":
        return view(array)
    result = view(array.view(sys.modules["torch"].int16))
    return None if result is None else result.view(bfloat16())
