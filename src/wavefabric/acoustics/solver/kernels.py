"""Pointwise sweeps of the time step (Numba); ``kernels.cu`` holds the same for CUDA.

Real grids are C-order ``(Nz, Ny, Nx)``, half spectra ``(Nz, Ny, Nx//2+1)``. A medium parameter is a full
grid or one row ``(1, 1, Nx)`` that serves everywhere; the same loop then reads it from cache. ``clock``
holds the time step, one int64. Units are SI; every factor 1/N of the transforms is in the operators.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import prange

from wavefabric.acoustics.solver.row_kernels import (
    MediumArrays,
    density_row,
    density_row_x,
    mass_row,
    pressure_row,
    rate_row,
    row_of,
    sum_row,
    velocity_row,
    velocity_row_x,
)
from wavefabric.system.numba_cache import njit

_JIT: dict[str, Any] = dict(parallel=True, nogil=True, error_model="numpy")


@njit(**_JIT)
def fill_operator(out, kx2, ky2, kz2, kind, parameter, scale):
    """A real operator of |k|, from squared wavenumbers in double precision, times ``scale``.

    Kind 0: sin(a |k|)/(a |k|); 1: cos(a |k|); 2: |k|^a, 0 where k = 0 and a is not 0; a is ``parameter``.
    """
    for z in prange(out.shape[0]):
        for y in range(out.shape[1]):
            for x in range(out.shape[2]):
                k = math.sqrt(kx2[x] + ky2[y] + kz2[z])
                value = 1.0
                if kind == 0:
                    arg = parameter * k
                    if arg != 0.0:
                        value = math.sin(arg) / arg
                elif kind == 1:
                    value = math.cos(parameter * k)
                elif parameter != 0.0:
                    value = k**parameter if k > 0.0 else 0.0
                out[z, y, x] = scale * value


@njit(**_JIT)
def fill_absorption(out, sound_speed, alpha_coeff, factor, power):
    """out = factor · α₀ · c₀^power, for τ and η."""
    for z in prange(out.shape[0]):
        for y in range(out.shape[1]):
            c, alpha, row = row_of(sound_speed, z, y), row_of(alpha_coeff, z, y), out[z, y]
            for x in range(out.shape[2]):
                row[x] = factor * np.float64(alpha[x]) * np.float64(c[x]) ** power


@njit(**_JIT)
def gradient_spectra(sx, sy, sz, kappa, dx, dy, dz, three):
    """Spectra of ∂p/∂x, ∂p/∂y and, if ``three``, ∂p/∂z from that of p in ``sx``: i k e^{ikΔ/2} κ F{p}."""
    for z in prange(sx.shape[0]):
        for y in range(sx.shape[1]):
            a, b, c, k = sx[z, y], sy[z, y], sz[z, y], kappa[z, y]
            for x in range(sx.shape[2]):
                p = a[x] * k[x]
                a[x] = p * dx[x]
                b[x] = p * dy[y]
                if three:
                    c[x] = p * dz[z]


@njit(**_JIT)
def divergence_spectra(sx, sy, sz, kappa, dx, dy, dz, three):
    """Spectra of ∂u_x/∂x, ∂u_y/∂y, ∂u_z/∂z from those of u, in place: i k e^{−ikΔ/2} κ F{u}."""
    for z in prange(sx.shape[0]):
        for y in range(sx.shape[1]):
            a, b, c, k = sx[z, y], sy[z, y], sz[z, y], kappa[z, y]
            for x in range(sx.shape[2]):
                a[x] *= k[x] * dx[x]
                b[x] *= k[x] * dy[y]
                if three:
                    c[x] *= k[x] * dz[z]


@njit(**_JIT)
def scale_spectrum(spectrum, operator):
    """spectrum *= operator, a real half spectrum."""
    a, b = spectrum.reshape(-1), operator.reshape(-1)
    for i in prange(a.size):
        a[i] *= b[i]


@njit(**_JIT)
def translate_spectrum(spectrum, factor, axis, scale):
    """spectrum *= scale × factor along one axis (0 = x), a complex vector."""
    for z in prange(spectrum.shape[0]):
        for y in range(spectrum.shape[1]):
            a = spectrum[z, y]
            for x in range(spectrum.shape[2]):
                a[x] *= scale * (factor[x] if axis == 0 else factor[y] if axis == 1 else factor[z])


@njit(**_JIT)
def update_velocity(u, gradient, density, pml, axis, dt):
    """u ← pml (pml u − Δt/ρ₀ ∂p) for one component (Treeby & Cox 2010, eq. (17a) with (14))."""
    for z in prange(u.shape[0]):
        for y in range(u.shape[1]):
            rho = row_of(density, z, y)
            if axis == 0:
                velocity_row_x(u[z, y], gradient[z, y], rho, pml, dt)
            else:
                velocity_row(u[z, y], gradient[z, y], rho, pml[y] if axis == 1 else pml[z], dt)


@njit(**_JIT)
def update_density(rx, ry, rz, gx, gy, gz, density, px, py, pz, dt, nonlinear, three):
    """ρ_ξ ← pml (pml ρ_ξ − Δt ρ ∂u_ξ/∂ξ), with ρ = ρ₀ or, nonlinear, 2Σρ_ξ + ρ₀.

    Treeby et al. 2012 (doi:10.1121/1.4712021), eq. (7) and (8). In 2-D (not ``three``) z is not touched.
    """
    for z in prange(rx.shape[0]):
        mass = np.empty(rx.shape[2], rx.dtype)
        for y in range(rx.shape[1]):
            mass_row(mass, rx[z, y], ry[z, y], rz[z, y], row_of(density, z, y), dt, nonlinear, three)
            density_row_x(rx[z, y], gx[z, y], mass, px)
            density_row(ry[z, y], gy[z, y], mass, py[y])
            if three:
                density_row(rz[z, y], gz[z, y], mass, pz[z])


@njit(**_JIT)
def absorption_terms(total, rate, rx, ry, rz, gx, gy, gz, density, three):
    """Σρ_ξ into ``total`` and ρ₀ ∇·u into ``rate``; ``rate`` may be ``gx``, ``total`` may be ``gy``."""
    for z in prange(rx.shape[0]):
        for y in range(rx.shape[1]):
            rate_row(rate[z, y], gx[z, y], gy[z, y], gz[z, y], row_of(density, z, y), three)
            sum_row(total[z, y], rx[z, y], ry[z, y], rz[z, y], three)


@njit(**_JIT)
def update_pressure(
    p, rx, ry, rz, sound_speed, density, ratio, tau, eta, loss, shift, nonlinear, lossy, disperses, three
):
    """p = c₀² (Σρ_ξ [+ B/A Σρ_ξ² / (2ρ₀)] [+ τ loss − η shift]), eq. (9) of Treeby et al. 2012.

    ``ratio`` is B/A; ``loss`` and ``shift`` are L1{ρ₀ ∇·u} and L2{Σρ}, or ρ₀ ∇·u itself (Stokes).
    """
    medium = MediumArrays(sound_speed, density, ratio, tau, eta)
    for z in prange(p.shape[0]):
        extra = np.empty(p.shape[2], p.dtype)
        for y in range(p.shape[1]):
            pressure_row(
                p[z, y], extra, rx[z, y], ry[z, y], rz[z, y], medium, z, y, loss[z, y], shift[z, y],
                nonlinear, lossy, disperses, three,
            )  # fmt: skip


@njit(**_JIT)
def split_density(rx, ry, rz, p, sound_speed, dimensions, three):
    """Split densities of an initial pressure: each is p/(D c₀²), D ``dimensions`` (a real scalar)."""
    for z in prange(p.shape[0]):
        for y in range(p.shape[1]):
            a, source, speed = rx[z, y], p[z, y], row_of(sound_speed, z, y)
            for x in range(p.shape[2]):
                a[x] = source[x] / (dimensions * speed[x] * speed[x])
            ry[z, y] = a
            if three:
                rz[z, y] = a


@njit(**_JIT)
def set_points(field, index, signal, clock, replace):
    """field[index] = or += signal[clock], one column a point or one for all."""
    flat, row = field.reshape(-1), signal[clock[0]]
    for i in prange(index.size):
        value = row[i] if row.size > 1 else row[0]
        flat[index[i]] = value if replace else flat[index[i]] + value


@njit(**_JIT)
def add_delayed(field, index, delay, signal, clock):
    """field[index] += signal[delay + clock], nothing beyond the signal's end."""
    flat = field.reshape(-1)
    step = clock[0]
    for i in prange(index.size):
        if delay[i] + step < signal.size:
            flat[index[i]] += signal[delay[i] + step]


@njit(**_JIT)
def add_pattern(field, pattern, signal, clock):
    """field += pattern × signal[clock, 0]; ``pattern`` has the field's shape."""
    a, b, factor = field.reshape(-1), pattern.reshape(-1), signal[clock[0], 0]
    for i in prange(a.size):
        a[i] += b[i] * factor


@njit(**_JIT)
def add_field(field, other):
    """field += other."""
    a, b = field.reshape(-1), other.reshape(-1)
    for i in prange(a.size):
        a[i] += b[i]


@njit(**_JIT)
def sample(target, row, field, corners, weights, interpolate):
    """target[row] = field at the sensor points, or Σ weights · field[corners] between them."""
    flat, out = field.reshape(-1), target[row]
    for i in prange(corners.shape[0]):
        if interpolate:
            value = 0.0
            for j in range(corners.shape[1]):
                value += weights[i, j] * flat[corners[i, j]]
            out[i] = value
        else:
            out[i] = flat[corners[i, 0]]


@njit(**_JIT)
def accumulate(target, kind, values):
    """Running statistic of ``values``: 0 maximum, 1 minimum, 2 sum of squares. Any equal shapes."""
    a, b = target.reshape(-1), values.reshape(-1)
    for i in prange(a.size):
        if kind == 0:
            a[i] = max(a[i], b[i])
        elif kind == 1:
            a[i] = min(a[i], b[i])
        else:
            a[i] += np.float64(b[i]) * np.float64(b[i])  # Numba's float() keeps single precision


@njit(nogil=True)
def tick(clock):
    """One time step more."""
    clock[0] += 1
