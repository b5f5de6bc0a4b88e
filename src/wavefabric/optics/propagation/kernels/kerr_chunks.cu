// Kerr operators split where ranks exchange powers: one kernel per part, for one chunk of samples. Names and argument
// order are those of kerr.py, which explains them.
//
// A field row has n samples; a chunk begins at sample t0 and has m. blockIdx.x and
// threadIdx.x run along the chunk; blockIdx.y counts groups (sums) or rows (updates), so that neighbouring threads
// read neighbouring samples.

#include "kerr.h"

#define SAMPLE                                                       \
    const Index t = (Index)blockIdx.x * blockDim.x + threadIdx.x;    \
    if (t >= m) return;

// --- phase rates and powers of groups ------------------------------------------------------------

// A thread computes OUTPUTS outputs of one sample from one read of the inputs; blockIdx.y counts such tiles.
#define OUTPUTS 16

// Load the block's rows of the matrix into shared memory, (others, OUTPUTS). All threads of the block must call this.
__device__ __forceinline__ REAL* weights_of(const REAL* __restrict__ matrix, int base, int here, int others)
{
    extern __shared__ unsigned char bytes[];
    REAL* const weights = reinterpret_cast<REAL*>(bytes);
    for (int k = threadIdx.x; k < others * OUTPUTS; k += blockDim.x) {
        const int d = k / OUTPUTS, c = k % OUTPUTS;
        weights[k] = c < here ? matrix[(base + c) * others + d] : REAL(0);
    }
    __syncthreads();
    return weights;
}

__device__ __forceinline__ void add_products(REAL* sum, const REAL* weights, const REAL* __restrict__ part,
                                             int others, Index m, Index t)
{
#pragma unroll 4
    for (int d = 0; d < others; ++d) {
        const REAL v = part[d * m + t];
#pragma unroll
        for (int c = 0; c < OUTPUTS; ++c) sum[c] += weights[d * OUTPUTS + c] * v;
    }
}

extern "C" __global__ void couple(REAL* __restrict__ out, const REAL* __restrict__ part,
                                  const REAL* __restrict__ matrix, int first, int own, int others, Index m)
{
    const int base = blockIdx.y * OUTPUTS, here = min(OUTPUTS, own - base);
    const REAL* const weights = weights_of(matrix, base, here, others);
    SAMPLE
    REAL sum[OUTPUTS];
#pragma unroll
    for (int c = 0; c < OUTPUTS; ++c) sum[c] = first || c >= here ? REAL(0) : out[(base + c) * m + t];
    add_products(sum, weights, part, others, m, t);
#pragma unroll
    for (int c = 0; c < OUTPUTS; ++c)
        if (c < here) out[(base + c) * m + t] = sum[c];
}

// --- operators -----------------------------------------------------------------------------------

template <class Operator>
__device__ __forceinline__ void begin(const REAL2* A, const REAL2* K, Index t0, double h, REAL* power, REAL* numbers,
                                      Index stride, Index n, Index m, const int* start)
{
    SAMPLE
    const int c = blockIdx.y, last = start[c + 1];
    Sums sums = {};
#pragma unroll 4
    for (int r = start[c]; r < last; ++r) {
        const REAL2 a = __ldcs(A + r * n + t0 + t);
        sums = sums + Operator::row(a, Operator::READS_K ? __ldcs(K + r * n + t0 + t) : a, h);
    }
    power[c * m + t] = sums.yy;
    Operator::begin(sums, numbers + c * m + t, stride);
}

// Compute rate = matrix @ part, and the power of the next stage from it.
template <class Operator>
__device__ __forceinline__ void couple_advance(int stage, REAL* __restrict__ rate, const REAL* __restrict__ part,
                                               const REAL* __restrict__ matrix, double h, const REAL* __restrict__ power,
                                               REAL* numbers, REAL* __restrict__ next, Index stride, int own, int others,
                                               Index m)
{
    if (Operator::STAGES == 1) return;  // there is no next stage
    const int base = blockIdx.y * OUTPUTS, here = min(OUTPUTS, own - base);
    const REAL* const weights = weights_of(matrix, base, here, others);
    SAMPLE
    REAL sum[OUTPUTS] = {};
    add_products(sum, weights, part, others, m, t);
#pragma unroll
    for (int c = 0; c < OUTPUTS; ++c)
        if (c < here) {
            const Index at = (base + c) * m + t;
            rate[at] = sum[c];
            next[at] = Operator::advance(stage, sum[c], power[at], numbers + at, stride, h);
        }
}

template <class Operator>
__device__ __forceinline__ void update(REAL2* A, REAL2* K, Index t0, const REAL* __restrict__ rate, double h,
                                       const REAL* __restrict__ numbers, double* errors, Index stride, Index n, Index m,
                                       const int* row_group)
{
    const Index t = (Index)blockIdx.x * blockDim.x + threadIdx.x;
    const int r = blockIdx.y;
    double error = 0;
    if (t < m) {
        const Index group = row_group[r] * m + t, at = r * n + t0 + t;
        const REAL2 a = __ldcs(A + at), k = Operator::READS_K ? __ldcs(K + at) : a;
        const Row now = Operator::update(a, k, rate[group], numbers + group, stride, h);
        if (Operator::MEASURES && errors) error = 0.01 * h * h * squared_difference(now, h);
        // Streaming accesses (here and by __ldcs) keep fields from displacing the powers of groups in the L2 cache.
        if (Operator::WRITES_A) __stcs(A + at, now.a);
        if (Operator::WRITES_K) __stcs(K + at, now.k);
    }
    if constexpr (Operator::MEASURES) {
        if (errors == nullptr) return;
        __shared__ double all[256];
        all[threadIdx.x] = error;
        for (int k = 128; k > 0; k >>= 1) {
            __syncthreads();
            if (threadIdx.x < k) all[threadIdx.x] += all[threadIdx.x + k];
        }
        if (threadIdx.x == 0) errors[(Index)blockIdx.y * gridDim.x + blockIdx.x] = all[0];
    }
}

// errors: null, or one double per block for the squared local error.
#define KERNELS_OF(name, Operator)                                                                                       \
    extern "C" __global__ void begin_##name(const REAL2* A, const REAL2* K, Index t0, double h, REAL* power,             \
                                            REAL* numbers, Index stride, Index n, Index m, const int* start)             \
    {                                                                                                                    \
        begin<Operator>(A, K, t0, h, power, numbers, stride, n, m, start);                                               \
    }                                                                                                                    \
    extern "C" __global__ void advance_##name(int stage, const REAL* __restrict__ rate, double h,                        \
                                              const REAL* __restrict__ power, REAL* numbers, REAL* __restrict__ next,    \
                                              Index stride, Index m)                                                     \
    {                                                                                                                    \
        SAMPLE                                                                                                           \
        next[t] = Operator::advance(stage, rate[t], power[t], numbers + t, stride, h);                                   \
    }                                                                                                                    \
    extern "C" __global__ void couple_advance_##name(int stage, REAL* rate, const REAL* part, const REAL* matrix,        \
                                                     double h, const REAL* power, REAL* numbers, REAL* next,             \
                                                     Index stride, int own, int others, Index m)                         \
    {                                                                                                                    \
        couple_advance<Operator>(stage, rate, part, matrix, h, power, numbers, next, stride, own, others, m);            \
    }                                                                                                                    \
    extern "C" __global__ void update_##name(REAL2* A, REAL2* K, Index t0, const REAL* rate, double h,                   \
                                             const REAL* numbers, double* errors, Index stride, Index n, Index m,        \
                                             const int* row_group)                                                       \
    {                                                                                                                    \
        update<Operator>(A, K, t0, rate, h, numbers, errors, stride, n, m, row_group);                                   \
    }
KERR_OPERATORS(KERNELS_OF)
