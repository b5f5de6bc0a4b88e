"""Which kernels there are and what they take: a row each, from which launchers for CPUs and GPUs are made.

A row is the form of the launch, the name, and the arguments in the order of the call, each with its kind:

- ``array``: an array of the kernel's precision, real or complex; ``optional array``: it may have no elements,
  and the kernel then gets a null pointer; ``doubles``, ``indices`` (int64), ``int32s`` (with a sign or
  without), ``bytes``: arrays of that type whatever the precision. With ``counted`` before it the kernel also
  gets the number of its elements, with ``rows`` or ``columns`` of its rows or columns, with ``shape`` of
  both.
- ``medium``: a parameter of the medium, a full grid or one row that serves everywhere; the kernel also gets
  whether it is a full grid. ``parameter``: the same, or on a GPU an
  `wavefabric.acoustics.materials.indexed.Indexed`.
- ``layers``: a `wavefabric.acoustics.solver.split_density.SplitLayers`; ``parts``: its three arrays alone.
- ``coupling``, ``groups``: a `KerrLayout` and a `KerrChunkLayout` of
  `wavefabric.optics.propagation.kernels.kerr`.
- ``plan``: how rows and columns are transformed, by its ``words``; ``component``, ``source``, ``state``:
  groups of arguments of a pass, as `wavefabric.acoustics.fused.plane_kernels` has them.
- ``int``, ``long`` (of 64 bits on a GPU too), ``real`` (of the kernel's precision), ``double``: numbers.

Forms: ``points``, over the points of the first array, whose shape the kernel gets; ``items``, over the
elements of the first counted argument; ``elements``, over one less than these, a block of threads each on a
GPU; ``packs``, over packs of 16 bytes of it, a thread each on a GPU; ``blocks``, over the rows of the
first argument, a block of threads each on a GPU; ``once``.
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
    """Return whether a ``medium`` argument is a full grid, not one row that serves everywhere."""
    return max(parameter.shape[:2]) > 1


def is_single(array: Any) -> bool:
    """Return whether a kernel computes in single precision if this is its array, real or complex."""
    return array.dtype in _SINGLE


class KernelArgument(NamedTuple):
    """Describes a kernel argument: kind, modifier of an array (of `WITH`, or empty), and name."""

    kind: str
    extra: str
    name: str


class KernelRow(NamedTuple):
    """A kernel: how it is launched, and its arguments."""

    form: str
    name: str
    arguments: tuple[KernelArgument, ...]

    @property
    def typed(self) -> int | None:
        """The number of the first argument whose type is the kernel's precision; None if it has no such."""
        kinds = (argument.kind for argument in self.arguments)
        return next((i for i, kind in enumerate(kinds) if kind in ("array", "medium")), None)


class KernelTable(NamedTuple):
    """Kernels by name, with the CUDA source that has them: its package and file, and sources before it."""

    rows: dict[str, KernelRow]
    package: str
    source: str
    before: tuple[str, ...]


def kernel_table(text: str, package: str = "", source: str = "", before: tuple[str, ...] = ()) -> KernelTable:
    """Parse rows such as ``points update_velocity(array u, medium density, real dt)``.

    Without ``source``, a CUDA file of ``package``, kernels are for CPUs only; ``before``: files compiled
    before it, in the same text.
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
