"""Table of the whole-array kernels of the ultrasound time step; `runtime.kernels` has their formulas.

Real grids are C-order ``(Nz, Ny, Nx)``, half spectra ``(Nz, Ny, Nx//2+1)``. A medium parameter is a full grid
or one row ``(1, 1, Nx)`` for all points. ``clock`` holds the number of the time step, one int64. A signal has
one row per step, and one column per point or one column for all points. Units are SI; the operators include
every factor 1/N of the transforms.

- ``fill_operator``: a real operator of |k|, times ``scale``, from squared wavenumbers. ``kind`` is a constant
  of `formulas`: sin(a |k|)/(a |k|), cos(a |k|) or |k|^a (0 where k = 0 and a is not 0), a = ``parameter``.
- ``fill_absorption``: out = factor · α₀ · c₀^power, for τ.
- ``gradient_spectra``: spectra of ∂p/∂x, ∂p/∂y, ∂p/∂z from that of p in ``sx``: i k e^{ikΔ/2} κ F{p}.
  ``divergence_spectra``: spectra of ∂u_x/∂x, ∂u_y/∂y, ∂u_z/∂z from those of u, in place.
  ``ring_divergence_spectra``: spectra of ∂u_x/∂x and ∂u_r/∂r + u_r/r from those of u_x, u_r and the
  ``quotient`` u_r/r. With fewer than three ``axes`` the last arrays are not touched.
- ``update_velocity``: u ← pml (pml u − Δt/ρ₀ ∂p), one component (Treeby & Cox 2010, eq. (17a) with (14)).
- ``update_density``: ρ_ξ ← pml (pml ρ_ξ − Δt ρ ∂u_ξ/∂ξ) and Σρ_ξ, ``total``; with ρ = ρ₀ or, nonlinear, 2Σρ_ξ
  + ρ₀ (Treeby et al. 2012, doi:10.1121/1.4712021, eq. (7), (8)). Split parts are stored only in the layers of
  the PML.
- ``absorption_terms``: writes ρ to ``total`` and ρ₀ ∇·u to ``rate``, from the derivatives of u in ``gx``,
  ``gy``, ``gz``. ``total`` may be the array ``gy``, and ``rate`` the array ``gx``.
- ``update_pressure``: p = c₀² (ρ [+ B/A ρ²/(2ρ₀)] [+ τ loss] [− η shift]), eq. (9); ``ratio`` is B/A,
  ``eta_factor`` η/(τ c₀); ``loss`` and ``shift`` are L1{ρ₀ ∇·u} and L2{ρ}, or ρ₀ ∇·u itself (Stokes).
- ``split_density``: the density of an initial pressure, p/(parts c₀²) in each of ``parts`` split parts.
- ``clear``: sets a field to 0. ``set_points``: field[index] is set to the signal, or the signal is added.
  ``add_delayed``: adds the signal, with a delay in steps for each point. ``add_pattern``: field += pattern ×
  signal. ``mix_patterns``: field = one × first signal + two × second signal. ``…_density_…``: the same for
  each of ``parts`` split parts of the density.
- ``sample``: target = field at points, or Σ weights · field[corners], one row of corners per point.
  ``sample_elements``: Σ weights · field[points], from bounds[e] to bounds[e + 1]. ``store_row``: values into
  the row of this time step, in a ring buffer of ``count`` rows. ``keep_maximum``, ``keep_minimum``,
  ``add_squares`` (in double), ``accumulate_tone``: running statistics. ``start`` is the first step recorded.
- ``field_sums``: for each part of a box of the grid (`energy.box_of`) the energy and the largest and smallest
  p; ``weights``: volumes of rings. ``add_alternating``: the alternating part of p over the nine steps before
  each check of the energy, every ``every`` steps and after the last of the ``steps``. ``square_sums``: the
  sums of squares of this part and of p.
- ``apply_window``: multiplies a spectrum by a ``table`` at R √s, where R is its last index and s the sum of
  ``x_squares``, ``y_squares`` and ``z_squares``. ``squared_slopes``: for each part of a field, sums of
  squared differences of neighbours along x, y and z, and of squared values.
"""

from wavefabric.runtime.kernels.table import kernel_table

#: CUDA sources to compile before ``kernels.cu``.
BEFORE = ("wavefabric.acoustics.solver/split_density.cu", "wavefabric.acoustics.solver/points.cu")

TABLE = kernel_table(
    """
    points fill_operator(array out, doubles kx2, doubles ky2, doubles kz2, int kind, double parameter, double
        scale)
    points fill_absorption(array out, medium speed, medium alpha, double factor, double power)
    points gradient_spectra(array sx, array sy, array sz, array kappa, array dx, array dy, array dz, int axes)
    points divergence_spectra(array sx, array sy, array sz, array kappa, array dx, array dy, array dz, int
        axes)
    items clear(counted array field)
    points scale_spectrum(array spectrum, array operator)
    points apply_window(array spectrum, doubles z_squares, doubles y_squares, doubles x_squares, counted
        doubles table)
    points ring_divergence_spectra(array sx, array sr, array quotient, array kappa, array dx, array dr)
    points translate_spectrum(array spectrum, array factor, int axis, real scale)
    points update_velocity(array u, array gradient, medium density, array pml, int axis, real dt)
    points update_density(array total, layers parts, array gx, array gy, array gz, medium density, real dt,
        int nonlinear, int axes)
    points absorption_terms(array total, array rate, array rho, array gx, array gy, array gz, medium density,
        int axes)
    points update_pressure(array p, array rho, medium speed, medium density, medium ratio, medium tau, real
        eta_factor, array loss, array shift, int nonlinear, int lossy, int disperses)
    points split_density(array total, layers layers, array p, medium speed, real parts)
    items set_points(array field, counted indices index, columns array signal, indices clock, int replace)
    items set_density_points(array total, layers layers, counted indices index, columns array signal, indices
        clock, int replace, real parts)
    items add_delayed(array field, counted indices index, indices delay, counted array signal, indices clock)
    items add_pattern(counted array field, array pattern, array signal, indices clock)
    items mix_patterns(counted array field, array one, array two, array signals, indices clock)
    points add_density_pattern(array total, layers layers, array pattern, array signal, indices clock, real
        parts)
    items sample(array target, array field, shape indices corners, doubles weights, int interpolate)
    elements sample_elements(array target, array field, counted indices bounds, indices points, doubles
        weights)
    items keep_maximum(counted array target, array values)
    items keep_minimum(counted array target, array values)
    items add_squares(counted doubles target, array values)
    items store_row(array rows, counted array values, indices clock, long start, long count)
    packs accumulate_tone(array cosines, array sines, counted array values, doubles weights, indices clock,
        long start)
    blocks field_sums(rows doubles partials, array p, array rho, array ux, array uy, array uz, parameter
        density, parameter along_x, parameter along_y, parameter along_z, optional doubles weights, indices
        box, int axes)
    items add_alternating(counted array sums, array p, indices clock, indices box, long every, long steps)
    blocks square_sums(rows doubles partials, array sums, array p, indices box)
    blocks squared_slopes(rows doubles partials, array field, int nx, int ny, int nz)
    once tick(indices clock)
    """,
    "wavefabric.acoustics.solver",
    "kernels.cu",
    BEFORE,
)
