"""Smooths an initial pressure as k-Wave does, on the host or on a device."""

from typing import Any

import numpy as np

from wavefabric.acoustics.setup_passes import host_kernels, largest, threads_for
from wavefabric.acoustics.solver import kernels
from wavefabric.base.errors import require
from wavefabric.runtime.device.user_arrays import real_array


def smooth(field: Any, restore_max: bool = True) -> np.ndarray:
    """Smooth a field: multiply its spectrum by a rotated Blackman window, as k-Wave does by default.

    With ``restore_max`` the result is scaled to the original largest magnitude. Shape and dtype do not
    change; a field that is not of a float type becomes float64.

    Notes
    -----
    With m_i the whole-numbered wavenumber along axis i, h_i = ⌊N_i/2⌋ and R = max h_i, the window is
    w(R √Σ(m_i/h_i)²), zero beyond R, where w(r) = 0.42 + 0.5 cos(πr/R) + 0.08 cos(2πr/R) at whole r and is
    linear between them: k-Wave rotates a table (Treeby & Cox 2010, doi:10.1117/1.3360308, smooth.m).
    """
    field = real_array(field, "field")
    require(field.ndim and field.size, "field", field.shape, "an array with points")
    dtype = field.dtype if field.dtype.kind == "f" else np.dtype(np.float64)
    if field.dtype not in (np.float32, np.float64):
        field = field.astype(np.float64)
    shape = tuple(n for n in field.shape if n > 1)
    spectrum: Any = _transform("rfftn", field.reshape(shape))
    spectrum = np.ascontiguousarray(spectrum)
    squares, window = _window(shape)
    volume = spectrum.reshape([each.size for each in squares])
    host_kernels(kernels.TABLE, field.size).apply_window(volume, *squares, window)
    smoothed = np.asarray(_transform("irfftn", spectrum, shape, tuple(range(len(shape))))).reshape(
        field.shape
    )
    if restore_max:
        peak = largest(smoothed)
        if peak > 0:
            smoothed *= smoothed.dtype.type(largest(np.ascontiguousarray(field)) / peak)
    return smoothed.astype(dtype, copy=False)


def smooth_on(device: Any, field: Any) -> Any:
    """Smooth an array (Nz, Ny, Nx) on a device as `smooth` does; return a new array there.

    ``field`` is a contiguous array of float32 or float64.
    """
    nz, ny, nx = field.shape
    transform = device.real_fft(field.shape, field.dtype)
    spectrum = device.empty((nz, ny, nx // 2 + 1), np.result_type(field.dtype, np.complex64))
    transform.forward(field, spectrum)
    squares, window = _window((nz, ny, nx))
    # The device's transforms are not scaled: the window includes 1/N.
    arguments = map(device.asarray, (*squares, window / field.size))
    device.kernels(kernels.TABLE).apply_window(spectrum, *arguments)
    transform.backward(spectrum, smoothed := device.empty(field.shape, field.dtype))
    peak = _peak(smoothed)
    if peak > 0:
        smoothed *= smoothed.dtype.type(_peak(field) / peak)
    return smoothed


def _peak(field: Any) -> float:
    """Return the largest magnitude of an array on any device."""
    return max(float(field.max()), -float(field.min()))


def _window(shape: tuple[int, ...]) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the arguments of the kernel ``apply_window`` for real fields of ``shape``.

    They are three arrays (m_i/h_i)², and w(r) at r = 0, 1, …, R, as in `smooth`. Of more than three axes all
    but the last two are joined. An axis of a single point does not count.
    """
    halves = [n // 2 for n in shape]
    radius = max(halves)
    angle = np.pi * np.arange(radius + 1) / radius
    window = 0.42 + 0.5 * np.cos(angle) + 0.08 * np.cos(2 * angle)
    window[-1] = 0.0
    squares = [(np.fft.fftfreq(n, 1 / n) / max(h, 1)) ** 2 for n, h in zip(shape, halves, strict=True)]
    squares[-1] = squares[-1][: shape[-1] // 2 + 1]
    *before, middle, last = [np.zeros(1), np.zeros(1), *squares]
    outer = np.zeros(1)
    for square in before:
        outer = np.add.outer(outer, square).ravel()
    return [outer, middle, last], window


def _transform(name: str, array: np.ndarray, *arguments: Any) -> Any:
    """Apply the FFT ``name`` of NumPy or, to arrays that are worth several threads, of SciPy."""
    if (threads := threads_for(array.size)) == 1:
        return getattr(np.fft, name)(array, *arguments)
    from scipy import fft

    with fft.set_workers(threads):
        return getattr(fft, name)(array, *arguments)
