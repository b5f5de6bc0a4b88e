"""Passes of the fused time step on a CPU: each touches every array once, with the transforms inside.

A 3-D transform is one along x and y in every z plane, and one along z in every slab of columns at one y.
Between the two kinds lies a barrier; all pointwise work happens while its row, plane or slab is in cache.
A lossless step is four kernels, one with power-law absorption six; as whole-array transforms it would be 10
or 14 of them, two passes each, besides the kernels. ∂x and ∂y share their transform along z.

Real grids are ``(Nz, Ny, Nx)``, spectra ``(Nz, Ny, Nx//2+1)`` with padded rows; between passes only x and y
are transformed. κ and the derivatives multiply a spectrum as it is transformed back. ``fft`` holds the
addresses of `spectral.vector_axes.AxisTransforms`, ``batch`` its rows a call. Other parameters are those of
``kernels.py``, whose kernels are the reference for these.
"""

from typing import Any, NamedTuple

from wavefabric.acoustics.solver import row_kernels
from wavefabric.device.parallel_kernels import parallel_kernel, thread_range
from wavefabric.device.vector_code import execute
from wavefabric.spectral import vector_axes as axes
from wavefabric.system.numba_cache import njit

_PLANE: dict[str, Any] = dict(nogil=True, error_model="numpy")


class StepSource(NamedTuple):
    """What one source does to a field in one step.

    ``pattern`` times ``amplitude`` is added, unless it is empty; ``values`` (one each, or one for all) are
    added or put at ``index``: points within their plane, sorted, plane z from ``first[z]`` on.
    """

    pattern: Any
    amplitude: Any
    first: Any
    index: Any
    values: Any
    replace: Any


@njit(**_PLANE)
def _transform(fft, kind, source, target):
    """Rows of x, or a plane along y."""
    execute(fft[kind, 0], fft[kind, 1], source.ctypes.data, target.ctypes.data, 0)


@njit(**_PLANE)
def _z_forward(fft, spectrum, y, block, coming, at):
    """A slab of a spectrum from y on along z; that at ``at`` of the one that comes next is fetched ahead."""
    source, ahead = spectrum[0, y].ctypes.data, coming[0, at].ctypes.data
    execute(fft[axes.Z_FORTH, 0], fft[axes.Z_FORTH, 1], source, block.ctypes.data, ahead)


@njit(**_PLANE)
def _z_backward(fft, kind, block, operator, y, spectrum):
    """A block times an operator back into the slab of a spectrum from y on."""
    target, factors = spectrum[0, y].ctypes.data, operator[0, y].ctypes.data
    execute(fft[kind, 0], fft[kind, 1], block.ctypes.data, target, factors)


@njit(**_PLANE)
def _multiply(fft, kind, spectrum, operator, y, block, coming, at):
    """A slab of a spectrum times an operator along z, where it was."""
    _z_forward(fft, spectrum, y, block, coming, at)
    _z_backward(fft, kind, block, operator, y, spectrum)


@njit(**_PLANE)
def _add_source(row, source, z, y, cursor):
    """Put a source into one row; the place in ``source.index`` after it."""
    if source.pattern.size > 0:
        row_kernels.add_scaled_row(row, source.pattern[z, y], source.amplitude)
    index, values, end = source.index, source.values, source.first[z + 1]
    while cursor < end and index[cursor] < (y + 1) * row.size:
        x = index[cursor] - y * row.size
        value = values[cursor if values.size > 1 else 0]
        row[x] = value if source.replace else row[x] + value
        cursor += 1
    return cursor


@njit(**_PLANE)
def _add_density_source(total, split_layers, source, parts, z, y, cursor):
    """Put a source into one row of each part of the density; the place in ``source.index`` after it."""
    if source.pattern.size > 0:
        row_kernels.source_density_row(
            total, split_layers, source.pattern[z, y], source.amplitude, parts, z, y
        )
    index, values, end = source.index, source.values, source.first[z + 1]
    while cursor < end and index[cursor] < (y + 1) * total.size:
        value = values[cursor if values.size > 1 else 0]
        row_kernels.put_density(
            total, split_layers, value, source.replace, parts, z, y, index[cursor] - y * total.size
        )
        cursor += 1
    return cursor


@parallel_kernel
def transform_planes(thread, fft, batch, real, spectrum):
    """Spectrum of every plane of ``real``."""
    for z in thread_range(thread, real.shape[0]):
        for y in range(0, real.shape[1], batch):
            _transform(fft, axes.X_FORTH, real[z, y], spectrum[z, y])
        _transform(fft, axes.Y_FORTH, spectrum[z], spectrum[z])


@parallel_kernel
def transform_planes_back(thread, fft, batch, spectrum, real):
    """The planes of a spectrum to those of ``real``; the spectrum is lost."""
    for z in thread_range(thread, real.shape[0]):
        _transform(fft, axes.Y_BACK, spectrum[z], spectrum[z])
        for y in range(0, real.shape[1], batch):
            _transform(fft, axes.X_BACK, spectrum[z, y], real[z, y])


@parallel_kernel
def derivative_planes(thread, fft, batch, spectra, fields, x_back, y_back):
    """The planes of three spectra, along x, y and z, to real fields, with the derivatives along x and y."""
    for z in thread_range(thread, fields[0].shape[0]):
        for axis in range(3):
            spectrum = spectra[axis][z]
            _transform(fft, y_back if axis == 1 else axes.Y_BACK, spectrum, spectrum)
            for y in range(0, spectrum.shape[0], batch):
                _transform(fft, x_back if axis == 0 else axes.X_BACK, spectrum[y], fields[axis][z, y])


@parallel_kernel
def gather_planes(thread, fft, batch, fields, spectra, dx, dy):
    """Planes' spectra of ∂x of the first field plus ∂y of the second (in s0), and of the third, without κ."""
    sx, s0, _sz = spectra
    for z in thread_range(thread, s0.shape[0]):
        for axis in range(3):
            spectrum = spectra[axis][z]
            for y in range(0, spectrum.shape[0], batch):
                _transform(fft, axes.X_FORTH, fields[axis][z, y], spectrum[y])
            _transform(fft, axes.Y_FORTH, spectrum, spectrum)
        for y in range(s0.shape[1]):
            first, second = sx[z, y], s0[z, y]
            for x in range(dx.size):
                second[x] = first[x] * dx[x] + second[x] * dy[y]


@parallel_kernel
def gather_columns(thread, fft, s0, sz, dz, kappa, scratch):
    """Along z: s0 ← κ F{s0 + ∂z sz}."""
    slab = scratch.shape[3]
    for number in thread_range(thread, s0.shape[1] // slab):
        block, other, y = scratch[thread.number, 0], scratch[thread.number, 1], number * slab
        _z_forward(fft, s0, y, block, sz, y)
        _z_forward(fft, sz, y, other, s0, min(y + slab, s0.shape[1] - slab))
        for z in range(block.shape[0]):
            total, more = block[z].reshape(-1), other[z].reshape(-1)
            for x in range(total.size):
                total[x] += more[x] * dz[z]
        _z_backward(fft, axes.Z_BACK, block, kappa, y, s0)


@parallel_kernel
def multiply_columns(thread, fft, spectra, operators, last, scratch):
    """Along z: each spectrum times its operator. The last comes back by ``last``: Z_BACK or a derivative."""
    slab, count = scratch.shape[2], len(spectra)
    for number in thread_range(thread, spectra[0].shape[1] // slab):
        block, y = scratch[thread.number], number * slab
        following = min(y + slab, spectra[0].shape[1] - slab)
        for i in range(count):
            ends = i + 1 == count
            coming, at = spectra[0 if ends else i + 1], following if ends else y
            _multiply(fft, last if ends else axes.Z_BACK, spectra[i], operators[i], y, block, coming, at)


@parallel_kernel
def gradient_columns(thread, fft, s0, s1, kappa, scratch):
    """Along z: s0 (planes' spectra of p) ← κ F{p}, from which ∂x and ∂y follow, and s1 ← ∂z of it."""
    slab = scratch.shape[2]
    for number in thread_range(thread, s0.shape[1] // slab):
        block, y = scratch[thread.number], number * slab
        _z_forward(fft, s0, y, block, s0, min(y + slab, s0.shape[1] - slab))
        _z_backward(fft, axes.Z_BACK, block, kappa, y, s0)
        _z_backward(fft, axes.Z_BACK_BY_UP, block, kappa, y, s1)


@njit(**_PLANE)
def _update_velocity(fft, axis, gradient, u, density, pml, dt, source, delayed, z, rows, spectrum):
    """One component in a plane: ∂p from its spectrum along x, update, sources, and u's spectrum along x."""
    cursor, late = source.first[z], delayed.first[z]
    back = axes.X_BACK_BY_UP if axis == 0 else axes.X_BACK
    for first in range(0, u.shape[1], rows.shape[0]):
        _transform(fft, back, gradient[first], rows)
        for y in range(first, first + rows.shape[0]):
            row, slope, rho = u[z, y], rows[y - first], row_kernels.row_of(density, z, y)
            if axis == 0:
                row_kernels.velocity_row_x(row, slope, rho, pml, dt)
            else:
                row_kernels.velocity_row(row, slope, rho, pml[y] if axis == 1 else pml[z], dt)
            cursor = _add_source(row, source, z, y, cursor)
            if axis == 0:
                late = _add_source(row, delayed, z, y, late)
        _transform(fft, axes.X_FORTH, u[z, first], spectrum[first])


@parallel_kernel
def velocity_planes(
    thread, fft, spectra, u, densities, pml, dt, source_x, source_y, source_z, delayed, scratch, rows
):
    """In the planes: ∂p, u ← pml (pml u − Δt/ρ₀ ∂p), sources, and the new planes' spectra of u.

    In: κ F{p} (s0), its ∂z (s1). Out: spectra of u_y (s0), u_x (s1), u_z (s2). ``densities`` are ρ₀ at the
    staggered points. Each component has its `StepSource`; that of u_x is followed by ``delayed``.
    """
    s0, s1, s2 = spectra
    for z in thread_range(thread, s0.shape[0]):
        plane, real = scratch[thread.number], rows[thread.number, 0]
        _transform(fft, axes.Y_BACK, s1[z], s1[z])
        _update_velocity(fft, 2, s1[z], u[2], densities[2], pml[2], dt, source_z, delayed, z, real, s2[z])
        _transform(fft, axes.Y_BACK, s0[z], plane)
        _transform(fft, axes.Y_BACK_BY_UP, s0[z], s0[z])
        _update_velocity(fft, 0, plane, u[0], densities[0], pml[0], dt, source_x, delayed, z, real, s1[z])
        _update_velocity(fft, 1, s0[z], u[1], densities[1], pml[1], dt, source_y, delayed, z, real, s0[z])
        _transform(fft, axes.Y_FORTH, s0[z], s0[z])
        _transform(fft, axes.Y_FORTH, s1[z], s1[z])
        _transform(fft, axes.Y_FORTH, s2[z], s2[z])


@parallel_kernel
def density_planes(
    thread, fft, spectra, rho, split_layers, p, medium, dt, source, parts, nonlinear, mode, disperses, rows,
    scratch,
):  # fmt: skip
    """In the planes: ∂u, ρ_ξ ← pml (pml ρ_ξ − Δt ρ ∂u_ξ), sources, and what follows from it in the same row.

    In: κ F{u_y}, κ F{u_x}, and the derivative of u_z. A source goes into each of so many ``parts``
    of the density. Out, by ``mode``: 0, pressure by the equation of state, and its planes' spectrum in s0; 1,
    the same with Stokes absorption; 2, for the power law, planes' spectra of ρ₀ ∇·u (s0) and, dispersing,
    ρ (s1) instead.
    """
    s0, s1, s2 = spectra
    batch = rows.shape[2]
    for z in thread_range(thread, rho.shape[0]):
        me = thread.number
        mass, extra = scratch[me, 0], scratch[me, 1]
        ga, gb, gc = rows[me, 0], rows[me, 1], rows[me, 2]
        _transform(fft, axes.Y_BACK_BY_DOWN, s0[z], s0[z])
        _transform(fft, axes.Y_BACK, s1[z], s1[z])
        _transform(fft, axes.Y_BACK, s2[z], s2[z])
        cursor = source.first[z]
        for first in range(0, rho.shape[1], batch):
            _transform(fft, axes.X_BACK_BY_DOWN, s1[z, first], ga)
            _transform(fft, axes.X_BACK, s0[z, first], gb)
            _transform(fft, axes.X_BACK, s2[z, first], gc)
            for y in range(first, first + batch):
                total, rho0, i = rho[z, y], row_kernels.row_of(medium.density, z, y), y - first
                row_kernels.mass_row(mass, total, rho0, dt, nonlinear)
                row_kernels.density_row(total, split_layers, ga[i], gb[i], gc[i], mass, z, y, 3)
                if source.pattern.size > 0 or cursor < source.first[z + 1]:
                    cursor = _add_density_source(total, split_layers, source, parts, z, y, cursor)
                if mode > 0:
                    row_kernels.rate_row(ga[i], ga[i], gb[i], gc[i], rho0, 3)
                if mode < 2:
                    row_kernels.pressure_row(
                        p[z, y], extra, total, medium, z, y, ga[i], ga[i], nonlinear, mode == 1, False
                    )
            if mode == 2:
                _transform(fft, axes.X_FORTH, ga, s0[z, first])
                if disperses:
                    _transform(fft, axes.X_FORTH, rho[z, first], s1[z, first])
            else:
                _transform(fft, axes.X_FORTH, p[z, first], s0[z, first])
        _transform(fft, axes.Y_FORTH, s0[z], s0[z])
        if mode == 2 and disperses:
            _transform(fft, axes.Y_FORTH, s1[z], s1[z])


@parallel_kernel
def pressure_planes(thread, fft, s0, s1, rho, p, medium, nonlinear, disperses, rows, scratch):
    """In the planes, from spectra of L1 (s0) and L2 (s1): p = c₀² (ρ + B/A ρ²/(2ρ₀) + τ L1 − η L2).

    The planes' spectrum of p goes into s0.
    """
    batch = rows.shape[2]
    for z in thread_range(thread, rho.shape[0]):
        me = thread.number
        loss, shift = rows[me, 0], rows[me, 1]
        _transform(fft, axes.Y_BACK, s0[z], s0[z])
        if disperses:
            _transform(fft, axes.Y_BACK, s1[z], s1[z])
        for first in range(0, rho.shape[1], batch):
            _transform(fft, axes.X_BACK, s0[z, first], loss)
            if disperses:
                _transform(fft, axes.X_BACK, s1[z, first], shift)
            for y in range(first, first + batch):
                row_kernels.pressure_row(
                    p[z, y], scratch[me, 1], rho[z, y], medium, z, y,
                    loss[y - first], shift[y - first], nonlinear, True, disperses,
                )  # fmt: skip
            _transform(fft, axes.X_FORTH, p[z, first], s0[z, first])
        _transform(fft, axes.Y_FORTH, s0[z], s0[z])
