// Transforms of rows of complex numbers and of the axes of arrays, in place and from natural order to natural order; and products with
// spectra of rows, as the linear propagation of a fibre needs them: each row is transformed, multiplied and transformed back.
//
// A row of n = n1 n2 numbers is a matrix of n1 rows and n2 columns. With j = j1 n2 + j2 and k = k1 + n1 k2 its transform is one over each
// column (j1 -> k1), factors w^(k1 j2), and one over each row of the matrix (j2 -> k2) (Gentleman & Sande 1966,
// doi:10.1145/1464291.1464352). LANES columns, then LANES rows, are transformed together. A length with prime factors above 13 is a
// convolution (Bluestein 1970, doi:10.1109/TAU.1970.1162132) of a longer row, which is multiplied by the transform of its kernel.
#include "lines.h"

// Plan of the transforms of rows of one length, built by `wavefabric.runtime.kernels.series_plan.RowPlan`.
struct RowPlan {
    Index points;           // of a row
    Index across;           // columns of the matrix
    const Plan *down;       // transforms of its columns,
    const Plan *along;      // and of its rows
    const Complex *near;    // w^(k1 l) for l < WIDE, by position of k1 in a transformed column,
    const Complex *far;     // and w^(k1 WIDE q) for each q and position
    const Complex *chirp;   // for a convolution: exp(-i pi j^2/points); and its kernel's transform, ordered by `arrange_factors`
    const REAL *kernel;
    Index inner() const { return down->points * across; }
    Index chunks() const { return (across + LANES - 1) / LANES; }
    Index groups() const { return (down->points + LANES - 1) / LANES; }
    Index longest() const { return down->points > across ? down->points : across; }
};
constexpr Index WIDE = 16;
// Real numbers per factor. In single precision a factor has its rounding residuals too: a table rounded to single would change the
// energy at each frequency the same way in every step.
constexpr Index PARTS = SINGLE ? 4 : 2;

// Load `count` complex numbers, at most LANES; missing lanes are 0.
FN C load_some(const Complex *p, Index count) {
    if (count >= LANES) return load_complex(p, p + HALF);
    Complex some[LANES] = {};
    memcpy(some, p, count * sizeof(Complex));
    return load_complex(some, some + HALF);
}
FN void store_some(Complex *p, Index count, C v) {
    if (count >= LANES) return store_complex(p, p + HALF, v);
    Complex some[LANES];
    store_complex(some, some + HALF, v);
    memcpy(p, some, count * sizeof(Complex));
}
FN Index lanes(Index first, Index end) { return end - first < LANES ? end - first : LANES; }

// The twiddle factors w^(k1 j2) of LANES columns j2, for the k1 at a position.
FN C between(const RowPlan &p, Index place, Index column) {
    const Complex *near = p.near + place * WIDE + column % WIDE;
    return load_complex(near, near + HALF) * splat(p.far[column / WIDE * p.down->points + place]);
}

// Transform up to LANES columns of the matrix, from `column` on, multiply them by the twiddle factors, and store numbers k1 in natural
// order. `columns_back` undoes that.
static void columns_forth(const RowPlan &p, const Complex *from, Complex *into, Index column, C *work) {
    const Plan &plan = *p.down;
    const Index count = lanes(column, p.across), stride = p.across;
    from += column;
    if (count == LANES) {
        forth(plan, work, Column{(Complex *)from, (Complex *)from + HALF, stride});
    } else {
        for (Index i = 0; i < plan.points; ++i) work[i] = load_some(from + i * stride, count);
        forth(plan, work, From{work});
    }
    for (Index i = 0; i < plan.points; ++i)
        store_some(into + column + plan.order[i] * stride, count, work[i] * between(p, i, column));
}
static void columns_back(const RowPlan &p, const Complex *from, Complex *into, Index column, C *work) {
    const Plan &plan = *p.down;
    const Index count = lanes(column, p.across), stride = p.across;
    for (Index i = 0; i < plan.points; ++i)
        work[i] = load_some(from + column + plan.order[i] * stride, count) * conjugate(between(p, i, column));
    into += column;
    if (count == LANES) return back(plan, work, ColumnSwapped{into, into + HALF, stride, 0});
    back(plan, work, IntoSwapped{work});
    for (Index i = 0; i < plan.points; ++i) store_some(into + i * stride, count, work[i]);
}

// Load or store LANES rows of the matrix, one row per lane.
static void load_rows(const RowPlan &p, const Complex *matrix, Index first, C *work) {
    const Index last = lanes(first, p.down->points) - 1, end = 2 * p.across;
    const REAL *rows = (const REAL *)(matrix + first * p.across);
    for (Index x = 0; x < end; x += LANES) {
        V v[LANES];
        if (x + LANES <= end) {
            load_square(rows + x, end, last, v);
        } else {
            for (Index i = 0; i < LANES; ++i) v[i] = load_part(rows + (i < last ? i : last) * end, x, end);
            transpose(v);
        }
#pragma GCC unroll 8
        for (Index i = 0; i < HALF; ++i)
            if (x / 2 + i < p.across) work[x / 2 + i] = {v[2 * i], v[2 * i + 1]};
    }
}
static void store_rows(const RowPlan &p, Complex *matrix, Index first, const C *work) {
    const Index count = lanes(first, p.down->points), end = 2 * p.across;
    REAL *rows = (REAL *)(matrix + first * p.across);
    for (Index x = 0; x < end; x += LANES) {
        V v[LANES];
#pragma GCC unroll 8
        for (Index i = 0; i < HALF; ++i) {
            const C &z = work[x / 2 + i < p.across ? x / 2 + i : 0];
            v[2 * i] = z.re;
            v[2 * i + 1] = z.im;
        }
        transpose(v);
        for (Index i = 0; i < count; ++i) store_part(rows + i * end, x, end, v[i]);
    }
}

// Transform LANES rows of the matrix, multiply them by their factors, and transform them back.
static void multiply_rows(const RowPlan &p, Complex *matrix, Index first, const REAL *factors, C *work) {
    load_rows(p, matrix, first, work);
    forth(*p.along, work, From{work});
    const V *f = (const V *)(factors + first * p.across * PARTS);
    for (Index j = 0; j < p.across; ++j, f += PARTS) {
        const C v = work[j];
        if constexpr (SINGLE) {
            const V re = fma(v.re, f[2], -(v.im * f[3])), im = fma(v.re, f[3], v.im * f[2]);
            work[j] = {fma(v.re, f[0], fma(-v.im, f[1], re)), fma(v.re, f[1], fma(v.im, f[0], im))};
        } else {
            work[j] = v * C{f[0], f[1]};
        }
    }
    back(*p.along, work, IntoSwapped{work});
    store_rows(p, matrix, first, work);
}

// row <- F^-1 (factors F row), unscaled, for a row whose length has no prime factors above 13.
static void multiply_spectrum(const RowPlan &p, Complex *row, const REAL *factors, C *work) {
    for (Index c = 0; c < p.across; c += LANES) columns_forth(p, row, row, c, work);
    for (Index r = 0; r < p.down->points; r += LANES) multiply_rows(p, row, r, factors, work);
    for (Index c = 0; c < p.across; c += LANES) columns_back(p, row, row, c, work);
}

// Transform a row, unscaled; backward with real and imaginary parts exchanged before and after. `matrix`: scratch of `inner` numbers.
static void transform_row(const RowPlan &p, Complex *row, bool backward, Complex *matrix, C *work) {
    const Index n1 = p.down->points;
    if (p.chirp) {
        for (Index i = 0; i < p.points; ++i)
            matrix[i] = (backward ? Complex{row[i].im, row[i].re} : row[i]) * p.chirp[i];
        memset((void *)(matrix + p.points), 0, (p.inner() - p.points) * sizeof(Complex));
        multiply_spectrum(p, matrix, p.kernel, work);
        for (Index i = 0; i < p.points; ++i) {
            const Complex z = matrix[i] * p.chirp[i];
            row[i] = backward ? Complex{z.im, z.re} : z;
        }
    } else if (backward) {
        for (Index k = 0; k < n1; k += LANES) {
            const Index count = lanes(k, n1);
            for (Index i = 0; i < p.across; ++i) work[i] = load_some(row + k + n1 * p.along->order[i], count);
            back(*p.along, work, IntoSwapped{work});
            store_rows(p, matrix, k, work);
        }
        for (Index c = 0; c < p.across; c += LANES) columns_back(p, matrix, row, c, work);
    } else {
        for (Index c = 0; c < p.across; c += LANES) columns_forth(p, row, matrix, c, work);
        for (Index k = 0; k < n1; k += LANES) {
            const Index count = lanes(k, n1);
            load_rows(p, matrix, k, work);
            forth(*p.along, work, From{work});
            for (Index i = 0; i < p.across; ++i) store_some(row + k + n1 * p.along->order[i], count, work[i]);
        }
    }
}

static Index scratch_size(const RowPlan &p) { return p.longest() + LANES + p.inner() / LANES + 2; }

// Transform all rows of a field.
static void transform_rows(Thread t, const RowPlan *p, Complex *field, Index rows, Index n, int backward) {
    C *work = scratch(scratch_size(*p));
    Complex *matrix = (Complex *)(work + p->longest() + LANES);
    for (Index r = t.first(rows); r < t.last(rows); ++r) transform_row(*p, field + r * n, backward != 0, matrix, work);
}
EXPORT(transform_rows)

// Store factors of rows in the order in which `multiply_rows` reads them: for each LANES rows of the matrix and each position along them
// LANES real parts, LANES imaginary parts, and in single precision the residuals of both. For a convolution: in natural order.
static void arrange_factors(Thread t, const RowPlan *p, const double *factors, Index rows, Index reals, REAL *out, Index size) {
    const auto put = [](REAL *at, Index step, const double *factor) {
        for (Index part = 0; part < 2; ++part) {
            at[part * step] = (REAL)factor[part];
            if (SINGLE) at[(part + 2) * step] = (REAL)(factor[part] - (double)(REAL)factor[part]);
        }
    };
    const Index n = reals / 2, n1 = p->down->points, groups = p->groups();
    for (Index item = t.first(rows * groups); item < t.last(rows * groups); ++item) {
        const Index r = item / groups, g = item % groups;
        const double *in = factors + 2 * r * n;
        REAL *at = out + r * size;
        if (p->chirp) {
            for (Index k = g * n / groups; k < (g + 1) * n / groups; ++k) put(at + k * PARTS, 1, in + 2 * k);
            continue;
        }
        at += g * LANES * p->across * PARTS;
        for (Index i = 0; i < p->across; ++i, at += PARTS * LANES)
            for (Index lane = 0; lane < LANES; ++lane) {
                const Index k1 = g * LANES + lane;
                const double none[2] = {0, 0};
                put(at + lane, LANES, k1 < n1 ? in + 2 * (k1 + n1 * p->along->order[i]) : none);
            }
    }
}
EXPORT(arrange_factors)

// Work of one call of multiply_spectra: all or, if threads share rows, one of three parts, with a barrier after each.
enum Part { ALL, COLUMNS_FORTH, ROWS_THERE_AND_BACK, COLUMNS_BACK };

// Each row <- F^-1 (factors F row), unscaled, with the arranged factors of its kind.
static void multiply_spectra(Thread t, const RowPlan *p, Complex *field, Index rows, Index n, const REAL *factors, Index kinds, Index size,
                             const int *kind, int part) {
    C *work = scratch(scratch_size(*p));
    Complex *matrix = (Complex *)(work + p->longest() + LANES);
    const Index items = rows * (part == ALL ? 1 : part == ROWS_THERE_AND_BACK ? p->groups() : p->chunks());
    for (Index item = t.first(items); item < t.last(items); ++item) {
        const Index r = item / (items / rows), at = item % (items / rows) * LANES;
        Complex *row = field + r * n;
        const REAL *of_row = factors + kind[r] * size;
        if (part == COLUMNS_FORTH) columns_forth(*p, row, row, at, work);
        else if (part == ROWS_THERE_AND_BACK) multiply_rows(*p, row, at, of_row, work);
        else if (part == COLUMNS_BACK) columns_back(*p, row, row, at, work);
        else if (!p->chirp) multiply_spectrum(*p, row, of_row, work);
        else {
            transform_row(*p, row, false, matrix, work);
            for (Index k = 0; k < n; ++k) {
                const REAL *f = of_row + k * PARTS;
                const Complex z = row[k] * Complex{f[0], f[1]};
                row[k] = SINGLE ? z + row[k] * Complex{f[2], f[3]} : z;
            }
            transform_row(*p, row, true, matrix, work);
        }
    }
}
EXPORT(multiply_spectra)

// Transform arrays (outer, n, stride) along their middle axis.
static void transform_axis(Thread t, const Plan *plan, Complex *array, Index outer, Index stride, int backward) {
    C *work = scratch(plan->inner + LANES);
    const Index chunks = (stride + LANES - 1) / LANES;
    for (Index item = t.first(outer * chunks); item < t.last(outer * chunks); ++item) {
        const Index column = item % chunks * LANES, count = lanes(column, stride);
        Complex *base = array + item / chunks * plan->points * stride + column;
        if (count == LANES && backward) {
            const ColumnSwapped columns = {base, base + HALF, stride, 0};
            back_in_order(*plan, work, columns, columns);
        } else if (count == LANES) {
            const Column columns = {base, base + HALF, stride};
            forth_in_order(*plan, work, columns, columns);
        } else if (backward) {
            for (Index i = 0; i < plan->points; ++i) work[i] = load_some(base + plan->order[i] * stride, count);
            back(*plan, work, IntoSwapped{work});
            for (Index i = 0; i < plan->points; ++i) store_some(base + i * stride, count, work[i]);
        } else {
            for (Index i = 0; i < plan->points; ++i) work[i] = load_some(base + i * stride, count);
            forth(*plan, work, From{work});
            for (Index i = 0; i < plan->points; ++i) store_some(base + plan->order[i] * stride, count, work[i]);
        }
    }
}
EXPORT(transform_axis)

// Transform rows of real numbers to their half spectra of points/2 + 1 numbers, or back.
static void transform_real_rows(Thread t, const Plan *plan, REAL *real, Complex *spectra, Index rows, int backward) {
    const Index n = plan->points, half = n / 2 + 1, pitch = (half + HALF - 1) / HALF * HALF, batches = (rows + BATCH - 1) / BATCH;
    C *work = scratch(plan->inner + LANES + BATCH * pitch / LANES);
    Complex *padded = (Complex *)(work + plan->inner + LANES);
    for (Index b = t.first(batches); b < t.last(batches); ++b) {
        const Index first = b * BATCH, count = rows - first < BATCH ? rows - first : BATCH;
        Complex *out = spectra + first * half;
        if (backward) {
            for (Index i = 0; i < count; ++i) memcpy(padded + i * pitch, out + i * half, half * sizeof(Complex));
            rows_back(*plan, padded, count, pitch, 0, real + first * n, work);
        } else {
            rows_forth(*plan, real + first * n, count, padded, pitch, work);
            for (Index i = 0; i < count; ++i) memcpy(out + i * half, padded + i * pitch, half * sizeof(Complex));
        }
    }
}
EXPORT(transform_real_rows)
