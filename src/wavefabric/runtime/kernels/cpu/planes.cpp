// Passes (kernels) of the ultrasound time step that include its transforms: each reads and writes every array once.
//
// A grid is (nz, ny, nx). In two dimensions ny is 1 and z is the second axis, in one nz is 1 as well. A pass over planes transforms rows
// along x and columns along y (if there are any), with the pointwise work on rows in between; a pass over columns transforms along z.
// Between passes spectra are transformed along x and y.
#include "layers.h"
#include "lines.h"

// One source in the time step that the clock counts: adds a pattern times its signal; or adds or sets values of the signal at points,
// those of row r from first[r] on, at `index` in the row. A signal has one row per step, with one column per point (number `place`) or
// one column for all; or it is one series of `samples` values, of which a point gets number place + step.
struct Source {
    const REAL *pattern;
    const Index *first, *index, *place;
    const REAL *signal;
    Index columns, samples;
    bool replace;
    const Index *clock;
    REAL value(Index i) const {
        const Index step = *clock;
        if (samples) return place[i] + step < samples ? signal[place[i] + step] : (REAL)0;
        return signal[step * columns + (columns > 1 ? place[i] : 0)];
    }
};
template <> struct Take<Source> {
    static constexpr int words = 9;
    static Source from(const Word *w) {
        return {(const REAL *)w[0].pointer, (const Index *)w[1].pointer, (const Index *)w[2].pointer,
                (const Index *)w[3].pointer, (const REAL *)w[4].pointer, w[5].integer, w[6].integer,
                w[7].integer != 0, (const Index *)w[8].pointer};
    }
};

FN void add_source(REAL *field, const Source &s, Index row, Index nx) {
    if (s.pattern) {
        const REAL amplitude = s.signal[*s.clock];
        EACH(x, row * nx, (row + 1) * nx) field[x] += s.pattern[x] * amplitude;
    }
    if (!s.first) return;
    for (Index i = s.first[row]; i < s.first[row + 1]; ++i) {
        REAL &at = field[row * nx + s.index[i]];
        at = s.replace ? s.value(i) : at + s.value(i);
    }
}

FN void add_density_source(const Layers &layers, REAL *rho, const Source &s, REAL parts, Index z, Index y, Index nx, Index ny) {
    const Index row = z * ny + y;
    REAL *total = rho + row * nx;
    if (s.pattern) add_density_row(layers, total, s.pattern + row * nx, s.signal[*s.clock], parts, z, y);
    if (!s.first) return;
    for (Index i = s.first[row]; i < s.first[row + 1]; ++i)
        put_density(layers, total, s.value(i), s.replace, parts, z, y, s.index[i]);
}

// Blocks of rows, each done by one thread: two planes, or BATCH rows if there are no columns along y.
struct Blocks {
    Grid g;
    Index each;  // rows of a block
    Index count() const { return (g.rows() + each - 1) / each; }
    Index planes(Index b) const { return (end(b) - begin(b)) / g.ny; }
    Index begin(Index b) const { return b * each; }
    Index end(Index b) const { return (b + 1) * each < g.rows() ? (b + 1) * each : g.rows(); }
};
FN Blocks blocks_of(Grid g) { return {g, g.ny > 1 ? 2 * g.ny : BATCH}; }

// Call work(first row, rows) for batches of the rows of a block.
template <class Work> FN void batches(Index begin, Index end, Work work) {
    for (Index row = begin; row < end; row += BATCH) work(row, end - row < BATCH ? end - row : BATCH);
}
FN Index work_size(const Transforms &t) { return t.longest() + LANES; }

static void transform_planes(Thread t, const Transforms *tr, const REAL *real, Complex *spectrum) {
    const Grid g = tr->grid;
    const Blocks blocks = blocks_of(g);
    C *work = scratch(work_size(*tr));
    for (Index b = t.first(blocks.count()); b < t.last(blocks.count()); ++b) {
        batches(blocks.begin(b), blocks.end(b), [&](Index row, Index count) {
            rows_forth(*tr->x.plan, real + row * g.nx, count, spectrum + row * tr->pitch, tr->pitch, work);
        });
        if (g.ny > 1) planes_forth(*tr, spectrum + blocks.begin(b) * tr->pitch, blocks.planes(b), work);
    }
}
EXPORT(transform_planes)

// Transform planes of a spectrum back to real planes, with derivatives along x and y; overwrites the spectrum.
static void transform_planes_back(Thread t, const Transforms *tr, REAL *real, Complex *spectrum, int by_x, int by_y) {
    const Grid g = tr->grid;
    const Blocks blocks = blocks_of(g);
    C *work = scratch(work_size(*tr));
    for (Index b = t.first(blocks.count()); b < t.last(blocks.count()); ++b) {
        Complex *plane = spectrum + blocks.begin(b) * tr->pitch;
        if (g.ny > 1) planes_back(*tr, plane, plane, blocks.planes(b), by_y, work);
        batches(blocks.begin(b), blocks.end(b), [&](Index row, Index count) {
            rows_back(*tr->x.plan, spectrum + row * tr->pitch, count, tr->pitch, tr->x.factor(by_x), real + row * g.nx, work);
        });
    }
}
EXPORT(transform_planes_back)

// For each number of the planes' spectra: out = a dx + b dy, sum of the derivatives of two fields; `b` may be null.
static void add_derivatives(Thread t, const Transforms *tr, Complex *out, const Complex *a, const Complex *b) {
    const Grid g = tr->grid;
    ROWS(t, (Grid{g.nz, g.ny, tr->pitch})) {
        const Complex *dx = tr->x.down, dy = b ? tr->y.down[y] : Complex{0, 0};
        for (Index x = 0; x < g.nx / 2 + 1; ++x)
            out[first + x] = b ? a[first + x] * dx[x] + b[first + x] * dy : a[first + x] * dx[x];
    }
}
EXPORT(add_derivatives)

// Loop over chunks of LANES columns along z; if the last chunk has only half of these, that half is done twice.
#define CHUNKS(t, g, tr)                                                                                              \
    for (Index all_ = (g).ny * (tr)->pitch, chunks_ = (all_ + LANES - 1) / LANES, chunk_ = (t).first(chunks_);          \
         chunk_ < (t).last(chunks_); ++chunk_)                                                                        \
        for (Index c = chunk_ * LANES, half = c + HALF < all_ ? HALF : 0, once_ = 1; once_; once_ = 0)

// Load the real factors of the columns of a chunk.
FN V load_operator(const REAL *p, Index half) {
    const V a = load(p);
    return half ? a : shuffle<Repeat>(a, a);
}

// Along z: multiply a spectrum by a real operator, and by the factors of `derivative` if any. With `more`, add the derivative of a second
// spectrum before the operator, which gives the divergence of both.
static void multiply_columns(Thread t, const Transforms *tr, Complex *spectrum, const REAL *factor, int derivative,
                             const Complex *more) {
    const Grid g = tr->grid;
    const Index stride = g.ny * tr->pitch, n = g.nz;
    const Plan &plan = *tr->z.plan;
    C *a = scratch(2 * work_size(*tr)), *b = a + work_size(*tr);
    const Complex *d = tr->z.factor(derivative), *dz = tr->z.down;
    const Index *order = plan.order;
    CHUNKS(t, g, tr) {
        forth(plan, a, Column{spectrum + c, spectrum + c + half, stride});
        if (more) {
            forth(plan, b, Column{(Complex *)more + c, (Complex *)more + c + half, stride});
            for (Index i = 0; i < n; ++i) a[i] = a[i] + b[i] * splat(dz[order[i]]);
        }
        for (Index i = 0; i < n; ++i) {
            const Index at = c + order[i] * stride;
            a[i] = a[i] * load_operator(factor + at, half);
            fetch(factor + at + LANES);
            if (d) a[i] = a[i] * splat(d[order[i]]);
        }
        back(plan, a, ColumnSwapped{spectrum + c, spectrum + c + half, stride, 0});
    }
}
EXPORT(multiply_columns)

// Along z: s0 <- kappa F{p}, from which the derivatives along x and y follow, and s1 <- its derivative along z.
static void gradient_columns(Thread t, const Transforms *tr, Complex *s0, Complex *s1, const REAL *kappa) {
    const Grid g = tr->grid;
    const Index stride = g.ny * tr->pitch, n = g.nz;
    const Plan &plan = *tr->z.plan;
    C *a = scratch(2 * work_size(*tr)), *b = a + work_size(*tr);
    const Complex *dz = tr->z.up;
    const Index *order = plan.order;
    CHUNKS(t, g, tr) {
        forth(plan, a, Column{s0 + c, s0 + c + half, stride});
        for (Index i = 0; i < n; ++i) {
            const Index at = c + order[i] * stride;
            a[i] = a[i] * load_operator(kappa + at, half);
            fetch(kappa + at + LANES);
            if (!s1) continue;
            fetch(s1 + at);
            b[i] = a[i] * splat(dz[order[i]]);
        }
        back(plan, a, ColumnSwapped{s0 + c, s0 + c + half, stride, 0});
        if (s1) back(plan, b, ColumnSwapped{s1 + c, s1 + c + half, stride, 0});
    }
}
EXPORT(gradient_columns)

// One component of the velocity: field, density at its points, factors of the layers along its axis, source, and the spectrum that
// receives its transform.
struct Component {
    REAL *u;
    Medium density;
    const REAL *pml;
    Source source;
    Complex *spectrum;
};
template <> struct Take<Component> {
    static constexpr int words = 4 + Take<Source>::words + 1;
    static Component from(const Word *w) {
        return {(REAL *)w[0].pointer, Take<Medium>::from(w + 1), (const REAL *)w[3].pointer, Take<Source>::from(w + 4),
                (Complex *)w[4 + Take<Source>::words].pointer};
    }
};

// Pass over planes: compute dp, u <- pml (pml u - dt/rho0 dp), add sources, and compute the planes' spectra of the new u. Input: kappa F{p}
// (s0) and its derivative along z (s1). The component along x has a second source, `delayed`, which is added last.
static void velocity_planes(Thread t, const Transforms *tr, Complex *s0, Complex *s1, REAL dt, Component ux, Component uy,
                            Component uz, Source delayed) {
    const Grid g = tr->grid;
    const Blocks blocks = blocks_of(g);
    const Index pitch = tr->pitch, nx = g.nx, plane_vectors = blocks.each * pitch / LANES, row_vectors = (BATCH * nx + LANES - 1) / LANES;
    C *plane_memory = scratch(work_size(*tr) + plane_vectors + row_vectors), *row_memory = plane_memory + plane_vectors;
    C *work = row_memory + row_vectors;
    Complex *plane = (Complex *)plane_memory;
    REAL *slopes = (REAL *)row_memory;

    const auto update = [&](const Component &u, int axis, const Complex *gradient, Index origin, Index row, Index count) {
        const Complex *factor = axis == 0 ? tr->x.up : 0;
        rows_back(*tr->x.plan, gradient + (row - origin) * pitch, count, pitch, factor, slopes, work);
        for (Index r = row; r < row + count; ++r) {
            REAL *__restrict__ field = u.u + r * nx;
            const REAL *__restrict__ slope = slopes + (r - row) * nx, *__restrict__ rho = u.density.row(r * nx);
            if (axis == 0) {
                const REAL *__restrict__ pml = u.pml;
                EACH(x, 0, nx) field[x] = velocity(field[x], slope[x], rho[x], pml[x], dt);
            } else {
                const REAL f = u.pml[axis == 1 ? r % g.ny : r / g.ny];
                EACH(x, 0, nx) field[x] = velocity(field[x], slope[x], rho[x], f, dt);
            }
            add_source(u.u, u.source, r, nx);
            if (axis == 0) add_source(u.u, delayed, r, nx);
        }
        rows_forth(*tr->x.plan, u.u + row * nx, count, u.spectrum + row * pitch, pitch, work);
    };
    for (Index b = t.first(blocks.count()); b < t.last(blocks.count()); ++b) {
        const Index begin = blocks.begin(b), end = blocks.end(b);
        const Index at = begin * pitch, planes = blocks.planes(b);
        const bool second = g.ny > 1;
        if (uz.u) {
            if (second) planes_back(*tr, s1 + at, s1 + at, planes, NONE, work);
            batches(begin, end, [&](Index row, Index count) { update(uz, 2, s1, 0, row, count); });
            if (second) planes_forth(*tr, uz.spectrum + at, planes, work);
        }
        if (second) {
            planes_back(*tr, s0 + at, plane, planes, NONE, work);
            planes_back(*tr, s0 + at, s0 + at, planes, UP, work);
            batches(begin, end, [&](Index row, Index count) {
                update(ux, 0, plane, begin, row, count);
                update(uy, 1, s0, 0, row, count);
            });
            planes_forth(*tr, ux.spectrum + at, planes, work);
            planes_forth(*tr, uy.spectrum + at, planes, work);
        } else {
            batches(begin, end, [&](Index row, Index count) { update(ux, 0, s0, 0, row, count); });
        }
    }
}
EXPORT(velocity_planes)

// The medium of the equation of state.
struct State {
    Medium speed, density, ratio, tau;
    REAL eta_factor;
    MediumRow row(Index first) const { return {speed.row(first), density.row(first), ratio.row(first), tau.row(first), eta_factor}; }
};
template <> struct Take<State> {
    static constexpr int words = 9;
    static State from(const Word *w) {
        return {Take<Medium>::from(w), Take<Medium>::from(w + 2), Take<Medium>::from(w + 4), Take<Medium>::from(w + 6), (REAL)w[8].number};
    }
};

enum Losses { LOSSLESS, STOKES, POWER_LAW };

// Pass over planes: du from spectra of u along each axis, the density's step and source, and then in the same rows the pressure by the
// equation of state and its planes' spectrum (s0); for power-law absorption, instead, the planes' spectra of rho0 div u (s0) and of rho
// (s1, unless null). The spectrum `in_z` already includes the derivative along z; spectra of missing axes are null.
static void density_planes(Thread t, const Transforms *tr, REAL *rho, const Complex *in_x, Complex *in_y, const Complex *in_z,
                           Layers layers, REAL *p, State medium, REAL dt, Source source, REAL parts, bool nonlinear, int losses,
                           Complex *s0, Complex *s1) {
    const Grid g = tr->grid;
    const Blocks blocks = blocks_of(g);
    const Index pitch = tr->pitch, nx = g.nx, row_vectors = (BATCH * nx + LANES - 1) / LANES;
    C *memory = scratch(work_size(*tr) + 3 * row_vectors), *work = memory + 3 * row_vectors;
    REAL *gx = (REAL *)memory, *gy = (REAL *)(memory + row_vectors), *gz = (REAL *)(memory + 2 * row_vectors);
    const Plan &plan = *tr->x.plan;
    for (Index b = t.first(blocks.count()); b < t.last(blocks.count()); ++b) {
        const Index begin = blocks.begin(b), end = blocks.end(b), at = begin * pitch, planes = blocks.planes(b);
        if (in_y) {
            planes_back(*tr, in_y + at, in_y + at, planes, DOWN, work);
            planes_back(*tr, in_x + at, (Complex *)in_x + at, planes, NONE, work);
            if (in_z) planes_back(*tr, in_z + at, (Complex *)in_z + at, planes, NONE, work);
        }
        batches(begin, end, [&](Index row, Index count) {
            rows_back(plan, in_x + row * pitch, count, pitch, tr->x.down, gx, work);
            if (in_y) rows_back(plan, in_y + row * pitch, count, pitch, 0, gy, work);
            if (in_z) rows_back(plan, in_z + row * pitch, count, pitch, 0, gz, work);
            for (Index r = row; r < row + count; ++r) {
                const Index first = r * nx, z = r / g.ny, y = r % g.ny, from = (r - row) * nx;
                const REAL *density = medium.density.row(first);
                const DensityRow line = {rho + first, gx + from, gy + from, gz + from, density, dt, in_y != 0, in_z != 0};
                if (nonlinear) advance_row<true>(layers, line, z, y);
                else advance_row<false>(layers, line, z, y);
                add_density_source(layers, rho, source, parts, z, y, nx, g.ny);
                if (losses != LOSSLESS) {
                    const REAL *a = gx + from, *b = gy + from, *c = gz + from;
                    REAL *rate = gx + from;
                    if (in_y && in_z) EACH(x, 0, nx) rate[x] = density[x] * (a[x] + b[x] + c[x]);
                    else if (in_z) EACH(x, 0, nx) rate[x] = density[x] * (a[x] + c[x]);
                    else EACH(x, 0, nx) rate[x] = density[x] * a[x];
                }
                if (losses != POWER_LAW)
                    pressure_row(p + first, rho + first, medium.row(first), gx + from, gx + from, nx, nonlinear, losses == STOKES, false);
            }
            const REAL *out = losses == POWER_LAW ? gx : p + row * nx;
            rows_forth(plan, out, count, s0 + row * pitch, pitch, work);
            if (s1) rows_forth(plan, rho + row * nx, count, s1 + row * pitch, pitch, work);
        });
        if (g.ny > 1) {
            planes_forth(*tr, s0 + at, planes, work);
            if (s1) planes_forth(*tr, s1 + at, planes, work);
        }
    }
}
EXPORT(density_planes)

// Pass over planes, from spectra of L1 (s0) and L2 (s1, unless null): p = c0^2 (rho + B/A rho^2/(2 rho0) + tau L1 - eta L2), and its
// planes' spectrum in s0.
static void pressure_planes(Thread t, const Transforms *tr, REAL *p, Complex *s0, Complex *s1, const REAL *rho, State medium,
                            bool nonlinear) {
    const Grid g = tr->grid;
    const Blocks blocks = blocks_of(g);
    const Index pitch = tr->pitch, nx = g.nx, row_vectors = (BATCH * nx + LANES - 1) / LANES;
    C *memory = scratch(work_size(*tr) + 2 * row_vectors), *work = memory + 2 * row_vectors;
    REAL *loss = (REAL *)memory, *shift = (REAL *)(memory + row_vectors);
    for (Index b = t.first(blocks.count()); b < t.last(blocks.count()); ++b) {
        const Index at = blocks.begin(b) * pitch, planes = blocks.planes(b);
        if (g.ny > 1) {
            planes_back(*tr, s0 + at, s0 + at, planes, NONE, work);
            if (s1) planes_back(*tr, s1 + at, s1 + at, planes, NONE, work);
        }
        batches(blocks.begin(b), blocks.end(b), [&](Index row, Index count) {
            rows_back(*tr->x.plan, s0 + row * pitch, count, pitch, 0, loss, work);
            if (s1) rows_back(*tr->x.plan, s1 + row * pitch, count, pitch, 0, shift, work);
            for (Index r = row; r < row + count; ++r)
                pressure_row(p + r * nx, rho + r * nx, medium.row(r * nx), loss + (r - row) * nx, shift + (r - row) * nx, nx, nonlinear,
                             true, s1 != 0);
            rows_forth(*tr->x.plan, p + row * nx, count, s0 + row * pitch, pitch, work);
        });
        if (g.ny > 1) planes_forth(*tr, s0 + at, planes, work);
    }
}
EXPORT(pressure_planes)
