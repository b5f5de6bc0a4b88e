"""Names of files in pictures, drawn as they are written."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")


def as_written(function: Callable[_Given, _Made]) -> Callable[_Given, _Made]:
    """Have a function draw text without formulae: a name may hold dollar signs, and need not be TeX."""

    @wraps(function)
    def draw(*args: _Given.args, **options: _Given.kwargs) -> _Made:
        import matplotlib as mpl

        with mpl.rc_context({"text.parse_math": False}):
            return function(*args, **options)

    return draw
