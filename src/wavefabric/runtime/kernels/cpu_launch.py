"""Launch CPU kernels, of a table or by name, with their arguments packed into words of 8 bytes."""

import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from wavefabric.runtime.kernels.library import Library, library
from wavefabric.runtime.kernels.table import KernelRow, KernelTable, is_full, is_single


def address(array: np.ndarray, /) -> int:
    """Return the start address of an array; ValueError unless it is C-contiguous."""
    facts = array.__array_interface__
    if facts["strides"] is not None:
        raise ValueError(f"a kernel was given an array of shape {array.shape} that is not contiguous")
    return facts["data"][0]


def call_kernel(name: str, *arguments: Any, threads: int = 1) -> None:
    """Run a kernel that is in no table, such as ``simulate_double``, and wait for it.

    An array is passed as its address and number of elements, a tuple as its members, a number by its type as
    int64 or double; a field of a named tuple that is annotated ``float`` is always a double.
    """
    code = library()
    code.call(code.address(name), _packed(arguments), threads)


def _packed(arguments: tuple[Any, ...]) -> bytes:
    """Return arguments as words of 8 bytes; of arrays address and size, so the caller keeps them alive."""
    words, kinds = [], ["="]
    for value in _members(arguments):
        if isinstance(value, np.ndarray):
            words += address(value), value.size
            kinds.append("qq")
        else:
            words.append(value)
            kinds.append("d" if isinstance(value, float) else "q")
    return struct.pack("".join(kinds), *words)


def _members(values: tuple[Any, ...]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, tuple):
            kinds = type(value).__annotations__.values() if hasattr(value, "_fields") else [None] * len(value)
            yield from _members(
                tuple(float(v) if k is float else v for k, v in zip(kinds, value, strict=True))
            )
        else:
            yield value


class CpuLauncher:
    """Runs kernels on ``threads`` threads, or records their launches to repeat them later."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._recorded: list[tuple[int, bytes, Any]] | None = None

    def launch(self, function: int, words: bytes, arguments: Any) -> None:
        """Run the kernel at address ``function`` and wait; or record it, and keep ``arguments`` alive."""
        if self._recorded is None:
            library().call(function, words, self._threads)
        else:
            self._recorded.append((function, words, arguments))

    def recorded(self, work: Callable[[], None]) -> Callable[..., None]:
        """Record the kernel launches of ``work``, which does nothing else; return a function to repeat it."""
        self._recorded = launches = []
        try:
            work()
        finally:
            self._recorded = None
        words = [np.frombuffer(each, np.int64) for _, each, _ in launches]
        pairs = zip(launches, words, strict=True)
        table = np.array([(launch[0], address(packed)) for launch, packed in pairs], np.int64)
        run, threads = library().run, self._threads

        def repeat(times: int = 1, _alive: Any = (launches, words)) -> None:
            run(address(table), len(table), times, threads)

        return repeat


class CpuKernels:
    """Holds the CPU kernels of a table as attributes, under the names of the kernels."""

    def __init__(self, table: KernelTable, launcher: CpuLauncher) -> None:
        code = library()
        for name, row in table.rows.items():
            setattr(self, name, CpuKernel(row, code, launcher))

    def load(self, dtype: Any, wait: bool = False) -> None:
        """Do nothing, since CPU kernels are already compiled."""


class CpuKernel:
    """A callable CPU kernel that takes the arguments in its table row; arrays must be C-contiguous."""

    def __init__(self, row: KernelRow, code: Library, launcher: CpuLauncher) -> None:
        self._launcher = launcher
        self._functions = {
            single: code.address(f"{row.name}_{'float' if single else 'double'}") for single in (True, False)
        }
        self._typed = row.typed
        self._words = [_WORDS[argument.kind, argument.extra][1] for argument in row.arguments]
        self._sized = row.form == "points"
        formats = "".join(_WORDS[argument.kind, argument.extra][0] for argument in row.arguments)
        self._packed = struct.Struct("=" + "qqq" * self._sized + formats)

    def __call__(self, *arguments: Any) -> None:
        """Run the kernel on all threads, and wait for them."""
        function, words = self._prepared(arguments)
        self._launcher.launch(function, words, arguments)

    def _prepared(self, arguments: tuple[Any, ...]) -> tuple[int, bytes]:
        """Return the kernel's address for the arguments' precision, and the arguments packed into words."""
        values: list[Any] = list(arguments[0].shape) if self._sized else []
        for words, argument in zip(self._words, arguments, strict=True):
            values += words(argument)
        single = self._typed is None or is_single(arguments[self._typed])
        return self._functions[single], self._packed.pack(*values)


def medium_words(parameter: Any) -> tuple[int, bool]:
    """Return (address, whether it is a full grid) for a parameter of the medium, as kernels receive it."""
    return address(parameter), is_full(parameter)


def _layers(split_layers: Any) -> list[Any]:
    *arrays, nx, ny, layers_x, layers_y = split_layers.words
    return [*map(address, arrays), nx, ny, layers_x, layers_y]


_SOURCE = "q" * 9
_COMPONENT = f"qqqq{_SOURCE}q"
#: By kind and modifier of an argument: `struct` format of its words, and a function that returns them.
_WORDS: dict[tuple[str, str], tuple[str, Callable[[Any], Any]]] = {
    ("medium", ""): ("qq", medium_words),
    ("parameter", ""): ("qq", medium_words),
    ("layers", ""): ("q" * 13, _layers),
    ("parts", ""): ("qqq", lambda layers: map(address, layers.parts)),
    ("plan", ""): ("q", lambda plan: (address(plan.words),)),
    ("source", ""): (_SOURCE, lambda source: source.words()),
    ("component", ""): (_COMPONENT, lambda component: component.words()),
    ("state", ""): ("qq" * 4 + "d", lambda state: state.words()),
    ("coupling", ""): ("q" * 10, lambda layout: layout.words),
    ("groups", ""): ("qqq", lambda layout: layout.words),
    ("int", ""): ("q", lambda value: (int(value),)),
    ("long", ""): ("q", lambda value: (int(value),)),
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
