"""Passes of the fused time step on a CPU: each touches every array once, with the transforms inside.

A 3-D transform is one along x and y in every z plane, and one along z in every slab of columns at one y.
Between the two kinds lies a barrier; all pointwise work happens while its row, plane or slab is in cache.
A lossless step is four passes, one with power-law absorption six; as whole-array transforms it would be 10
or 14 of them, two passes each, besides the sweeps. ∂x and ∂y share their transform along z.

Real grids are ``(Nz, Ny, Nx)``, spectra ``(Nz, Ny, Nx//2+1)``; between passes only x and y are transformed.
``fft`` holds the addresses of `device.fftw_direct.AxisTransforms`, ``batch`` its rows a call. Other
parameters are those of ``kernels.py``, whose sweeps are the reference for these.
"""

from __future__ import annotations

from typing import Any

from numba import prange
from numba.np.ufunc.parallel import get_thread_id

from wavefabric.acoustics.solver.row_kernels import (
    add_product_row,
    add_scaled_row,
    density_row,
    density_row_x,
    mass_row,
    multiply_row,
    multiply_scaled_row,
    nonlinear_row,
    rate_row,
    row_of,
    scale_row,
    state_row,
    subtract_product_row,
    sum_row,
    velocity_row,
    velocity_row_x,
)
from wavefabric.device.fftw_direct import execute, prefetch
from wavefabric.system.numba_cache import njit

_JIT: dict[str, Any] = dict(parallel=True, nogil=True, error_model="numpy")
_PLANE: dict[str, Any] = dict(nogil=True, error_model="numpy")


@njit(**_PLANE)
def _ahead(rows):
    """Fetch rows of a slab ahead: they lie a plane apart, which hardware does not foresee."""
    first = rows.ctypes.data
    for offset in range(0, rows.size * rows.itemsize, 64):
        prefetch(first + offset)


@njit(**_PLANE)
def _x_forward(fft, real, spectrum):
    execute(fft[0], fft[3], real.ctypes.data, spectrum.ctypes.data)


@njit(**_PLANE)
def _x_backward(fft, spectrum, real):
    execute(fft[1], fft[4], spectrum.ctypes.data, real.ctypes.data)


@njit(**_PLANE)
def _y_forward(fft, plane):
    execute(fft[2], fft[5], plane.ctypes.data, plane.ctypes.data)


@njit(**_PLANE)
def _y_backward(fft, plane):
    execute(fft[2], fft[6], plane.ctypes.data, plane.ctypes.data)


@njit(**_PLANE)
def _y_backward_into(fft, plane, target):
    execute(fft[2], fft[7], plane.ctypes.data, target.ctypes.data)


@njit(**_PLANE)
def _z_forward(fft, block, spectrum, y):  # block (Nz, slab, H)
    for z in range(block.shape[0]):
        block[z] = spectrum[z, y : y + block.shape[1]]
    execute(fft[2], fft[8], block.ctypes.data, block.ctypes.data)


@njit(**_PLANE)
def _z_backward(fft, block):
    execute(fft[2], fft[9], block.ctypes.data, block.ctypes.data)


@njit(**_PLANE)
def _put_points(row, y, index, values, replace, cursor, end):
    """Source values of one row of a plane; the cursor after it. ``index`` is sorted, within the plane."""
    while cursor < end and index[cursor] < (y + 1) * row.size:
        x = index[cursor] - y * row.size
        value = values[cursor if values.size > 1 else 0]
        row[x] = value if replace else row[x] + value
        cursor += 1
    return cursor


@njit(**_PLANE)
def _add_pattern(row, pattern, amplitude, z, y):
    if pattern.size > 0:
        add_scaled_row(row, pattern[z, y], amplitude)


@njit(**_JIT)
def transform_planes(fft, batch, real, spectrum):
    """Spectrum of every plane of ``real``."""
    for z in prange(real.shape[0]):
        for y in range(0, real.shape[1], batch):
            _x_forward(fft, real[z, y], spectrum[z, y])
        _y_forward(fft, spectrum[z])


@njit(**_PLANE)
def _multiply(block, operator, y, coming, at):
    """block *= operator; meanwhile fetch the slab at ``at`` of the spectrum that comes next."""
    for z in range(block.shape[0]):
        _ahead(coming[z, at : at + block.shape[1]])
        for i in range(block.shape[1]):
            multiply_row(block[z, i], block[z, i], operator[z, y + i])


@njit(**_PLANE)
def _put(spectrum, block, y):
    for z in range(block.shape[0]):
        spectrum[z, y : y + block.shape[1]] = block[z]


@njit(**_JIT)
def gradient_columns(fft, s0, s1, kappa, dz, scratch):
    """Along z: s0 (planes' spectra of p) ← κ F{p}, from which ∂x and ∂y follow, and s1 ← ∂z of it."""
    slab = scratch.shape[3]
    for number in prange(s0.shape[1] // slab):
        a, b, y = scratch[get_thread_id(), 0], scratch[get_thread_id(), 1], number * slab
        following = min(y + slab, s0.shape[1] - slab)
        _z_forward(fft, a, s0, y)
        for z in range(s0.shape[0]):
            _ahead(s0[z, following : following + slab])
            for i in range(slab):
                multiply_row(a[z, i], a[z, i], kappa[z, y + i])
                scale_row(b[z, i], a[z, i], dz[z])
        _z_backward(fft, a)
        _put(s0, a, y)
        _z_backward(fft, b)
        _put(s1, b, y)


@njit(**_JIT)
def velocity_planes(
    fft, batch, s0, s1, s2, ux, uy, uz, nx, ny, nz, px, py, pz, dx, dy, dt, patterns, amplitudes, points,
    values, replace, delayed_points, delayed, spectra, real,
):  # fmt: skip
    """In the planes: ∂p, u ← pml (pml u − Δt/ρ₀ ∂p), sources, and the new planes' spectra of u.

    In: κ F{p} (s0), its ∂z (s1). Out: spectra of u_y (s0), u_x (s1), u_z (s2). ``nx``, ``ny``, ``nz`` are ρ₀
    at the staggered points. Sources of each component: a pattern (or an empty array) times an amplitude, and
    values (one each, one for all, or none) at ``points``: offsets of the planes (Nz+1,), and sorted indices
    within a plane. ``delayed`` values are added to u_x last.
    """
    first_point, index = points
    first_delayed, delayed_index = delayed_points
    for z in prange(ux.shape[0]):
        t, g = spectra[get_thread_id()], real[get_thread_id()]
        last, here, beyond = ux.shape[1], first_point[z], first_point[z + 1]
        _y_backward(fft, s1[z])
        cursor = here if values[2].size else beyond
        for first in range(0, last, batch):
            _x_backward(fft, s1[z, first], g)
            for y in range(first, first + batch):
                velocity_row(uz[z, y], g[y - first], row_of(nz, z, y), pz[z], dt)
                _add_pattern(uz[z, y], patterns[2], amplitudes[2], z, y)
                cursor = _put_points(uz[z, y], y, index, values[2], replace, cursor, beyond)
            _x_forward(fft, uz[z, first], s2[z, first])
        _y_backward_into(fft, s0[z], t)
        cursor = here if values[0].size else beyond
        late = first_delayed[z]
        for first in range(0, last, batch):
            for y in range(first, first + batch):
                multiply_row(t[y], t[y], dx)
            _x_backward(fft, t[first], g)
            for y in range(first, first + batch):
                velocity_row_x(ux[z, y], g[y - first], row_of(nx, z, y), px, dt)
                _add_pattern(ux[z, y], patterns[0], amplitudes[0], z, y)
                cursor = _put_points(ux[z, y], y, index, values[0], replace, cursor, beyond)
                late = _put_points(ux[z, y], y, delayed_index, delayed, False, late, first_delayed[z + 1])
            _x_forward(fft, ux[z, first], s1[z, first])
        for y in range(last):
            scale_row(s0[z, y], s0[z, y], dy[y])
        _y_backward(fft, s0[z])
        cursor = here if values[1].size else beyond
        for first in range(0, last, batch):
            _x_backward(fft, s0[z, first], g)
            for y in range(first, first + batch):
                velocity_row(uy[z, y], g[y - first], row_of(ny, z, y), py[y], dt)
                _add_pattern(uy[z, y], patterns[1], amplitudes[1], z, y)
                cursor = _put_points(uy[z, y], y, index, values[1], replace, cursor, beyond)
            _x_forward(fft, uy[z, first], s0[z, first])
        _y_forward(fft, s0[z])
        _y_forward(fft, s1[z])
        _y_forward(fft, s2[z])


@njit(**_JIT)
def divergence_columns(fft, s0, s1, s2, kappa, dy, dz, scratch):
    """Along z: s_ξ ← i k_ξ e^{−ikΔ/2} κ F{u_ξ}; the factor of x is left to the planes. s0 is u_y, s1 u_x."""
    slab = scratch.shape[3]
    for number in prange(s0.shape[1] // slab):
        a, y = scratch[get_thread_id(), 0], number * slab
        following = min(y + slab, s0.shape[1] - slab)
        _z_forward(fft, a, s0, y)
        _multiply(a, kappa, y, s1, y)
        _z_backward(fft, a)
        for z in range(s0.shape[0]):
            for i in range(slab):
                scale_row(s0[z, y + i], a[z, i], dy[y + i])
        _z_forward(fft, a, s1, y)
        _multiply(a, kappa, y, s2, y)
        _z_backward(fft, a)
        _put(s1, a, y)
        _z_forward(fft, a, s2, y)
        for z in range(s0.shape[0]):
            _ahead(s0[z, following : following + slab])
            for i in range(slab):
                multiply_scaled_row(a[z, i], a[z, i], kappa[z, y + i], dz[z])
        _z_backward(fft, a)
        _put(s2, a, y)


@njit(**_JIT)
def density_planes(
    fft, batch, s0, s1, s2, rx, ry, rz, p, density, speed, ratio, tau, px, py, pz, dx, dt, pattern, amplitude,
    points, values, replace, nonlinear, mode, disperses, real, row,
):  # fmt: skip
    """In the planes: ∂u, ρ_ξ ← pml (pml ρ_ξ − Δt ρ ∂u_ξ), sources, and what follows from it in the same row.

    In: derivatives of u_y, u_x (without its factor ``dx``), u_z. A source goes into each density. Out, by
    ``mode``: 0, pressure by the equation of state, and its planes' spectrum in s0; 1, the same with Stokes
    absorption; 2, for the power law, planes' spectra of ρ₀ ∇·u (s0) and, if it disperses, Σρ (s1) instead.
    """
    first_point, index = points
    for z in prange(rx.shape[0]):
        me = get_thread_id()
        mass, extra = row[me, 0], row[me, 1]
        ga, gb, gc = real[me, :batch], real[me, batch : 2 * batch], real[me, 2 * batch : 3 * batch]
        _y_backward(fft, s0[z])
        _y_backward(fft, s1[z])
        _y_backward(fft, s2[z])
        beyond = first_point[z + 1]
        cursor = first_point[z] if values.size else beyond
        for first in range(0, rx.shape[1], batch):
            for y in range(first, first + batch):
                multiply_row(s1[z, y], s1[z, y], dx)
            _x_backward(fft, s1[z, first], ga)
            _x_backward(fft, s0[z, first], gb)
            _x_backward(fft, s2[z, first], gc)
            for y in range(first, first + batch):
                a, b, c, rho, i = rx[z, y], ry[z, y], rz[z, y], row_of(density, z, y), y - first
                mass_row(mass, a, b, c, rho, dt, nonlinear, True)
                density_row_x(a, ga[i], mass, px)
                density_row(b, gb[i], mass, py[y])
                density_row(c, gc[i], mass, pz[z])
                if pattern.size > 0:
                    add_scaled_row(a, pattern[z, y], amplitude)
                    add_scaled_row(b, pattern[z, y], amplitude)
                    add_scaled_row(c, pattern[z, y], amplitude)
                if cursor < beyond:
                    _put_points(a, y, index, values, replace, cursor, beyond)
                    _put_points(b, y, index, values, replace, cursor, beyond)
                    cursor = _put_points(c, y, index, values, replace, cursor, beyond)
                if mode == 2:
                    rate_row(ga[i], ga[i], gb[i], gc[i], rho, True)
                    if disperses:
                        sum_row(gb[i], a, b, c, True)
                else:
                    out = p[z, y]
                    sum_row(out, a, b, c, True)
                    extra[:] = 0
                    if nonlinear:
                        nonlinear_row(extra, out, row_of(ratio, z, y), rho)
                    if mode == 1:
                        rate_row(mass, ga[i], gb[i], gc[i], rho, True)
                        add_product_row(extra, row_of(tau, z, y), mass)
                    state_row(out, extra, row_of(speed, z, y))
            if mode == 2:
                _x_forward(fft, ga, s0[z, first])
                if disperses:
                    _x_forward(fft, gb, s1[z, first])
            else:
                _x_forward(fft, p[z, first], s0[z, first])
        _y_forward(fft, s0[z])
        if mode == 2 and disperses:
            _y_forward(fft, s1[z])


@njit(**_JIT)
def absorption_columns(fft, s0, s1, nabla1, nabla2, disperses, scratch):
    """Along z: s0 ← (−∇²)^{(y−2)/2} s0 and, if the medium disperses, s1 ← (−∇²)^{(y−1)/2} s1."""
    slab = scratch.shape[3]
    for number in prange(s0.shape[1] // slab):
        a, y = scratch[get_thread_id(), 0], number * slab
        following = min(y + slab, s0.shape[1] - slab)
        _z_forward(fft, a, s0, y)
        _multiply(a, nabla1, y, s1 if disperses else s0, y if disperses else following)
        _z_backward(fft, a)
        _put(s0, a, y)
        if disperses:
            _z_forward(fft, a, s1, y)
            _multiply(a, nabla2, y, s0, following)
            _z_backward(fft, a)
            _put(s1, a, y)


@njit(**_JIT)
def pressure_planes(
    fft, batch, s0, s1, rx, ry, rz, p, density, speed, ratio, tau, eta, nonlinear, disperses, real, row
):
    """In the planes, from spectra of L1 (s0) and L2 (s1): p = c₀² (Σρ + B/A Σρ²/(2ρ₀) + τ L1 − η L2).

    The planes' spectrum of p goes into s0.
    """
    for z in prange(rx.shape[0]):
        me = get_thread_id()
        extra, ga, gb = row[me, 1], real[me, :batch], real[me, batch : 2 * batch]
        _y_backward(fft, s0[z])
        if disperses:
            _y_backward(fft, s1[z])
        for first in range(0, rx.shape[1], batch):
            _x_backward(fft, s0[z, first], ga)
            if disperses:
                _x_backward(fft, s1[z, first], gb)
            for y in range(first, first + batch):
                out = p[z, y]
                sum_row(out, rx[z, y], ry[z, y], rz[z, y], True)
                extra[:] = 0
                if nonlinear:
                    nonlinear_row(extra, out, row_of(ratio, z, y), row_of(density, z, y))
                add_product_row(extra, row_of(tau, z, y), ga[y - first])
                if disperses:
                    subtract_product_row(extra, row_of(eta, z, y), gb[y - first])
                state_row(out, extra, row_of(speed, z, y))
            _x_forward(fft, p[z, first], s0[z, first])
        _y_forward(fft, s0[z])
