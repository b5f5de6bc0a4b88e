// Transforms of real rows with an even number N of points as complex rows of H = N/2: value j is x[2j] + i x[2j+1].
// Half spectra have H + 1 entries; the backward transform is not divided by N. Compiled after axis_fft.cu.

// AXIS: an axis of H points with the layout Rows. `twiddle` holds its factors, then the first H of the N roots of unity,
// which separate its spectrum into those of even and odd points.
template <class AXIS>
struct RealRows {
    typedef AXIS A;
    typedef typename A::Layout L;
    static constexpr int half = A::points, values = A::values;

    // Transform the half spectrum entry(k), k = 0 ... H, back: v gets the row's values j, parts swapped, for `A::near`.
    template <class F>
    static __device__ __forceinline__ void back(Complex *v, Complex *shared, const Complex *twiddle, F entry) {
        const Complex *roots = L::late ? fresh(twiddle + A::table) : twiddle + A::table;
        A::far(v, [&](Complex &value, int k) {
            Complex p = entry(k), q = entry(half - k);
            if (k == 0) p.y = q.y = 0;  // zero for a real row
            q = conjugate(q);
            const Complex even = p + q, odd = (p - q) * conjugate(roots[k]);
            value = {even.y + odd.x, even.x - odd.y};  // even + i odd, swapped
        });
        A::back(v, shared, twiddle);
    }

    // Transform the row's values j (as of `A::near`) to its half spectrum: call put(k, entry) for k = 0 ... H.
    template <class F>
    static __device__ __forceinline__ void forth(Complex *v, Complex *shared, const Complex *twiddle, F put) {
        A::forth(v, shared, twiddle);
        L::sync();
        A::far(v, [&](Complex &value, int k) { shared[L::at(k)] = value; });
        L::sync();
        const Complex *roots = L::late ? fresh(twiddle + A::table) : twiddle + A::table;
        A::far(v, [&](Complex &value, int k) {
            const Complex p = value * (REAL)0.5, q = conjugate(shared[L::at(k ? half - k : 0)]) * (REAL)0.5;
            const Complex even = p + q, odd = (p - q) * roots[k];
            put(k, Complex{even.x + odd.y, even.y - odd.x});  // even - i odd
            if (k == 0) put(half, Complex{even.x - odd.y, 0});
        });
    }
};

// The same for rows with an odd number N of points. Value (N - 1)/2 is x[N - 1] + 0 i; half spectra have (N + 1)/2 entries.

// Rows of N real points as complex rows of N: pairs of points and single ones change places in shared memory.
template <class INNER, int N>
struct OddRows {
    struct A {  // how the threads of a row hold its pairs
        typedef typename INNER::Layout Layout;
        static constexpr int points = (N + 1) / 2, each = ceiling(points, Layout::threads);
        static constexpr int values = INNER::values > each ? INNER::values : each;
        template <class F>
        static __device__ __forceinline__ void near(Complex *v, F f) {
#pragma unroll
            for (int b = 0; b < each; ++b) {
                const int j = Layout::lane() + b * Layout::threads;
                if (points % Layout::threads == 0 || j < points) f(v[b], j);
            }
        }
    };
    typedef typename A::Layout L;
    static constexpr int half = A::points - 1;
    static __device__ __forceinline__ REAL *row(Complex *shared) { return (REAL *)(shared + L::transform() * L::space); }

    template <class F>
    static __device__ __forceinline__ void back(Complex *v, Complex *shared, const Complex *twiddle, F entry) {
        INNER::far(v, [&](Complex &value, int k) {
            Complex p = entry(k > half ? N - k : k);
            if (k == 0) p.y = 0;  // zero for a real row
            value = swapped(k > half ? conjugate(p) : p);
        });
        INNER::back(v, shared, twiddle);
        L::sync();
        INNER::near(v, [&](Complex &value, int n) { row(shared)[n] = value.y; });
        L::sync();
        A::near(v, [&](Complex &value, int j) { value = {row(shared)[2 * j + 1], row(shared)[2 * j]}; });
    }

    template <class F>
    static __device__ __forceinline__ void forth(Complex *v, Complex *shared, const Complex *twiddle, F put) {
        L::sync();
        A::near(v, [&](Complex &value, int j) {
            row(shared)[2 * j] = value.x;
            row(shared)[2 * j + 1] = value.y;
        });
        L::sync();
        INNER::near(v, [&](Complex &value, int n) { value = {row(shared)[n], 0}; });
        INNER::forth(v, shared, twiddle);
        INNER::far(v, [&](Complex &value, int k) { if (k <= half) put(k, k ? value : Complex{value.x, 0}); });
    }
};

// The same for N with large prime factors. AXIS is an `EverySecond`, whose factors are followed by the first (N + 1)/2 of the N
// roots of unity.
template <class AXIS>
struct ConvolvedOddRows {
    typedef AXIS A;
    typedef typename A::Layout L;
    static constexpr int half = A::points - 1, n = A::frequencies;

    template <class F>
    static __device__ __forceinline__ void back(Complex *v, Complex *shared, const Complex *twiddle, F entry) {
        const Complex *roots = L::late ? fresh(twiddle + A::table) : twiddle + A::table;
        A::far(v, [&](Complex &value, int k) {
            const bool mirrored = k > half;
            const int at = mirrored ? n - k : k;
            Complex p = entry(at), root = roots[at];
            if (k == 0) p.y = 0;  // zero for a real row
            if (mirrored) p = conjugate(p);
            else root = conjugate(root);
            const Complex odd = p * root;
            value = {p.y + odd.x, p.x - odd.y};  // p + i odd, swapped
        });
        A::back(v, shared, twiddle);
    }

    template <class F>
    static __device__ __forceinline__ void forth(Complex *v, Complex *shared, const Complex *twiddle, F put) {
        A::near(v, [&](Complex &value, int j) { if (j == half) value.y = 0; });
        A::forth(v, shared, twiddle);
        L::sync();
        A::far(v, [&](Complex &value, int k) { shared[L::at(k)] = value; });
        L::sync();
        const Complex *roots = L::late ? fresh(twiddle + A::table) : twiddle + A::table;
        A::far(v, [&](Complex &value, int k) {
            if (k > half) return;
            const Complex p = value * (REAL)0.5, q = conjugate(shared[L::at(k ? n - k : 0)]) * (REAL)0.5;
            const Complex even = p + q, odd = (p - q) * roots[k];
            put(k, Complex{even.x + odd.y, even.y - odd.x});  // even - i odd
        });
    }
};
