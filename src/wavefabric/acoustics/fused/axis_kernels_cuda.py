"""Compiles and launches the fused GPU kernels of the time step, ``fused_rows.cu``, ``fused_columns.cu``.

A kernel along one axis reads each array once (or again from the L2 cache) and writes it once, with the
transforms of that axis and all pointwise work in between. A lossless step moves 47 fields, instead of about
100 with whole-array transforms.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from wavefabric.acoustics.materials.find import AT_POINTS
from wavefabric.acoustics.materials.indexed import Indexed
from wavefabric.exchange.transports import SIGNALS
from wavefabric.spectral.axis_fft import axis_radices, axis_table, row_space, transformed_points

#: CUDA sources of the kernels, in order.
SOURCES = (
    "wavefabric.spectral/butterflies.cu",
    "wavefabric.spectral/axis_fft.cu",
    "wavefabric.spectral/real_rows.cu",
    "wavefabric.acoustics.solver/split_density.cu",
    "wavefabric.acoustics.fused/fused.cu",
    "wavefabric.acoustics.fused/fused_columns.cu",
    "wavefabric.acoustics.materials/medium.cu",
    "wavefabric.acoustics.fused/fused_rows.cu",
)
#: CUDA sources and names of the adjoint step's kernels along x, which are compiled on first use.
ADJOINT_SOURCES = (
    *(source for source in SOURCES[:-1] if "columns" not in source),
    "wavefabric.acoustics.solver.adjoint/density.cu",
    "wavefabric.acoustics.fused/adjoint_rows.cu",
)
ADJOINT_KERNELS = "x_adjoint_velocity", "x_adjoint_density", "x_adjoint_losses", "x_adjoint_pressure"
#: Groups of kernels compiled together, by letter: rows along x (X), columns along y (Y) and z (Z), the
#: gradient along z (G). All groups are compiled in parallel; on few processors, a letter is one group.
_GROUPS = {
    "X": (("x_forward", "x_backward", "x_velocity"), ("x_density",), ("x_pressure",)),
    "Y": (("y_transform",), ("y_gradient",)),
    "Z": (("z_divergence",), ("z_scale",), ("z_translate",)),
    "G": (("z_gradient",),),
}
#: Kernels of the adjoint step by letter, which are compiled on first use, like `ADJOINT_KERNELS`.
_GATHERS = {"Y": "y_gather", "G": "z_gather"}
#: Letter of each kernel.
LETTERS = {name: key for key, groups in _GROUPS.items() for names in groups for name in names}
LETTERS |= (
    {name: key for key, name in _GATHERS.items()} | dict.fromkeys(ADJOINT_KERNELS, "X") | {"y_scatter": "Y"}
)
#: Buffers in shared memory per row; one for kernels that are not listed.
_SPACES = {"x_velocity": 3, "x_density": 3, "x_pressure": 2}
_SPACES |= {"x_adjoint_velocity": 3, "x_adjoint_density": 3, "x_adjoint_pressure": 2}
#: Resident threads per multiprocessor of ``x_velocity`` and ``x_pressure``, in single precision.
_RESIDENT_VELOCITY, _RESIDENT_PRESSURE = 768, 1024
#: Largest number of threads of a block; a block with only one transform may have more.
_THREADS = {"X": 128, "Y": 1024, "Z": 512, "G": 512}
#: Largest shared memory, in bytes, of a block, and of a block with a single row.
_SHARED, _SHARED_ROW = 96 * 1024, 160 * 1024
#: Storage forms of a medium parameter, in the numbering of ``medium.cu``.
FORMS = ("uniform", "full", "index8", "index16")
#: Default forms of `AT_POINTS` and the staggered densities: full grids.
ALL_FULL: Mapping[str, str] = dict.fromkeys((*AT_POINTS, "staggered"), "full")
#: Result of `split_density.runs_along` without layers.
NO_LAYERS = np.zeros((0, 3), np.uint64)


def usable(nx: int, ny: int, nz: int, dtype) -> bool:
    """Return whether the kernels can transform a grid along all its axes; Nx must be even.

    Nz = 1 is a plane.
    """
    lengths = list(zip((nx // 2, ny, nz), longest_axes(dtype), strict=True))[: 3 if nz > 1 else 2]
    fits = all(1 < n <= most and transformed_points(n, r) <= most for n, most in lengths for r in (8, 16))
    return fits and nx % 2 == 0


def longest_axes(dtype) -> tuple[int, int, int]:
    """Return the longest transforms along x, y and z that fit in shared memory: 3 rows, or 4 columns.

    Along x two points of the grid are one point of the transform.
    """
    item = 2 * np.dtype(dtype).itemsize
    columns = _SHARED // (4 * item)
    rows = (_SHARED_ROW // (3 * item) - 1) // 16 * 16 - 1
    return rows, columns, columns


def _tuned(name: str, n: int, plane: bool, convolution: bool = False) -> tuple[int, int, int]:
    """Return the values per thread and largest radix of a transform, and resident threads per multiprocessor.

    More values per thread mean fewer exchanges between threads, but fewer threads to load while others
    compute. ``n`` is the length of the transform, perhaps of a ``convolution``. Measured in single precision
    on an H200 (docs/lab-book.md), except for a ``plane``, whose few columns are divided among as many threads
    as possible.
    """
    if name == "X" or plane:
        return 8, 8, 640
    if n & (n - 1):  # no power of two
        if name == "Y":
            return (25, 8, 512) if n <= 256 else (16, 8, 1024)
        return 12 if name == "Z" and not convolution else 8, 8, 1024
    if name == "Y":
        return (16, 16, 1024) if n > 512 else (32, 8, 512)
    if name == "G":
        return 16, 8 if 256 < n <= 512 else 16, 512
    return 32, 16 if n > 256 else 8, 512


class _Axis:
    """Sets the threads per transform and transforms per block of one axis (``tile``: rows or columns)."""

    def __init__(self, name: str, n: int, item: int, plane: bool):
        self.name, self._item = name, item
        self.points = n // 2 if name == "X" else n  # a real row is half as many complex values
        inner = transformed_points(self.points)
        each, radix, self._resident = _tuned(name, inner, plane, inner > self.points)
        #: Points of the transform: `points`, or more for a convolution.
        self.inner = transformed_points(self.points, radix)
        self.radices = axis_radices(self.inner, radix)
        self.threads = -(-self.inner // each)
        # A plane has few rows, so a block is one warp.
        threads = 32 if plane and name == "X" else _THREADS[name]
        most = max(1, threads // self.threads)
        self.tile = (32 if plane else 128) // item
        if name == "G" and n > 256 and not plane:
            self.tile //= 2  # two blocks per multiprocessor
        if name == "X" and self.threads > 32:  # whole warps, without barriers between rows
            self.threads, self.tile = -(-self.threads // 32) * 32, 1
        elif name == "X":  # a divisor of a warp, without barriers
            self.threads = 1 << (self.threads - 1).bit_length()
            self.tile = most = threads // self.threads
        while self.tile > 1 and (self.tile > most or self.shared("x_density") > _SHARED):
            self.tile //= 2
        self.block = (self.threads * self.tile, 1, 1)

    def blocks(self, resident: int | None = None) -> int:
        """Return the number of blocks per multiprocessor that the registers must suffice for."""
        return max(1, (resident or self._resident) * 8 // self._item // self.block[0])

    def shared(self, kernel: str) -> int:
        """Return the shared memory of a block, in bytes."""
        words = self.inner
        if self.name == "X":
            words = _SPACES.get(kernel, 1) * row_space(self.inner, self.threads)
        return self.tile * words * self._item


def _axes(shape, real, kernels: Iterable[str], dimensions: int) -> dict[str, _Axis]:
    item = 2 * np.dtype(real).itemsize
    points = dict(zip("ZYXG", (*shape, shape[0]), strict=True))
    return {name: _Axis(name, points[name], item, dimensions == 2) for name in kernels}


def pitch(nx: int, real) -> int:
    """Return the length of a padded row of a half spectrum, which fills whole cache lines."""
    line = 64 // np.dtype(real).itemsize
    return -(-(nx // 2 + 1) // line) * line


def sinc_series(largest: float, real) -> list[float]:
    """Return the coefficients of sin(x)/x in powers of x², exact to round-off for x² up to ``largest``.

    The list is empty for x beyond π, where terms would cancel. No stable time step gets there if the sound
    speed varies.
    """
    if largest > math.pi**2:
        return []
    terms, size = [1.0], 1.0
    while size > np.finfo(real).eps / 4 or len(terms) < 2:
        n = len(terms)
        terms.append(-terms[-1] / (2 * n * (2 * n + 1)))
        size = abs(terms[-1]) * largest**n
    return terms


def index_macro(runs: np.ndarray) -> str:
    """Return C text for the layer index of a point x; ``runs`` are those of `split_density.runs_along`."""
    expression = "-1"
    for first, end, position in runs[::-1].tolist():
        expression = f"(x) >= {first} && (x) < {end} ? (x) - {first} + {position} : {expression}"
    return f"({expression})"


class MediumKind(NamedTuple):
    """Describes the properties of a medium for which kernels are compiled.

    ``forms`` maps each parameter of `AT_POINTS`, and ``"staggered"``, to a storage form of `FORMS`.
    """

    nonlinear: bool
    absorption: str
    forms: Mapping[str, str] = ALL_FULL
    disperses: bool = True


def prelude(
    shape,
    real,
    medium: MediumKind,
    kernels: Sequence[str] = "XYZG",
    series: Sequence[float] = (),
    runs: np.ndarray = NO_LAYERS,
    firsts: Sequence[int] = (),
    dimensions: int = 3,
) -> str:
    """Return the macros to define before the sources, for a grid (Nz, Ny, Nx), a medium and some kernels.

    ``kernels`` are letters, X, Y and Z for all kernels along these axes and G for the gradient along z, or
    names of kernels. ``series`` is the result of `sinc_series`; ``runs`` are the layers along x, from
    `split_density.runs_along`. ``firsts`` are the first points of all ranks but rank 0 on the axis whose
    kernels end in a transpose. With 2 ``dimensions`` the shape is (1, Ny, Nx) for kernels along x, and
    (Ny, 1, Nx) for kernels along y, which are those along z of a volume.
    """
    forms = medium.forms
    macros: dict[str, object] = {
        "REAL": "float" if np.dtype(real).itemsize == 4 else "double",
        "PITCH": pitch(shape[2], real),
        "INDEX_X(x)": index_macro(runs),
        "NONLINEAR": int(medium.nonlinear),
        "DISPERSES": int(medium.disperses),
        "ABSORPTION": ("none", "stokes", "power_law").index(medium.absorption),
        "SPLIT": int(bool(firsts)),
        "DIMENSIONS": dimensions,
        "PLANE": int(dimensions == 2),
    }
    if firsts:
        macros |= {"RANKS": len(firsts) + 1, "FIRST_POINTS": ", ".join(map(str, firsts))}
    macros |= {f"FORM_{name.upper()}": FORMS.index(form) for name, form in forms.items()}
    macros["PARAMETERS"] = len(AT_POINTS)
    macros["INDEX_FORM"] = max(FORMS.index(forms[name]) for name in AT_POINTS)
    if series:
        macros["SINC_SERIES"] = ", ".join(f"(REAL){value!r}" for value in series)
    for name, n in zip("ZYX", shape, strict=True):
        macros[f"N{name}"] = n
    names = [name for name, key in LETTERS.items() if name in kernels or key in kernels]
    letters = sorted({LETTERS[name] for name in names})
    macros |= {f"WITH_{name}": int(name in letters) for name in "XYZG"}
    macros |= {f"WITH_{name.upper()}": 1 for name in names}
    for name, axis in _axes(shape, real, letters, dimensions).items():
        factors = [str(radix) for radix in axis.radices]
        macros |= {f"P{name}": axis.threads, f"T{name}": axis.tile, f"B{name}": axis.blocks()}
        macros[f"M{name}"] = axis.inner
        if name == "X":
            macros |= {"BV": axis.blocks(_RESIDENT_VELOCITY), "BP": axis.blocks(_RESIDENT_PRESSURE)}
        macros |= {f"RADICES_{name}": ",".join(factors), f"REVERSED_{name}": ",".join(factors[::-1])}
    return "".join(f"#define {name} {value}\n" for name, value in macros.items())


class AxisKernels:
    """Launches the kernels for grids (Nz, Ny, Nx) of one shape, precision and kind of medium on a GPU.

    ``kernels`` are letters, as in `prelude`: those for planes, for columns or for both. ``definitions``
    returns the text of `prelude` for names of kernels, of which some are compiled together and all groups in
    parallel. ``scatter`` is an array of ``Scatter`` (scatter.cu), one per spectrum, for kernels that end in a
    transpose: those along z, or `y_scatter`. ``dimensions`` is as in `prelude`.
    """

    def __init__(
        self,
        device,
        shape,
        dtype,
        kernels: str,
        definitions: Callable[[Sequence[str]], str],
        scatter=None,
        dimensions: int = 3,
    ):
        self._device, self._scatter = device, scatter
        self._axes = _axes(shape, dtype, kernels, dimensions)
        nz, ny, nx = shape
        self._twiddles = {
            name: device.asarray(axis_table(axis.points, axis.radices, dtype, rows=name == "X"))
            for name, axis in self._axes.items()
        }
        half, self._rows = nx // 2 + 1, ny * nz
        #: Launch grid of each axis: tiles, and the planes or rows that contain them.
        items = {"X": (self._rows,), "Y": (half, nz), "Z": (half, ny), "G": (half, ny)}
        self._grids = {k: (-(-items[k][0] // axis.tile), *items[k][1:]) for k, axis in self._axes.items()}
        self._definitions = definitions
        #: If a list, each launch is appended: name and grid of its kernel, and a call that repeats it.
        self.launches: list[tuple[str, tuple[int, ...], Callable[[], None]]] | None = None
        self._functions: dict[str, Any] = {}
        self._shared: dict[str, int] = {}
        groups = [group for key in self._axes for group in _GROUPS[key]]
        if device.compilers < len(groups):  # fewer modules, since what all kernels include takes time too
            groups = [tuple(chain(*_GROUPS[key])) for key in self._axes]
        if scatter is not None and "Y" in self._axes:
            groups.append(("y_scatter",))
        #: Modules of groups of kernels that are being compiled.
        self._modules = self._compiling(groups)
        self._await: Any = None

    def _compiling(self, groups: Iterable[Sequence[str]], adjoint: bool = False) -> list[tuple[Any, Any]]:
        """Start to compile groups of kernels; return each group with its module."""
        files = ADJOINT_SOURCES if adjoint else sources(self._scatter is not None)
        before, file = tuple(files[:-1]), files[-1].split("/")[1]
        module = partial(self._device.module, __package__, file, before=before)
        return [(names, module(prelude=self._definitions(names))) for names in groups]

    def load(self) -> None:
        """Load the kernels; waits until they are compiled."""
        if self._scatter is not None and self._await is None:
            self._await = self._modules[0][1].get_function("await_ranks")
        for names, module in self._modules:
            for name in names:
                self._functions[name] = function = module.get_function(name)
                self._shared[name] = self._axes[LETTERS[name]].shared(name)
                function.max_dynamic_shared_size_bytes = self._shared[name]
        self._modules.clear()

    def load_gathers(self) -> None:
        """Compile and load the transposes of the gradients, which few steps need."""
        names = [name for key, name in _GATHERS.items() if key in self._axes]
        self._modules += self._compiling((name,) for name in names if name not in self._functions)
        self.load()

    def load_adjoint(self) -> None:
        """Compile and load the kernels of the adjoint step that are along axes of these kernels."""
        self.load_gathers()
        if "X" in self._axes:
            self._modules += self._compiling(((name,) for name in ADJOINT_KERNELS), adjoint=True)
        self.load()

    def _launch(self, name: str, grid: tuple[int, ...], *arguments) -> None:
        if name not in self._functions:  # one of those that ranks load before they exchange anything
            self.load_gathers()
        key = LETTERS[name]
        values = [np.int32(value) if isinstance(value, int) else value for value in arguments]
        if self._scatter is not None and (key in "ZG" or name == "y_scatter"):
            values.append(self._scatter)
        values.append(self._twiddles[key])
        grid, block = (*grid, 1, 1)[:3], self._axes[key].block
        launch = partial(self._device.launch, self._functions[name], grid, block, values, self._shared[name])
        if self.launches is not None:
            self.launches.append((name, grid, launch))
        launch()

    def run(self, name: str, *arguments, layers: int = 1) -> None:
        """Launch a kernel on all rows or columns."""
        self._launch(name, (*self._grids[LETTERS[name]], layers), *arguments)

    def x_forward(self, fields, spectra, rows=None) -> None:
        """Transform rows of one to three real fields to half spectra: all, or those numbered in ``rows``."""
        count, listed = (self._rows, np.uintp(0)) if rows is None else (rows.size, rows)
        if count:
            grid = -(-count // self._axes["X"].tile), len(fields)
            self._launch("x_forward", grid, *_three(fields), *_three(spectra), listed, count)

    def y_transform(self, spectra, inverse: bool) -> None:
        """Transform one to three spectra, or the same planes of each, along y in place."""
        grid = self._grids["Y"][0], spectra[0].shape[0], len(spectra)
        self._launch("y_transform", grid, *_three(spectra), inverse)

    def z_scale(self, spectra, operators, numbers) -> None:
        """Transform one or two spectra, ``numbers``, along z, multiply by real operators, transform back."""
        first, last = numbers[0], numbers[-1]
        pairs = spectra[first], spectra[last], operators[first], operators[last]
        self.run("z_scale", *pairs, first, layers=len(numbers))

    def y_scatter(self, spectrum, number: int, transform: bool) -> None:
        """Write spectrum ``number`` to the columns of all ranks, transformed along y if ``transform``."""
        self.run("y_scatter", spectrum, number, int(transform))

    def await_ranks(self, flags, taken, rank: int, timeout) -> None:
        """Make later device work wait for data of all ranks from one more call than ``taken`` counts."""
        arguments = flags, taken, np.int32(rank), *timeout.arguments
        self._device.launch(self._await, (1,), (32,), arguments)


def structure(device, *values):
    """Pack array addresses (0 for None) and integers on the device; the caller must keep the arrays alive."""
    words = [m if isinstance(m, int) else 0 if m is None else m.data.ptr for m in values]
    return device.asarray(np.array(words, np.uint64))


def form_of(parameter) -> str:
    """Return the storage form of a medium parameter, an element of `FORMS`."""
    if isinstance(parameter, Indexed):
        return f"index{parameter.bits}"
    return "full" if math.prod(parameter.shape[:2]) > 1 else "uniform"


def medium_forms(at_points: Mapping[str, Any], staggered: Sequence) -> dict[str, str]:
    """Return the ``forms`` of `MediumKind`; full staggered densities may include uniform ones."""
    indexed = [form for density in staggered if (form := form_of(density)).startswith("index")]
    forms = {name: form_of(parameter) for name, parameter in at_points.items()}
    return forms | {"staggered": indexed[0] if indexed else "full"}


def members(parameter) -> tuple:
    """Return the members of a medium parameter in a `structure`: values, whether they vary, and index."""
    if isinstance(parameter, Indexed):
        return parameter.values, 1, parameter.index
    return parameter, int(form_of(parameter) == "full"), None


def sources(scattered: bool) -> tuple[str, ...]:
    """Return the files to compile, in order; ``scattered``: for kernels that end in a transpose."""
    at = SOURCES.index("wavefabric.acoustics.fused/fused.cu")
    more = (SIGNALS, "wavefabric.acoustics.parallel/scatter.cu") if scattered else ()
    return *SOURCES[:at], *more, *SOURCES[at:]


def _three(arrays: list) -> list:
    """Return three arrays for a kernel that takes three, given one to three."""
    return [*arrays, *arrays[:1] * (3 - len(arrays))]
