"""RK4IP as a textbook has it, in array arithmetic and library FFTs, for comparison."""

import numpy as np

from wavefabric.device import Device
from wavefabric.errors import InputError
from wavefabric.optics.fibre.fibre import Fibre


class PlainRK4IP:
    """RK4IP, eq. (6a–f) of Brehler et al. after Hult 2007 (doi 10.1109/JLT.2007.909373), line by line.

    NumPy and SciPy's FFT (all threads of the device) on a CPU, CuPy and its cuFFT on a GPU. κ is dense,
    one line for every field row; every line of the scheme makes new arrays. ``h`` is the step in m.
    """

    def __init__(self, device: Device, fibre: Fibre, n: int, sample_rate: float, dtype, h: float):
        self.device, self.h = device, h
        dtype = np.dtype(dtype)
        if dtype not in (np.dtype(np.complex64), np.dtype(np.complex128)):
            raise InputError(f"dtype: {dtype} given; allowed: complex64, complex128")
        if n < 1 or not sample_rate > 0 or not h > 0:
            raise InputError(f"n, sample_rate, h: {n}, {sample_rate}, {h} given; all must be positive")
        omega = 2 * np.pi * np.fft.fftfreq(n, 1 / sample_rate)
        half = device.empty((fibre.rows, n), dtype)
        for row in range(fibre.rows):
            alpha, (b1, b2, b3, b4) = fibre.alpha[row // 2], fibre.beta[row // 2]
            L = -alpha / 2 + 1j * (-b1 * omega + b2 * omega**2 / 2 - b3 * omega**3 / 6 + b4 * omega**4 / 24)
            half[row] = device.asarray(np.exp(h / 2 * L).astype(dtype))
        self.half = half
        real = np.float32 if dtype == np.complex64 else np.float64
        self.gamma_kappa = device.asarray((fibre.gamma * fibre.kappa_rows()).astype(real))

    def linear(self, A):
        """exp(h/2 L̂) A, a new array of A's shape (2M, N)."""
        return self.device.ifft(self.half * self.device.fft(A))

    def nonlinear(self, A):
        """h N̂(A) A = i h γ Σ_b κ_ab |A_b|² A_a, a new array of A's shape (2M, N)."""
        power = A.real**2 + A.imag**2
        return (1j * self.h) * (self.gamma_kappa @ power) * A

    def step(self, A):
        """A(z + h) from A(z), shape (2M, N), √W; a new array."""
        A_I = self.linear(A)  # (6a)
        k1 = self.linear(self.nonlinear(A))  # (6b)
        k2 = self.nonlinear(A_I + k1 / 2)  # (6c)
        k3 = self.nonlinear(A_I + k2 / 2)  # (6d)
        k4 = self.nonlinear(self.linear(A_I + k3))  # (6e)
        return self.linear(A_I + k1 / 6 + k2 / 3 + k3 / 3) + k4 / 6  # (6f)
