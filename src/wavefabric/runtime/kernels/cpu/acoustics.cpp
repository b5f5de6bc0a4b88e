// Kernels of the ultrasound time step on whole arrays. Real grids are C order (nz, ny, nx), half spectra (nz, ny, nx/2 + 1).
#include "layers.h"

static void fill_operator(Thread t, Grid g, REAL *out, const double *kx2, const double *ky2, const double *kz2, int kind,
                          double parameter, double scale) {
    ROWS(t, g) for (Index x = 0; x < g.nx; ++x)
        out[first + x] = (REAL)(scale * wavenumber_operator(kx2[x] + ky2[y] + kz2[z], kind, parameter));
}
EXPORT(fill_operator)

static void fill_absorption(Thread t, Grid g, REAL *out, Medium speed, Medium alpha, double factor, double power) {
    ROWS(t, g) {
        const REAL *c = speed.row(first), *a = alpha.row(first);
        for (Index x = 0; x < g.nx; ++x) out[first + x] = (REAL)(factor * (double)a[x] * pow((double)c[x], power));
    }
}
EXPORT(fill_absorption)

static void gradient_spectra(Thread t, Grid g, Complex *sx, Complex *sy, Complex *sz, const REAL *kappa, const Complex *dx,
                             const Complex *dy, const Complex *dz, int axes) {
    ROWS(t, g) {
        EACH(x, 0, g.nx) {
            const Complex p = sx[first + x] * kappa[first + x];
            sx[first + x] = p * dx[x];
            if (axes > 1) sy[first + x] = p * dy[y];
            if (axes > 2) sz[first + x] = p * dz[z];
        }
    }
}
EXPORT(gradient_spectra)

static void divergence_spectra(Thread t, Grid g, Complex *sx, Complex *sy, Complex *sz, const REAL *kappa, const Complex *dx,
                               const Complex *dy, const Complex *dz, int axes) {
    ROWS(t, g) {
        const REAL *k = kappa + first;
        EACH(x, 0, g.nx) sx[first + x] = sx[first + x] * (dx[x] * k[x]);
        if (axes > 1) EACH(x, 0, g.nx) sy[first + x] = sy[first + x] * (dy[y] * k[x]);
        if (axes > 2) EACH(x, 0, g.nx) sz[first + x] = sz[first + x] * (dz[z] * k[x]);
    }
}
EXPORT(divergence_spectra)

static void scale_spectrum(Thread t, Grid g, Complex *spectrum, const REAL *factor) {
    ITEMS(i, t, g.size()) spectrum[i] = spectrum[i] * factor[i];
}
EXPORT(scale_spectrum)

static void apply_window(Thread t, Grid g, Complex *spectrum, const double *z_squares, const double *y_squares,
                         const double *x_squares, Counted<const double> table) {
    ROWS(t, g) for (Index x = 0; x < g.nx; ++x) {
        const double square = z_squares[z] + y_squares[y] + x_squares[x];
        spectrum[first + x] = spectrum[first + x] * (REAL)window_at(square, table.data, table.count);
    }
}
EXPORT(apply_window)

static void ring_divergence_spectra(Thread t, Grid g, Complex *sx, Complex *sr, const Complex *quotient, const REAL *kappa,
                                    const Complex *dx, const Complex *dr) {
    ROWS(t, g) EACH(x, 0, g.nx) {
        const Index i = first + x;
        sx[i] = sx[i] * (dx[x] * kappa[i]);
        sr[i] = (sr[i] * dr[y] + quotient[i]) * kappa[i];
    }
}
EXPORT(ring_divergence_spectra)

static void translate_spectrum(Thread t, Grid g, Complex *spectrum, const Complex *factor, int axis, REAL scale) {
    ROWS(t, g) {
        if (axis == 0) EACH(x, 0, g.nx) spectrum[first + x] = spectrum[first + x] * (factor[x] * scale);
        else {
            const Complex f = factor[axis == 1 ? y : z] * scale;
            EACH(x, 0, g.nx) spectrum[first + x] = spectrum[first + x] * f;
        }
    }
}
EXPORT(translate_spectrum)

static void update_velocity(Thread t, Grid g, REAL *__restrict__ u, const REAL *__restrict__ gradient, Medium density,
                            const REAL *__restrict__ pml, int axis, REAL dt) {
    ROWS(t, g) {
        const REAL *__restrict__ rho = density.row(first);
        if (axis == 0)
            EACH(x, 0, g.nx) u[first + x] = velocity(u[first + x], gradient[first + x], rho[x], pml[x], dt);
        else {
            const REAL f = pml[axis == 1 ? y : z];
            EACH(x, 0, g.nx) u[first + x] = velocity(u[first + x], gradient[first + x], rho[x], f, dt);
        }
    }
}
EXPORT(update_velocity)

static void update_density(Thread t, Grid g, REAL *total, Layers layers, const REAL *gx, const REAL *gy, const REAL *gz,
                           Medium density, REAL dt, bool nonlinear, int axes) {
    ROWS(t, g) {
        const DensityRow row = {total + first, gx + first, gy + first, gz + first, density.row(first), dt, axes > 1, axes > 2};
        if (nonlinear) advance_row<true>(layers, row, z, y);
        else advance_row<false>(layers, row, z, y);
    }
}
EXPORT(update_density)

// Store rho in `total` and rho0 div u in `rate`; these may be the arrays gx and gy.
static void absorption_terms(Thread t, Grid g, REAL *total, REAL *rate, const REAL *rho, const REAL *gx, const REAL *gy,
                             const REAL *gz, Medium density, int axes) {
    ROWS(t, g) {
        const REAL *rho0 = density.row(first);
        EACH(x, first, first + g.nx) {
            const REAL sum = gx[x] + (axes > 1 ? gy[x] : (REAL)0) + (axes > 2 ? gz[x] : (REAL)0);
            total[x] = rho[x];
            rate[x] = rho0[x - first] * sum;
        }
    }
}
EXPORT(absorption_terms)

static void update_pressure(Thread t, Grid g, REAL *p, const REAL *rho, Medium speed, Medium density, Medium ratio, Medium tau,
                            REAL eta_factor, const REAL *loss, const REAL *shift, bool nonlinear, bool lossy, bool disperses) {
    ROWS(t, g) {
        pressure_row(p + first, rho + first, {speed.row(first), density.row(first), ratio.row(first), tau.row(first), eta_factor},
                     loss + first, shift + first, g.nx, nonlinear, lossy, disperses);
    }
}
EXPORT(update_pressure)

// Set the density of an initial pressure: each of its `parts` parts is p/(parts c0^2).
static void split_density(Thread t, Grid g, REAL *total, Layers layers, const REAL *p, Medium speed, REAL parts) {
    ROWS(t, g) {
        const REAL *c = speed.row(first);
        for (Index x = 0; x < g.nx; ++x)
            put_density(layers, total + first, p[first + x] / (parts * c[x] * c[x]), true, parts, z, y, x);
    }
}
EXPORT(split_density)

// --- Sources -------------------------------------------------------------------------------------------

// A signal has one row per time step, with one column per point or one for all; the clock holds the number of the step.
static void set_points(Thread t, REAL *field, Counted<const Index> index, Counted<const REAL> signal, const Index *clock,
                       bool replace) {
    const REAL *row = signal.data + *clock * signal.count;
    for (Index i = t.first(index.count); i < t.last(index.count); ++i) {
        const REAL value = row[signal.count > 1 ? i : 0];
        field[index[i]] = replace ? value : field[index[i]] + value;
    }
}
EXPORT(set_points)

static void set_density_points(Thread t, REAL *total, Layers layers, Counted<const Index> index, Counted<const REAL> signal, const Index *clock, bool replace, REAL parts) {
    const REAL *values = signal.data + *clock * signal.count;
    for (Index i = t.first(index.count); i < t.last(index.count); ++i) {
        const Index row = index[i] / layers.nx, x = index[i] % layers.nx;
        put_density(layers, total + row * layers.nx, values[signal.count > 1 ? i : 0], replace, parts, row / layers.ny,
                    row % layers.ny, x);
    }
}
EXPORT(set_density_points)

static void add_delayed(Thread t, REAL *field, Counted<const Index> index, const Index *delay, Counted<const REAL> signal,
                        const Index *clock) {
    for (Index i = t.first(index.count); i < t.last(index.count); ++i) {
        const Index at = delay[i] + *clock;
        if (at < signal.count) field[index[i]] += signal[at];
    }
}
EXPORT(add_delayed)

static void clear(Thread t, Counted<REAL> field) {
    ITEMS(i, t, field.count) field[i] = 0;
}
EXPORT(clear)

static void add_pattern(Thread t, Counted<REAL> field, const REAL *pattern, const REAL *signal, const Index *clock) {
    const REAL factor = signal[*clock];
    ITEMS(i, t, field.count) field[i] += pattern[i] * factor;
}
EXPORT(add_pattern)

static void mix_patterns(Thread t, Counted<REAL> field, const REAL *one, const REAL *two, const REAL *signals,
                         const Index *clock) {
    const REAL f = signals[2 * *clock], g = signals[2 * *clock + 1];
    ITEMS(i, t, field.count) field[i] = one[i] * f + two[i] * g;
}
EXPORT(mix_patterns)

static void add_density_pattern(Thread t, Grid g, REAL *total, Layers layers, const REAL *pattern, const REAL *signal,
                                const Index *clock, REAL parts) {
    ROWS(t, g) add_density_row(layers, total + first, pattern + first, signal[*clock], parts, z, y);
}
EXPORT(add_density_pattern)

// --- Recording -----------------------------------------------------------------------------------------

// Read the field at points or, with `interpolate`, the weighted sum over the `each` corners of every point.
static void sample(Thread t, REAL *target, const REAL *field, const Index *corners, Index count, Index each,
                   const double *weights, bool interpolate) {
    for (Index i = t.first(count); i < t.last(count); ++i) {
        double value = 0.0;
        for (Index j = i * each; interpolate && j < (i + 1) * each; ++j) value += weights[j] * (double)field[corners[j]];
        target[i] = interpolate ? (REAL)value : field[corners[i * each]];
    }
}
EXPORT(sample)

// For each element e, compute the weighted sum over its points, from bounds[e] to bounds[e + 1] - 1.
static void sample_elements(Thread t, REAL *target, const REAL *field, Counted<const Index> bounds, const Index *points,
                            const double *weights) {
    for (Index e = t.first(bounds.count - 1); e < t.last(bounds.count - 1); ++e) {
        double value = 0.0;
        for (Index i = bounds[e]; i < bounds[e + 1]; ++i) value += weights[i] * (double)field[points[i]];
        target[e] = (REAL)value;
    }
}
EXPORT(sample_elements)

static void keep_maximum(Thread t, Counted<REAL> target, const REAL *values) {
    ITEMS(i, t, target.count) target[i] = target[i] > values[i] ? target[i] : values[i];
}
EXPORT(keep_maximum)

static void keep_minimum(Thread t, Counted<REAL> target, const REAL *values) {
    ITEMS(i, t, target.count) target[i] = target[i] < values[i] ? target[i] : values[i];
}
EXPORT(keep_minimum)

static void add_squares(Thread t, Counted<double> target, const REAL *values) {
    ITEMS(i, t, target.count) target[i] += (double)values[i] * (double)values[i];
}
EXPORT(add_squares)

// Store the values of this time step in their row; steps use the `count` rows in turn.
static void store_row(Thread t, REAL *rows, Counted<const REAL> values, const Index *clock, Index start, Index count) {
    REAL *row = rows + (*clock - start) % count * values.count;
    ITEMS(i, t, values.count) row[i] = values[i];
}
EXPORT(store_row)

static void accumulate_tone(Thread t, REAL *__restrict__ cosines, REAL *__restrict__ sines, Counted<const REAL> values,
                            const double *weights, const Index *clock, Index start) {
    const double *of_step = weights + 2 * (*clock - start);
    const REAL cosine = (REAL)of_step[0], sine = (REAL)of_step[1];
    ITEMS(i, t, values.count) {
        cosines[i] += cosine * values[i];
        sines[i] += sine * values[i];
    }
}
EXPORT(accumulate_tone)

static void tick(Thread t, Index *clock) {
    if (t.number == 0) *clock += 1;
}
EXPORT(tick)
