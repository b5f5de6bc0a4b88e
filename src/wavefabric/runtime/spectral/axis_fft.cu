// Complex transforms of one axis inside a thread block: Stockham's autosort form, mixed radix 2, 3, 4, 5, 7, 8, 11, 13, 16.
// A block holds TILE transforms of N points. P threads share a transform: each keeps some values in registers, and
// threads exchange values through shared memory between stages. Before the first stage a thread holds the points
// n = j + b P + k N/R (b-th butterfly, k-th leg, R the first radix); after the last stage the same with the last
// radix. A backward transform with the radices in reverse order therefore starts with the values where the forward
// transform left them, so that a spectrum can be multiplied in registers in between.
// A backward transform is a forward one with real and imaginary parts swapped before and after.

// --- Where a tile's values lie in shared memory ---------------------------------------------------------

// TILE neighbouring columns: threads of a warp work on different columns at the same point.
// LATE: load twiddle factors no sooner than in their stage, to save registers.
template <int N, int P, int TILE, bool LATE = false>
struct Columns {
    static constexpr int points = N, threads = P, tile = TILE;
    static constexpr bool late = LATE;
    static __device__ __forceinline__ int transform() { return threadIdx.x % TILE; }
    static __device__ __forceinline__ int lane() { return threadIdx.x / TILE; }
    static __device__ __forceinline__ int at(int n) { return n * TILE + transform(); }
    static __device__ __forceinline__ void sync() { __syncthreads(); }
};

// TILE rows: threads of a warp work on neighbouring points. Addresses are permuted within 16 points so that neighbours
// and strides of 4 and 8 use all banks (a stride of 16 uses half of them), and rows of few threads begin at different
// banks. If the threads of a row lie in one warp, they do not wait for other rows.
template <int N, int P, int TILE, bool LATE = false>
struct Rows {
    static constexpr int points = N, threads = P, tile = TILE;
    static constexpr bool late = LATE;
    static __device__ __forceinline__ int transform() { return threadIdx.x / P; }
    static __device__ __forceinline__ int lane() { return threadIdx.x % P; }
    static constexpr int space = ceiling(N + 1, 16) * 16 + (P < 16 && P % 2 == 0 ? P : 0);  // numbers per row
    static __device__ __forceinline__ int at(int n) {
        return transform() * space + (n ^ (n >> 4 & 7 | n >> 3 & 8));
    }
    static __device__ __forceinline__ void sync() {
        if constexpr (32 % P == 0) __syncwarp();
        else __syncthreads();
    }
};

// Return the address, but hide its origin from the compiler, which then neither loads ahead nor keeps sums with offsets.
// Otherwise registers fill with values that are needed only after the next barrier.
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

// Call f(value, point) for the values that this thread holds before a first or after a last stage of radix R.
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

// Number of twiddle factors w^(q k) of a stage, w = exp(-2 pi i / (M R)), k < R, q < M; factor k M + q of its table.
// The first stage has none; the tables of later stages follow one another.
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

// Transforms of one axis: layout, radices first to last, and the radices reversed. The table of twiddle factors holds
// those of all forward stages, then those of all backward stages.
template <class L, class FORTH, class BACK>
struct Axis;

template <class L, int FIRST, int... FORTH, int LAST, int... BACK>
struct Axis<L, Radices<FIRST, FORTH...>, Radices<LAST, BACK...>> {
    typedef L Layout;
    static constexpr int points = L::points, values = registers<L, FIRST, FORTH...>();
    static constexpr int table = all_factors<1, FIRST, FORTH...>() + all_factors<1, LAST, BACK...>();
    // Call f(value, n) for this thread's points before `forth` or after `back` (near), or its frequencies in between (far).
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
// multiply by a chirp exp(-i pi n^2 / N), convolve with its conjugate, multiply by the chirp again. `near` and `far`
// visit the same points; the other M - N values are 0 when a transform begins. The table holds the factors of M, the
// chirp, and the transform of the convolution kernel divided by M.
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

// Rows of an odd number N of real points, as `ConvolvedOddRows` transforms them: (N + 1)/2 complex values (`near`), every second
// frequency of whose transform is needed, N of them (`far`). That is a convolution as in `Chirped`, with a chirp
// exp(-2 pi i n^2 / N), of M >= (3 N - 1)/2 points (Rabiner et al. 1969, doi:10.1109/TAU.1969.1162034).
template <class INNER, int N>
struct EverySecond {
    typedef typename INNER::Layout Layout;
    static constexpr int points = (N + 1) / 2, frequencies = N, values = INNER::values;
    static constexpr int table = INNER::table + N + INNER::points;
    template <class F>
    static __device__ __forceinline__ void near(Complex *v, F f) {
        INNER::near(v, [&](Complex &value, int n) { if (n < points) f(value, n); });
    }
    template <class F>
    static __device__ __forceinline__ void far(Complex *v, F f) {
        INNER::near(v, [&](Complex &value, int n) { if (n < N) f(value, n); });
    }
    // From FROM values to TO values. The way back needs the kernel at negative distances: its spectrum mirrored.
    template <int FROM, int TO>
    static __device__ __forceinline__ void convolve(Complex *v, Complex *shared, const Complex *twiddle) {
        const Complex *chirp = fresh(twiddle + INNER::table), *kernel = chirp + N;
        INNER::near(v, [&](Complex &value, int n) { value = n < FROM ? value * chirp[n] : Complex{0, 0}; });
        INNER::forth(v, shared, twiddle);
        INNER::far(v, [&](Complex &value, int k) {
            value = swapped(value * kernel[FROM > TO && k ? INNER::points - k : k]);
        });
        INNER::back(v, shared, twiddle);
        chirp = fresh(chirp);
        INNER::near(v, [&](Complex &value, int n) { if (n < TO) value = swapped(value) * chirp[n]; });
    }
    static __device__ __forceinline__ void forth(Complex *v, Complex *shared, const Complex *twiddle) {
        convolve<points, N>(v, shared, twiddle);
    }
    static __device__ __forceinline__ void back(Complex *v, Complex *shared, const Complex *twiddle) {
        convolve<N, points>(v, shared, twiddle);
    }
};

// Type of the axis of N points: INNER if it has N points, else a convolution by the longer INNER.
template <class INNER, int N, bool SAME = INNER::points == N>
struct OfLength {
    typedef INNER Type;
};
template <class INNER, int N>
struct OfLength<INNER, N, false> {
    typedef Chirped<INNER, N> Type;
};
