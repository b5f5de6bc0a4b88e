"""Smoothing of an initial pressure, so that its steps do not ring on the grid."""

from __future__ import annotations

import numpy as np
import scipy.fft


def smooth(field: np.ndarray, restore_max: bool = True) -> np.ndarray:
    """Multiply the spectrum by a rotated Blackman window, as k-Wave does by default.

    With ``restore_max`` the result is scaled so that the largest magnitude stays what it was. Shape and dtype
    stay; float64 if the field was not of a float type.

    Notes
    -----
    With m_i the whole-numbered wavenumber along axis i, h_i = ⌊N_i/2⌋ and R = max h_i, the window is
    w(R √Σ(m_i/h_i)²), zero beyond R, where w(r) = 0.42 + 0.5 cos(πr/R) + 0.08 cos(2πr/R) at whole r and is
    linear between them: k-Wave rotates a table (Treeby & Cox 2010, doi:10.1117/1.3360308, smooth.m).
    """
    field = np.asarray(field)
    if field.dtype.kind != "f":
        field = field.astype(np.float64)
    shape = tuple(n for n in field.shape if n > 1)
    spectrum = scipy.fft.rfftn(field.reshape(shape))
    halves = [n // 2 for n in shape]
    radius = max(halves)
    distance = np.arange(radius + 1)
    angle = np.pi * distance / radius
    window = 0.42 + 0.5 * np.cos(angle) + 0.08 * np.cos(2 * angle)
    window[-1] = 0.0

    squares = [(np.fft.fftfreq(n, 1 / n) / h) ** 2 for n, h in zip(shape, halves, strict=True)]
    squares[-1] = squares[-1][: shape[-1] // 2 + 1]
    in_plane = np.zeros(())
    for square in squares[1:]:
        in_plane = in_plane[..., None] + square
    # One plane at a time: the window of a whole 3-D grid would be as large as the field in float64.
    for plane, square in zip(spectrum, squares[0], strict=True):
        plane *= np.interp(radius * np.sqrt(square + in_plane), distance, window)
    smoothed = np.asarray(scipy.fft.irfftn(spectrum, shape)).reshape(field.shape)
    if restore_max:
        peak = np.abs(smoothed).max()
        if peak > 0:
            smoothed *= np.abs(field).max() / peak
    return smoothed.astype(field.dtype, copy=False)
