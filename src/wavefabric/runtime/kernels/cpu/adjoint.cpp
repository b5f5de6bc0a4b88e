// Kernels of the adjoint time step on whole arrays. Arrays that are not requested are null pointers.
#include "../adjoint.h"
#include "layers.h"

static void adjoint_losses(Thread t, Grid g, REAL *loss, REAL *shift, const REAL *p, Medium speed, Medium tau, REAL eta_factor,
                           bool disperses) {
    ROWS(t, g) {
        const REAL *c = speed.row(first), *ta = tau.row(first);
        EACH(x, 0, g.nx) {
            const REAL value = ta[x] * c[x] * c[x] * p[first + x];
            loss[first + x] = value;
            if (disperses) shift[first + x] = eta_factor * c[x] * value;
        }
    }
}
EXPORT(adjoint_losses)

static void adjoint_pressure(Thread t, Grid g, REAL *total, Layers layers, REAL *rate, const REAL *p, const REAL *rho, Medium speed,
                             Medium density, Medium ratio, Medium tau, const REAL *loss, const REAL *shift, bool nonlinear,
                             bool lossy, bool stokes, bool disperses) {
    constexpr Index MOST = 256;  // points at a time, so that they stay in the L1 cache
    ROWS(t, g) {
        const REAL *c = speed.row(first), *rho0 = density.row(first), *b = ratio.row(first), *ta = tau.row(first);
        REAL more[MOST];
        for (Index begin = 0; begin < g.nx; begin += MOST) {
            const Index count = g.nx - begin < MOST ? g.nx - begin : MOST;
            EACH(k, 0, count) {
                const Index x = begin + k, i = first + x;
                REAL out = 0;
                more[k] = transposed_pressure(c[x] * c[x] * p[i], nonlinear ? rho[i] : (REAL)0, rho0[x], nonlinear ? b[x] : (REAL)0,
                                              stokes ? ta[x] : (REAL)0, lossy && !stokes ? loss[i] : (REAL)0,
                                              disperses ? shift[i] : (REAL)0, nonlinear, lossy, stokes, disperses, out);
                if (lossy) rate[i] = out;
            }
            for (Index k = 0; k < count; ++k) put_density(layers, total + first, more[k], false, 1, z, y, begin + k);
        }
    }
}
EXPORT(adjoint_pressure)

// The parts of another density, in the same layout as those of `Layers`.
struct PartsOf {
    const REAL *x, *y, *z;
};
template <> struct Take<PartsOf> {
    static constexpr int words = 3;
    static PartsOf from(const Word *w) { return {(REAL *)w[0].pointer, (REAL *)w[1].pointer, (REAL *)w[2].pointer}; }
};

// The parts of all three densities in one stretch of a row: point x of the row is at [x] of each pointer whose layers it lies in.
struct StretchParts {
    REAL *bar_x, *bar_y, *bar_z;
    const REAL *before_x, *before_y, *before_z, *after_x, *after_y, *after_z;
};

template <class Work> FN void with_parts(const Layers &s, PartsOf before, PartsOf after, Index z, Index y, Work work) {
    const int in_y = s.at_y[y], in_z = s.at_z[z];
    const Index oy = in_y >= 0 ? s.row_y(z, in_y) - s.y : 0, oz = in_z >= 0 ? s.row_z(in_z, y) - s.z : 0;
    stretches(s, [&](Index begin, Index end, int place) {
        const Index ox = s.row_x(z, y) - s.x + place - begin;
        const StretchParts parts = {s.x + ox, s.y + oy, s.z + oz, before.x + ox, before.y + oy,
                                    before.z + oz, after.x + ox, after.y + oy, after.z + oz};
        work(begin, end, parts, place >= 0, in_y >= 0, in_z >= 0);
    });
}

FN Parts at(const REAL *x_parts, const REAL *y_parts, const REAL *z_parts, Index x, bool in_x, bool in_y, bool in_z) {
    return {in_x ? x_parts[x] : (REAL)0, in_y ? y_parts[x] : (REAL)0, in_z ? z_parts[x] : (REAL)0};
}

static void adjoint_density(Thread t, Grid g, REAL *total, Layers layers, REAL *gx, REAL *gy, REAL *gz, Medium density,
                            REAL *density_gradient, const REAL *before, PartsOf parts_before, const REAL *after, PartsOf parts_after,
                            REAL dt, bool nonlinear, bool lossy, bool differs, int axes) {
    ROWS(t, g) {
        const REAL *rho0 = density.row(first), f_y = layers.pml_y[y], f_z = layers.at_z[z] >= 0 ? layers.pml_z[z] : (REAL)1;
        with_parts(layers, parts_before, parts_after, z, y,
                   [&](Index begin, Index end, const StretchParts &s, bool in_x, bool in_y, bool in_z) {
            EACH(x, begin, end) {
                const Index i = first + x;
                const Parts f = {in_x ? layers.pml_x[x] : (REAL)1, in_y ? f_y : (REAL)1, in_z ? f_z : (REAL)1};
                Parts parts = at(s.bar_x, s.bar_y, s.bar_z, x, in_x, in_y, in_z);
                const Change change = {nonlinear || differs ? before[i] : (REAL)0, differs ? after[i] : (REAL)0,
                                       differs ? at(s.before_x, s.before_y, s.before_z, x, in_x, in_y, in_z) : Parts{0, 0, 0},
                                       differs ? at(s.after_x, s.after_y, s.after_z, x, in_x, in_y, in_z) : Parts{0, 0, 0}};
                REAL bar = total[i], density_bar = 0;
                const Parts flows = transposed(bar, parts, f, in_x, in_y, in_z, lossy ? gx[i] : (REAL)0, rho0[x], change, dt,
                                               nonlinear, differs, density_bar);
                gx[i] = flows.x;
                if (axes > 1) gy[i] = flows.y;
                if (axes > 2) gz[i] = flows.z;
                total[i] = bar;
                if (density_gradient && differs) density_gradient[i] += density_bar;
                if (in_x) s.bar_x[x] = parts.x;
                if (in_y) s.bar_y[x] = parts.y;
                if (in_z) s.bar_z[x] = parts.z;
            }
        });
    }
}
EXPORT(adjoint_density)

static void adjoint_velocity(Thread t, Grid g, REAL *u, REAL *gradient, Medium density, const REAL *pml, REAL *density_gradient,
                             const REAL *before, const REAL *after, int axis, REAL dt, bool subtracts) {
    ROWS(t, g) {
        const REAL *rho = density.row(first);
        EACH(x, 0, g.nx) {
            const Index i = first + x;
            const REAL f = pml[axis == 0 ? x : axis == 1 ? y : z], bar = subtracts ? u[i] - gradient[i] : u[i];
            if (density_gradient) density_gradient[i] += bar * (f * f * before[i] - after[i]) / rho[x];
            gradient[i] = f * dt / rho[x] * bar;
            u[i] = f * f * bar;
        }
    }
}
EXPORT(adjoint_velocity)

static void medium_gradients(Thread t, Grid g, const REAL *p_bar, REAL *speed_bar, REAL *density_bar, REAL *alpha_bar,
                             REAL *ratio_bar, const REAL *p, const REAL *rho, Medium speed, Medium density, Medium ratio, Medium tau,
                             Medium unit, const REAL *shift, REAL power, REAL eta_factor, bool nonlinear, bool lossy, bool disperses,
                             bool absorbs) {
    ROWS(t, g) {
        const REAL *c = speed.row(first), *rho0 = density.row(first), *b = ratio.row(first), *ta = tau.row(first),
                   *un = unit.row(first);
        EACH(x, 0, g.nx) {
            const Index i = first + x;
            const StateBars bars = state_bars(p_bar[i], p[i], rho[i], c[x], nonlinear ? rho0[x] : (REAL)1,
                                              nonlinear ? b[x] : (REAL)0, disperses ? ta[x] : (REAL)0, alpha_bar ? un[x] : (REAL)1,
                                              disperses ? shift[i] : (REAL)0, power, eta_factor, nonlinear, lossy, disperses, absorbs);
            if (speed_bar) speed_bar[i] += bars.speed;
            if (alpha_bar) alpha_bar[i] += bars.alpha;
            if (nonlinear && ratio_bar) ratio_bar[i] += bars.ratio;
            if (nonlinear && density_bar) density_bar[i] += bars.density;
        }
    }
}
EXPORT(medium_gradients)

static void forward_rate(Thread t, Grid g, REAL *rate, Layers layers, const REAL *rate_bar, Medium density, REAL *density_gradient,
                         const REAL *before, PartsOf parts_before, const REAL *after, PartsOf parts_after, REAL dt, bool nonlinear) {
    ROWS(t, g) {
        const REAL *rho0 = density.row(first), f_y = layers.pml_y[y], f_z = layers.at_z[z] >= 0 ? layers.pml_z[z] : (REAL)1;
        with_parts(layers, parts_before, parts_after, z, y,
                   [&](Index begin, Index end, const StretchParts &s, bool in_x, bool in_y, bool in_z) {
            EACH(x, begin, end) {
                const Index i = first + x;
                REAL sum = before[i] - after[i];
                if (in_x) sum += undamped(layers.pml_x[x], s.before_x[x], s.after_x[x]);
                if (in_y) sum += undamped(f_y, s.before_y[x], s.after_y[x]);
                if (in_z) sum += undamped(f_z, s.before_z[x], s.after_z[x]);
                const REAL divergence = sum / mass_of(before[i], rho0[x], dt, nonlinear);
                rate[i] = rho0[x] * divergence;
                if (density_gradient) density_gradient[i] += rate_bar[i] * divergence / rho0[x];
            }
        });
    }
}
EXPORT(forward_rate)

static void alpha_gradient(Thread t, Grid g, REAL *gradient, const REAL *p_bar, Medium speed, Medium unit_tau, const REAL *loss) {
    ROWS(t, g) {
        const REAL *c = speed.row(first), *unit = unit_tau.row(first);
        EACH(x, 0, g.nx) gradient[first + x] += p_bar[first + x] * c[x] * c[x] * unit[x] * loss[first + x];
    }
}
EXPORT(alpha_gradient)

static void density_sum(Thread t, Grid g, REAL *out, const REAL *total, Layers layers, REAL parts) {
    ROWS(t, g) with_parts(layers, {layers.x, layers.y, layers.z}, {layers.x, layers.y, layers.z}, z, y,
                          [&](Index begin, Index end, const StretchParts &s, bool in_x, bool in_y, bool in_z) {
        EACH(x, begin, end) {
            const REAL bar = total[first + x];
            REAL sum = parts * bar;
            if (in_x) sum += s.bar_x[x] - bar;
            if (in_y) sum += s.bar_y[x] - bar;
            if (in_z) sum += s.bar_z[x] - bar;
            out[first + x] = sum;
        }
    });
}
EXPORT(density_sum)

// field[index[i]] += the weighted sum of values[columns[j]], j from bounds[i] to bounds[i + 1] - 1.
static void add_readings(Thread t, REAL *field, Counted<const Index> index, const Index *bounds, const Index *columns,
                         const double *weights, const REAL *rows, Index count, Index samples, const Index *clock) {
    const REAL *values = rows + *clock % count * samples;
    for (Index i = t.first(index.count); i < t.last(index.count); ++i) {
        double sum = 0;
        for (Index j = bounds[i]; j < bounds[i + 1]; ++j) sum += weights[j] * (double)values[columns[j]];
        field[index[i]] += (REAL)sum;
    }
}
EXPORT(add_readings)

static void accumulate_products(Thread t, REAL *sums, const REAL *field, Counted<const Index> index, const REAL *signal, Index rows,
                                Index columns, Counted<const Index> start, Counted<const REAL> weights) {
    for (Index i = t.first(index.count); i < t.last(index.count); ++i) {
        const Index step = start[start.count > 1 ? i : 0];
        if (step < rows)
            sums[i] += field[index[i]] * signal[step * columns + (columns > 1 ? i : 0)] * weights[weights.count > 1 ? i : 0];
    }
}
EXPORT(accumulate_products)
