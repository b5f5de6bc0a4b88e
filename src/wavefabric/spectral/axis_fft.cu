// Complex transforms of one axis inside a thread block: Stockham's autosort form, mixed radix 2, 3, 4, 5, 7, 8, 16.
// A block holds TILE transforms of N points. P threads share one; each keeps E values in registers, and values
// change hands through shared memory between stages. Before the first stage a thread holds the points
// n = j + b P + k N/R (b-th butterfly, k-th leg, R the first radix); after the last stage the same with the
// last radix. A transform back that takes the radices in reverse order therefore starts where the one
// forth ended, and whatever multiplies the spectrum in between happens in registers.
// Backward transforms are forward ones with real and imaginary parts swapped before and after.

// --- Where a tile's values lie in shared memory ---------------------------------------------------------

// TILE neighbouring columns: threads of a warp work on different columns at the same point.
// LATE: twiddle factors are loaded no sooner than their stage, where registers are short.
template <int N, int P, int TILE, bool LATE = false>
struct Columns {
    static constexpr int points = N, threads = P, tile = TILE;
    static constexpr bool late = LATE;
    static __device__ __forceinline__ int transform() { return threadIdx.x % TILE; }
    static __device__ __forceinline__ int lane() { return threadIdx.x / TILE; }
    static __device__ __forceinline__ int at(int n) { return n * TILE + transform(); }
    static __device__ __forceinline__ void sync() { __syncthreads(); }
};

// TILE rows: threads of a warp work on neighbouring points; a gap every 16 keeps strides of 8 and 16 off one bank,
// and rows of few threads begin at different banks.
// Threads of a row that lie in one warp need not wait for other rows.
template <int N, int P, int TILE, bool LATE = false>
struct Rows {
    static constexpr int points = N, threads = P, tile = TILE;
    static constexpr bool late = LATE;
    static __device__ __forceinline__ int transform() { return threadIdx.x / P; }
    static __device__ __forceinline__ int lane() { return threadIdx.x % P; }
    static constexpr int bank = P < 16 ? P : 2;
    // Of a row: N + 1 at least, whole words of 16 bytes (if P is even or 1).
    static constexpr int room = P % 2 ? (N + N / 16 + 2) / 2 * 2 : ceiling(N + N / 16 + 1 - bank, 16) * 16 + bank;
    static __device__ __forceinline__ int at(int n) { return transform() * room + n + n / 16; }
    static __device__ __forceinline__ void sync() {
        if constexpr (32 % P == 0) __syncwarp();
        else __syncthreads();
    }
};

// The same address, unknown to the compiler: loads from it come no sooner, and sums of it with offsets are not kept.
// Otherwise registers fill with what is needed only behind the next barrier.
template <class T>
__device__ __forceinline__ T *fresh(T *address) {
#ifdef __CUDA_ARCH__
    asm volatile("" : "+l"(address));
#endif
    return address;
}

// --- The transform --------------------------------------------------------------------------------------

template <class L, int R>
__host__ __device__ constexpr int held() { return ceiling(L::points / R, L::threads) * R; }

template <class L, int... R>
__host__ __device__ constexpr int registers() {
    int most = 0;
    ((most = held<L, R>() > most ? held<L, R>() : most), ...);
    return most;
}

// Calls f(value, point) for the values that a thread holds at an end whose radix is R.
template <class L, int R, class F>
__device__ __forceinline__ void each(Complex *v, F f) {
    constexpr int butterflies = L::points / R;
#pragma unroll
    for (int b = 0; b < ceiling(butterflies, L::threads); ++b) {
        const int j = L::lane() + b * L::threads;
        if (butterflies % L::threads == 0 || j < butterflies) {
#pragma unroll
            for (int k = 0; k < R; ++k) f(v[b * R + k], j + k * butterflies);
        }
    }
}

template <class L, int M, int R>
__device__ __forceinline__ void stage(Complex *v, const Complex *__restrict__ twiddle) {
    constexpr int butterflies = L::points / R, stride = L::points / (M * R);
    if (M > 1 && L::late) twiddle = fresh(twiddle);
#pragma unroll
    for (int b = 0; b < ceiling(butterflies, L::threads); ++b) {
        const int j = L::lane() + b * L::threads;
        if (butterflies % L::threads == 0 || j < butterflies) {
            if (M > 1) {
                const int q = j % M * stride;
#pragma unroll
                for (int k = 1; k < R; ++k) v[b * R + k] = v[b * R + k] * twiddle[q * k];
            }
            butterfly<R>(v + b * R);
        }
    }
}

template <class L, int M, int R, int NEXT>
__device__ __forceinline__ void exchange(Complex *v, Complex *shared) {
    constexpr int butterflies = L::points / R;
    L::sync();
#pragma unroll
    for (int b = 0; b < ceiling(butterflies, L::threads); ++b) {
        const int j = L::lane() + b * L::threads;
        if (butterflies % L::threads == 0 || j < butterflies) {
            const int first = j / M * (M * R) + j % M;
#pragma unroll
            for (int k = 0; k < R; ++k) shared[L::at(first + k * M)] = v[b * R + k];
        }
    }
    L::sync();
    each<L, NEXT>(v, [&](Complex &value, int n) { value = shared[L::at(n)]; });
}

template <class L, int M, int R>
__device__ __forceinline__ void stages(Complex *v, Complex *, const Complex *twiddle) {
    stage<L, M, R>(v, twiddle);
}

template <class L, int M, int R, int NEXT, int... REST>
__device__ __forceinline__ void stages(Complex *v, Complex *shared, const Complex *twiddle) {
    stage<L, M, R>(v, twiddle);
    exchange<L, M, R, NEXT>(v, shared);
    stages<L, M * R, NEXT, REST...>(v, shared, twiddle);
}

// One axis: a layout and its radices, first to last, and the same reversed.
template <class L, class FORTH, class BACK>
struct Axis;

template <class L, int FIRST, int... FORTH, int LAST, int... BACK>
struct Axis<L, Radices<FIRST, FORTH...>, Radices<LAST, BACK...>> {
    typedef L Layout;
    static constexpr int values = registers<L, FIRST, FORTH...>();
    // Points held at the near end (before `forth`, after `back`), and at the far end.
    template <class F>
    static __device__ __forceinline__ void near(Complex *v, F f) { each<L, FIRST>(v, f); }
    template <class F>
    static __device__ __forceinline__ void far(Complex *v, F f) { each<L, LAST>(v, f); }
    static __device__ __forceinline__ void forth(Complex *v, Complex *shared, const Complex *twiddle) {
        stages<L, 1, FIRST, FORTH...>(v, shared, twiddle);
    }
    static __device__ __forceinline__ void back(Complex *v, Complex *shared, const Complex *twiddle) {
        stages<L, 1, LAST, BACK...>(v, shared, twiddle);
    }
};
