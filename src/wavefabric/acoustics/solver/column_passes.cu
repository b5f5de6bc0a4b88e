// Passes along y and z of the fused time step on a GPU: tiles of neighbouring columns.

// Column of this thread along y in plane blockIdx.y, or along z at y = blockIdx.y.
struct Column {
    int kx;
    bool here;
    Index first, step;
    INLINE Column(int tile, bool along_y)
        : kx(blockIdx.x * tile + threadIdx.x % tile),
          here(kx < HALF),
          first((along_y ? (Index)blockIdx.y * NY : (Index)blockIdx.y) * PITCH + kx),
          step(along_y ? PITCH : (Index)NY * PITCH) {}
    INLINE REAL get(const REAL *s, int n) const { return here ? s[first + n * step] : (REAL)0; }
    INLINE Complex get(const Complex *s, int n) const { return here ? s[first + n * step] : Complex{0, 0}; }
    INLINE void put(Complex *s, int n, Complex value) const { if (here) s[first + n * step] = value; }
};

INLINE Complex *columns_memory() { return (Complex *)memory; }

// to <- after(F^-1 before(from)) along the columns of an axis.
template <class A, class F, class G>
INLINE void back_along(const Complex *from, Complex *to, const Column &c, const Complex *twiddle, F before, G after) {
    Complex v[A::values];
    from = fresh(from);
    A::near(v, [&](Complex &value, int n) { value = c.get(from, n); });
    A::near(v, [&](Complex &value, int n) { value = swapped(before(value, n)); });
    A::forth(v, columns_memory(), twiddle);
    to = fresh(to);
    A::far(v, [&](Complex &value, int n) { c.put(to, n, after(swapped(value))); });
}

#if WITH_Y
typedef Axis<Columns<NY, PY, TY>, Radices<RADICES_Y>, Radices<REVERSED_Y>> AxisY;

// Transforms of up to three spectra in place, one a block layer.
PASS(Y) y_transform(Complex *s0, Complex *s1, Complex *s2, int inverse, TABLE twiddle) {
    const Column c(TY, true);
    Complex *s = blockIdx.z == 0 ? s0 : blockIdx.z == 1 ? s1 : s2;
    Complex v[AxisY::values];
    AxisY::near(v, [&](Complex &value, int n) { value = c.get(s, n); });
    if (inverse) AxisY::near(v, [&](Complex &value, int) { value = swapped(value); });
    AxisY::forth(v, columns_memory(), twiddle);
    s = fresh(s);
    AxisY::far(v, [&](Complex &value, int n) { c.put(s, n, inverse ? swapped(value) : value); });
}

// s0 = kappa F{p}, s1 = d/dz of it: back along y into d/dx (s2), d/dy (s0) in block layer 0, d/dz (s1) in layer 1.
PASS(Y) y_gradient(Complex *s0, Complex *s1, Complex *s2, TABLE dx, TABLE dy, TABLE twiddle) {
    const Column c(TY, true);
    const auto same = [](Complex value, int = 0) { return value; };
    if (blockIdx.z == 1) {
        back_along<AxisY>(s1, s1, c, twiddle, same, same);
        return;
    }
    const Complex factor = c.here ? dx[c.kx] : Complex{0, 0};
    back_along<AxisY>(s0, s2, c, twiddle, same, [&](Complex value) { return value * factor; });
    // s0 again, from the second-level cache: registers are dearer.
    back_along<AxisY>(s0, s0, c, twiddle, [&](Complex value, int n) { return value * dy[n]; }, same);
}
#endif

#if WITH_Z
typedef Axis<Columns<NZ, PZ, TZ>, Radices<RADICES_Z>, Radices<REVERSED_Z>> AxisZ;

// (c_ref dt/2)^2 k^2 of each axis; kappa = sinc of the root of their sum.
struct Squares {
    const REAL *x, *y, *z;
    INLINE REAL across(const Column &c) const { return (c.here ? x[c.kx] : (REAL)0) + y[blockIdx.y]; }
};

INLINE REAL sinc_of_root(REAL s) {
#ifdef SINC_SERIES  // 1/(2j+1)! with alternating sign, as many as these squares need
    constexpr REAL series[] = {SINC_SERIES};
    constexpr int terms = sizeof(series) / sizeof(REAL);
    REAL sum = series[terms - 1];
#pragma unroll
    for (int j = terms - 2; j >= 0; --j) sum = fma(sum, s, series[j]);
    return sum;
#else
    const REAL root = sqrt(s);
    return s > 0 ? sin(root) / root : (REAL)1;
#endif
}

// to <- F^-1 f(F from) along z.
template <class F>
INLINE void multiply_along_z(const Complex *from, Complex *to, const Column &c, const Complex *twiddle, F f) {
    Complex v[AxisZ::values];
    from = fresh(from);
    AxisZ::near(v, [&](Complex &value, int n) { value = c.get(from, n); });
    AxisZ::forth(v, columns_memory(), twiddle);
    AxisZ::far(v, [&](Complex &value, int n) { value = swapped(f(value, n)); });
    AxisZ::back(v, columns_memory(), twiddle);
    to = fresh(to);
    AxisZ::near(v, [&](Complex &value, int n) { c.put(to, n, swapped(value)); });
}

// s0 <- kappa F{p} and s1 <- d/dz of it. F{p} is read again for the second and transformed once more: neither
// registers nor shared memory would keep it without halving the blocks at work.
PASS(Z) z_gradient(Complex *s0, Complex *s1, REALS x2, REALS y2, REALS z2, TABLE dz, TABLE twiddle) {
    const Column c(TZ, false);
    const Squares squares = {x2, y2, z2};
    const REAL across = squares.across(c);
#pragma unroll 1
    for (int whole = 0; whole < 2; ++whole)
        multiply_along_z(s0, whole ? s0 : s1, c, twiddle, [&](Complex value, int n) {
            const Complex filtered = value * sinc_of_root(across + z2[n]);
            return whole ? filtered : filtered * dz[n];
        });
}

// Layer 0: u_y in s0, 1: u_z in s1, 2: u_x in s2; each times kappa and its derivative, back along z.
PASS(Z) z_divergence(Complex *s0, Complex *s1, Complex *s2, REALS x2, REALS y2, REALS z2, TABLE dx, TABLE dy,
                     TABLE dz, int first, TABLE twiddle) {
    const Column c(TZ, false);
    const Squares squares = {x2, y2, z2};
    const REAL across = squares.across(c);
    const int layer = first + blockIdx.z;
    const Complex uniform = layer == 0 ? dy[blockIdx.y] : c.here ? dx[c.kx] : Complex{0, 0};
    Complex *s = layer == 0 ? s0 : layer == 1 ? s1 : s2;
    multiply_along_z(s, s, c, twiddle, [&](Complex value, int n) {
        return value * ((layer == 1 ? dz[n] : uniform) * sinc_of_root(across + z2[n]));
    });
}

// Layer 0: s0 times operator0, layer 1: s1 times operator1; along z there and back.
PASS(Z) z_scale(Complex *s0, Complex *s1, REALS operator0, REALS operator1, TABLE twiddle) {
    const Column c(TZ, false);
    const REAL *scale = blockIdx.z == 0 ? operator0 : operator1;
    Complex *s = blockIdx.z == 0 ? s0 : s1;
    multiply_along_z(s, s, c, twiddle, [&](Complex value, int n) { return value * c.get(scale, n); });
}

// s times a complex factor of k_z and a scale, along z there and back.
PASS(Z) z_translate(Complex *s, TABLE factor, REAL scale, TABLE twiddle) {
    const Column c(TZ, false);
    multiply_along_z(s, s, c, twiddle, [&](Complex value, int n) { return value * (factor[n] * scale); });
}
#endif
