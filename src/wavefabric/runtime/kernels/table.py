"""Describe kernels and their arguments, one row per kernel, from which CPU and GPU launchers are made.

A row has the form of the launch, the kernel's name, and its arguments in the order of the call. Each argument
has a kind:

- ``array``: an array of the kernel's precision, real or complex. ``doubles``, ``indices`` (int64), ``int32s``
  (signed or unsigned) and ``bytes`` are arrays of that type whatever the precision. A word in front changes
  what the kernel gets: ``optional`` a null pointer for an empty array; ``counted`` also the number of
  elements, ``rows`` or ``columns`` the number of rows or columns, ``shape`` both.
- ``medium``: a parameter of the medium, a full grid or one row that is used everywhere; the kernel also gets
  a flag for a full grid. ``parameter``: as ``medium``, or on a GPU an
  `wavefabric.acoustics.materials.indexed.Indexed`.
- ``layers``: a `wavefabric.acoustics.solver.split_density.SplitLayers`; ``parts``: only its three arrays.
- ``coupling``, ``groups``: a `KerrLayout` and a `KerrChunkLayout` of
  `wavefabric.optics.propagation.kernels.kerr`.
- ``plan``: a transform plan of rows and columns, passed as its ``words``; ``component``, ``source``,
  ``state``: groups of arguments of a fused kernel, see `wavefabric.acoustics.fused.plane_kernels`.
- ``int``, ``long`` (64 bits, also on a GPU), ``real`` (of the kernel's precision), ``double``: numbers.

The form says what the kernel loops over, and what one GPU thread or block of threads handles. The *counted
argument* is the first one with ``counted``, ``rows`` or ``shape`` in front; with the last two its elements
are its rows.

- ``points``: the points of the first array, whose shape the kernel gets; a thread per point.
- ``items``: the elements of the counted argument; a thread per element.
- ``packs``: the packs of 16 bytes of the counted argument; a thread per pack.
- ``elements``: the intervals between neighbouring elements of the counted argument; a block per interval.
- ``blocks``: the elements of the counted argument; a block per element.
- ``once``: nothing; a single thread.
"""

import re
from typing import Any, NamedTuple

import numpy as np

FORMS = ("points", "items", "elements", "packs", "blocks", "once")
KINDS = ("array", "doubles", "indices", "int32s", "bytes", "medium", "parameter", "layers", "parts")
KINDS += ("int", "long", "real", "double", "plan", "component", "source", "state")
KINDS += ("coupling", "groups")
WITH = ("counted", "rows", "columns", "shape", "optional")
_SINGLE = (np.dtype(np.float32), np.dtype(np.complex64))


def is_full(parameter: Any) -> bool:
    """Return whether a ``medium`` argument is a full grid, and not one row that is used everywhere."""
    return max(parameter.shape[:2]) > 1


def is_single(array: Any) -> bool:
    """Return whether a kernel with this array, real or complex, computes in single precision."""
    return array.dtype in _SINGLE


class KernelArgument(NamedTuple):
    """Describes a kernel argument: its kind, the word in front of it (of `WITH`, or empty) and its name."""

    kind: str
    extra: str
    name: str


class KernelRow(NamedTuple):
    """Describes a kernel: form of its launch, name and arguments."""

    form: str
    name: str
    arguments: tuple[KernelArgument, ...]

    @property
    def typed(self) -> int | None:
        """Return the index of the first argument whose type is the kernel's precision, or None."""
        kinds = (argument.kind for argument in self.arguments)
        return next((i for i, kind in enumerate(kinds) if kind in ("array", "medium")), None)


class KernelTable(NamedTuple):
    """Holds kernels by name, and their CUDA source: package, file, and sources to put before it."""

    rows: dict[str, KernelRow]
    package: str
    source: str
    before: tuple[str, ...]


def kernel_table(text: str, package: str = "", source: str = "", before: tuple[str, ...] = ()) -> KernelTable:
    """Parse rows such as ``points update_velocity(array u, medium density, real dt)``.

    ``source`` is a CUDA file of ``package``; without one kernels are for CPUs only. ``before`` lists files to
    put before ``source``.
    """
    rows = {}
    for form, name, inside in re.findall(r"(\w+) (\w+)\(([^)]*)\)", text):
        arguments = []
        for words in (each.split() for each in inside.split(",")):
            extra, kind, label = words if len(words) == 3 else ("", *words)
            assert kind in KINDS, f"{name}: {kind}"
            assert extra in ("", *WITH), f"{name}: {extra}"
            arguments.append(KernelArgument(kind, extra, label))
        assert form in FORMS, f"{name}: {form}"
        rows[name] = KernelRow(form, name, tuple(arguments))
    return KernelTable(rows, package, source, before)
