"""Launches of ``kernels.cu``: the names and argument order of ``kernels.py``."""

from __future__ import annotations

import numpy as np

_PACKAGE = "wavefabric.acoustics.solver"
_ITEMS = 256


def _full(parameter) -> np.int32:
    """Whether a medium parameter is a full grid, not one row."""
    return np.int32(parameter.shape[0] > 1 or parameter.shape[1] > 1)


class Kernels:
    """The sweeps on one CUDA device; the precision follows from the arrays."""

    def __init__(self, device):
        self._device = device
        self._functions: dict = {}

    def _function(self, name: str, dtype):
        key = name, np.dtype(dtype)
        if key not in self._functions:
            letter = "float" if key[1].itemsize == 4 else "double"
            module = self._device.module(_PACKAGE, "kernels.cu", (f"-DREAL={letter}",))
            self._functions[key] = module.get_function(name)
        return self._functions[key]

    def _grid(self, name: str, real, over, *arguments) -> None:
        """One thread a point of ``over``."""
        nz, ny, nx = over.shape
        threads = min(256, -(-nx // 32) * 32)
        self._device.launch(
            self._function(name, real), (-(-nx // threads), ny, nz), (threads, 1, 1), arguments
        )

    def _items(self, name: str, real, count: int, *arguments) -> None:
        """One thread an item."""
        if count:
            self._device.launch(
                self._function(name, real), (-(-count // _ITEMS), 1, 1), (_ITEMS, 1, 1), arguments
            )

    @staticmethod
    def _sizes(array) -> tuple[np.int32, np.int32]:
        return np.int32(array.shape[2]), np.int32(array.shape[1])

    def fill_operator(self, out, kx2, ky2, kz2, kind, parameter, scale) -> None:
        """See ``kernels.fill_operator``."""
        arguments = kx2, ky2, kz2, np.int32(kind), np.float64(parameter), np.float64(scale)
        self._grid("fill_operator", out.dtype, out, out, *self._sizes(out), *arguments)

    def fill_absorption(self, out, sound_speed, alpha_coeff, factor, power) -> None:
        """See ``kernels.fill_absorption``."""
        arguments = sound_speed, _full(sound_speed), alpha_coeff, _full(alpha_coeff)
        self._grid(
            "fill_absorption", out.dtype, out, out, *self._sizes(out), *arguments,
            np.float64(factor), np.float64(power),
        )  # fmt: skip

    def gradient_spectra(self, sx, sy, sz, kappa, dx, dy, dz, three) -> None:
        """See ``kernels.gradient_spectra``."""
        self._spectra("gradient_spectra", sx, sy, sz, kappa, dx, dy, dz, three)

    def divergence_spectra(self, sx, sy, sz, kappa, dx, dy, dz, three) -> None:
        """See ``kernels.divergence_spectra``."""
        self._spectra("divergence_spectra", sx, sy, sz, kappa, dx, dy, dz, three)

    def _spectra(self, name, sx, sy, sz, kappa, dx, dy, dz, three) -> None:
        arguments = sx, sy, sz, *self._sizes(sx), kappa, dx, dy, dz, np.int32(three)
        self._grid(name, kappa.dtype, sx, *arguments)

    def scale_spectrum(self, spectrum, operator) -> None:
        """See ``kernels.scale_spectrum``."""
        self._grid("scale_spectrum", operator.dtype, spectrum, spectrum, *self._sizes(spectrum), operator)

    def translate_spectrum(self, spectrum, factor, axis, scale) -> None:
        """See ``kernels.translate_spectrum``."""
        arguments = spectrum, *self._sizes(spectrum), factor, np.int32(axis), scale
        self._grid("translate_spectrum", scale.dtype, spectrum, *arguments)

    def update_velocity(self, u, gradient, density, pml, axis, dt) -> None:
        """See ``kernels.update_velocity``."""
        arguments = u, *self._sizes(u), gradient, density, _full(density), pml, np.int32(axis), dt
        self._grid("update_velocity", u.dtype, u, *arguments)

    def initial_velocity(self, u, gradient, density, half_dt) -> None:
        """See ``kernels.initial_velocity``."""
        arguments = u, *self._sizes(u), gradient, density, _full(density), half_dt
        self._grid("initial_velocity", u.dtype, u, *arguments)

    def update_density(self, rx, ry, rz, gx, gy, gz, density, px, py, pz, dt, nonlinear, three) -> None:
        """See ``kernels.update_density``."""
        self._grid(
            "update_density", rx.dtype, rx, rx, ry, rz, *self._sizes(rx), gx, gy, gz, density, _full(density),
            px, py, pz, dt, np.int32(nonlinear), np.int32(three),
        )  # fmt: skip

    def absorption_terms(self, total, rate, rx, ry, rz, gx, gy, gz, density, three) -> None:
        """See ``kernels.absorption_terms``."""
        self._grid(
            "absorption_terms", rx.dtype, rx, total, rate, *self._sizes(rx), rx, ry, rz, gx, gy, gz, density,
            _full(density), np.int32(three),
        )  # fmt: skip

    def update_pressure(
        self, p, rx, ry, rz, sound_speed, density, ratio, tau, eta, loss, shift, nonlinear, lossy, disperses,
        three,
    ) -> None:  # fmt: skip
        """See ``kernels.update_pressure``."""
        self._grid(
            "update_pressure", p.dtype, p, p, *self._sizes(p), rx, ry, rz, sound_speed, _full(sound_speed),
            density, _full(density), ratio, _full(ratio), tau, eta, _full(tau), loss, shift,
            np.int32(nonlinear), np.int32(lossy), np.int32(disperses), np.int32(three),
        )  # fmt: skip

    def split_density(self, rx, ry, rz, p, sound_speed, parts, three) -> None:
        """See ``kernels.split_density``."""
        arguments = p, sound_speed, _full(sound_speed), parts, np.int32(three)
        self._grid("split_density", p.dtype, p, rx, ry, rz, *self._sizes(p), *arguments)

    def set_points(self, field, index, signal, clock, replace) -> None:
        """See ``kernels.set_points``."""
        arguments = signal, np.int64(signal.shape[1]), clock, np.int32(replace)
        self._items("set_points", field.dtype, index.size, field, index, np.int64(index.size), *arguments)

    def add_delayed(self, field, index, delay, signal, clock) -> None:
        """See ``kernels.add_delayed``."""
        arguments = field, index, np.int64(index.size), delay, signal, np.int64(signal.size), clock
        self._items("add_delayed", field.dtype, index.size, *arguments)

    def add_pattern(self, field, pattern, signal, clock) -> None:
        """See ``kernels.add_pattern``."""
        arguments = field, np.int64(field.size), pattern, signal, clock
        self._items("add_pattern", field.dtype, field.size, *arguments)

    def add_field(self, field, other) -> None:
        """See ``kernels.add_field``."""
        self._items("add_field", field.dtype, field.size, field, np.int64(field.size), other)

    def sample(self, target, row, field, corners, weights, interpolate) -> None:
        """See ``kernels.sample``."""
        count, each = corners.shape
        arguments = corners, np.int64(count), np.int32(each), weights, np.int32(interpolate)
        self._items("sample", field.dtype, count, target[row], field, *arguments)

    def accumulate(self, target, kind, values) -> None:
        """See ``kernels.accumulate``; sums of squares are double."""
        count = np.int64(target.size)
        if kind == 2:
            self._items("accumulate_squares", values.dtype, target.size, target, count, values)
        else:
            self._items("accumulate", values.dtype, target.size, target, count, np.int32(kind), values)

    def tick(self, clock) -> None:
        """See ``kernels.tick``."""
        self._device.launch(self._function("tick", np.float32), (1, 1, 1), (1, 1, 1), (clock,))
