// What kernels of one rank's Kerr operators read, and sums over phase groups, for kerr.cu and kerr_adjoint.cu, which it goes
// before.
//
// After kerr_formulas.cu. Compiled once per field type and tile: REAL, REAL2 (float/float2 or double/double2),
// LANES (samples a block), WARPS (rows of threads; blockDim = (LANES, WARPS)) and ROWS (field rows a thread). A
// thread owns one sample of ROWS adjacent rows and keeps them in registers, so that a kernel reads
// each field once. Sums over a phase group go through shared memory: each row of threads adds its part of
// the group into a *slot* of its own, and slots are added in row order, so that answers are the same
// every time.

#ifndef LANES
#define LANES 32
#define WARPS 4
#define ROWS 4
#endif

// Lies in device memory, written once by kerr_cuda.py.
struct Layout {
    int rows, groups, slots, rank;
    const int* row_group;        // (rows,) group of each row
    const int* row_slot;        // (rows,) slot of each row, times two, plus one for its first row
    const int* group_slot;       // (groups + 1,) first slot of each group
    const REAL* dense;          // (groups, groups)
    const REAL* left;           // (groups, rank)
    const REAL* right;          // (rank, groups)
};

extern __shared__ unsigned char shared_bytes[];

__device__ __forceinline__ void product(int out_rows, int in_rows, const REAL* matrix, const REAL* p,
                                        REAL* out)
{
    // Four outputs a thread share one read of p.
    for (int c = threadIdx.y; c < out_rows; c += 4 * WARPS) {
        REAL acc0 = 0, acc1 = 0, acc2 = 0, acc3 = 0;
        const int c1 = min(c + WARPS, out_rows - 1);
        const int c2 = min(c + 2 * WARPS, out_rows - 1);
        const int c3 = min(c + 3 * WARPS, out_rows - 1);
        for (int d = 0; d < in_rows; ++d) {
            const REAL v = p[d * LANES + threadIdx.x];
            acc0 += matrix[c * in_rows + d] * v;
            acc1 += matrix[c1 * in_rows + d] * v;
            acc2 += matrix[c2 * in_rows + d] * v;
            acc3 += matrix[c3 * in_rows + d] * v;
        }
        out[c * LANES + threadIdx.x] = acc0;
        if (c + WARPS < out_rows) out[c1 * LANES + threadIdx.x] = acc1;
        if (c + 2 * WARPS < out_rows) out[c2 * LANES + threadIdx.x] = acc2;
        if (c + 3 * WARPS < out_rows) out[c3 * LANES + threadIdx.x] = acc3;
    }
}

// out = gamma kappa p; low is scratch of the rank. All threads of the block enter and leave together.
__device__ __forceinline__ void phase_rates(const Layout& w, const REAL* p, REAL* low, REAL* out)
{
    if (w.rank == 0) {
        product(w.groups, w.groups, w.dense, p, out);
    } else {
        product(w.rank, w.groups, w.right, p, low);
        __syncthreads();
        product(w.groups, w.rank, w.left, low, out);
    }
    __syncthreads();
}

// Adds v into the slot of a row; only this thread writes there.
__device__ __forceinline__ void add_to_slot(REAL* part, int slot, REAL v)
{
    REAL* at = part + (slot >> 1) * LANES + threadIdx.x;
    *at = (slot & 1) ? v : *at + v;
}

// The sum of a group's slots, in row order.
__device__ __forceinline__ REAL group_sum(const Layout& w, const REAL* part, int c)
{
    REAL total = 0;
    for (int s = w.group_slot[c]; s < w.group_slot[c + 1]; ++s) total += part[s * LANES + threadIdx.x];
    return total;
}

#define FOR_ROWS(i, r) _Pragma("unroll") for (int i = 0, r = threadIdx.y * ROWS; i < ROWS; ++i, ++r) if (live && r < w.rows)
#define FOR_GROUPS(c) for (int c = threadIdx.y; c < w.groups; c += WARPS)
#define AT(c) ((c) * LANES + threadIdx.x)

// Loads the rows of this thread and leaves the power of every group in p (block-wide).
__device__ __forceinline__ void load_power(const Layout& w, const REAL2* A, long long n, long long t,
                                           bool live, REAL2* a, REAL* part, REAL* p)
{
    FOR_ROWS(i, r) a[i] = A[r * n + t];
    FOR_ROWS(i, r) add_to_slot(part, w.row_slot[r], power(a[i]));
    __syncthreads();
    FOR_GROUPS(c) p[AT(c)] = group_sum(w, part, c);
    __syncthreads();
}

#define PROLOGUE                                                        \
    const Layout w = *layout;                                           \
    const long long t = (long long)blockIdx.x * LANES + threadIdx.x;    \
    const bool live = t < n;                                            \
    const int tall = max(max(w.groups, w.rank), 1) * LANES;              \
    REAL* const part = reinterpret_cast<REAL*>(shared_bytes);           \
    REAL* const group = part + 3 * w.slots * LANES;
