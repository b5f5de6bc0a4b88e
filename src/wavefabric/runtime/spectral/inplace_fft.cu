// Complex transforms of one axis inside a thread block, in place (Gentleman and Sande's decimation in frequency, and its
// transpose), mixed radix. Values stay in registers within a stage; threads exchange them through shared memory between
// stages. Each value is written where it was read, so that one barrier per stage suffices.
// `forth` leaves the spectrum in digit-reversed order over the threads, and `back` starts from that order, so that a
// spectrum is multiplied in registers and never reordered. `back` is the transpose of `forth`, applied to values with
// real and imaginary parts swapped: it needs the same twiddle factors.

struct __align__(4 * sizeof(REAL)) Twin {  // values of two rows that undergo the same transform
    Complex a, b;
};

__device__ __forceinline__ Twin operator+(Twin v, Twin w) { return {v.a + w.a, v.b + w.b}; }
__device__ __forceinline__ Twin operator-(Twin v, Twin w) { return {v.a - w.a, v.b - w.b}; }
__device__ __forceinline__ Twin operator*(Twin v, Complex w) { return {v.a * w, v.b * w}; }
__device__ __forceinline__ Twin operator*(Twin v, Constant w) { return {v.a * w, v.b * w}; }
__device__ __forceinline__ Twin turned(Twin v, Constant c, Constant s) { return {turned(v.a, c, s), turned(v.b, c, s)}; }
__device__ __forceinline__ Twin operator*(Twin v, REAL w) { return {v.a * w, v.b * w}; }
__device__ __forceinline__ Twin minus_i(Twin v) { return {minus_i(v.a), minus_i(v.b)}; }
__device__ __forceinline__ REAL some_part(Complex v) { return v.x; }
__device__ __forceinline__ REAL some_part(Twin v) { return v.b.x; }

struct Wide {  // twiddle factors are computed in double precision for every type of field
    double x, y;
};

__device__ __forceinline__ Wide operator*(Wide a, Wide b) { return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x}; }
template <class V>
__device__ __forceinline__ V operator*(V a, Wide b) { return a * Complex{(REAL)b.x, (REAL)b.y}; }

#ifdef __CUDA_ARCH__
// Load a pair of numbers at this point of the program (volatile): kept from `forth` to `back`, it would spill registers.
__device__ __forceinline__ void load_pair(const double *at, double *x, double *y)
{
    asm volatile("ld.global.nc.v2.f64 {%0, %1}, [%2];" : "=d"(*x), "=d"(*y) : "l"(at));
}
__device__ __forceinline__ void load_pair(const float *at, float *x, float *y)
{
    asm volatile("ld.global.nc.v2.f32 {%0, %1}, [%2];" : "=f"(*x), "=f"(*y) : "l"(at));
}
// Return 0, but only after `earlier` is known (no result has the NaN bits compared). Later loads depend on this 0: otherwise
// the compiler starts too many of them at once and spills registers.
__device__ __forceinline__ int zero_after(float earlier) { return __float_as_int(earlier) == 0x7fe12345; }
__device__ __forceinline__ int zero_after(double earlier) { return __double2hiint(earlier) == 0x7ffe1234; }
#else
__device__ __forceinline__ void load_pair(const REAL *at, REAL *x, REAL *y) { *x = at[0], *y = at[1]; }
__device__ __forceinline__ int zero_after(REAL) { return 0; }
#endif

// Load an entry of a table.
__device__ __forceinline__ Complex loaded(const Complex *at)
{
    Complex value;
    load_pair(&at->x, &value.x, &value.y);
    return value;
}

// --- Where the values of a block lie in shared memory ---------------------------------------------------

// WIDTH neighbouring columns, P threads each: threads of a warp work on different columns at the same point.
// GAP > 0: one unused element after every GAP points.
template <int N, int P, int WIDTH, int GAP>
struct ColumnTile {
    static constexpr int points = N, threads = P;
    static __device__ __forceinline__ int lane() { return threadIdx.x / WIDTH; }
    static __device__ __forceinline__ int column() { return threadIdx.x % WIDTH; }
    static __device__ __forceinline__ int at(int n) { return (GAP ? n + n / (GAP ? GAP : 1) : n) * WIDTH + column(); }
};

// Rows, P threads each: threads of a warp work on neighbouring points.
template <int N, int P, int GAP>
struct RowTile {
    static constexpr int points = N, threads = P;
    static constexpr int words = N + (GAP ? N / (GAP ? GAP : 1) : 0);
    static __device__ __forceinline__ int lane() { return threadIdx.x % P; }
    static __device__ __forceinline__ int row() { return threadIdx.x / P; }
    static __device__ __forceinline__ int at(int n) { return row() * words + (GAP ? n + n / (GAP ? GAP : 1) : n); }
};

// --- Stages ---------------------------------------------------------------------------------------------

// The stage of radix R after stages of radices with product P: P R transforms of `stride` points remain after it.
template <class L, int P, int R>
struct Stage {
    static constexpr int stride = L::points / (P * R), butterflies = L::points / R;
    static constexpr int rounds = ceiling(butterflies, L::threads), values = rounds * R;

    // Call f(values, number b, first point, number m within its transform) for each butterfly of this thread.
    template <class V, class F>
    static __device__ __forceinline__ void each(V *v, F f) {
#pragma unroll
        for (int u = 0; u < rounds; ++u) {
            const int b = L::lane() + u * L::threads;
            if (butterflies % L::threads == 0 || b < butterflies) {
                const int part = P == 1 ? 0 : b / stride, m = P == 1 ? b : b % stride;
                f(v + u * R, b, part * stride * R + m, m);
            }
        }
    }
    template <class V>
    static __device__ __forceinline__ void store(V *v, V *shared) {
        each(v, [&](V *a, int, int first, int) {
#pragma unroll
            for (int k = 0; k < R; ++k) shared[L::at(first + k * stride)] = a[k];
        });
    }
    template <class V>
    static __device__ __forceinline__ void load(V *v, const V *shared) {
        each(v, [&](V *a, int, int first, int) {
#pragma unroll
            for (int k = 0; k < R; ++k) a[k] = shared[L::at(first + k * stride)];
        });
    }
};

// a[k] <- a[k] w^k. For fields in single precision each power is the previous one times w, which needs fewer registers;
// sixteen roundings in double do not matter. In double, at most R / 4 successive products of w, w^2, w^3, w^4.
template <int R, class V>
__device__ __forceinline__ void turn_by_powers(V *a, Wide w) {
    if constexpr (sizeof(REAL) == 4) {
        Wide power = w;
#pragma unroll
        for (int k = 1; k < R; ++k) {
            a[k] = a[k] * power;
            if (k + 1 < R) power = power * w;
        }
    } else {
        const Wide w2 = w * w, w3 = w2 * w, w4 = w2 * w2;
        Wide base = w4;
        if (R > 1) a[1] = a[1] * w;
        if (R > 2) a[2] = a[2] * w2;
        if (R > 3) a[3] = a[3] * w3;
#pragma unroll
        for (int k = 4; k < R; k += 4) {
            a[k] = a[k] * base;
            if (k + 1 < R) a[k + 1] = a[k + 1] * (base * w);
            if (k + 2 < R) a[k + 2] = a[k + 2] * (base * w2);
            if (k + 3 < R) a[k + 3] = a[k + 3] * (base * w3);
            if (k + 4 < R) base = base * w4;
        }
    }
}

// Frequency at position b of the digit-reversed order by these radices, most significant digit first.
template <int P, int R, int... REST>
__device__ __forceinline__ int digit_reversed(int b, Radices<R, REST...>) {
    if constexpr (sizeof...(REST) == 0) {
        return P * b;
    } else {
        constexpr int below = (REST * ...);
        return P * (b / below) + digit_reversed<P * R>(b % below, Radices<REST...>());
    }
}

// Stages after radices of product P. TURN::turn<P, R, STAGE>(values, m) multiplies a butterfly's legs by twiddle factors.
template <class L, int P, int STAGE, int R, int... REST>
struct Stages {
    typedef Stage<L, P, R> First;
    typedef Stages<L, P, STAGE, R> Own;
    typedef Stages<L, P * R, STAGE + 1, REST...> Next;
    typedef typename Next::Last Last;
    static constexpr int values = First::values > Next::values ? First::values : Next::values;
    template <class V, class TURN>
    static __device__ __forceinline__ void forth(V *v, V *shared, const TURN &turn) {
        Own::forth(v, shared, turn);
        First::store(v, shared);
        __syncthreads();
        Next::First::load(v, shared);
        Next::forth(v, shared, turn);
    }
    template <class V, class TURN>
    static __device__ __forceinline__ void back(V *v, V *shared, const TURN &turn) {
        Next::back(v, shared, turn);
        Next::First::store(v, shared);
        __syncthreads();
        First::load(v, shared);
        Own::back(v, shared, turn);
    }
};

template <class L, int P, int STAGE, int R>
struct Stages<L, P, STAGE, R> {
    typedef Stage<L, P, R> First;
    typedef First Last;
    static constexpr int values = First::values;
    template <class V, class TURN>
    static __device__ __forceinline__ void forth(V *v, V *, const TURN &turn) {
        First::each(v, [&](V *a, int, int, int m) {
            butterfly<R>(a);
            turn.template turn<P, R, STAGE>(a, m);
        });
    }
    template <class V, class TURN>
    static __device__ __forceinline__ void back(V *v, V *, const TURN &turn) {
        First::each(v, [&](V *a, int, int, int m) {
            turn.template turn<P, R, STAGE>(a, m);
            butterfly<R>(a);
        });
    }
};

// A whole transform: `near` visits the points before `forth` or after `back`, `far` the frequencies in between.
template <class L, int FIRST, int... REST>
struct InPlace : Stages<L, 1, 0, FIRST, REST...> {
    typedef Stages<L, 1, 0, FIRST, REST...> All;
    // Call f(value, point) for this thread's values.
    template <class V, class F>
    static __device__ __forceinline__ void near(V *v, F f) {
        All::First::each(v, [&](V *a, int, int first, int) {
#pragma unroll
            for (int k = 0; k < FIRST; ++k) f(a[k], first + k * All::First::stride);
        });
    }
    // Call f(value, frequency) for this thread's values.
    template <class V, class F>
    static __device__ __forceinline__ void far(V *v, F f) {
        constexpr int legs = L::points / All::Last::butterflies;
        All::Last::each(v, [&](V *a, int b, int, int) {
            const int first = legs == L::points ? 0 : digit_reversed<1>(b * legs, Radices<FIRST, REST...>());
#pragma unroll
            for (int k = 0; k < legs; ++k) f(a[k], first + k * All::Last::butterflies);
        });
    }
};
