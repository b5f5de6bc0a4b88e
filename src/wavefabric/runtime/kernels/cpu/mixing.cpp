// Multiply rows of a field by a unitary matrix in place; see mixing_kernel.py. Samples of all rows are copied to scratch as doubles,
// SIDE samples at a time.
#include "../mixing.h"
#include "driver.h"

constexpr int SIDE = 16;  // samples that are mixed at once

// Compute ROWS neighbouring rows of the product.
template <int ROWS> static void mix(Complex *field, Index samples, const double *matrix, const double *re, const double *im, Index n,
                                    Index row, Index m) {
    double x[ROWS][SIDE] = {}, y[ROWS][SIDE] = {};
    for (Index k = 0; k < n; ++k)
        for (int r = 0; r < ROWS; ++r) {
            const double u = matrix[2 * ((row + r) * n + k)], v = matrix[2 * ((row + r) * n + k) + 1];
            for (int j = 0; j < SIDE; ++j) add_product(x[r][j], y[r][j], u, v, re[k * SIDE + j], im[k * SIDE + j]);
        }
    for (int r = 0; r < ROWS; ++r)
        for (Index j = 0; j < m; ++j) field[(row + r) * samples + j] = {(REAL)x[r][j], (REAL)y[r][j]};
}

// field (n, samples) <- matrix (n, n), complex, times field. scratch: (threads, 2, n, SIDE).
static void mix_rows(Thread thread, Complex *field, Index n, Index samples, const double *matrix, double *scratch) {
    const Index blocks = (samples + SIDE - 1) / SIDE;
    double *re = scratch + thread.number * 2 * n * SIDE, *im = re + n * SIDE;
    for (Index b = thread.first(blocks); b < thread.last(blocks); ++b) {
        const Index left = samples - b * SIDE, m = left < SIDE ? left : SIDE;
        Complex *here = field + b * SIDE;
        for (Index k = 0; k < n; ++k)
            for (Index j = 0; j < SIDE; ++j) {
                const Complex value = j < m ? here[k * samples + j] : Complex{0, 0};
                re[k * SIDE + j] = value.re;
                im[k * SIDE + j] = value.im;
            }
        Index row = 0;
        for (; row + 2 <= n; row += 2) mix<2>(here, samples, matrix, re, im, n, row, m);
        for (; row < n; ++row) mix<1>(here, samples, matrix, re, im, n, row, m);
    }
}
EXPORT(mix_rows)
