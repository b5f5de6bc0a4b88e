// Multiply some rows of a field by a unitary matrix in place, with one read and one write of the field. REAL: its real type.
// A block holds blockDim.x samples of all n rows in shared memory; a thread computes ROWS rows of one sample at a time, in double.

#include "mixing.h"

#define ROWS 4
#define MOST_THREADS 256

struct Complex {
    REAL x, y;
};

extern __shared__ char mixing_memory[];

// `field`: the first of n rows of `samples` values; matrix (n, n) in double. grid = (ceiling(samples / blockDim.x),).
extern "C" __global__ void __launch_bounds__(MOST_THREADS)
mix_rows(Complex *field, const double2 *__restrict__ matrix, int n, long long samples)
{
    Complex *const tile = (Complex *)mixing_memory;
    const int column = threadIdx.x, lane = threadIdx.y, lanes = blockDim.y, side = blockDim.x;
    const long long sample = (long long)blockIdx.x * side + column;
    const bool here = sample < samples;
    for (int k = lane; k < n; k += lanes)
        if (here) tile[k * side + column] = field[k * samples + sample];
    __syncthreads();
    if (!here) return;
    for (int first = lane * ROWS; first < n; first += lanes * ROWS) {
        double re[ROWS] = {0}, im[ROWS] = {0};
        for (int k = 0; k < n; ++k) {
            const double x = tile[k * side + column].x, y = tile[k * side + column].y;
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                const double2 u = matrix[min(first + r, n - 1) * n + k];
                add_product(re[r], im[r], u.x, u.y, x, y);
            }
        }
#pragma unroll
        for (int r = 0; r < ROWS; ++r)
            if (first + r < n) field[(first + r) * samples + sample] = {(REAL)re[r], (REAL)im[r]};
    }
}
