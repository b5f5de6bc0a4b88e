"""Launches of the CPU kernels of a table: arguments are packed into words of 8 bytes, all threads run."""

import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from wavefabric.kernels.library import Library, library
from wavefabric.kernels.table import KernelRow, KernelTable

_SINGLE = (np.dtype(np.float32), np.dtype(np.complex64))
_BOUNDS = struct.Struct("=qq")
#: Kinds whose first array tells the kernel's precision.
_PRECISION = ("array", "medium")


def address(array: np.ndarray, /) -> int:
    """Return where an array begins; ValueError unless it is contiguous, in C order."""
    facts = array.__array_interface__
    if facts["strides"] is not None:
        raise ValueError(f"a kernel was given an array of shape {array.shape} that is not contiguous")
    return facts["data"][0]


class CpuKernels:
    """The kernels of a table on so many threads, each an attribute by its name."""

    def __init__(self, table: KernelTable, threads: int) -> None:
        code = library()
        for name, row in table.rows.items():
            setattr(self, name, CpuKernel(row, code, threads))

    def load(self, dtype: Any) -> None:
        """Kernels of a CPU are there."""


class CpuKernel:
    """A kernel; called with the arguments of its row, whose arrays are contiguous, in C order."""

    def __init__(self, row: KernelRow, code: Library, threads: int) -> None:
        self._name, self._code, self._threads = row.name, code, threads
        self._functions = {
            single: code.address(f"{row.name}_{'float' if single else 'double'}") for single in (True, False)
        }
        kinds = [argument.kind for argument in row.arguments]
        self._typed = next((i for i, kind in enumerate(kinds) if kind in _PRECISION), None)
        self._words = [_WORDS[argument.kind, argument.extra][1] for argument in row.arguments]
        self._sized = row.form == "points"
        formats = "".join(_WORDS[argument.kind, argument.extra][0] for argument in row.arguments)
        self._packed = struct.Struct("=" + "qqq" * self._sized + formats)

    def __call__(self, *arguments: Any) -> None:
        """Run on all threads, and wait for them."""
        function, words = self.prepare(*arguments)
        self._code.call(function, words, self._threads)

    def over(self, *arguments: Any) -> Callable[[slice], None]:
        """Return what runs the kernel for a slice of rows, whose bounds are its last two arguments."""
        function, words = self.prepare(*arguments, 0, 0)
        first_words, bounds = words[: -_BOUNDS.size], _BOUNDS.pack
        call, threads = self._code.call, self._threads

        def run(rows: slice) -> None:
            first, last, _ = rows.indices(len(arguments[0]))  # which keeps the arrays
            call(function, first_words + bounds(first, last), threads)

        return run

    def prepare(self, *arguments: Any) -> tuple[int, bytes]:
        """Return the address of the kernel for these arguments, and their words, which own no array."""
        values: list[Any] = list(arguments[0].shape) if self._sized else []
        for words, argument in zip(self._words, arguments, strict=True):
            values += words(argument)
        single = self._typed is None or arguments[self._typed].dtype in _SINGLE
        return self._functions[single], self._packed.pack(*values)


def _layers(split_layers: Any) -> list[Any]:
    *arrays, nx, ny, layers_x, layers_y = split_layers.words
    return [*map(address, arrays), nx, ny, layers_x, layers_y]


_SOURCE = "qdqqqqq"
_COMPONENT = f"qqqq{_SOURCE}q"
#: Of a kind and what is told beside an address: the format of its words, and how they are made.
_WORDS: dict[tuple[str, str], tuple[str, Callable[[Any], Any]]] = {
    ("medium", ""): ("qq", lambda array: (address(array), max(array.shape[:2]) > 1)),
    ("layers", ""): ("q" * 13, _layers),
    ("parts", ""): ("qqq", lambda layers: map(address, layers.parts)),
    ("lines", ""): ("q", lambda lines: (address(lines.words),)),
    ("source", ""): (_SOURCE, lambda source: source.words()),
    ("component", ""): (_COMPONENT, lambda component: component.words()),
    ("state", ""): ("qq" * 4 + "d", lambda state: state.words()),
    ("coupling", ""): ("q" * 10, lambda layout: layout.words),
    ("groups", ""): ("qqq", lambda layout: layout.words),
    ("int", ""): ("q", lambda value: (int(value),)),
    ("real", ""): ("d", lambda value: (value,)),
    ("double", ""): ("d", lambda value: (value,)),
}
for _kind in ("array", "doubles", "indices", "int32s", "bytes"):
    _WORDS[_kind, ""] = "q", lambda array: (address(array),)
    _WORDS[_kind, "optional"] = (
        "q",
        lambda array: (address(array) if array is not None and array.size else 0,),
    )
    _WORDS[_kind, "counted"] = "qq", lambda array: (address(array), array.size)
    _WORDS[_kind, "rows"] = "qq", lambda array: (address(array), array.shape[0])
    _WORDS[_kind, "columns"] = "qq", lambda array: (address(array), array.shape[1])
    _WORDS[_kind, "shape"] = "qqq", lambda array: (address(array), *array.shape)
