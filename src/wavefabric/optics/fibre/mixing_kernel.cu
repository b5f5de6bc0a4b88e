// A unitary applied to some rows of a field, in place: one read and one write of the field. REAL: of its complex type.
// A block holds a tile of TILE samples of all n rows in shared memory; a thread adds up ROWS rows of its sample, in double.

#define TILE 32
#define LANES 8
#define ROWS 4

struct Complex {
    REAL x, y;
};

extern __shared__ char mixing_memory[];

// field + start * samples: n rows; matrix (n, n) in double. grid = (ceiling(samples / TILE),), block = (TILE, LANES).
extern "C" __global__ void __launch_bounds__(TILE * LANES)
mix_rows(Complex *field, const double2 *__restrict__ matrix, int n, long long samples)
{
    Complex *const tile = (Complex *)mixing_memory;
    const int column = threadIdx.x, lane = threadIdx.y;
    const long long sample = (long long)blockIdx.x * TILE + column;
    const bool here = sample < samples;
    for (int k = lane; k < n; k += LANES)
        if (here) tile[k * TILE + column] = field[k * samples + sample];
    __syncthreads();
    if (!here) return;
    for (int first = lane * ROWS; first < n; first += LANES * ROWS) {
        double re[ROWS] = {0}, im[ROWS] = {0};
        for (int k = 0; k < n; ++k) {
            const double x = tile[k * TILE + column].x, y = tile[k * TILE + column].y;
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                const double2 u = matrix[min(first + r, n - 1) * n + k];
                re[r] = fma(u.x, x, fma(-u.y, y, re[r]));
                im[r] = fma(u.x, y, fma(u.y, x, im[r]));
            }
        }
#pragma unroll
        for (int r = 0; r < ROWS; ++r)
            if (first + r < n) field[(first + r) * samples + sample] = {(REAL)re[r], (REAL)im[r]};
    }
}
