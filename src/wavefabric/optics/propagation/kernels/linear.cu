// Linear part and norms for CUDA: same names and formulas as linear.py. Compiled once per field type
// (REAL, REAL2).

#ifndef REAL
#define REAL double
#define REAL2 double2
#endif

extern "C" __global__ void transfer_table(double2* table, const double* coefficients, double domega,
                                          double h, int table_rows, long long n)
{
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const double w = domega * (2 * i < n ? i : i - n);
    for (int c = 0; c < table_rows; ++c) {
        const double* k = coefficients + 5 * c;
        const double phase = h * w * (-k[1] + w * (k[2] / 2 + w * (-k[3] / 6 + w * k[4] / 24)));
        const double size = exp(-0.5 * k[0] * h) / n;
        double s, co;
        sincos(phase, &s, &co);
        table[c * n + i] = {size * co, size * s};
    }
}

// One thread a frequency: a factor is read once for all its rows. Four rows in flight.
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
            const double x = a[k].x, y = a[k].y;
            spectrum[(r + k) * n + i] = {REAL(x * d.x - y * d.y), REAL(x * d.y + y * d.x)};
        }
    }
}

// Partial sums of |A - B|^2 (B null: of |A|^2), `parts` blocks a row; grid = (parts, rows).
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
