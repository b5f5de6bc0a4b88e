// Transforms of LANES complex series at once (Stockham's self-sorting form, doi:10.1145/1464291.1464352); of lengths with other prime
// factors as convolutions (Bluestein 1970, doi:10.1109/TAU.1970.1162132).
#pragma once

#include "butterflies.h"

// How series of one length are transformed, made by `wavefabric.kernels.transforms`.
struct Plan {
    Index points;          // of a series
    Index inner;           // points that are transformed: those, or more for a convolution
    Index passes;
    const Index *radices;
    const Complex *factors;   // of each pass but the last: w^(p k), p from 0, k from 1 to its radix - 1
    const Complex *chirp;     // exp(-i pi j^2/n) of a convolution, and the transform of its kernel over its length
    const Complex *kernel;
};

template <int R, class In, class Out> FN void pass(Index length, Index stride, const Complex *factors, In in, Out out) {
    const Index m = length / R;
    for (Index p = 0; p < m; ++p, factors += R - 1) {
        C w[R];
        if (m > 1)
            for (int k = 1; k < R; ++k) w[k] = splat(factors[k - 1]);
        for (Index q = 0; q < stride; ++q) {
            C v[R];
#pragma GCC unroll 16
            for (int k = 0; k < R; ++k) v[k] = in(q + stride * (p + m * k));
            Butterfly<R>::run(v);
            out(q + stride * R * p, v[0]);
#pragma GCC unroll 16
            for (int k = 1; k < R; ++k) out(q + stride * (R * p + k), m > 1 ? v[k] * w[k] : v[k]);
        }
    }
}

template <class In, class Out> static void pass_of(Index radix, Index length, Index stride, const Complex *factors, In in, Out out) {
    switch (radix) {
    case 1: return out(0, in(0));
    case 2: return pass<2>(length, stride, factors, in, out);
    case 3: return pass<3>(length, stride, factors, in, out);
    case 4: return pass<4>(length, stride, factors, in, out);
    case 5: return pass<5>(length, stride, factors, in, out);
    case 7: return pass<7>(length, stride, factors, in, out);
    case 8: return pass<8>(length, stride, factors, in, out);
    case 11: return pass<11>(length, stride, factors, in, out);
    case 13: return pass<13>(length, stride, factors, in, out);
    }
}

// Where series come from and go to: arrays of vectors, and (lines.h) columns of a spectrum. Backward is forward with real and imaginary
// parts exchanged on the way in and out. These types are few, since each compiles all radices anew.
struct From {
    const C *a;
    INLINED C operator()(Index i) const { return a[i]; }
};
struct Into {
    C *a;
    INLINED void operator()(Index i, C v) const { a[i] = v; }
};
struct FromSwapped {
    const C *a;
    INLINED C operator()(Index i) const { return swapped(a[i]); }
};
struct IntoSwapped {
    C *a;
    INLINED void operator()(Index i, C v) const { a[i] = swapped(v); }
};

// All passes, from `in` to `out`, by way of two arrays of as many points. All of `in` is read before anything goes to `out`.
template <class In, class Out> static void passes(const Plan &plan, C *a, C *b, In in, Out out) {
    Index length = plan.inner, stride = 1;
    const Complex *factors = plan.factors;
    if (plan.passes == 1)
        for (Index i = 0; i < length; ++i) a[i] = in(i);
    for (Index i = 0; i < plan.passes; ++i) {
        const Index radix = plan.radices[i];
        if (i + 1 == plan.passes) {
            pass_of(radix, length, stride, factors, From{a}, out);
        } else if (i == 0) {
            pass_of(radix, length, stride, factors, in, Into{a});
        } else {
            pass_of(radix, length, stride, factors, From{a}, Into{b});
            C *c = a;
            a = b;
            b = c;
        }
        factors += length / radix * (radix - 1);
        length /= radix;
        stride *= radix;
    }
}

// The unscaled transform forward of LANES series, from `in` to `out`. Scratch: 2 `inner`, or 3 for a convolution.
template <class In, class Out> static void transform(const Plan &plan, C *scratch, In in, Out out) {
    C *a = scratch, *b = a + plan.inner;
    if (!plan.chirp) return passes(plan, a, b, in, out);
    C *whole = b + plan.inner;
    const Index n = plan.points;
    for (Index i = 0; i < n; ++i) whole[i] = in(i) * splat(plan.chirp[i]);
    for (Index i = n; i < plan.inner; ++i) whole[i] = {V{}, V{}};
    passes(plan, a, b, From{whole}, Into{whole});
    for (Index i = 0; i < plan.inner; ++i) whole[i] = whole[i] * splat(plan.kernel[i]);  // with 1/inner
    passes(plan, a, b, FromSwapped{whole}, IntoSwapped{whole});
    for (Index i = 0; i < n; ++i) out(i, whole[i] * splat(plan.chirp[i]));
}
