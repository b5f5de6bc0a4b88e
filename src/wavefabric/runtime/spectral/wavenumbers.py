"""Compute wavenumbers of a regular grid and the spectral operators made from them, in double precision.

Spectra of real fields have the shape ``(Nz, Ny, Nx//2 + 1)``: x, the fastest axis, is the halved one.
"""

import numpy as np


def wavenumbers(n: int, spacing: float) -> np.ndarray:
    """Return the wavenumbers of ``n`` points, rad/m, in FFT order; for even n the Nyquist is negative."""
    return 2 * np.pi * np.fft.fftfreq(n, spacing)


def derivative(n: int, spacing: float, shift: float = 0.0) -> np.ndarray:
    """Return the factors i k e^{i k shift}, (n,), by which a field's spectrum becomes that of its derivative.

    The derivative is at points moved by ``shift`` metres. At the Nyquist wavenumber of even n a real field
    cannot represent the imaginary part, which is dropped; for a shift of half a point nothing is lost, since
    the factor is real.
    """
    k = wavenumbers(n, spacing)
    operator = 1j * k * np.exp(1j * k * shift)
    if n % 2 == 0:
        operator[n // 2] = operator[n // 2].real
    return operator


def translation(n: int, spacing: float, shift: float) -> np.ndarray:
    """Return the spectral factors e^{i k shift}, (n,), for a field at points moved by ``shift`` metres."""
    operator = np.exp(1j * wavenumbers(n, spacing) * shift)
    if n % 2 == 0:
        # cos(π shift / spacing), without round-off for half a point
        operator[n // 2] = 0.0 if 2 * abs(shift) == spacing else operator[n // 2].real
    return operator


def squared(shape: tuple[int, int, int], spacing: tuple[float, float, float]) -> tuple[np.ndarray, ...]:
    """Return k_x², k_y², k_z² as vectors (Nx//2 + 1,), (Ny,), (Nz,); 0 on an axis of one point.

    ``shape`` is (Nx, Ny, Nz), ``spacing`` dx, dy, dz in metres.
    """
    kx, ky, kz = (
        wavenumbers(n, d) ** 2 if n > 1 else np.zeros(1) for n, d in zip(shape, spacing, strict=True)
    )
    return kx[: shape[0] // 2 + 1].copy(), ky, kz
