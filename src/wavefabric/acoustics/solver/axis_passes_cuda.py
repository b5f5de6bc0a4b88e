"""Launches of ``axis_passes.cu``: the passes of the fused time step on a GPU.

A pass along one axis reads each array once and writes it once, with the transforms of that axis and all
pointwise work in between. A lossless step moves 48 fields, instead of about 100 with whole-array transforms.
"""

from __future__ import annotations

import math

import numpy as np

from wavefabric.spectral import inplace_fft

#: Sources that ``axis_passes.cu`` needs before it.
BEFORE = (
    "wavefabric.spectral/butterflies.cu",
    "wavefabric.spectral/axis_fft.cu",
    "wavefabric.acoustics.solver/shell.cu",
)
# Values of a transform that a thread holds. More mean fewer threads, but room for two blocks, one loading
# while the other computes. Measured on an H200 (docs/performance.md).
_HELD = {"X": 8, "Y": 32, "Z": 16}
_THREADS = {"X": 64, "Y": 512, "Z": 512}
_SHARED = {"X": 200 * 1024, "Y": 96 * 1024, "Z": 96 * 1024}
#: Half spectra and fields, a pair of rows of each, that a pass along x stages in shared memory.
_STAGED = {
    "x_forward": (0, 0),
    "x_backward": (1, 0),
    "x_velocity": (1, 2),
    "x_density": (3, 2),
    "x_density_points": (3, 2),
    "x_pressure": (2, 1),
}
_KERNELS = (*_STAGED, "y_transform", "y_gradient", "z_gradient", "z_divergence", "z_scale", "z_translate")


def radices(n: int) -> list[int]:
    """Factors of a transform length, of 8, 7, 5, 4, 3, 2; empty if others are needed (or n < 2)."""
    return list(inplace_fft.radices(n, 8))


def usable(nx: int, ny: int, nz: int, dtype) -> bool:
    """Whether a grid can be transformed by these kernels along all its axes."""
    item = 2 * np.dtype(dtype).itemsize
    fits = max(ny, nz) * 4 * item <= _SHARED["Y"] and _pair_words(nx) * item <= _SHARED["X"]
    return fits and all(map(radices, (nx, ny, nz)))


def _pair_words(n: int, kernel: str = "x_density") -> int:
    """Complex words that a pair of rows takes in shared memory: room for exchange, and what is staged."""
    spectra, fields = _STAGED[kernel]
    return n + n // 8 + 1 + 2 * spectra * (n // 2 + 1) + fields * n


class _Axis:
    """Threads and tile of an axis: a cache line of columns, or pairs of rows that make a small block."""

    def __init__(self, name: str, n: int, item: int):
        self.n, self._item = n, item
        self.threads = -(-n // _HELD[name])
        most, words = _THREADS[name] // self.threads, n
        self.tile = 128 // item
        if name == "X":
            self.tile, words = max(1, most), _pair_words(n)
        while self.tile > 1 and (self.tile > most or self.tile * words * item > _SHARED[name]):
            self.tile //= 2
        self.block = (self.threads * self.tile, 1, 1)

    def shared(self, kernel: str) -> int:
        """Bytes of shared memory of a block."""
        words = _pair_words(self.n, kernel) if kernel in _STAGED else self.n
        return self.tile * words * self._item


def _axes(shape, real, passes: str) -> dict[str, _Axis]:
    item = 2 * np.dtype(real).itemsize
    return {name: _Axis(name, n, item) for name, n in zip("ZYX", shape, strict=True) if name in passes}


def pitch(nx: int, real) -> int:
    """Length of a padded row of a half spectrum: whole cache lines."""
    line = 128 // (2 * np.dtype(real).itemsize)
    return -(-(nx // 2 + 1) // line) * line


def prelude(shape: tuple[int, int, int], real, nonlinear: bool, absorption: str, passes: str = "XYZ") -> str:
    """Definitions before the sources, for a grid (Nz, Ny, Nx), a medium and the axes to be transformed."""
    macros: dict[str, object] = {
        "REAL": "float" if np.dtype(real).itemsize == 4 else "double",
        "PITCH": pitch(shape[2], real),
        "NONLINEAR": int(nonlinear),
        "ABSORPTION": ("none", "stokes", "power_law").index(absorption),
    }
    for name, n in zip("ZYX", shape, strict=True):
        macros |= {f"N{name}": n, f"WITH_{name}": int(name in passes)}
    for name, axis in _axes(shape, real, passes).items():
        factors = [str(radix) for radix in radices(axis.n)]
        macros |= {f"P{name}": axis.threads, f"T{name}": axis.tile}
        macros |= {f"RADICES_{name}": ",".join(factors), f"REVERSED_{name}": ",".join(factors[::-1])}
    return "".join(f"#define {name} {value}\n" for name, value in macros.items())


def twiddles(n: int, real) -> np.ndarray:
    """exp(−2πi k/n), shape (n,), complex."""
    return inplace_fft.unit_roots(np.arange(n), n).astype(np.result_type(real, np.complex64))


class AxisPasses:
    """The passes for grids (Nz, Ny, Nx) of one shape, precision and kind of medium on one CUDA device.

    ``passes`` names the axes that are transformed, each a product of 2, 3, 5 and 7: ranks hold planes or
    columns.
    """

    def __init__(self, device, shape, dtype, nonlinear: bool, absorption: str, passes: str):
        self._device = device
        self._axes = _axes(shape, dtype, passes)
        self._twiddles = {name: device.asarray(twiddles(axis.n, dtype)) for name, axis in self._axes.items()}
        nz, ny, nx = shape
        half, self._pairs = nx // 2 + 1, (ny * nz + 1) // 2
        #: For each axis, tiles and the planes or rows that they lie in.
        items = {"X": (self._pairs,), "Y": (half, nz), "Z": (half, ny)}
        self._grids = {k: (-(-items[k][0] // axis.tile), *items[k][1:]) for k, axis in self._axes.items()}
        definitions = prelude(shape, dtype, nonlinear, absorption, passes)
        module = device.module(__package__, "axis_passes.cu", before=BEFORE, prelude=definitions)
        self._functions = {k: module.get_function(k) for k in _KERNELS if k[0].upper() in self._axes}
        for name, function in self._functions.items():
            function.max_dynamic_shared_size_bytes = self._axes[name[0].upper()].shared(name)

    def _launch(self, name: str, grid: tuple[int, ...], *arguments) -> None:
        letter = name[0].upper()
        axis = self._axes[letter]
        values = [np.int32(value) if isinstance(value, int) else value for value in arguments]
        grid = (*grid, 1, 1)[:3]
        launched = self._functions[name], grid, axis.block, (*values, self._twiddles[letter])
        self._device.launch(*launched, axis.shared(name))

    def run(self, name: str, *arguments, layers: int = 1) -> None:
        """Launch a kernel of ``axis_passes.cu`` on all rows or columns."""
        self._launch(name, (*self._grids[name[0].upper()], layers), *arguments)

    def x_forward(self, fields, spectra, pairs=None) -> None:
        """Rows of one to three real fields to half spectra: all, or 2i and 2i + 1 for each i in ``pairs``."""
        count, listed = (self._pairs, np.uintp(0)) if pairs is None else (pairs.size, pairs)
        if count:
            grid = -(-count // self._axes["X"].tile), len(fields)
            self._launch("x_forward", grid, *_three(fields), *_three(spectra), listed, count)

    def y_transform(self, spectra, inverse: bool) -> None:
        """One to three spectra along y, in place; or the same planes of each."""
        grid = self._grids["Y"][0], spectra[0].shape[0], len(spectra)
        self._launch("y_transform", grid, *_three(spectra), inverse)

    def z_scale(self, spectra, operators, numbers) -> None:
        """One or two spectra, of these ``numbers``, times real operators, along z there and back."""
        first, last = numbers[0], numbers[-1]
        pairs = spectra[first], spectra[last], operators[first], operators[last]
        self.run("z_scale", *pairs, layers=len(numbers))


def structure(device, *values):
    """A structure on the device: addresses of arrays (keep these), 0 for None, whole numbers."""
    words = [m if isinstance(m, int) else 0 if m is None else m.data.ptr for m in values]
    return device.asarray(np.array(words, np.uint64))


def members(parameter) -> tuple:
    """A medium parameter in a `structure`, and whether it is a full grid."""
    return parameter, int(math.prod(parameter.shape[:2]) > 1)


def _three(arrays: list) -> list:
    """One to three arrays for a kernel that takes three."""
    return [*arrays, *arrays[:1] * (3 - len(arrays))]
