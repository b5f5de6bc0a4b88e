// Transposes between ranks inside the column kernels, which store results directly in the memory of the rank that owns
// them. After signals.cu, before fused.cu. RANKS: number of ranks. FIRST_POINTS: first point of each rank's part of the
// transformed axis, without the first rank.

struct Outlet {
    Complex *at;          // where point 0 of the axis in the first line would lie in the array at that rank
    Index along, across;  // strides from point to point, from line to line
    unsigned *flag;       // this rank's counter at that rank: calls stored; null: same rank, or nothing is sent
};

// Targets of one spectrum at all ranks.
struct Scatter {
    Outlet ranks[RANKS];
    unsigned *calls, *done;  // calls so far; blocks that have finished this call
};

__device__ __forceinline__ int owner(int n) {
    constexpr int firsts[] = {FIRST_POINTS};
    int rank = 0;
#pragma unroll
    for (int k = 0; k < RANKS - 1; ++k) rank += n >= firsts[k];
    return rank;
}

// Stores values of a column at the ranks that own them.
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

// Called by all blocks of a layer after they stored their values; the last block signals the other ranks.
__device__ __forceinline__ void sent(const Scatter &scatter) {
    if (!last_of(gridDim.x * gridDim.y, scatter.done)) return;
    const unsigned call = ++*scatter.calls;
    for (int k = 0; k < RANKS; ++k)
        if (scatter.ranks[k].flag) announce(scatter.ranks[k].flag, call);
}

// Wait until all ranks have stored the values of one more call, for later kernels. `flags`: one counter per rank, on this GPU.
extern "C" __global__ void await_ranks(const unsigned *flags, unsigned *taken, int rank, unsigned *late,
                                       unsigned long long limit) {
    Timeout timeout = {late, limit, false};
    for (int k = threadIdx.x; k < RANKS; k += blockDim.x)
        if (k != rank) timeout.wait(flags + k, *taken + 1, k);
    __syncthreads();
    if (threadIdx.x == 0) ++*taken;
}
