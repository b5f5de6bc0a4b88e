"""Launches of ``kernels.cu``: the names and argument order of ``kernels.py``."""

from functools import partialmethod

import numpy as np

_BLOCK = 256
#: Sources that pointwise kernels need before them.
BEFORE = ("wavefabric.acoustics.solver/split_density.cu", "wavefabric.acoustics.solver/points.cu")


def _split_layers(split_layers) -> list:
    """A `SplitLayers` as kernels take it."""
    *arrays, _, _, layers_x, layers_y = split_layers.words
    return [*arrays, np.int64(layers_x), np.int64(layers_y)]


class AcousticKernels:
    """The kernels on one CUDA device; the precision follows from the arrays."""

    #: Where their source is, and what it needs before it.
    _PACKAGE, _BEFORE = __package__, BEFORE

    def __init__(self, device):
        self._device = device
        self._functions: dict = {}
        self._own: np.dtype = np.dtype(np.float32)

    def load(self, dtype) -> None:
        """Load the kernels of a precision: later it would wait for kernels that wait for other ranks."""
        self._own = np.dtype(dtype)
        self._module("float" if self._own == np.float32 else "double")

    def _module(self, letter: str):
        return self._device.module(self._PACKAGE, "kernels.cu", (f"-DREAL={letter}",), self._BEFORE)

    def _launch(self, name: str, dtype, grid: tuple, threads: int, *arguments) -> None:
        letter = "float" if np.dtype(dtype) in (np.float32, np.complex64) else "double"
        if (name, letter) not in self._functions:
            self._functions[name, letter] = self._module(letter).get_function(name)
        self._device.launch(self._functions[name, letter], grid, (threads, 1, 1), arguments)

    # --- One thread a grid point ---------------------------------------------------------------------------

    def _per_point(self, name: str, kinds: str, *arguments) -> None:
        """Launch over the points of the first argument.

        ``kinds``: "p" an array or a real scalar as it is, "m" a medium parameter and whether it is a full
        grid, "s" a `SplitLayers`, "l" its parts alone, "g" an array or, without elements, null, "i" int, "d"
        double; "|" sizes nx and ny.
        """
        nz, ny, nx = arguments[0].shape
        converted: list = []
        outputs, inputs = kinds.split("|")
        for i, (kind, argument) in enumerate(zip(outputs + inputs, arguments, strict=True)):
            if i == len(outputs):
                converted += [np.int32(nx), np.int32(ny)]
            if kind in "pm":
                converted.append(argument)
            if kind == "m":
                converted.append(np.int32(max(argument.shape[:2]) > 1))
            elif kind == "s":
                converted += _split_layers(argument)
            elif kind == "l":
                converted += argument.parts
            elif kind == "g":
                converted.append(argument if argument.size else np.uintp(0))
            elif kind in "id":
                converted.append(np.int32(argument) if kind == "i" else np.float64(argument))
        threads = min(_BLOCK, -(-nx // 32) * 32)
        self._launch(name, arguments[0].dtype, (-(-nx // threads), ny, nz), threads, *converted)

    fill_operator = partialmethod(_per_point, "fill_operator", "p|pppidd")
    fill_absorption = partialmethod(_per_point, "fill_absorption", "p|mmdd")
    gradient_spectra = partialmethod(_per_point, "gradient_spectra", "ppp|ppppi")
    divergence_spectra = partialmethod(_per_point, "divergence_spectra", "ppp|ppppi")
    scale_spectrum = partialmethod(_per_point, "scale_spectrum", "p|p")
    ring_divergence_spectra = partialmethod(_per_point, "ring_divergence_spectra", "pp|pppp")
    translate_spectrum = partialmethod(_per_point, "translate_spectrum", "p|pip")
    update_velocity = partialmethod(_per_point, "update_velocity", "p|pmpip")
    update_density = partialmethod(_per_point, "update_density", "p|spppmpii")
    absorption_terms = partialmethod(_per_point, "absorption_terms", "pp|ppppmi")
    update_pressure = partialmethod(_per_point, "update_pressure", "p|pmmmmpppiii")
    split_density = partialmethod(_per_point, "split_density", "p|spmp")
    add_density_pattern = partialmethod(_per_point, "add_density_pattern", "p|spppp")

    # --- One thread an item --------------------------------------------------------------------------------

    def _items(self, name: str, dtype, count: int, *arguments) -> None:
        if count:
            self._launch(name, dtype, (-(-count // _BLOCK), 1, 1), _BLOCK, *arguments)

    def set_points(self, field, index, signal, clock, replace) -> None:
        arguments = signal, np.int64(signal.shape[1]), clock, np.int32(replace)
        self._items("set_points", field.dtype, index.size, field, index, np.int64(index.size), *arguments)

    def set_density_points(self, total, split_layers, index, signal, clock, replace, parts) -> None:
        _, ny, nx = total.shape
        arguments = index, np.int64(index.size), signal, np.int64(signal.shape[1]), clock, np.int32(replace)
        grid = np.int32(nx), np.int32(ny), *_split_layers(split_layers)
        self._items("set_density_points", total.dtype, index.size, total, *grid, *arguments, parts)

    def add_delayed(self, field, index, delay, signal, clock) -> None:
        arguments = index, np.int64(index.size), delay, signal, np.int64(signal.size), clock
        self._items("add_delayed", field.dtype, index.size, field, *arguments)

    def add_pattern(self, field, pattern, signal, clock) -> None:
        self._items(
            "add_pattern", field.dtype, field.size, field, np.int64(field.size), pattern, signal, clock
        )

    def mix_patterns(self, field, first, second, signals, clock) -> None:
        count = np.int64(field.size)
        self._items("mix_patterns", field.dtype, field.size, field, count, first, second, signals, clock)

    def sample(self, target, row, field, corners, weights, interpolate) -> None:
        count, each = corners.shape
        arguments = corners, np.int64(count), np.int32(each), weights, np.int32(interpolate)
        self._items("sample", field.dtype, count, target[row], field, *arguments)

    def sample_elements(self, target, row, field, bounds, points, weights) -> None:
        arguments = target[row], field, bounds, points, weights
        if bounds.size > 1:
            self._launch("sample_elements", field.dtype, (bounds.size - 1, 1, 1), _BLOCK, *arguments)

    def accumulate(self, target, kind, values) -> None:
        """Sums of squares are double."""
        count = np.int64(target.size)
        if kind == 2:
            self._items("accumulate_squares", values.dtype, target.size, target, count, values)
        else:
            self._items("accumulate", values.dtype, target.size, target, count, np.int32(kind), values)

    def accumulate_tone(self, cosines, sines, values, cosine, sine) -> None:
        count, each = values.size, 16 // values.dtype.itemsize
        arguments = cosines, sines, np.int64(count), values, cosine, sine
        self._items("accumulate_tone", values.dtype, -(-count // each), *arguments)

    def tick(self, clock) -> None:
        self._launch("tick", self._own, (1, 1, 1), 1, clock)


#: What `Device.kernels` makes on a GPU.
KERNELS = AcousticKernels
