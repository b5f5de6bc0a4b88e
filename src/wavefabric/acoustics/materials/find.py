"""Finds medium parameters with few enough values to be stored as an index into a table of materials."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.setup_passes import run_setup, threads_for
from wavefabric.base.units import counted
from wavefabric.runtime.device.views import address as memory_address
from wavefabric.runtime.kernels.cpu_launch import address

#: Largest number of materials of an index, which has at most 16 bits.
LIMIT = 1 << 16
#: Parameters at the points of the pressure, in the order of their columns in a table.
AT_POINTS = ("speed", "density", "ratio", "tau")
#: The density at the points of u_x, u_y and u_z.
STAGGERED = ("staggered_x", "staggered_y", "staggered_z")
#: Names of the parameters in words.
_LABELS = {"speed": "sound speed", "density": "density", "ratio": "B/A", "tau": "absorption"}
#: Fewest points per thread: with fewer, a separate table per thread costs more time than it saves.
_THREAD = 1 << 19
#: Points per piece of a sample, and by how many pieces the sampled position moves from plane to plane: a
#: prime, so that few positions repeat.
_BLOCK, _SKIP = 256, 7919


class ValueCombinations:
    """Finds the different combinations of values in ``arrays``, (Nz, Ny, Nx) each, rounded to ``dtype``.

    A combination holds the values of all arrays at one grid point; values are compared bit by bit. ``full``
    is true once there are more than ``limit``; ``values`` (combinations, arrays) lists them in arbitrary
    order. ``sample_only`` reads only a sample of points; the grid may have more combinations.
    """

    def __init__(self, arrays: Sequence[np.ndarray], dtype, limit: int, sample_only: bool = False):
        self._dtype, self._limit = np.dtype(dtype), limit
        #: Number of slots of the hash table, which stores numbers of combinations.
        self._slots = 1 << (4 * limit - 1).bit_length()
        arrays = [_readable(array) for array in arrays]
        planes, plane = len(arrays[0]), arrays[0][0].size
        # Read a sample first: in most media with too many combinations, the sample has too many.
        self._tables = self._collected(arrays, _sample(planes, plane, 4 * limit), 1)
        if sample_only:
            return
        threads = max(1, min(threads_for(planes * plane), planes * plane // _THREAD, planes))
        all_pieces = [(z, 0, plane) for z in _spread(planes)]
        if threads == 1:
            self._collected(arrays, all_pieces, 1, self._tables)
            return
        if self.full:
            return
        parts = self._collected(arrays, all_pieces, threads)
        for combinations, count in zip(parts.combinations, parts.counts, strict=True):
            if count > limit:
                self._tables.counts[0] = limit + 1
            elif not self.full:
                columns = [np.ascontiguousarray(column)[None] for column in combinations[:count].T]
                self._collected(columns, [(0, 0, int(count))], 1, self._tables)

    def _collected(
        self,
        arrays: Sequence[np.ndarray],
        pieces: "Sequence[_Piece]",
        parts: int,
        tables: "_Tables | None" = None,
    ) -> "_Tables":
        """Return hash tables of the combinations of values that occur at points in ``pieces`` of the arrays.

        A combination has one value of each array, at the same point. A piece is (plane, first, end): a range
        of points of a plane. Combinations are added to ``tables``; without it, to ``parts`` new tables. Each
        of ``parts`` threads has a table of its own.
        """
        if tables is None:
            positions = np.empty((parts, self._slots), np.int32)
            combinations = np.empty((parts, self._limit, len(arrays)), self._dtype)
            tables = _Tables(positions, combinations, np.full(parts, -1, np.int64))
        table_arguments = self._slots, address(tables.positions), address(tables.combinations), tables.counts
        points = sum(end - first for _, first, end in pieces)
        array_arguments = _layouts(arrays), np.array(pieces, np.int64), self._limit
        run_setup("collect_sets", self._dtype, points, *array_arguments, *table_arguments, threads=parts)
        return tables

    @property
    def full(self) -> bool:
        """Whether there are more combinations than the limit."""
        return len(self) > self._limit

    def __len__(self) -> int:
        return int(self._tables.counts[0])

    @property
    def values(self) -> np.ndarray:
        return self._tables.combinations[0, : len(self)]

    def index(self, arrays: Sequence[np.ndarray], dtype) -> np.ndarray:
        """Return the combination's number at each grid point, an index (Nz, Ny, Nx) into `values`.

        Raises `RuntimeError` if a point's values are no known combination, because the arrays have changed.
        """
        index, missing = np.empty(np.shape(arrays[0]), dtype), np.zeros(1, np.int64)
        arrays = [_readable(array) for array in arrays]
        table_arguments = self._slots, address(self._tables.positions), address(self._tables.combinations)
        out = address(index), index.itemsize, address(missing)
        shape = index[0].size, len(index)
        run_setup("index_sets", self._dtype, index.size, _layouts(arrays), *shape, *table_arguments, *out)
        if missing[0]:
            raise RuntimeError("the medium's arrays have changed since its materials were found")
        return index


#: Part of a plane: number of the plane, first point, end.
_Piece = tuple[int, int, int]


class _Tables(NamedTuple):
    """Holds for each thread a hash table (slots,), its combinations (limit, arrays), and their number."""

    positions: np.ndarray
    combinations: np.ndarray
    counts: np.ndarray


def _readable(array: np.ndarray) -> np.ndarray:
    """Convert an array to float32 or float64 with planes in C order; copy it only if necessary."""
    wide = array.dtype if array.dtype in (np.float32, np.float64) else np.float64
    if array.dtype == wide and array[0].flags.c_contiguous:
        return array
    if array.strides[0] == 0:  # all planes are the same
        return np.broadcast_to(np.ascontiguousarray(array[0], wide), array.shape)
    return np.ascontiguousarray(array, wide)


def _layouts(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Return an int64 array (arrays, 3): address, bytes of a value, and values from plane to plane."""
    layouts = [(memory_address(each), each.itemsize, each.strides[0] // each.itemsize) for each in arrays]
    return np.array(layouts, np.int64)


def _sample(planes: int, plane: int, points: int) -> list[_Piece]:
    """Return pieces (plane, first, end) spread over a grid, with about ``points`` points together.

    The grid has ``planes`` planes of ``plane`` points.
    """
    blocks = -(-plane // _BLOCK)
    order = _spread(planes)
    count = max(1, min(points // min(plane, _BLOCK), planes * blocks))
    firsts = (k // planes + k * _SKIP for k in range(count))  # another block in each plane
    starts = ((order[k % planes], first % blocks * _BLOCK) for k, first in enumerate(firsts))
    return [(z, start, min(start + _BLOCK, plane)) for z, start in starts]


def _spread(count: int) -> list[int]:
    """Return plane numbers 0 to ``count`` − 1 in bit-reversed order, so that the first ones lie far apart."""
    bits = max(count - 1, 1).bit_length()
    reversed_bits = (int(f"{i:0{bits}b}"[::-1], 2) for i in range(1, (1 << bits) + 1) if i < 1 << bits)
    return [z for z in (*reversed_bits, 0) if z < count]


@dataclass(frozen=True)
class IndexedGroup:
    """Describes medium parameters that share one index of ``bits`` bits into a table of materials.

    ``names`` lists the parameters, as in `AT_POINTS` and `STAGGERED`. ``columns`` names the arrays whose
    values define a material: for the absorption ``"tau"`` these are ``"speed"`` and ``"alpha"``, for any
    other parameter its own array.
    """

    names: tuple[str, ...]
    columns: tuple[str, ...]
    combinations: ValueCombinations
    bits: int

    def values(self, column: str) -> np.ndarray | None:
        """Return the values of array ``column`` per material, (materials,); None if the group lacks it."""
        return self.combinations.values[:, self.columns.index(column)] if column in self.columns else None

    def index(self, problem: Problem) -> np.ndarray:
        """Return the number of the material at each grid point, (Nz, Ny, Nx)."""
        arrays = _arrays(problem)
        return self.combinations.index([arrays[name] for name in self.columns], f"u{self.bits // 8}")

    def nbytes(self, points: int, itemsize: int) -> int:
        """Return the bytes of index and table, which has all columns of `AT_POINTS` or none of them."""
        width = len(AT_POINTS) * any(name in AT_POINTS for name in self.names)
        width += sum(name in STAGGERED for name in self.names)
        return points * self.bits // 8 + len(self.combinations) * width * itemsize

    def describe(self) -> str:
        """Return a text with the parameters and the number of materials, not counting staggered densities."""
        positions = [k for k, name in enumerate(self.columns) if name not in STAGGERED]
        if not positions:
            axes = ", ".join(name[-1] for name in self.names)
            return f"density staggered along {axes} of {counted(len(self.combinations), 'value')}"
        count = _different_rows(self.combinations.values[:, positions])
        labels = [label for name, label in _LABELS.items() if name in self.names]
        labels += ["staggered densities"] * (self.names[-1] in STAGGERED)
        return f"{', '.join(labels)} of {counted(count, 'material')}"


@dataclass(frozen=True)
class Materials:
    """Lists the groups of medium parameters that are stored by index; no parameter is in two groups.

    At most one group has parameters of `AT_POINTS`; the ``bits`` of all groups with `STAGGERED` are equal.
    """

    groups: tuple[IndexedGroup, ...] = ()

    def __contains__(self, name: str) -> bool:
        return any(name in group.names for group in self.groups)

    def nbytes(self, points: int, itemsize: int) -> int:
        """Return the bytes of all indices and tables for a grid of ``points`` points."""
        return sum(group.nbytes(points, itemsize) for group in self.groups)

    def note(self) -> str:
        """Return a text that says which parameters are stored by index; empty if none are."""
        parts = (f"{group.describe()}: held as an index of {group.bits} bits" for group in self.groups)
        return "; ".join(parts)


def _different_rows(table: np.ndarray) -> int:
    """Return the number of different rows of a table.

    `np.unique` is avoided: it imports `numpy.ma`, which takes up to 50 ms.
    """
    rows = table[np.lexsort(table.T)]
    return 1 + int(np.count_nonzero((rows[1:] != rows[:-1]).any(axis=1)))


def find_materials(problem: Problem, dtype) -> Materials:
    """Find the medium parameters that need less memory as an index of 8 or 16 bits into a table of values.

    One index serves all parameters if these have at most `LIMIT` different combinations of values. Otherwise
    one index serves as many parameters at the points of the pressure as it can, those with fewest values
    first. The staggered densities then use the same index, share a second one, have one each, or are stored
    as arrays. Values are compared bit by bit in the precision of the run, ``dtype``.
    """
    dtype = np.dtype(dtype)
    return problem.fact(("materials", dtype.str), lambda: _Search(problem, dtype).materials())


class _Search:
    def __init__(self, problem: Problem, dtype: np.dtype, limit: int = LIMIT):
        self._arrays, self._dtype, self._limit = _arrays(problem), dtype, limit
        self._points = problem.points
        #: Sets of arrays with too many combinations of values; every larger set has too many as well.
        self._full: list[frozenset[str]] = []
        array_names = {name: (name,) for name in (*AT_POINTS, *STAGGERED)} | {"tau": ("speed", "alpha")}
        if problem.absorption == "none":
            del array_names["tau"]
        #: Parameters that vary in space, and the arrays that determine them.
        self._columns = {
            name: result
            for name, columns in array_names.items()
            if (result := [column for column in columns if column in self._arrays])
        }

    def materials(self) -> Materials:
        at_points, staggered = ([each for each in n if each in self._columns] for n in (AT_POINTS, STAGGERED))
        if (every := self._group([*at_points, *staggered])) is not None:
            return Materials((every,))
        result = self._group(at_points)
        if result is None:
            result = self._largest_group(at_points)
            if result is not None and (both := self._group([*result.names, *staggered])) is not None:
                return Materials((both,))
        groups = () if result is None else (result,)
        if (together := self._group(staggered)) is not None:
            return Materials((*groups, together))
        alone = self._single_groups(staggered)
        if len(alone) == len(staggered):
            groups = *groups, *(replace(each, bits=max(group.bits for group in alone)) for each in alone)
        return Materials(groups)

    def _largest_group(self, names: Sequence[str]) -> IndexedGroup | None:
        """Return a group of as many of ``names`` as one index can serve, those with fewest values first."""
        samples = {name: self._combinations([name], sample_only=True) for name in names}
        sizes = {name: len(sample) for name, sample in samples.items() if sample is not None}
        joined: list[str] = []
        for name in sorted(sizes, key=sizes.__getitem__):
            if self._combinations([*joined, name], sample_only=True) is not None:
                joined.append(name)
        for count in range(len(joined), 0, -1):
            if (group := self._group(joined[:count])) is not None:
                return group
        return None

    def _single_groups(self, names: Sequence[str]) -> list[IndexedGroup]:
        """Return a group of one parameter for each of ``names`` that saves memory with its own index."""
        return [group for name in names if (group := self._group([name])) is not None]

    def _group(self, names: Sequence[str]) -> IndexedGroup | None:
        """Return a group of all ``names`` with one index; None if it has too many or saves nothing."""
        if not names or (combinations := self._combinations(names)) is None:
            return None
        names = [name for name in (*AT_POINTS, *STAGGERED) if name in names]
        bits = 8 if len(combinations) <= 256 else 16
        group = IndexedGroup(tuple(names), self._columns_of(names), combinations, bits)
        item = self._dtype.itemsize
        return group if group.nbytes(self._points, item) < len(names) * self._points * item else None

    def _columns_of(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the names of the arrays that determine the parameters ``names``, each once."""
        ordered = (name for name in (*AT_POINTS, *STAGGERED) if name in names)
        return tuple(dict.fromkeys(column for name in ordered for column in self._columns[name]))

    def _combinations(self, names: Sequence[str], sample_only: bool = False) -> ValueCombinations | None:
        """Return the combinations of values of parameters ``names``, or of a sample; None if too many."""
        columns = self._columns_of(names)
        if any(full <= set(columns) for full in self._full):
            return None
        arrays = [self._arrays[column] for column in columns]
        combinations = ValueCombinations(arrays, self._dtype, self._limit, sample_only)
        if combinations.full:
            self._full.append(frozenset(columns))
            return None
        return combinations


def medium_values(problem: Problem) -> dict[str, float | np.ndarray | None]:
    """Return a dictionary of the medium: ``speed``, ``density``, ``ratio``, ``staggered_x``, …, ``alpha``.

    The ``ratio`` is B/A. A value is a number, an array (Nz, Ny, Nx) or None.
    """
    medium = {"speed": problem.sound_speed, "density": problem.density, "ratio": problem.nonlinearity}
    medium |= zip(STAGGERED, problem.density_staggered, strict=False)
    return {**medium, "alpha": problem.alpha_coeff}


def _arrays(problem: Problem) -> dict[str, np.ndarray]:
    """Return a dictionary from name to array (Nz, Ny, Nx) of the medium parameters that vary in space."""
    values = medium_values(problem).items()
    return {name: value for name, value in values if isinstance(value, np.ndarray) and value.ndim}
