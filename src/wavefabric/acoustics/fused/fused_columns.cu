// Kernels along y and z of the fused time step on a GPU: tiles of neighbouring columns.

#if WITH_Y
typedef OfLength<Axis<Columns<MY, PY, TY>, Radices<RADICES_Y>, Radices<REVERSED_Y>>, NY>::Type AxisY;

// Transform up to three spectra along y in place, one per blockIdx.z.
#if WITH_Y_TRANSFORM
KERNEL(Y) y_transform(Complex *s0, Complex *s1, Complex *s2, int inverse, TABLE twiddle) {
    const Column<false> c(TY, true);
    Complex *s = blockIdx.z == 0 ? s0 : blockIdx.z == 1 ? s1 : s2;
    const Complex *from = c.of(s);
    Complex v[AxisY::values];
    AxisY::near(v, [&](Complex &value, int n) { value = c.get(from, n); });
    if (inverse) AxisY::near(v, [&](Complex &value, int) { value = swapped(value); });
    AxisY::forth(v, columns_memory(), twiddle);
    Complex *to = c.of(s);
    AxisY::far(v, [&](Complex &value, int n) { c.put(to, n, inverse ? swapped(value) : value); });
}
#endif

#if SPLIT
// Store spectrum `number` in the columns of all ranks, transformed along y if `transform`.
#if WITH_Y_SCATTER
KERNEL(Y) y_scatter(const Complex *s, int number, int transform, SCATTER TABLE twiddle) {
    const Column<false> c(TY, true);
    const Complex *from = c.of(s);
    Complex v[AxisY::values];
    AxisY::near(v, [&](Complex &value, int n) { value = c.get(from, n); });
    const auto to = TO(c, nullptr, number);
    if (transform) {
        AxisY::forth(v, columns_memory(), twiddle);
        AxisY::far(v, [&](Complex &value, int n) { to.put(n, value); });
    } else {
        AxisY::near(v, [&](Complex &value, int n) { to.put(n, value); });
    }
    SENT(number);
}
#endif
#endif

// Transform s0 = kappa F{p} and s1 = d/dz of it back along y: d/dx (s2) and d/dy (s0) with blockIdx.z = 0, d/dz (s1)
// with 1. Layer 0 reads s0 twice, the second time from the L2 cache, as registers are scarce.
#if WITH_Y_GRADIENT
KERNEL(Y) y_gradient(Complex *s0, Complex *s1, Complex *s2, TABLE dx, TABLE dy, TABLE twiddle) {
    const Column<false> c(TY, true);
    const Complex along_x = c.here ? dx[c.kx] : Complex{0, 0};
    const bool z = blockIdx.z == 1;
#pragma unroll 1
    for (int axis = z ? 2 : 0; axis < (z ? 3 : 2); ++axis) {
        Complex v[AxisY::values];
        const Complex *from = c.of(z ? s1 : s0);
        AxisY::near(v, [&](Complex &value, int n) { value = c.get(from, n); });
        AxisY::near(v, [&](Complex &value, int n) { value = swapped(axis == 1 ? value * dy[n] : value); });
        AxisY::forth(v, columns_memory(), twiddle);
        Complex *to = c.of(axis == 0 ? s2 : axis == 1 ? s0 : s1);
        const Complex factor = axis == 0 ? along_x : Complex{1, 0};
        AxisY::far(v, [&](Complex &value, int n) { c.put(to, n, swapped(value) * factor); });
    }
}
#endif
#endif

#if WITH_Y
// Transpose of y_gradient, with derivatives shifted to the other side: s0 <- F s0 dy + F s2 dx with blockIdx.z = 0,
// s1 <- F s1 with 1. F s2 dx is stored in s2 in between, as registers are scarce.
#if WITH_Y_GATHER
KERNEL(Y) y_gather(Complex *s0, Complex *s1, Complex *s2, TABLE dx, TABLE dy, TABLE twiddle) {
    const Column<false> c(TY, true);
    const Complex along_x = c.here ? dx[c.kx] : Complex{0, 0};
    const bool z = blockIdx.z == 1;
#pragma unroll 1
    for (int axis = z ? 1 : 0; axis < 2; ++axis) {
        Complex v[AxisY::values];
        const Complex *from = c.of(z ? s1 : axis ? s0 : s2), *other = c.of(s2);
        AxisY::near(v, [&](Complex &value, int n) { value = c.get(from, n); });
        AxisY::forth(v, columns_memory(), twiddle);
        Complex *to = c.of(z ? s1 : axis ? s0 : s2);
        AxisY::far(v, [&](Complex &value, int n) {
            c.put(to, n, z ? value : axis ? value * dy[n] + c.get(other, n) : value * along_x);
        });
    }
}
#endif
#endif

#if WITH_Z || WITH_G
// Return the terms of x and y of s = (c_ref dt/2)^2 k^2. With the term of z added, kappa = sinc(sqrt(s)).
template <class C>
INLINE REAL across_z(const C &c, REALS x2, REALS y2) {
    return (c.here ? x2[c.kx] : (REAL)0) + (PLANE ? (REAL)0 : y2[blockIdx.y]);
}

INLINE REAL sinc_of_root(REAL s) {
#ifdef SINC_SERIES  // (-1)^j/(2j+1)!, as many terms as the values of s need
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

// Store F^-1 f(F from) along z in the target that `to()` returns.
template <class A, class C, class F, class To>
INLINE void multiply_along_z(const Complex *from, const C &c, const Complex *twiddle, F f, To to) {
    Complex v[A::values];
    from = c.of(from);
    A::near(v, [&](Complex &value, int n) { value = c.get(from, n); });
    A::forth(v, columns_memory(), twiddle);
    A::far(v, [&](Complex &value, int n) { value = swapped(f(value, n)); });
    A::back(v, columns_memory(), twiddle);
    const auto out = to();
    A::near(v, [&](Complex &value, int n) { out.put(n, swapped(value)); });
}
#endif

#if WITH_G
typedef OfLength<Axis<Columns<MG, PG, TG, true>, Radices<RADICES_G>, Radices<REVERSED_G>>, NZ>::Type AxisG;

// Factors of the two spectra of a gradient, which hold F and dF/dz; in a plane, whose columns lie along its y, dF/dy
// and dF/dx.
#if PLANE
#define ALONG_X TABLE dx,
#define ALONG_X_OF(c) const Complex along_x = c.here ? dx[c.kx] : Complex{0, 0}
#define FIRST(value, n) ((value) * dz[n])
#define SECOND(value, n) ((value) * along_x)
#else
#define ALONG_X
#define ALONG_X_OF(c)
#define FIRST(value, n) (value)
#define SECOND(value, n) ((value) * dz[n])
#endif

// s0 <- kappa F{p} and s1 <- d/dz of it, with its own tile size. Both spectra stay in registers or, if they are too
// large for that, F{p} is read and transformed again for the second.
#if WITH_Z_GRADIENT
KERNEL(G) z_gradient(Complex *s0, Complex *s1, REALS x2, REALS y2, REALS z2, ALONG_X TABLE dz, SCATTER TABLE twiddle) {
    const Column<true> c(TG, false);
    const REAL across = across_z(c, x2, y2);
    ALONG_X_OF(c);
    if constexpr (AxisG::values > 16) {
#pragma unroll 1
        for (int whole = 0; whole < 2; ++whole)
            multiply_along_z<AxisG>(
                s0, c, twiddle,
                [&](Complex value, int n) {
                    const Complex filtered = value * sinc_of_root(across + z2[n]);
                    return whole ? FIRST(filtered, n) : SECOND(filtered, n);
                },
                [&] { return TO(c, whole ? s0 : s1, 1 - whole); });
    } else {
        Complex v[AxisG::values], w[AxisG::values];
        const Complex *from = c.of(s0);
        AxisG::near(v, [&](Complex &value, int n) { value = c.get(from, n); });
        AxisG::forth(v, columns_memory(), twiddle);
        AxisG::far(v, [&](Complex &value, int n) {
            value = value * sinc_of_root(across + z2[n]);
            w[&value - v] = swapped(SECOND(value, n));
            value = swapped(FIRST(value, n));
        });
        AxisG::back(v, columns_memory(), twiddle);
        const auto whole = TO(c, s0, 0);
        AxisG::near(v, [&](Complex &value, int n) { whole.put(n, swapped(value)); });
        AxisG::back(w, columns_memory(), twiddle);
        const auto along_z = TO(c, s1, 1);
        AxisG::near(w, [&](Complex &value, int n) { along_z.put(n, swapped(value)); });
    }
    SENT(0);
    SENT(1);
}
#endif

// Transpose of z_gradient, with the derivative shifted to the other side: s0 <- kappa F{s0 + d/dz s1}. F{d/dz s1} is
// kept in registers or, if it is too large, stored in s1.
#if WITH_Z_GATHER
KERNEL(G) z_gather(Complex *s0, Complex *s1, REALS x2, REALS y2, REALS z2, ALONG_X TABLE dz, SCATTER TABLE twiddle) {
    const Column<true> c(TG, false);
    constexpr bool kept = AxisG::values <= 16;
    const REAL across = across_z(c, x2, y2);
    ALONG_X_OF(c);
    Complex v[AxisG::values], w[kept ? AxisG::values : 1];
    Complex *along_z = c.of(s1);
    AxisG::near(v, [&](Complex &value, int n) { value = c.get(along_z, n); });
    AxisG::forth(v, columns_memory(), twiddle);
    AxisG::far(v, [&](Complex &value, int n) {
        if constexpr (kept) w[&value - v] = SECOND(value, n);
        else c.put(along_z, n, SECOND(value, n));
    });
    const Complex *from = c.of(s0);
    AxisG::near(v, [&](Complex &value, int n) { value = c.get(from, n); });
    AxisG::forth(v, columns_memory(), twiddle);
    AxisG::far(v, [&](Complex &value, int n) {
        Complex other;
        if constexpr (kept) other = w[&value - v];
        else other = c.get(along_z, n);
        value = swapped((FIRST(value, n) + other) * sinc_of_root(across + z2[n]));
    });
    AxisG::back(v, columns_memory(), twiddle);
    const auto out = TO(c, s0, 0);
    AxisG::near(v, [&](Complex &value, int n) { out.put(n, swapped(value)); });
    SENT(0);
}
#endif
#endif

#if WITH_Z
typedef OfLength<Axis<Columns<MZ, PZ, TZ>, Radices<RADICES_Z>, Radices<REVERSED_Z>>, NZ>::Type AxisZ;

// Transform along z, multiply by kappa and the derivative, transform back. Layer 0: u_y in s0, 1: u_z in s1, 2: u_x in s2.
#if WITH_Z_DIVERGENCE
KERNEL(Z) z_divergence(Complex *s0, Complex *s1, Complex *s2, REALS x2, REALS y2, REALS z2, TABLE dx, TABLE dy,
                     TABLE dz, int first, SCATTER TABLE twiddle) {
    const Column<false> c(TZ, false);
    const REAL across = across_z(c, x2, y2);
    const int layer = first + blockIdx.z;
    const Complex uniform = layer == 0 && !PLANE ? dy[blockIdx.y] : c.here ? dx[c.kx] : Complex{0, 0};
    Complex *s = layer == 0 ? s0 : layer == 1 ? s1 : s2;
    multiply_along_z<AxisZ>(
        s, c, twiddle,
        [&](Complex value, int n) {
            return value * ((layer == 1 ? dz[n] : uniform) * sinc_of_root(across + z2[n]));
        },
        [&] { return TO(c, s, layer); });
    SENT(layer);
}
#endif

// Transform along z, multiply, transform back: s0 by operator0 (blockIdx.z = 0), s1 by operator1 (1). `first`: number of s0.
#if WITH_Z_SCALE
KERNEL(Z) z_scale(Complex *s0, Complex *s1, REALS operator0, REALS operator1, int first, SCATTER TABLE twiddle) {
    const Column<false> c(TZ, false);
    // All planes of a stack have the same operators.
    const REAL *scale = c.of((blockIdx.z == 0 ? operator0 : operator1) - (PLANE ? c.plane(false) : 0));
    Complex *s = blockIdx.z == 0 ? s0 : s1;
    multiply_along_z<AxisZ>(
        s, c, twiddle, [&](Complex value, int n) { return value * c.get(scale, n); },
        [&] { return TO(c, s, first + blockIdx.z); });
    SENT(first + blockIdx.z);
}
#endif

// Transform s, the last spectrum, along z, multiply by a complex factor of k_z and a scale, transform back.
#if WITH_Z_TRANSLATE
KERNEL(Z) z_translate(Complex *s, TABLE factor, REAL scale, SCATTER TABLE twiddle) {
    const Column<false> c(TZ, false);
    multiply_along_z<AxisZ>(
        s, c, twiddle, [&](Complex value, int n) { return value * (factor[n] * scale); },
        [&] { return TO(c, s, 2); });
    SENT(2);
}
#endif
#endif
