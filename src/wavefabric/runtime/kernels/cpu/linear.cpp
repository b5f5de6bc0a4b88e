// The linear part of the propagation in a fibre, and norms of its rows; see kerr.py.
#include "../linear.h"
#include "driver.h"

static void transfer_table(Thread thread, double *table, Index rows, Index n, const double *coefficients,
                           Index width, double domega, double h) {
    for (Index c = 0; c < rows; ++c) {
        const double *k = coefficients + width * c, size = transfer_size(k, h, n);
        double *out = table + 2 * c * n;
        for (Index i = thread.first(n); i < thread.last(n); ++i) {
            const double phase = transfer_phase(k, width - 1, frequency(i, n, domega), h);
            out[2 * i] = size * cos(phase);
            out[2 * i + 1] = size * sin(phase);
        }
    }
}
EXPORT(transfer_table)

// Sum of squares of real numbers, as SIDE parallel partial sums, in an order that no compiler changes.
template <int SIDE, class Value> FN double squares(Index n, const Value &value) {
    double sums[SIDE] = {};
    Index i = 0;
    for (; i + SIDE <= n; i += SIDE)
        for (int s = 0; s < SIDE; ++s) {
            const double v = (double)value(i + s);
            sums[s] = fused(v, v, sums[s]);
        }
    for (; i < n; ++i) {
        const double v = (double)value(i);
        sums[0] = fused(v, v, sums[0]);
    }
    for (int step = 1; step < SIDE; step *= 2)
        for (int s = 0; s < SIDE; s += 2 * step) sums[s] += sums[s + step];
    return sums[0];
}

static void row_energy(Thread thread, const REAL *A, Index rows, Index n, double *out) {
    for (Index r = thread.first(rows); r < thread.last(rows); ++r) {
        const REAL *a = A + 2 * n * r;
        out[r] = squares<32>(2 * n, [=](Index i) { return a[i]; });
    }
}
EXPORT(row_energy)

static void row_distance(Thread thread, const REAL *A, Index rows, Index n, const REAL *B, double *out) {
    for (Index r = thread.first(rows); r < thread.last(rows); ++r) {
        const REAL *a = A + 2 * n * r, *b = B + 2 * n * r;
        out[r] = squares<32>(2 * n, [=](Index i) { return a[i] - b[i]; });
    }
}
EXPORT(row_distance)
