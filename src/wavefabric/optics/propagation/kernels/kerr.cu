// Kerr operators on one rank, each one kernel, and the phase rates by themselves; kerr.py is the reference and explains them.
// After kerr_formulas.cu and kerr_layout.cu.

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

// most[0] holds the bits of the largest |rate|: bits of non-negative doubles order as they do, and
// those of NaN lie above all others.
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

// The chain of an operator. errors: null, or one double a block for the squared local error (summed by reduce_sum).
template <class Operator>
__device__ __forceinline__ void kerr(REAL2* A, REAL2* K, double h, double* errors, long long n, const Layout* layout)
{
    PROLOGUE
    REAL *const pw = group, *const rate = group + tall, *const low = group + 2 * tall, *const numbers = group + 3 * tall;
    // RK4IP updates rows from both of its phase rates.
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

// By itself the compiler takes more registers here than leave space for enough blocks.
extern "C" __global__ void __launch_bounds__(LANES * WARPS)
kerr_rk4ip_last(REAL2* A, REAL2* K, double h, double* errors, long long n, const Layout* layout);

#define KERNEL(name, Operator)                                                                    \
    extern "C" __global__ void                                                                    \
    kerr_##name(REAL2* A, REAL2* K, double h, double* errors, long long n, const Layout* layout)  \
    {                                                                                             \
        kerr<Operator>(A, K, h, errors, n, layout);                                               \
    }
KERR_OPERATORS(KERNEL)
