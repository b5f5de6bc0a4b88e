// Transposes between ranks by the kernels themselves: what a column kernel makes goes straight to where the other
// ranks hold it. After signals.cu; before fused.cu. RANKS, FIRST_POINTS: where each rank's part of the transformed axis
// begins but the first's.

struct Outlet {
    Complex *at;          // of point 0 of the transformed axis in the first line across it, were it here
    Index along, across;  // from point to point, from line to line
    unsigned *flag;       // of this rank there: calls whose values are there; null: here, or nothing is sent
};

// One for each spectrum.
struct Scatter {
    Outlet ranks[RANKS];
    unsigned *calls, *done;  // calls so far; blocks that have finished theirs of this call
};

__device__ __forceinline__ int owner(int n) {
    constexpr int firsts[] = {FIRST_POINTS};
    int rank = 0;
#pragma unroll
    for (int k = 0; k < RANKS - 1; ++k) rank += n >= firsts[k];
    return rank;
}

// Puts values of a column where they belong.
template <class C>
struct Scattered {
    const C &c;
    const Scatter &scatter;
    __device__ __forceinline__ Scattered(const C &c, const Scatter &scatter) : c(c), scatter(scatter) {}
    __device__ __forceinline__ void put(int n, Complex value) const {
        const Outlet &to = scatter.ranks[owner(n)];
        if (c.here) to.at[n * to.along + blockIdx.y * to.across + c.kx] = value;
    }
};

// All blocks of a layer come here when they have put theirs; the last one tells the other ranks.
__device__ __forceinline__ void sent(const Scatter &scatter) {
    if (!last_of(gridDim.x * gridDim.y, scatter.done)) return;
    const unsigned call = ++*scatter.calls;
    for (int k = 0; k < RANKS; ++k)
        if (scatter.ranks[k].flag) announce(scatter.ranks[k].flag, call);
}

// Later kernels may read what all ranks have put in one more call. `flags`: of each rank, here.
extern "C" __global__ void await_ranks(const unsigned *flags, unsigned *taken, int rank, unsigned *late,
                                       unsigned long long limit) {
    Timeout timeout = {late, limit, false};
    for (int k = threadIdx.x; k < RANKS; k += blockDim.x)
        if (k != rank) timeout.wait(flags + k, *taken + 1, k);
    __syncthreads();
    if (threadIdx.x == 0) ++*taken;
}
