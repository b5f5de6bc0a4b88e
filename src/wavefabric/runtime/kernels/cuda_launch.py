"""Launch the CUDA kernels of a table: the form of a kernel gives the grid, its arrays the precision."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wavefabric.runtime.kernels.table import KernelRow, KernelTable, is_full, is_single

_BLOCK = 256


class CudaKernels:
    """Holds the kernels of a table as attributes, under their names; they are compiled on first use."""

    def __init__(self, table: KernelTable, device: Any) -> None:
        self._modules, self._first = CudaModules(table, device), next(iter(table.rows))
        for name, row in table.rows.items():
            setattr(self, name, CudaKernel(row, self._modules, device))

    def load(self, dtype: Any, wait: bool = False) -> None:
        """Start to compile the kernels for the precision ``dtype``; with ``wait`` wait until that is done.

        Compilation at first use could deadlock with running kernels that wait for other ranks.
        """
        module = self._modules.of(np.dtype(dtype) == np.float32)
        if wait:
            module.get_function(self._first)


class CudaModules:
    """Holds the compiled kernels of a table: a module for single and one for double precision."""

    def __init__(self, table: KernelTable, device: Any) -> None:
        self._table, self._device = table, device
        self._loaded: dict[bool, Any] = {}

    def of(self, single: bool | None) -> Any:
        """Return the module of kernels for single precision (``single`` true) or double precision.

        ``single`` is None for a kernel that exists in both and does not depend on it: a loaded module is
        preferred.
        """
        if single is None:
            single = next(iter(self._loaded), True)
        if single not in self._loaded:
            options = (f"-DREAL={'float' if single else 'double'}",)
            table = self._table
            self._loaded[single] = self._device.module(table.package, table.source, options, table.before)
        return self._loaded[single]


class CudaKernel:
    """A callable CUDA kernel that takes the arguments in its table row; arrays must be C-contiguous."""

    def __init__(self, row: KernelRow, modules: CudaModules, device: Any) -> None:
        self._row, self._modules, self._device = row, modules, device
        self._functions: dict[bool | None, Any] = {}
        self._typed = row.typed
        self._values = [[_values(*each[:2], single) for each in row.arguments] for single in (False, True)]

    def __call__(self, *arguments: Any) -> None:
        """Launch the kernel on the current stream."""
        single = None if self._typed is None else is_single(arguments[self._typed])
        grid, threads = self._grid(arguments, 4 if single else 8)
        if not grid[0]:
            return
        values: list[Any] = []
        if self._row.form == "points":
            values += map(np.int32, arguments[0].shape[:0:-1])  # nx, ny
        for received, argument in zip(self._values[bool(single)], arguments, strict=True):
            values += received(argument)
        self._device.launch(self._function(single), grid, (threads, 1, 1), values)

    def _grid(self, arguments: tuple[Any, ...], bytes_each: int) -> tuple[tuple[int, int, int], int]:
        """Return the blocks along x, y and z and the threads per block; a real takes ``bytes_each`` bytes."""
        if self._row.form == "points":
            nz, ny, nx = arguments[0].shape
            threads = min(_BLOCK, -(-nx // 32) * 32)
            return (-(-nx // threads), ny, nz), threads
        if self._row.form == "once":
            return (1, 1, 1), 1
        counted = zip(self._row.arguments, arguments, strict=True)
        count = next(
            a.size if how.extra == "counted" else a.shape[0]
            for how, a in counted
            if how.extra in ("counted", "rows", "shape")
        )
        if self._row.form == "blocks":
            return (count, 1, 1), _BLOCK
        if self._row.form == "elements":
            return (max(count - 1, 0), 1, 1), _BLOCK
        if self._row.form == "packs":
            count = -(-count // (16 // bytes_each))
        return (-(-count // _BLOCK), 1, 1), _BLOCK

    def _function(self, single: bool | None) -> Any:
        if single not in self._functions:
            self._functions[single] = self._modules.of(single).get_function(self._row.name)
        return self._functions[single]


def _values(kind: str, extra: str, single: bool) -> Callable[[Any], Sequence[Any]]:
    """Return a function that converts an argument of ``kind`` to the values that a CUDA kernel receives."""
    if kind in ("int", "long", "real", "double"):
        real = np.float32 if single else np.float64
        number = {"int": np.int32, "long": np.int64, "real": real, "double": np.float64}[kind]
        return lambda argument: (number(argument),)
    return _OF_ARRAYS[kind if kind in _OF_ARRAYS else extra]


def _parameter(argument: Any) -> Sequence[Any]:
    """Return what a kernel receives for a medium parameter: address, stride, index array, storage form."""
    if not hasattr(argument, "bits"):
        return argument, np.int64(0), np.uintp(0), np.int32(is_full(argument))
    values = argument.values  # perhaps a column of a table
    stride = np.int64(values.strides[0] // values.itemsize)
    return np.uintp(values.data.ptr), stride, argument.index, np.int32(argument.bits)


#: Values that a kernel receives for an argument that is no number, by its kind or modifier.
_OF_ARRAYS: dict[str, Callable[[Any], Sequence[Any]]] = {
    "layers": lambda layers: (*layers[:9], *map(np.int64, layers.words[9:])),
    "parts": lambda layers: layers.parts,
    "medium": lambda parameter: (parameter, np.int32(is_full(parameter))),
    "parameter": _parameter,
    "": lambda array: (array,),
    "optional": lambda array: (array if array.size else np.uintp(0),),
    "counted": lambda array: (array, np.int64(array.size)),
    "rows": lambda array: (array, np.int64(array.shape[0])),
    "columns": lambda array: (array, np.int64(array.shape[1])),
    "shape": lambda array: (array, *map(np.int64, array.shape)),
}
