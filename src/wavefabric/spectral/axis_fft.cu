// Complex transforms of one axis inside a thread block: Stockham's autosort form, mixed radix 2, 3, 4, 5, 7, 8.
// A block holds TILE transforms of N points. P threads share one; each keeps E values in registers, and values
// change hands through shared memory between stages. Before the first stage a thread holds the points
// n = j + b P + k N/R (b-th butterfly, k-th leg, R the first radix); after the last stage the same with the
// last radix. A transform back that takes the radices in reverse order therefore starts where the one
// forth ended, and whatever multiplies the spectrum in between happens in registers.
// Backward transforms are forward ones with real and imaginary parts swapped before and after.

typedef long long Index;

struct __align__(2 * sizeof(REAL)) Complex {
    REAL x, y;
};

__device__ __forceinline__ Complex operator+(Complex a, Complex b) { return {a.x + b.x, a.y + b.y}; }
__device__ __forceinline__ Complex operator-(Complex a, Complex b) { return {a.x - b.x, a.y - b.y}; }
__device__ __forceinline__ Complex operator*(Complex a, Complex b) {
    return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x};
}
__device__ __forceinline__ Complex operator*(Complex a, REAL b) { return {a.x * b, a.y * b}; }
__device__ __forceinline__ Complex swapped(Complex a) { return {a.y, a.x}; }
__device__ __forceinline__ Complex conjugate(Complex a) { return {a.x, -a.y}; }
__device__ __forceinline__ Complex minus_i(Complex a) { return {a.y, -a.x}; }

// --- Butterflies: v[k] <- sum over j of v[j] exp(-2 pi i j k / R) ---------------------------------------

template <int R>
__device__ __forceinline__ void butterfly(Complex *v);

template <>
__device__ __forceinline__ void butterfly<2>(Complex *v) {
    const Complex a = v[0];
    v[0] = a + v[1];
    v[1] = a - v[1];
}

template <>
__device__ __forceinline__ void butterfly<3>(Complex *v) {
    const REAL s = (REAL)0.86602540378443864676;
    const Complex sum = v[1] + v[2], difference = minus_i(v[1] - v[2]) * s;
    const Complex middle = v[0] - sum * (REAL)0.5;
    v[0] = v[0] + sum;
    v[1] = middle + difference;
    v[2] = middle - difference;
}

template <>
__device__ __forceinline__ void butterfly<4>(Complex *v) {
    const Complex a = v[0] + v[2], b = v[0] - v[2], c = v[1] + v[3], d = minus_i(v[1] - v[3]);
    v[0] = a + c;
    v[1] = b + d;
    v[2] = a - c;
    v[3] = b - d;
}

// Odd primes: cosine and sine sums of the pairs (k, R - k).
template <int R>
__device__ __forceinline__ void odd_butterfly(Complex *v, const REAL *cosine, const REAL *sine) {
    Complex even[R / 2], odd[R / 2];
    const Complex first = v[0];
    Complex total = first;
#pragma unroll
    for (int j = 0; j < R / 2; ++j) {
        even[j] = v[j + 1] + v[R - 1 - j];
        odd[j] = v[j + 1] - v[R - 1 - j];
        total = total + even[j];
    }
    v[0] = total;
#pragma unroll
    for (int k = 1; k <= R / 2; ++k) {
        Complex a = first, b = {0, 0};
#pragma unroll
        for (int j = 0; j < R / 2; ++j) {
            const int turn = (j + 1) * k % R;
            const int place = turn <= R / 2 ? turn - 1 : R - 1 - turn;
            a = a + even[j] * cosine[place];
            b = b + odd[j] * (turn <= R / 2 ? sine[place] : -sine[place]);
        }
        v[k] = a + minus_i(b);
        v[R - k] = a - minus_i(b);
    }
}

template <>
__device__ __forceinline__ void butterfly<5>(Complex *v) {
    const REAL c[2] = {(REAL)0.30901699437494742410, (REAL)-0.80901699437494742410};
    const REAL s[2] = {(REAL)0.95105651629515357212, (REAL)0.58778525229247312917};
    odd_butterfly<5>(v, c, s);
}

template <>
__device__ __forceinline__ void butterfly<7>(Complex *v) {
    const REAL c[3] = {(REAL)0.62348980185873353053, (REAL)-0.22252093395631440429, (REAL)-0.90096886790241912624};
    const REAL s[3] = {(REAL)0.78183148246802980871, (REAL)0.97492791218182360702, (REAL)0.43388373911755812048};
    odd_butterfly<7>(v, c, s);
}

template <>
__device__ __forceinline__ void butterfly<8>(Complex *v) {
    const REAL s = (REAL)0.70710678118654752440;
    Complex e[4] = {v[0], v[2], v[4], v[6]}, o[4] = {v[1], v[3], v[5], v[7]};
    butterfly<4>(e);
    butterfly<4>(o);
    o[1] = Complex{o[1].x + o[1].y, o[1].y - o[1].x} * s;
    o[2] = minus_i(o[2]);
    o[3] = Complex{o[3].y - o[3].x, -o[3].x - o[3].y} * s;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        v[k] = e[k] + o[k];
        v[k + 4] = e[k] - o[k];
    }
}

// --- Where a tile's values lie in shared memory ---------------------------------------------------------

// TILE neighbouring columns: threads of a warp work on different columns at the same point.
template <int N, int P, int TILE>
struct Columns {
    static constexpr int points = N, threads = P, tile = TILE;
    static __device__ __forceinline__ int transform() { return threadIdx.x % TILE; }
    static __device__ __forceinline__ int lane() { return threadIdx.x / TILE; }
    static __device__ __forceinline__ int at(int n) { return n * TILE + transform(); }
};

// TILE rows: threads of a warp work on neighbouring points; a gap every 8 keeps strides of 8 off one bank.
template <int N, int P, int TILE>
struct Rows {
    static constexpr int points = N, threads = P, tile = TILE;
    static __device__ __forceinline__ int transform() { return threadIdx.x / P; }
    static __device__ __forceinline__ int lane() { return threadIdx.x % P; }
    static __device__ __forceinline__ int at(int n) { return transform() * (N + N / 8 + 1) + n + n / 8; }
};

// --- The transform --------------------------------------------------------------------------------------

__host__ __device__ constexpr int ceiling(int a, int b) { return (a + b - 1) / b; }
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
    __syncthreads();
#pragma unroll
    for (int b = 0; b < ceiling(butterflies, L::threads); ++b) {
        const int j = L::lane() + b * L::threads;
        if (butterflies % L::threads == 0 || j < butterflies) {
            const int first = j / M * (M * R) + j % M;
#pragma unroll
            for (int k = 0; k < R; ++k) shared[L::at(first + k * M)] = v[b * R + k];
        }
    }
    __syncthreads();
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
template <int... R>
struct Radices {};

template <class L, class FORTH, class BACK>
struct Axis;

template <class L, int FIRST, int... FORTH, int LAST, int... BACK>
struct Axis<L, Radices<FIRST, FORTH...>, Radices<LAST, BACK...>> {
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
