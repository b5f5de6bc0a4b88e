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

from wavefabric.acoustics.fused.axis_blocks import axes_of, pitch
from wavefabric.acoustics.materials.find import AT_POINTS
from wavefabric.acoustics.materials.indexed import Indexed
from wavefabric.runtime.exchange.transports import SIGNALS
from wavefabric.runtime.spectral.axis_fft import axis_table

#: CUDA sources of the kernels, in order.
SOURCES = (
    "wavefabric.runtime.spectral/butterflies.cu",
    "wavefabric.runtime.spectral/axis_fft.cu",
    "wavefabric.runtime.spectral/real_rows.cu",
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
#: Resident threads per multiprocessor of ``x_velocity`` and ``x_pressure``, in single precision.
_RESIDENT_VELOCITY, _RESIDENT_PRESSURE = 768, 1024
#: Storage forms of a medium parameter, in the numbering of ``medium.cu``.
FORMS = ("uniform", "full", "index8", "index16")
#: Default forms of `AT_POINTS` and the staggered densities: full grids.
ALL_FULL: Mapping[str, str] = dict.fromkeys((*AT_POINTS, "staggered"), "full")
#: Result of `split_density.runs_along` without layers.
NO_LAYERS = np.zeros((0, 3), np.uint64)


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
    """Return a C expression for the number of point x among the PML points along x, −1 outside the PML.

    ``runs`` (runs, 3) has a row for each run of consecutive PML points: its first point, the point after its
    last one, the number of its first point.
    """
    expression = "-1"
    for first, end, position in runs[::-1].tolist():
        expression = f"(x) >= {first} && (x) < {end} ? (x) - {first} + {position} : {expression}"
    return f"({expression})"


class MediumKind(NamedTuple):
    """Describes the properties of a medium for which kernels are compiled.

    ``forms`` is a dictionary from each parameter of `AT_POINTS`, and ``"staggered"``, to how it is stored
    (`FORMS`).
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
    """Return the C macros to define before the CUDA sources, for a grid (Nz, Ny, Nx), medium and kernels.

    ``kernels`` are names of kernels, or letters: X, Y and Z for all kernels along these axes, G for the
    gradient along z. ``series`` is the result of `sinc_series`; ``runs`` are the runs of PML points along x,
    from `split_density.runs_along`. ``firsts`` is for kernels that store their results on other ranks: along
    the axis that is divided there, the first indices of ranks 1 and up. With 2 ``dimensions`` the shape is
    (1, Ny, Nx) for kernels along x, and (Ny, 1, Nx) for columns along y, which use the kernels along z.
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
    for name, axis in axes_of(shape, real, letters, dimensions).items():
        factors = [str(radix) for radix in axis.radices]
        macros |= {f"P{name}": axis.threads, f"T{name}": axis.tile, f"B{name}": axis.blocks()}
        macros[f"M{name}"] = axis.inner
        if name == "X":
            macros |= {"BV": axis.blocks(_RESIDENT_VELOCITY), "BP": axis.blocks(_RESIDENT_PRESSURE)}
        macros |= {f"RADICES_{name}": ",".join(factors), f"REVERSED_{name}": ",".join(factors[::-1])}
    return "".join(f"#define {name} {value}\n" for name, value in macros.items())


class AxisKernels:
    """Compiles and launches the kernels for one grid shape (Nz, Ny, Nx), precision and kind of medium.

    ``kernels`` are letters: kernels X and Y work in planes of constant z, Z and G (the gradient) on columns
    along z. Groups of kernels are compiled as modules, all modules in parallel; the function ``definitions``
    takes the names of kernels and returns their C macros (`prelude`). ``scatter`` is None unless kernels
    store their results on other ranks (those along z, or `y_scatter`); then it is a device array of the C
    struct ``Scatter`` (scatter.cu), one per spectrum. ``planes`` is None for a volume, else the number of 2-D
    grids of this shape that one launch works on.
    """

    def __init__(
        self,
        device,
        shape,
        dtype,
        kernels: str,
        definitions: Callable[[Sequence[str]], str],
        scatter=None,
        planes: int | None = None,
    ):
        self._device, self._scatter = device, scatter
        self._axes = axes_of(shape, dtype, kernels, 3 if planes is None else 2)
        #: Third dimension of the launch grids of kernels along x.
        self._planes = planes or 1
        nz, ny, nx = shape
        self._twiddles = {
            name: device.asarray(axis_table(axis.points, axis.radices, dtype, rows=name == "X"))
            for name, axis in self._axes.items()
        }
        half, self._rows = nx // 2 + 1, ny * nz
        #: Launch grid of each axis: tiles, and the planes or rows that contain them.
        items = {"X": (self._rows,), "Y": (half, nz), "Z": (half, planes or ny), "G": (half, planes or ny)}
        self._grids = {k: (-(-items[k][0] // axis.tile), *items[k][1:]) for k, axis in self._axes.items()}
        self._definitions = definitions
        #: If a list, each launch is appended: name and grid of its kernel, and a call that repeats it.
        self.launches: list[tuple[str, tuple[int, ...], Callable[[], None]]] | None = None
        self._functions: dict[str, Any] = {}
        self._shared: dict[str, int] = {}
        groups = [group for key in self._axes for group in _GROUPS[key]]
        if device.compilers < len(groups):  # fewer modules, since each compiles the shared code
            groups = [tuple(chain(*_GROUPS[key])) for key in self._axes]
        if scatter is not None and "Y" in self._axes:
            groups.append(("y_scatter",))
        #: Groups of kernels being compiled, with their modules; names of all kernels begun so far.
        self._modules: list[tuple[Sequence[str], Any]] = []
        self._requested: set[str] = set()
        self._await: Any = None
        self._compile(groups)

    def _compile(self, groups: Iterable[Sequence[str]], adjoint: bool = False) -> None:
        """Start to compile groups of kernels, except those begun before; `load` waits for the compiler."""
        files = ADJOINT_SOURCES if adjoint else sources(self._scatter is not None)
        before, file = tuple(files[:-1]), files[-1].split("/")[1]
        for names in groups:
            if self._requested.isdisjoint(names):
                prelude = self._definitions(names)
                self._modules.append((names, self._device.module(__package__, file, (), before, prelude)))
                self._requested |= {*names}

    def load(self) -> None:
        """Wait until the kernels are compiled, and load them."""
        if self._scatter is not None and self._await is None:
            self._await = self._modules[0][1].get_function("await_ranks")
        for names, module in self._modules:
            for name in names:
                self._functions[name] = function = module.get_function(name)
                self._shared[name] = self._axes[LETTERS[name]].shared(name)
                function.max_dynamic_shared_size_bytes = self._shared[name]
        self._modules.clear()

    def compile_gathers(self) -> None:
        """Start to compile ``y_gather`` and ``z_gather``, the gradient's adjoint, which few steps need."""
        self._compile((name,) for key, name in _GATHERS.items() if key in self._axes)

    def compile_adjoint(self) -> None:
        """Start to compile the kernels of the adjoint step along the axes of this object."""
        self.compile_gathers()
        if "X" in self._axes:
            self._compile(((name,) for name in ADJOINT_KERNELS), adjoint=True)

    def _launch(self, name: str, grid: tuple[int, ...], *arguments) -> None:
        if name not in self._functions:  # a gather; with several ranks it is loaded before
            self.compile_gathers()
            self.load()
        key = LETTERS[name]
        values = [np.int32(value) if isinstance(value, int) else value for value in arguments]
        if self._scatter is not None and (key in "ZG" or name == "y_scatter"):
            values.append(self._scatter)
        values.append(self._twiddles[key])
        grid, block = (*grid, self._planes if key == "X" else 1, 1)[:3], self._axes[key].block
        launch = partial(self._device.launch, self._functions[name], grid, block, values, self._shared[name])
        if self.launches is not None:
            self.launches.append((name, grid, launch))
        launch()

    def run(self, name: str, *arguments, layers: int = 1) -> None:
        """Launch the kernel ``name`` on all rows or columns.

        ``layers`` is the size of a further dimension of its launch grid, for kernels that work on several
        spectra.
        """
        self._launch(name, (*self._grids[LETTERS[name]], layers), *arguments)

    def x_forward(self, fields, spectra, rows=None) -> None:
        """Transform one to three real ``fields`` along x; write the result to half ``spectra``.

        ``rows`` is an array of row numbers on the device; None for all rows.
        """
        count, listed = (self._rows, np.uintp(0)) if rows is None else (rows.size, rows)
        if count:
            grid = -(-count // self._axes["X"].tile), len(fields)
            self._launch("x_forward", grid, *_as_three(fields), *_as_three(spectra), listed, count)

    def y_transform(self, spectra, inverse: bool) -> None:
        """Transform one to three spectra, or planes of them, along y in place; with ``inverse``, back."""
        grid = self._grids["Y"][0], spectra[0].shape[0], len(spectra)
        self._launch("y_transform", grid, *_as_three(spectra), inverse)

    def z_scale(self, spectra, operators, numbers) -> None:
        """Transform one or two spectra along z, multiply them by real operators, and transform them back.

        ``numbers`` selects them from ``spectra``, and their operators from ``operators``.
        """
        first, last = numbers[0], numbers[-1]
        pairs = spectra[first], spectra[last], operators[first], operators[last]
        self.run("z_scale", *pairs, first, layers=len(numbers))

    def y_scatter(self, spectrum, number: int, transform: bool) -> None:
        """Store a spectrum as columns on the ranks that own them.

        ``number`` tells the kernel which of its spectra this is. With ``transform`` it is transformed along y
        before.
        """
        self.run("y_scatter", spectrum, number, int(transform))

    def await_ranks(self, flags, exchanges, rank: int, timeout) -> None:
        """Make later device work wait until all ranks have stored their data of the next exchange."""
        arguments = flags, exchanges, np.int32(rank), *timeout.arguments
        self._device.launch(self._await, (1,), (32,), arguments)


def structure(device, *values):
    """Return a device array that kernels read as a C struct of addresses of arrays (0 for None) and integers.

    It does not keep the arrays alive: callers must.
    """
    words = [m if isinstance(m, int) else 0 if m is None else m.data.ptr for m in values]
    return device.asarray(np.array(words, np.uint64))


def form_of(parameter) -> str:
    """Return how a medium parameter is stored, as a word of `FORMS`, such as ``full`` for a whole array."""
    if isinstance(parameter, Indexed):
        return f"index{parameter.bits}"
    return "full" if math.prod(parameter.shape[:2]) > 1 else "uniform"


def medium_forms(at_points: Mapping[str, Any], staggered: Sequence) -> dict[str, str]:
    """Return a dictionary from each medium parameter to how it is stored, a word of `FORMS`.

    The staggered densities have one entry, ``staggered``: the word of those with an index, or ``full`` if
    none has one.
    """
    indexed = [form for density in staggered if (form := form_of(density)).startswith("index")]
    forms = {name: form_of(parameter) for name, parameter in at_points.items()}
    return forms | {"staggered": indexed[0] if indexed else "full"}


def members(parameter) -> tuple:
    """Return three members of a `structure` for a medium parameter: values, whether these vary, and index."""
    if isinstance(parameter, Indexed):
        return parameter.values, 1, parameter.index
    return parameter, int(form_of(parameter) == "full"), None


def sources(scattered: bool) -> tuple[str, ...]:
    """Return the CUDA files to compile, in order; if ``scattered``, with those that write to other ranks."""
    at = SOURCES.index("wavefabric.acoustics.fused/fused.cu")
    more = (SIGNALS, "wavefabric.acoustics.parallel/scatter.cu") if scattered else ()
    return *SOURCES[:at], *more, *SOURCES[at:]


def _as_three(arrays: list) -> list:
    """Return one to three arrays, extended to three by repeating the first, for kernels that take three."""
    return [*arrays, *arrays[:1] * (3 - len(arrays))]
