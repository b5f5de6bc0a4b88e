"""Show an object in one line: arrays by shape and range, and only what differs from the defaults."""

import math
from dataclasses import MISSING, fields
from typing import Any

import numpy as np

#: Arrays of more elements are summarised.
_FEW = 4


def one_line_repr(self: Any) -> str:
    """Return a one-line text of a dataclass object; use it as the class's ``__repr__``.

    Fields that have their default value are left out.
    """
    shown = []
    for each in (each for each in fields(self) if each.repr):
        value = getattr(self, each.name)
        default: Any = each.default_factory() if each.default_factory is not MISSING else each.default
        if not (value is default or (type(value) is type(default) and np.array_equal(value, default))):
            shown.append(f"{each.name}={array_words(value)}")
    return f"{type(self).__name__}({', '.join(shown)})"


def array_words(value: Any) -> str:
    """Return an array in words, its shape and range, and any other value by its ``repr``."""
    shape, kind = getattr(value, "shape", None), getattr(getattr(value, "dtype", None), "kind", "O")
    if not isinstance(shape, tuple) or kind not in "biufc":
        return repr(value)
    size = math.prod(shape)
    words = " x ".join(map(str, shape)) or "scalar"
    if not isinstance(value, np.ndarray) or not size:  # on a GPU: not copied for a text
        return f"<{words} {value.dtype}>"
    if size <= _FEW:
        return str(value.tolist())
    if kind == "b":
        return f"<{words}, {np.count_nonzero(value)} true>"
    shown = np.abs(value) if kind == "c" else value
    return f"<{words}, {'magnitude ' * (kind == 'c')}{shown.min():.6g} to {shown.max():.6g}>"
