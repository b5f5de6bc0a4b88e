// Kernels of the Kerr operator when rows are split over ranks, for CUDA: same names, same argument order and
// same formulas as kerr_ranks.py, which is the reference and explains them.
//
// After kerr_formulas.cu. A field row has n samples; a chunk begins at sample t0 and has m. blockIdx.x and
// threadIdx.x run along the chunk; blockIdx.y counts groups (sums) or rows (updates), so that neighbouring threads
// read neighbouring samples.

#define SAMPLE                                                       \
    const Index t = (Index)blockIdx.x * blockDim.x + threadIdx.x;    \
    if (t >= m) return;

// --- sums over the rows of a group ---------------------------------------------------------------

extern "C" __global__ void group_power(const REAL2* A, Index t0, REAL* __restrict__ p, Index n, Index m,
                                      const int* __restrict__ start)
{
    SAMPLE
    const int c = blockIdx.y, last = start[c + 1];
    REAL sum = 0;
#pragma unroll 4
    for (int r = start[c]; r < last; ++r) sum += power(__ldcs(A + r * n + t0 + t));
    p[c * m + t] = sum;
}

// Sums of |x|^2, |y'|^2 and Im x*y'; y' is y itself, or x + half y if `add`.
__device__ __forceinline__ void sums(const REAL2* x, const REAL2* y, bool add, REAL half,
                                     REAL* xx, REAL* yy, REAL* xy, Index t0, Index n, Index m, const int* start)
{
    SAMPLE
    const int c = blockIdx.y, last = start[c + 1];
    Sums sums;
#pragma unroll 4
    for (int r = start[c]; r < last; ++r) {
        const REAL2 a = __ldcs(x + r * n + t0 + t), b = __ldcs(y + r * n + t0 + t);
        sums.add(a, add ? ahead(a, b, half) : b);
    }
    xx[c * m + t] = sums.xx;
    yy[c * m + t] = sums.yy;
    xy[c * m + t] = sums.xy;
}

extern "C" __global__ void group_sums_middle(const REAL2* A, const REAL2* K, Index t0, double h,
                                            REAL* saa, REAL* sbb, REAL* sab, Index n, Index m, const int* start)
{
    sums(A, K, true, REAL(0.5 * h), saa, sbb, sab, t0, n, m, start);
}

extern "C" __global__ void group_sums_last(const REAL2* A, const REAL2* K, Index t0, REAL* scc,
                                          REAL* sss, REAL* ssc, Index n, Index m, const int* start)
{
    sums(K, A, false, 0, sss, scc, ssc, t0, n, m, start);
}

// --- phase rates and powers of groups ------------------------------------------------------------

// A thread forms OUTPUTS outputs of one sample from one read of the inputs; blockIdx.y counts such tiles.
#define OUTPUTS 16

// The block's rows of the matrix in shared memory, (others, OUTPUTS); all threads of the block enter together.
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

// theta = matrix @ part, and saa += u (square u sbb - cross sab) with u = h theta: see add_power below.
extern "C" __global__ void couple_power(REAL* __restrict__ theta, const REAL* __restrict__ part,
                                        const REAL* __restrict__ matrix, REAL* __restrict__ saa,
                                        const REAL* __restrict__ sbb, const REAL* __restrict__ sab, REAL h,
                                        REAL square, REAL cross, int own, int others, Index m)
{
    const int base = blockIdx.y * OUTPUTS, here = min(OUTPUTS, own - base);
    const REAL* const weights = weights_of(matrix, base, here, others);
    SAMPLE
    REAL sum[OUTPUTS] = {};
    add_products(sum, weights, part, others, m, t);
#pragma unroll
    for (int c = 0; c < OUTPUTS; ++c)
        if (c < here) {
            const Index at = (base + c) * m + t;
            theta[at] = sum[c];
            saa[at] = next_power(saa[at], sbb[at], sab[at], h * sum[c], square, cross);
        }
}

// saa += u (square u sbb - cross sab), u = h theta; for power_middle and power_last.
extern "C" __global__ void add_power(REAL* saa, const REAL* __restrict__ sbb, const REAL* __restrict__ sab,
                                        const REAL* __restrict__ theta, REAL h, REAL square, REAL cross, Index m)
{
    SAMPLE
    saa[t] = next_power(saa[t], sbb[t], sab[t], h * theta[t], square, cross);
}

extern "C" __global__ void stage_power(REAL* q, const REAL* __restrict__ p, REAL f, const REAL* __restrict__ mr,
                                       const REAL* __restrict__ mi, Index m)
{
    SAMPLE
    const REAL x = 1 + f * mr[t], y = f * mi[t];
    q[t] = p[t] * (x * x + y * y);
}

extern "C" __global__ void stage_multiplier(const REAL* __restrict__ theta, REAL h, REAL f, REAL weight, REAL* mr,
                                            REAL* mi, REAL* sr, REAL* si, Index m)
{
    SAMPLE
    const REAL u = h * theta[t], x = 1 + f * mr[t], y = f * mi[t];
    mr[t] = -u * y;
    mi[t] = u * x;
    sr[t] += weight * (-u * y);
    si[t] += weight * (u * x);
}

// --- update of the rows -------------------------------------------------------------------------

#define ROW                                        \
    SAMPLE                                         \
    const int r = blockIdx.y;                      \
    const Index group = row_group[r] * m + t, at = r * n + t0 + t;

extern "C" __global__ void finish_derivative(const REAL2* A, REAL2* __restrict__ K, Index t0,
                                             const REAL* __restrict__ rate, Index n, Index m, const int* row_group)
{
    ROW
    put(K + at, times_i(__ldcs(A + at), rate[group]));
}

extern "C" __global__ void finish_rotate(REAL2* A, Index t0, const REAL* __restrict__ rate, double h, Index n, Index m,
                                         const int* row_group)
{
    ROW
    put(A + at, rotated(__ldcs(A + at), REAL(h) * rate[group]));
}

extern "C" __global__ void finish_multiply(REAL2* A, Index t0, const REAL* __restrict__ sr,
                                           const REAL* __restrict__ si, Index n, Index m, const int* row_group)
{
    ROW
    put(A + at, turned(__ldcs(A + at), sr[group], si[group]));
}

extern "C" __global__ void finish_middle(REAL2* __restrict__ A, REAL2* __restrict__ K, Index t0,
                                         const REAL* __restrict__ theta2, const REAL* __restrict__ theta3, double h,
                                         Index n, Index m, const int* row_group)
{
    ROW
    const Pair now = middle(__ldcs(A + at), scaled(__ldcs(K + at), REAL(0.5 * h)), REAL(h) * theta2[group],
                            REAL(h) * theta3[group]);
    put(A + at, now.a);
    put(K + at, now.k);
}

// errors: null, or one double a block for the squared local error.
extern "C" __global__ void finish_last(REAL2* __restrict__ A, REAL2* __restrict__ K, Index t0,
                                       const REAL* __restrict__ theta, const REAL* __restrict__ rate, double h,
                                       double* errors, Index n, Index m, const int* row_group)
{
    const Index t = (Index)blockIdx.x * blockDim.x + threadIdx.x;
    const int r = blockIdx.y;
    double error = 0;
    if (t < m) {
        const Index group = row_group[r] * m + t, at = r * n + t0 + t;
        const Last now = last(__ldcs(A + at), __ldcs(K + at), REAL(h / 6.0) * theta[group], rate[group]);
        if (errors) error = 0.01 * h * h * squared_difference(now, h);
        put(A + at, now.a);
        put(K + at, now.k);
    }
    if (errors == nullptr) return;
    __shared__ double all[256];
    all[threadIdx.x] = error;
    for (int k = 128; k > 0; k >>= 1) {
        __syncthreads();
        if (threadIdx.x < k) all[threadIdx.x] += all[threadIdx.x + k];
    }
    if (threadIdx.x == 0) errors[(Index)blockIdx.y * gridDim.x + blockIdx.x] = all[0];
}
