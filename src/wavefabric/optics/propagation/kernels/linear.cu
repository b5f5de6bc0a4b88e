// Kernels of the linear part of the propagation, and norms; see kerr.py. Compiled once per field type (REAL, REAL2).
#include "linear.h"

extern "C" __global__ void transfer_table(double2* table, const double* coefficients, double domega,
                                          double h, int table_rows, int width, long long n)
{
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const double w = frequency(i, n, domega);
    for (int c = 0; c < table_rows; ++c) {
        const double* k = coefficients + width * c;
        const double size = transfer_size(k, h, n);
        double s, co;
        sincos(transfer_phase(k, width - 1, w, h), &s, &co);
        table[c * n + i] = {size * co, size * s};
    }
}

// One thread per frequency: a factor is read once for successive rows that share it. Four rows are in flight.
extern "C" __global__ void apply_transfer(REAL2* spectrum, const double2* table, const int* table_row,
                                          int rows, long long n)
{
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int held = -1;
    double2 d = {0, 0};
    for (int r = 0; r < rows; r += 4) {
        REAL2 a[4];
#pragma unroll
        for (int k = 0; k < 4; ++k)
            if (r + k < rows) a[k] = spectrum[(r + k) * n + i];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            if (r + k >= rows) break;
            const int c = table_row[r + k];
            if (c != held) {
                held = c;
                d = table[c * n + i];
            }
            apply_factor(a[k].x, a[k].y, d.x, d.y);
            spectrum[(r + k) * n + i] = a[k];
        }
    }
}

// Partial sums of |A - B|^2 (of |A|^2 if B is null), `parts` blocks per row; grid = (parts, rows).
extern "C" __global__ void row_partial(const REAL2* A, const REAL2* B, double* partial, long long n)
{
    __shared__ double sums[256];
    const REAL2* a = A + blockIdx.y * n;
    const REAL2* b = B ? B + blockIdx.y * n : nullptr;
    double total = 0;
    for (long long i = (long long)blockIdx.x * 256 + threadIdx.x; i < n; i += 256LL * gridDim.x) {
        double x = a[i].x, y = a[i].y;
        if (b) {
            x -= b[i].x;
            y -= b[i].y;
        }
        total += x * x + y * y;
    }
    sums[threadIdx.x] = total;
    for (int k = 128; k > 0; k >>= 1) {
        __syncthreads();
        if (threadIdx.x < k) sums[threadIdx.x] += sums[threadIdx.x + k];
    }
    if (threadIdx.x == 0) partial[blockIdx.y * gridDim.x + blockIdx.x] = sums[0];
}
