// Transforms of the lines of a grid: rows along x, which are real, and columns along the other axes. Spectra are C order (nz, ny, pitch),
// of which nx/2 + 1 numbers count; the pitch is a multiple of HALF.
#pragma once

#include <stdlib.h>
#include <string.h>

#include "fft.h"

enum Derivative { NONE, UP, DOWN };  // at points half a grid step to one side (UP) or to the other (DOWN)

struct Axis {
    const Plan *plan;
    const Complex *up, *down;
    const Complex *factor(int derivative) const { return derivative == UP ? up : derivative == DOWN ? down : 0; }
};
struct Transforms {
    Axis x, y, z;
    Index pitch;
    Grid grid;
    // Scratch vectors that the transforms of one thread need: as many as the longest series has points.
    Index longest() const {
        Index most = 1;
        const Plan *plans[] = {x.plan, y.plan, z.plan};
        for (const Plan *plan : plans)
            if (plan->inner > most) most = plan->inner;
        return most;
    }
};

// Scratch memory of a thread for `vectors` complex vectors; it grows when needed and is reused.
FN C *scratch(Index vectors) {
    static thread_local C *kept = 0;
    static thread_local Index size = 0;
    if (vectors > size) {
#ifdef _WIN32
        _aligned_free(kept);
        kept = (C *)_aligned_malloc(vectors * sizeof(C), 64);
#else
        free(kept);
        void *p = 0;
        if (posix_memalign(&p, 64, vectors * sizeof(C))) abort();
        kept = (C *)p;
#endif
        size = vectors;
    }
    return kept;
}

// Rows are transformed in pairs: one is the real part, the other the imaginary part of a series.
constexpr Index BATCH = 2 * LANES;

// Load LANES numbers of a row from x on, 0 beyond its end.
FN V load_part(const REAL *row, Index x, Index n) {
    if (x + LANES <= n) return load(row + x);
    REAL part[LANES] = {};
    memcpy(part, row + x, (n - x) * sizeof(REAL));
    return load(part);
}
FN void store_part(REAL *row, Index x, Index n, V v) {
    if (x + LANES <= n) return store(row + x, v);
    REAL part[LANES];
    store(part, v);
    memcpy(row + x, part, (n - x) * sizeof(REAL));
}

// Transform up to BATCH rows to their half spectra. `work`: scratch for one series.
static void rows_forth(const Plan &plan, const REAL *rows, Index count, Complex *spectrum, Index pitch, C *work) {
    constexpr int PAIRS = LANES / 2;
    const Index n = plan.points;
    for (int part = 0; part < 2; ++part) {  // of a series: real, imaginary
        const Index first = part * LANES, last = count - 1 - first;
        if (last < 0) {
            for (Index x = 0; x < n; ++x) work[x].im = V{};
            break;
        }
        V v[LANES];
        Index x = 0;
        for (; x + LANES <= n; x += LANES) {
            load_square(rows + first * n + x, n, last, v);
            for (int j = 0; j < LANES; ++j) (part ? work[x + j].im : work[x + j].re) = v[j];
        }
        if (x == n) continue;
        for (Index i = 0; i < LANES; ++i) v[i] = load_part(rows + (first + (i < last ? i : last)) * n, x, n);
        transpose(v);
        for (Index j = 0; x + j < n; ++j) (part ? work[x + j].im : work[x + j].re) = v[j];
    }
    forth(plan, work, From{work});
    const Index *place = plan.place;
    const V half = splat((REAL)0.5);
    for (Index k = 0; k < pitch; k += PAIRS) {
        V a[2][PAIRS], b[2][PAIRS];  // a: complex numbers of the first LANES rows, b: of the others; each vector has half of these rows
#pragma GCC unroll 8
        for (int j = 0; j < PAIRS; ++j) {
            const Index at = k + j;
            C one = {V{}, V{}}, two = one;
            if (2 * at <= n) {
                const C z = work[place[at]], mirrored = conjugate(work[place[at ? n - at : 0]]);
                one = (z + mirrored) * half;
                two = down(z - mirrored) * half;
            }
            a[0][j] = shuffle<Low>(one.re, one.im);
            a[1][j] = shuffle<High>(one.re, one.im);
            b[0][j] = shuffle<Low>(two.re, two.im);
            b[1][j] = shuffle<High>(two.re, two.im);
        }
        for (int part = 0; part < 4; ++part) {
            V *v = part < 2 ? a[part] : b[part - 2];
            const Index first = part * PAIRS;
            if (first >= count) break;
            transpose_pairs(v);
            const Index end = count - first < PAIRS ? count - first : PAIRS;
            for (Index i = 0; i < end; ++i) store((REAL *)(spectrum + (first + i) * pitch + k), v[i]);
        }
    }
}

// Transform half spectra, times a factor unless it is null, back to up to BATCH rows; unscaled.
static void rows_back(const Plan &plan, const Complex *spectrum, Index count, Index pitch, const Complex *factor, REAL *rows, C *work) {
    constexpr int PAIRS = LANES / 2;
    const Index n = plan.points, *place = plan.place;
    for (Index k = 0; 2 * k <= n; k += PAIRS) {
        V v[4][PAIRS];
        for (int part = 0; part < 4; ++part) {
            const Index first = part * PAIRS;
            for (Index i = 0; i < PAIRS; ++i) {
                const Index row = first + i < count ? first + i : count - 1;
                v[part][i] = load((const REAL *)(spectrum + row * pitch + k));
            }
            transpose_pairs(v[part]);
        }
        for (int j = 0; j < PAIRS && 2 * (k + j) <= n; ++j) {
            const Index at = k + j;
            C a = {shuffle<Even>(v[0][j], v[1][j]), shuffle<Odd>(v[0][j], v[1][j])};
            C b = {shuffle<Even>(v[2][j], v[3][j]), shuffle<Odd>(v[2][j], v[3][j])};
            if (factor) {
                const C f = splat(factor[at]);
                a = a * f;
                b = b * f;
            }
            if (at == 0 || 2 * at == n) {  // these numbers are real, as the rows are
                work[place[at]] = {a.re, b.re};
            } else {
                work[place[at]] = a + up(b);
                work[place[n - at]] = conjugate(a) + up(conjugate(b));
            }
        }
    }
    back(plan, work, IntoSwapped{work});
    for (int part = 0; part < 2; ++part) {
        const Index first = part * LANES, end = count - first < LANES ? count - first : LANES;
        for (Index x = 0; x < n && end > 0; x += LANES) {
            V v[LANES];
            for (int j = 0; j < LANES; ++j) {
                const C &z = work[x + j < n ? x + j : 0];
                v[j] = part ? z.im : z.re;
            }
            transpose(v);
            if (x + LANES <= n)
                for (Index i = 0; i < end; ++i) store(rows + (first + i) * n + x, v[i]);
            else
                for (Index i = 0; i < end; ++i) store_part(rows + (first + i) * n, x, n, v[i]);
        }
    }
}

// Prefetch LANES complex numbers, which are read soon, into the L2 cache.
FN void fetch(const void *p) {
    for (int line = 0; line < 2 * VECTOR_BYTES; line += 64) __builtin_prefetch((const char *)p + line, 0, 2);
}

constexpr Index HALF = LANES / 2;

// LANES columns of a spectrum, half of them at `base`, half at `other`; the same address if no more than half are left. Points of a
// column are `stride` numbers apart. `ColumnSwapped`, for backward transforms, multiplies by `factor` unless it is null.
struct Column {
    Complex *base, *other;
    Index stride;
    INLINED C operator()(Index i) const {
        fetch(other + i * stride + HALF);  // prefetch the next columns
        return load_complex(base + i * stride, other + i * stride);
    }
    INLINED void operator()(Index i, C v) const { store_complex(base + i * stride, other + i * stride, v); }
};
struct ColumnSwapped {
    Complex *base, *other;
    Index stride;
    const Complex *factor;
    INLINED C operator()(Index i) const {
        const C v = load_complex(base + i * stride, other + i * stride);
        return swapped(factor ? v * splat(factor[i]) : v);
    }
    INLINED void operator()(Index i, C v) const { store_complex(base + i * stride, other + i * stride, swapped(v)); }
};

// Call work(base, other) for all columns along y of one or two planes. Half vectors left over in both planes go together.
template <class Work> FN void plane_columns(const Transforms &t, Complex *planes, Index count, Work work) {
    const Index whole = t.pitch / LANES * LANES, size = t.grid.ny * t.pitch;
    for (Index z = 0; z < count; ++z)
        for (Index c = 0; c < whole; c += LANES) work(planes + z * size + c, planes + z * size + c + HALF);
    if (whole < t.pitch) work(planes + whole, planes + whole + (count > 1 ? size : 0));
}
static void planes_forth(const Transforms &t, Complex *planes, Index count, C *work) {
    plane_columns(t, planes, count, [&](Complex *base, Complex *other) {
        forth_in_order(*t.y.plan, work, Column{base, other, t.pitch}, Column{base, other, t.pitch});
    });
}
// Transform columns along y back, from planes to other planes or in place.
static void planes_back(const Transforms &t, const Complex *from, Complex *into, Index count, int derivative, C *work) {
    plane_columns(t, (Complex *)from, count, [&](Complex *base, Complex *other) {
        const Index a = base - from, b = other - from;
        back_in_order(*t.y.plan, work, ColumnSwapped{base, other, t.pitch, t.y.factor(derivative)},
                      ColumnSwapped{into + a, into + b, t.pitch, 0});
    });
}
