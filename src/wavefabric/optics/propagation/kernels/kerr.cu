// Kerr operators on one rank, one kernel per operator, and kernels for the phase rates alone; see kerr.py.
//
// Compiled once per field type and tile: REAL, REAL2 (float/float2 or double/double2), LANES (samples per block), WARPS
// (rows of threads; blockDim = (LANES, WARPS)) and ROWS (field rows per thread). A thread keeps one sample of ROWS
// adjacent rows in registers, so that a kernel reads each field once. Sums over a phase group go through shared
// memory: each row of threads adds its part of the group to its own *slot*, and slots are added in row order, so that
// results are reproducible. WITH_ and the name of an operator, WITH_adjoint and WITH_others are 1 for the kernels to
// compile, else 0.

#include "kerr.h"

#ifndef LANES
#define LANES 32
#define WARPS 4
#define ROWS 4
#endif

// Rows, phase groups and their coupling; in device memory, written once by kerr_cuda.py.
struct Layout {
    int rows, groups, slots, rank;
    const int* row_group;        // (rows,) group of each row
    const int* row_slot;        // (rows,) twice the slot of each row, plus one for the first row of a slot
    const int* group_slot;       // (groups + 1,) first slot of each group
    const REAL* dense;          // (groups, groups)
    const REAL* left;           // (groups, rank)
    const REAL* right;          // (rank, groups)
};

extern __shared__ unsigned char shared_bytes[];

__device__ __forceinline__ void product(int out_rows, int in_rows, const REAL* matrix, const REAL* p,
                                        REAL* out)
{
    // Four outputs per thread share each read of p.
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

// out = gamma kappa p; `low`: scratch for `rank` rows. All threads of the block must call this (barriers).
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

// Add v to the slot of a row; only this thread writes there.
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

// Load the rows of this thread into `a`, and write the power of every group to `p`, for the whole block.
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

#if WITH_others
extern "C" __global__ void kerr_phase_rate(const REAL2* A, REAL* rate, long long n, const Layout* layout)
{
    PROLOGUE
    REAL *p = group, *out = group + tall, *low = group + 2 * tall;
    REAL2 a[ROWS];
    load_power(w, A, n, t, live, a, part, p);
    phase_rates(w, p, low, out);
    if (live) FOR_GROUPS(c) rate[c * n + t] = out[AT(c)];
}

extern "C" __global__ void rotate_mean(const REAL2* H, REAL2* A, const REAL* rate0, const REAL* rate1,
                                       double h, long long n, const Layout* layout)
{
    PROLOGUE
    (void)part;
    REAL *re = group, *im = group + tall;
    if (live) FOR_GROUPS(c)
        rotation(REAL(0.5 * h) * (rate0[c * n + t] + rate1[c * n + t]), &re[AT(c)], &im[AT(c)]);
    __syncthreads();
    FOR_ROWS(i, r) {
        const int at = AT(w.row_group[r]);
        A[r * n + t] = turned(H[r * n + t], re[at], im[at]);
    }
}

// most[0] gets the bits of the largest |rate|: bits of non-negative doubles have the same order as the doubles, and those
// of NaN lie above all others.
extern "C" __global__ void max_phase_rate(const REAL2* A, unsigned long long* most, long long n, const Layout* layout)
{
    PROLOGUE
    REAL *p = group, *rate = group + tall, *low = group + 2 * tall;
    REAL2 a[ROWS];
    load_power(w, A, n, t, live, a, part, p);
    phase_rates(w, p, low, rate);
    unsigned long long mine = 0;
    if (live) FOR_GROUPS(c) {
        const double v = fabs((double)rate[AT(c)]);
        const unsigned long long bits = __double_as_longlong(v);
        mine = bits > mine ? bits : mine;
    }
    for (int k = LANES / 2; k > 0; k >>= 1) {
        const unsigned long long other = __shfl_down_sync(__activemask(), mine, k, LANES);
        mine = other > mine ? other : mine;
    }
    if (threadIdx.x == 0) atomicMax(most, mine);
}

// One block adds m numbers in a fixed order.
extern "C" __global__ void reduce_sum(const double* values, double* out, long long m)
{
    __shared__ double sums[256];
    double total = 0;
    for (long long k = threadIdx.x; k < m; k += 256) total += values[k];
    sums[threadIdx.x] = total;
    for (int k = 128; k > 0; k >>= 1) {
        __syncthreads();
        if (threadIdx.x < k) sums[threadIdx.x] += sums[threadIdx.x + k];
    }
    if (threadIdx.x == 0) out[0] = sums[0];
}
#endif

// Run all stages of an operator. `errors`: null, or one double per block for the squared local error (for reduce_sum).
template <class Operator>
__device__ __forceinline__ void kerr(REAL2* A, REAL2* K, double h, double* errors, long long n, const Layout* layout)
{
    PROLOGUE
    REAL *const pw = group, *const rate = group + tall, *const low = group + 2 * tall, *const numbers = group + 3 * tall;
    // RK4IP needs both of its phase rates to update rows: `numbers` keeps the first.
    REAL* const first_rate = Operator::STAGES == 2 ? numbers : rate;
    REAL2 a[ROWS], k[ROWS];
    FOR_ROWS(i, r) {
        a[i] = A[r * n + t];
        if (Operator::READS_K) k[i] = K[r * n + t];
    }
    FOR_ROWS(i, r) {
        const Sums row = Operator::row(a[i], k[i], h);
        const int slot = w.row_slot[r];
        add_to_slot(part, slot, row.yy);
        if (Operator::READS_K) {
            add_to_slot(part + w.slots * LANES, slot, row.xx);
            add_to_slot(part + 2 * w.slots * LANES, slot, row.xy);
        }
    }
    __syncthreads();
    FOR_GROUPS(c) {
        Sums sums = {0, group_sum(w, part, c), 0};
        if (Operator::READS_K) {
            sums.xx = group_sum(w, part + w.slots * LANES, c);
            sums.xy = group_sum(w, part + 2 * w.slots * LANES, c);
        }
        pw[AT(c)] = sums.yy;
        Operator::begin(sums, numbers + AT(c), tall);
    }
    __syncthreads();
#pragma unroll (Operator::STAGES > 2 ? 1 : Operator::STAGES)
    for (int stage = 0; stage < Operator::STAGES; ++stage) {
        const bool last = stage + 1 == Operator::STAGES;
        REAL* const out = last ? rate : first_rate;
        phase_rates(w, pw, low, out);
        if (last) break;
        FOR_GROUPS(c) pw[AT(c)] = Operator::advance(stage, out[AT(c)], pw[AT(c)], numbers + AT(c), tall, h);
        __syncthreads();
    }
    if constexpr (Operator::TURNS) {
        FOR_GROUPS(c) Operator::turn(rate[AT(c)], numbers + AT(c), tall, h, &pw[AT(c)], &low[AT(c)]);
        __syncthreads();
    }
    double total = 0;
    FOR_ROWS(i, r) {
        const int at = AT(w.row_group[r]);
        Row now;
        if constexpr (Operator::TURNS) now.a = turned(a[i], pw[at], low[at]);
        else now = Operator::update(a[i], k[i], rate[at], numbers + at, tall, h);
        if (Operator::WRITES_A) A[r * n + t] = now.a;
        if (Operator::WRITES_K) K[r * n + t] = now.k;
        if (Operator::MEASURES && errors) total += squared_difference(now, h);
    }
    if (!Operator::MEASURES || errors == nullptr) return;
    double* const sums = reinterpret_cast<double*>(shared_bytes);
    __syncthreads();
    sums[threadIdx.y * LANES + threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.y == 0 && threadIdx.x == 0) {
        double all = 0;
        for (int k = 0; k < LANES * WARPS; ++k) all += sums[k];
        errors[blockIdx.x] = 0.01 * h * h * all;
    }
}

#if WITH_rk4ip_last
// Without launch bounds the compiler would use too many registers here for enough resident blocks.
extern "C" __global__ void __launch_bounds__(LANES * WARPS)
kerr_rk4ip_last(REAL2* A, REAL2* K, double h, double* errors, long long n, const Layout* layout);
#endif

#define KERNEL_0(name, Operator)
#define KERNEL_1(name, Operator)                                                                  \
    extern "C" __global__ void                                                                    \
    kerr_##name(REAL2* A, REAL2* K, double h, double* errors, long long n, const Layout* layout)  \
    {                                                                                             \
        kerr<Operator>(A, K, h, errors, n, layout);                                               \
    }
#define KERNEL_OF(chosen, name, Operator) KERNEL_##chosen(name, Operator)
#define KERNEL_IF(chosen, name, Operator) KERNEL_OF(chosen, name, Operator)
#define KERNEL(name, Operator) KERNEL_IF(WITH_##name, name, Operator)
KERR_OPERATORS(KERNEL)

enum Adjoint { DERIVATIVE, ROTATE, PHASE_RATE, TURN };  // ADJOINTS of kerr.py

#if WITH_adjoint
extern "C" __global__ void __launch_bounds__(LANES * WARPS)
kerr_adjoint(const REAL2* A, REAL2* Y, double h, const REAL* factors, REAL* slope, int of, const Layout* transposed,
             long long n, const Layout* layout)
{
    PROLOGUE
    REAL *const in = group, *const rate = group + tall, *const low = group + 2 * tall;
    REAL *const re = group + 3 * tall, *const im = group + 4 * tall;
    REAL2 a[ROWS], y[ROWS];
    load_power(w, A, n, t, live, a, part, in);
    phase_rates(w, in, low, rate);
    FOR_GROUPS(c) rotation(of == ROTATE ? -REAL(h) * factors[c] * rate[AT(c)] : REAL(0), &re[AT(c)], &im[AT(c)]);
    __syncthreads();
    FOR_ROWS(i, r) {
        const int at = AT(w.row_group[r]);
        y[i] = turned(Y[r * n + t], re[at], im[at]);
        add_to_slot(part, w.row_slot[r], cross(a[i], y[i]));
    }
    __syncthreads();
    FOR_GROUPS(c) {
        REAL by_rate = REAL(h) * group_sum(w, part, c);
        if (live && of == PHASE_RATE) by_rate = slope[c * n + t];
        if (live) slope[c * n + t] = of == TURN ? by_rate : by_rate * rate[AT(c)];
        in[AT(c)] = factors[c] * by_rate;
        im[AT(c)] = -REAL(h) * factors[c] * rate[AT(c)];
    }
    if (of == TURN) return;
    __syncthreads();
    phase_rates(*transposed, in, low, re);
    FOR_ROWS(i, r) {
        const int at = AT(w.row_group[r]);
        if (of == DERIVATIVE) y[i] = times_i(y[i], im[at]);
        Y[r * n + t] = with_power(y[i], re[at], a[i]);
    }
}
#endif
