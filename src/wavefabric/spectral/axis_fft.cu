// Complex transforms of one axis inside a thread block: Stockham's autosort form, mixed radix 2, 3, 4, 5, 7, 8, 16.
// A block holds TILE transforms of N points. P threads share one; each keeps some values in registers, and values
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

// TILE rows: threads of a warp work on neighbouring points. Addresses of 16 points are exchanged so that strides of 4 and 8
// and neighbours alike meet all banks (a stride of 16 half of them), and rows of few threads begin at different banks. Threads of a row that
// lie in one warp need not wait for other rows.
template <int N, int P, int TILE, bool LATE = false>
struct Rows {
    static constexpr int points = N, threads = P, tile = TILE;
    static constexpr bool late = LATE;
    static __device__ __forceinline__ int transform() { return threadIdx.x / P; }
    static __device__ __forceinline__ int lane() { return threadIdx.x % P; }
    static constexpr int space = ceiling(N + 1, 16) * 16 + (P < 16 && P % 2 == 0 ? P : 0);  // of a row
    static __device__ __forceinline__ int at(int n) {
        return transform() * space + (n ^ (n >> 4 & 7 | n >> 3 & 8));
    }
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

// Twiddle factors w^(q k) of a stage, w = exp(-2 pi i / (M R)), k < R, q < M, neighbours in q: factor k M + q. A first
// stage has none; those of later stages follow one another.
template <int M, int R>
__host__ __device__ constexpr int factors() { return M > 1 ? M * R : 0; }

template <class L, int M, int R>
__device__ __forceinline__ void stage(Complex *v, const Complex *__restrict__ twiddle) {
    constexpr int butterflies = L::points / R;
    if (M > 1 && L::late) twiddle = fresh(twiddle);
#pragma unroll
    for (int b = 0; b < ceiling(butterflies, L::threads); ++b) {
        const int j = L::lane() + b * L::threads;
        if (butterflies % L::threads == 0 || j < butterflies) {
            if (M > 1) {
#pragma unroll
                for (int k = 1; k < R; ++k) v[b * R + k] = v[b * R + k] * twiddle[k * M + j % M];
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
    stages<L, M * R, NEXT, REST...>(v, shared, twiddle + factors<M, R>());
}

template <int M>
__host__ __device__ constexpr int all_factors() { return 0; }

template <int M, int R, int... REST>
__host__ __device__ constexpr int all_factors() { return factors<M, R>() + all_factors<M * R, REST...>(); }

// One axis: a layout and its radices, first to last, and the same reversed. Its table of twiddle factors holds those of
// all stages forth, then back.
template <class L, class FORTH, class BACK>
struct Axis;

template <class L, int FIRST, int... FORTH, int LAST, int... BACK>
struct Axis<L, Radices<FIRST, FORTH...>, Radices<LAST, BACK...>> {
    typedef L Layout;
    static constexpr int points = L::points, values = registers<L, FIRST, FORTH...>();
    static constexpr int table = all_factors<1, FIRST, FORTH...>() + all_factors<1, LAST, BACK...>();
    // Points held at the near end (before `forth`, after `back`), and at the far end.
    template <class F>
    static __device__ __forceinline__ void near(Complex *v, F f) { each<L, FIRST>(v, f); }
    template <class F>
    static __device__ __forceinline__ void far(Complex *v, F f) { each<L, LAST>(v, f); }
    static __device__ __forceinline__ void forth(Complex *v, Complex *shared, const Complex *twiddle) {
        stages<L, 1, FIRST, FORTH...>(v, shared, twiddle);
    }
    static __device__ __forceinline__ void back(Complex *v, Complex *shared, const Complex *twiddle) {
        stages<L, 1, LAST, BACK...>(v, shared, twiddle + all_factors<1, FIRST, FORTH...>());
    }
};

// An axis of any length N as a convolution by an axis of M >= 2 N - 1 points (Bluestein 1970, doi:10.1109/TAU.1970.1162132):
// values times a chirp exp(-i pi n^2 / N), convolved with its conjugate, times the chirp again. Both ends hold the same
// points; of the M values the others are 0 when a transform begins. Behind the factors of M its table holds the
// chirp, then the transform of what it is convolved with over M.
template <class INNER, int N>
struct Chirped {
    typedef typename INNER::Layout Layout;
    static constexpr int points = N, values = INNER::values, table = INNER::table + N + INNER::points;
    template <class F>
    static __device__ __forceinline__ void near(Complex *v, F f) {
        INNER::near(v, [&](Complex &value, int n) { if (n < N) f(value, n); });
    }
    template <class F>
    static __device__ __forceinline__ void far(Complex *v, F f) { near(v, f); }
    static __device__ __forceinline__ void forth(Complex *v, Complex *shared, const Complex *twiddle) {
        const Complex *chirp = fresh(twiddle + INNER::table), *kernel = chirp + N;
        INNER::near(v, [&](Complex &value, int n) { value = n < N ? value * chirp[n] : Complex{0, 0}; });
        INNER::forth(v, shared, twiddle);
        INNER::far(v, [&](Complex &value, int k) { value = swapped(value * kernel[k]); });
        INNER::back(v, shared, twiddle);
        chirp = fresh(chirp);
        near(v, [&](Complex &value, int n) { value = swapped(value) * chirp[n]; });
    }
    static __device__ __forceinline__ void back(Complex *v, Complex *shared, const Complex *twiddle) {
        forth(v, shared, twiddle);
    }
};

// The axis of N points by an Axis of as many, or of more.
template <class INNER, int N, bool SAME = INNER::points == N>
struct OfLength {
    typedef INNER Type;
};
template <class INNER, int N>
struct OfLength<INNER, N, false> {
    typedef Chirped<INNER, N> Type;
};
