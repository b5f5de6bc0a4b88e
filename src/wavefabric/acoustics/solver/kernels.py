"""Pointwise kernels of the time step (Numba); ``kernels.cu`` holds the same for CUDA.

Real grids are C-order ``(Nz, Ny, Nx)``, half spectra ``(Nz, Ny, Nx//2+1)``. A medium parameter is a full
grid or one row ``(1, 1, Nx)`` that serves everywhere; the same loop then reads it from cache. ``clock``
holds the time step, one int64. Units are SI; every factor 1/N of the transforms is in the operators.
"""

import math

import numpy as np

from wavefabric.acoustics.solver.row_kernels import (
    MediumArrays,
    density_row,
    mass_row,
    pressure_row,
    put_density,
    rate_row,
    row_of,
    source_density_row,
    velocity_row,
    velocity_row_x,
)
from wavefabric.device.parallel_kernels import parallel_kernel, thread_range
from wavefabric.system.numba_cache import njit


@parallel_kernel
def fill_operator(thread, out, kx2, ky2, kz2, kind, parameter, scale):
    """A real operator of |k|, from squared wavenumbers in double precision, times ``scale``.

    Kind 0: sin(a |k|)/(a |k|); 1: cos(a |k|); 2: |k|^a, 0 where k = 0 and a is not 0; a is ``parameter``.
    """
    for z in thread_range(thread, out.shape[0]):
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


@parallel_kernel
def fill_absorption(thread, out, sound_speed, alpha_coeff, factor, power):
    """out = factor · α₀ · c₀^power, for τ."""
    for z in thread_range(thread, out.shape[0]):
        for y in range(out.shape[1]):
            c, alpha, row = row_of(sound_speed, z, y), row_of(alpha_coeff, z, y), out[z, y]
            for x in range(out.shape[2]):
                row[x] = factor * np.float64(alpha[x]) * np.float64(c[x]) ** power


@parallel_kernel
def gradient_spectra(thread, sx, sy, sz, kappa, dx, dy, dz, axes):
    """Spectra of ∂p/∂x, ∂p/∂y, ∂p/∂z, so many ``axes``, from that of p in ``sx``: i k e^{ikΔ/2} κ F{p}."""
    for z in thread_range(thread, sx.shape[0]):
        for y in range(sx.shape[1]):
            a, b, c, k = sx[z, y], sy[z, y], sz[z, y], kappa[z, y]
            for x in range(sx.shape[2]):
                p = a[x] * k[x]
                a[x] = p * dx[x]
                if axes > 1:
                    b[x] = p * dy[y]
                if axes > 2:
                    c[x] = p * dz[z]


@parallel_kernel
def divergence_spectra(thread, sx, sy, sz, kappa, dx, dy, dz, axes):
    """Spectra of ∂u_x/∂x, ∂u_y/∂y, ∂u_z/∂z from those of u, in place: i k e^{−ikΔ/2} κ F{u}."""
    for z in thread_range(thread, sx.shape[0]):
        for y in range(sx.shape[1]):
            a, b, c, k = sx[z, y], sy[z, y], sz[z, y], kappa[z, y]
            for x in range(sx.shape[2]):
                a[x] *= k[x] * dx[x]
                if axes > 1:
                    b[x] *= k[x] * dy[y]
                if axes > 2:
                    c[x] *= k[x] * dz[z]


@parallel_kernel
def scale_spectrum(thread, spectrum, operator):
    """spectrum *= operator, a real half spectrum."""
    a, b = spectrum.reshape(-1), operator.reshape(-1)
    for i in thread_range(thread, a.size):
        a[i] *= b[i]


@parallel_kernel
def ring_divergence_spectra(thread, sx, sr, quotient, kappa, dx, dr):
    """Spectra of ∂u_x/∂x and ∂u_r/∂r + u_r/r, in place, from those of u_x, u_r and the ``quotient`` u_r/r."""
    for z in thread_range(thread, sx.shape[0]):
        for y in range(sx.shape[1]):
            a, b, c, k = sx[z, y], sr[z, y], quotient[z, y], kappa[z, y]
            for x in range(sx.shape[2]):
                a[x] *= k[x] * dx[x]
                b[x] = k[x] * (b[x] * dr[y] + c[x])


@parallel_kernel
def translate_spectrum(thread, spectrum, factor, axis, scale):
    """spectrum *= scale × factor along one axis (0 = x), a complex vector."""
    for z in thread_range(thread, spectrum.shape[0]):
        for y in range(spectrum.shape[1]):
            a = spectrum[z, y]
            for x in range(spectrum.shape[2]):
                a[x] *= scale * (factor[x] if axis == 0 else factor[y] if axis == 1 else factor[z])


@parallel_kernel
def update_velocity(thread, u, gradient, density, pml, axis, dt):
    """u ← pml (pml u − Δt/ρ₀ ∂p) for one component (Treeby & Cox 2010, eq. (17a) with (14))."""
    for z in thread_range(thread, u.shape[0]):
        for y in range(u.shape[1]):
            rho = row_of(density, z, y)
            if axis == 0:
                velocity_row_x(u[z, y], gradient[z, y], rho, pml, dt)
            else:
                velocity_row(u[z, y], gradient[z, y], rho, pml[y] if axis == 1 else pml[z], dt)


@parallel_kernel
def update_density(thread, total, split_layers, gx, gy, gz, density, dt, nonlinear, axes):
    """ρ_ξ ← pml (pml ρ_ξ − Δt ρ ∂u_ξ/∂ξ) and Σρ_ξ, ``total``; with ρ = ρ₀ or, nonlinear, 2Σρ_ξ + ρ₀.

    Treeby et al. 2012 (doi:10.1121/1.4712021), eq. (7) and (8). Parts are kept in the `SplitLayers` of the
    PML; without PML the sum obeys the sum of the equations. The last of fewer than three ``axes`` are
    not touched.
    """
    for z in thread_range(thread, total.shape[0]):
        mass = np.empty(total.shape[2], total.dtype)
        for y in range(total.shape[1]):
            row = total[z, y]
            mass_row(mass, row, row_of(density, z, y), dt, nonlinear)
            density_row(row, split_layers, gx[z, y], gy[z, y], gz[z, y], mass, z, y, axes)


@parallel_kernel
def absorption_terms(thread, total, rate, rho, gx, gy, gz, density, axes):
    """ρ into ``total`` and ρ₀ ∇·u into ``rate``; ``rate`` may be ``gx``, ``total`` may be ``gy``."""
    for z in thread_range(thread, rho.shape[0]):
        for y in range(rho.shape[1]):
            rate_row(rate[z, y], gx[z, y], gy[z, y], gz[z, y], row_of(density, z, y), axes)
            out, row = total[z, y], rho[z, y]
            for x in range(row.size):
                out[x] = row[x]


@parallel_kernel
def update_pressure(
    thread, p, rho, sound_speed, density, ratio, tau, eta_factor, loss, shift, nonlinear, lossy, disperses
):
    """p = c₀² (ρ [+ B/A ρ² / (2ρ₀)] [+ τ loss − η shift]), eq. (9) of Treeby et al. 2012.

    ``ratio`` is B/A, ``eta_factor`` η/(τ c₀); ``loss`` and ``shift`` are L1{ρ₀ ∇·u} and L2{ρ}, or ρ₀ ∇·u
    itself (Stokes).
    """
    medium = MediumArrays(sound_speed, density, ratio, tau, eta_factor)
    for z in thread_range(thread, p.shape[0]):
        extra = np.empty(p.shape[2], p.dtype)
        for y in range(p.shape[1]):
            pressure_row(
                p[z, y], extra, rho[z, y], medium, z, y, loss[z, y], shift[z, y], nonlinear, lossy, disperses
            )


@parallel_kernel
def split_density(thread, total, split_layers, p, sound_speed, parts):
    """Density of an initial pressure: each of so many ``parts`` (a real scalar) is p/(parts c₀²)."""
    for z in thread_range(thread, total.shape[0]):
        for y in range(total.shape[1]):
            row, source, speed = total[z, y], p[z, y], row_of(sound_speed, z, y)
            for x in range(row.size):
                put_density(
                    row, split_layers, source[x] / (parts * speed[x] * speed[x]), True, parts, z, y, x
                )


@parallel_kernel
def set_density_points(thread, total, split_layers, index, signal, clock, replace, parts):
    """`set_points` for each of so many ``parts`` of the density."""
    row, (_, ny, nx) = signal[clock[0]], total.shape
    for i in thread_range(thread, index.size):
        value = row[i] if row.size > 1 else row[0]
        z, y, x = index[i] // (ny * nx), index[i] // nx % ny, index[i] % nx
        put_density(total[z, y], split_layers, value, replace, parts, z, y, x)


@parallel_kernel
def add_density_pattern(thread, total, split_layers, pattern, signal, clock, parts):
    """`add_pattern` for each of so many ``parts`` of the density."""
    for z in thread_range(thread, total.shape[0]):
        for y in range(total.shape[1]):
            source_density_row(total[z, y], split_layers, pattern[z, y], signal[clock[0], 0], parts, z, y)


@parallel_kernel
def set_points(thread, field, index, signal, clock, replace):
    """field[index] = or += signal[clock], one column a point or one for all."""
    flat, row = field.reshape(-1), signal[clock[0]]
    for i in thread_range(thread, index.size):
        value = row[i] if row.size > 1 else row[0]
        flat[index[i]] = value if replace else flat[index[i]] + value


@parallel_kernel
def add_delayed(thread, field, index, delay, signal, clock):
    """field[index] += signal[delay + clock], nothing beyond the signal's end."""
    flat = field.reshape(-1)
    step = clock[0]
    for i in thread_range(thread, index.size):
        if delay[i] + step < signal.size:
            flat[index[i]] += signal[delay[i] + step]


@parallel_kernel
def add_pattern(thread, field, pattern, signal, clock):
    """field += pattern × signal[clock, 0]; ``pattern`` has the field's shape."""
    a, b, factor = field.reshape(-1), pattern.reshape(-1), signal[clock[0], 0]
    for i in thread_range(thread, a.size):
        a[i] += b[i] * factor


@parallel_kernel
def mix_patterns(thread, field, first, second, signals, clock):
    """field = first × signals[clock, 0] + second × signals[clock, 1]."""
    out, a, b = field.reshape(-1), first.reshape(-1), second.reshape(-1)
    f, g = signals[clock[0], 0], signals[clock[0], 1]
    for i in thread_range(thread, out.size):
        out[i] = a[i] * f + b[i] * g


@parallel_kernel
def sample(thread, target, row, field, corners, weights, interpolate):
    """target[row] = field at the sensor points, or Σ weights · field[corners] between them."""
    flat, out = field.reshape(-1), target[row]
    for i in thread_range(thread, corners.shape[0]):
        if interpolate:
            value = 0.0
            for j in range(corners.shape[1]):
                value += weights[i, j] * flat[corners[i, j]]
            out[i] = value
        else:
            out[i] = flat[corners[i, 0]]


@parallel_kernel
def sample_elements(thread, target, row, field, bounds, points, weights):
    """target[row, e] = Σ weights · field[points], from bounds[e] to bounds[e + 1]."""
    flat, out = field.reshape(-1), target[row]
    for e in thread_range(thread, bounds.size - 1):
        value = 0.0
        for i in range(bounds[e], bounds[e + 1]):
            value += weights[i] * flat[points[i]]
        out[e] = value


@parallel_kernel
def accumulate(thread, target, kind, values):
    """Running statistic of ``values``: 0 maximum, 1 minimum, 2 sum of squares. Any equal shapes."""
    a, b = target.reshape(-1), values.reshape(-1)
    for i in thread_range(thread, a.size):
        if kind == 0:
            a[i] = max(a[i], b[i])
        elif kind == 1:
            a[i] = min(a[i], b[i])
        else:
            a[i] += np.float64(b[i]) * np.float64(b[i])  # Numba's float() keeps single precision


@parallel_kernel
def accumulate_tone(thread, cosines, sines, values, cosine, sine):
    """Two sums of ``values``, times real scalars. Any equal shapes."""
    a, b, c = cosines.reshape(-1), sines.reshape(-1), values.reshape(-1)
    for i in thread_range(thread, a.size):
        a[i] += cosine * c[i]
        b[i] += sine * c[i]


def load(dtype):
    """Kernels of this precision are about to be called: each is compiled, or read, at its first call."""


@njit(nogil=True)
def tick(clock):
    """One time step more."""
    clock[0] += 1
