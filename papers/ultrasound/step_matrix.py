"""The time step as a dense matrix, and its eigenvalues: small grids only, NumPy only.

Written from Treeby & Cox 2010 (doi:10.1117/1.3360308, doi:10.1121/1.3377056), apart from the solver.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wavefabric.acoustics.problem import Problem


def spectral_radius(problem: Problem, dt: float) -> float:
    """Largest |z| of the eigenvalues z of one linear time step without sources.

    Parameters
    ----------
    problem : Problem
        Absorption and PML included; nonlinearity left out.
    dt : float
        Time step, s.
    """
    return float(np.abs(np.linalg.eigvals(step_matrix(problem, dt))).max())


def step_matrix(problem: Problem, dt: float) -> np.ndarray:
    """One time step as a matrix on (u_x, u_y(, u_z), ρ_x, ρ_y(, ρ_z)), shape (2DN, 2DN)."""
    d, n = problem.dimensions, problem.points
    size, (forward, back) = _wavenumber(problem), _derivatives(problem, dt)
    rho, c = _flat(problem, problem.density), _flat(problem, problem.sound_speed)
    staggered = [_flat(problem, one) for one in problem.density_staggered]
    stiff, loss = _state(problem, size, c)
    pressure = np.zeros((n, 2 * d * n))
    for a in range(d):
        pressure[:, a * n : (a + 1) * n] = c[:, None] ** 2 * (loss @ (rho[:, None] * back[a]))
        pressure[:, (d + a) * n : (d + a + 1) * n] = c[:, None] ** 2 * stiff
    step = np.zeros((2 * d * n, 2 * d * n))
    for a in range(d):
        here, layer = slice(a * n, (a + 1) * n), _layer(problem, a, 0.5, dt)
        step[here] = -(dt * layer / staggered[a])[:, None] * (forward[a] @ pressure)
        step[here, here] += np.diag(layer**2)
    for a in range(d):
        here, layer = slice((d + a) * n, (d + a + 1) * n), _layer(problem, a, 0.0, dt)
        step[here] = -(dt * layer * rho)[:, None] * (back[a] @ step[a * n : (a + 1) * n])
        step[here, here] += np.diag(layer**2)
    return step


def leapfrog_matrix(problem: Problem, dt: float) -> np.ndarray:
    """T = Δt² c₀² (1 − 2 τ L1/Δt − η L2) ρ₀ (κ∇)ᵀ ρ₀⁻¹ κ∇, shape (N, N); the PML is left out.

    A step without layers grows by alternating in sign where an eigenvalue of T is above 4.
    """
    c, (forward, back) = _flat(problem, problem.sound_speed), _derivatives(problem, dt)
    wave = np.zeros((problem.points, problem.points))
    for there, again, density in zip(forward, back, problem.density_staggered, strict=True):
        wave -= again @ (there / _flat(problem, density)[:, None])
    stiff, loss = _state(problem, _wavenumber(problem), c)
    stiff = stiff - 2 / dt * loss
    return (dt * c[:, None]) ** 2 * (stiff @ (_flat(problem, problem.density)[:, None] * wave))


def _derivatives(problem: Problem, dt: float) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """κ∂ along each axis onto the staggered grid, and back from it."""
    kappa = np.sinc(problem.reference_speed * _wavenumber(problem) * dt / (2 * np.pi))
    along = list(zip(_wavenumbers(problem), problem.spacing, strict=False))
    forward, back = (
        [_matrix(problem, 1j * k * np.exp(sign * 0.5j * k * spacing) * kappa) for k, spacing in along]
        for sign in (1, -1)
    )
    return forward, back


def _state(problem: Problem, size: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, Any]:
    """1 − η L2 and τ L1 of the equation of state."""
    stiff, y = np.eye(problem.points), problem.alpha_power
    if problem.absorption == "none":
        return stiff, np.zeros_like(stiff)
    alpha = _flat(problem, problem.alpha_coeff) * 100 * math.log(10) / 20 / (2 * math.pi * 1e6) ** y
    tau = -2 * alpha * c ** (y - 1)
    if problem.absorption == "stokes":
        return stiff, np.diag(tau)
    if problem.dispersion:
        eta = 2 * alpha * c**y * math.tan(math.pi * y / 2)
        stiff = stiff - eta[:, None] * _matrix(problem, _power(size, y - 1))
    return stiff, tau[:, None] * _matrix(problem, _power(size, y - 2))


def _power(size: np.ndarray, power: float) -> np.ndarray:
    if power == 0:
        return np.ones_like(size)
    return np.where(size > 0, np.where(size > 0, size, 1.0) ** power, 0.0)


def _wavenumbers(problem: Problem) -> list[np.ndarray]:
    """k_x, k_y(, k_z), each (Nz, Ny, Nx)."""
    axes = [
        2 * np.pi * np.fft.fftfreq(count, spacing)
        for count, spacing in zip(problem.shape, problem.spacing, strict=True)
    ]
    z, y, x = np.meshgrid(*axes[::-1], indexing="ij")
    return [x, y, z][: problem.dimensions]


def _wavenumber(problem: Problem) -> np.ndarray:
    """|k|, (Nz, Ny, Nx)."""
    return np.sqrt(sum(k**2 for k in _wavenumbers(problem)))


def _matrix(problem: Problem, factor: np.ndarray) -> np.ndarray:
    """A factor of the spectrum as a matrix (N, N) on fields."""
    n = problem.points
    unit = np.eye(n).reshape(n, *problem.array_shape)
    axes = (1, 2, 3)
    return np.fft.ifftn(factor * np.fft.fftn(unit, axes=axes), axes=axes).real.reshape(n, n).T


def _flat(problem: Problem, value: Any) -> np.ndarray:
    return np.broadcast_to(np.asarray(value, float), problem.array_shape).reshape(-1)


def _layer(problem: Problem, axis: int, offset: float, dt: float) -> np.ndarray:
    """Factors of the PML, shape (N,); applied twice."""
    count, size = problem.shape[axis], problem.pml_size[axis]
    depth = np.zeros(count)
    for i in range(size):
        depth[i] = (size - i - offset) / size
        depth[count - size + i] = (i + 1 + offset) / size
    rate = problem.pml_alpha[axis] * problem.reference_speed / problem.spacing[axis] * depth**4
    factor = np.exp(-rate * dt / 2).reshape([-1 if 2 - i == axis else 1 for i in range(3)])
    return _flat(problem, factor)
