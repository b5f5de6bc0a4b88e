// Transforms of the lines of a grid: rows along x, which are real, and columns along the other axes. Spectra are C order (nz, ny, pitch),
// of which nx/2 + 1 numbers count; the pitch is a multiple of LANES.
#pragma once

#include <stdlib.h>
#include <string.h>

#include "fft.h"

enum Derivative { NONE, UP, DOWN };  // at points half a step to one or the other side

struct Axis {
    const Plan *plan;
    const Complex *up, *down;
    const Complex *factor(int derivative) const { return derivative == UP ? up : derivative == DOWN ? down : 0; }
};
struct Transforms {
    Axis x, y, z;
    Index pitch;
    Grid grid;
    // Vectors that the transforms of one thread need: the longest series, and what `transform` needs for it.
    Index longest() const {
        Index most = 1;
        const Plan *plans[] = {x.plan, y.plan, z.plan};
        for (const Plan *plan : plans)
            if (plan->inner > most) most = plan->inner;
        return most;
    }
};

// Memory of a thread, which grows and is kept: so many complex vectors.
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

// Rows are transformed in twos: one is the real part, another the imaginary part of a series.
constexpr Index BATCH = 2 * LANES;

// LANES numbers of a row from x on, 0 beyond its end.
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

// The half spectra of up to BATCH rows. Work: a series and what `transform` needs.
static void rows_forth(const Plan &plan, const REAL *rows, Index count, Complex *spectrum, Index pitch, C *work) {
    const Index n = plan.points;
    const Index first = count < LANES ? count : LANES, second = count - first;
    for (Index x = 0; x < n; x += LANES) {
        V a[LANES], b[LANES];
        for (Index i = 0; i < LANES; ++i) {
            a[i] = i < first ? load_part(rows + i * n, x, n) : V{};
            b[i] = i < second ? load_part(rows + (LANES + i) * n, x, n) : V{};
        }
        transpose(a);
        if (second) transpose(b);
        const Index end = n - x < LANES ? n - x : LANES;
        for (Index j = 0; j < end; ++j) work[x + j] = {a[j], b[j]};
    }
    transform(plan, work + n, From{work}, Into{work});
    const REAL half = 0.5;
    for (Index k = 0; k < pitch; k += LANES) {
        V ar[LANES], ai[LANES], br[LANES], bi[LANES];
        for (Index j = 0; j < LANES; ++j) {
            const Index at = k + j;
            C a = {V{}, V{}}, b = a;
            if (2 * at <= n) {
                const C z = work[at], mirrored = conjugate(work[at ? n - at : 0]);
                a = (z + mirrored) * splat(half);
                b = down(z - mirrored) * splat(half);
            }
            ar[j] = a.re, ai[j] = a.im, br[j] = b.re, bi[j] = b.im;
        }
        transpose(ar);
        transpose(ai);
        for (Index i = 0; i < first; ++i) store_complex(spectrum + i * pitch + k, {ar[i], ai[i]});
        if (!second) continue;
        transpose(br);
        transpose(bi);
        for (Index i = 0; i < second; ++i) store_complex(spectrum + (LANES + i) * pitch + k, {br[i], bi[i]});
    }
}

// Up to BATCH rows from their half spectra times a factor, if there is one; unscaled.
static void rows_back(const Plan &plan, const Complex *spectrum, Index count, Index pitch, const Complex *factor, REAL *rows, C *work) {
    const Index n = plan.points;
    const Index first = count < LANES ? count : LANES, second = count - first;
    for (Index k = 0; 2 * k <= n; k += LANES) {
        V ar[LANES], ai[LANES], br[LANES], bi[LANES];
        for (Index i = 0; i < LANES; ++i) {
            const C a = i < first ? load_complex(spectrum + i * pitch + k) : C{V{}, V{}};
            const C b = i < second ? load_complex(spectrum + (LANES + i) * pitch + k) : C{V{}, V{}};
            ar[i] = a.re, ai[i] = a.im, br[i] = b.re, bi[i] = b.im;
        }
        transpose(ar);
        transpose(ai);
        if (second) {
            transpose(br);
            transpose(bi);
        }
        for (Index j = 0; j < LANES && 2 * (k + j) <= n; ++j) {
            const Index at = k + j;
            C a = {ar[j], ai[j]}, b = {br[j], bi[j]};
            if (factor) {
                const C f = splat(factor[at]);
                a = a * f;
                b = b * f;
            }
            if (at == 0 || 2 * at == n) {  // real, as their transforms are
                work[at] = {a.re, b.re};
            } else {
                work[at] = a + up(b);
                work[n - at] = conjugate(a) + up(conjugate(b));
            }
        }
    }
    transform(plan, work + n, FromSwapped{work}, IntoSwapped{work});
    for (Index x = 0; x < n; x += LANES) {
        V a[LANES], b[LANES];
        for (Index j = 0; j < LANES; ++j) {
            const C z = work[x + j < n ? x + j : 0];
            a[j] = z.re, b[j] = z.im;
        }
        transpose(a);
        for (Index i = 0; i < first; ++i) store_part(rows + i * n, x, n, a[i]);
        if (!second) continue;
        transpose(b);
        for (Index i = 0; i < second; ++i) store_part(rows + (LANES + i) * n, x, n, b[i]);
    }
}

// LANES columns of a spectrum, of which neighbouring points are `stride` numbers apart; backward times a factor, if there is one.
struct Column {
    Complex *base;
    Index stride;
    INLINED C operator()(Index i) const { return load_complex(base + i * stride); }
    INLINED void operator()(Index i, C v) const { store_complex(base + i * stride, v); }
};
struct ColumnSwapped {
    Complex *base;
    Index stride;
    const Complex *factor;
    INLINED C operator()(Index i) const {
        const C v = load_complex(base + i * stride);
        return swapped(factor ? v * splat(factor[i]) : v);
    }
    INLINED void operator()(Index i, C v) const { store_complex(base + i * stride, swapped(v)); }
};

// All columns along y of a plane, in place or into another one.
static void plane_forth(const Transforms &t, Complex *plane, C *work) {
    for (Index c = 0; c < t.pitch; c += LANES) transform(*t.y.plan, work, Column{plane + c, t.pitch}, Column{plane + c, t.pitch});
}
static void plane_back(const Transforms &t, const Complex *from, Complex *into, int derivative, C *work) {
    for (Index c = 0; c < t.pitch; c += LANES) {
        const ColumnSwapped in = {(Complex *)from + c, t.pitch, t.y.factor(derivative)};
        transform(*t.y.plan, work, in, ColumnSwapped{into + c, t.pitch, 0});
    }
}
