// Transforms of LANES complex series at once, in place: forward from natural to digit-reversed order (decimation in frequency), backward
// from digit-reversed to natural order (in time; Gentleman & Sande 1966, doi:10.1145/1464291.1464352). Lengths with prime factors above
// 13 are convolutions (Bluestein 1970, doi:10.1109/TAU.1970.1162132). Nothing is scaled.
#pragma once

#include "butterflies.h"

// Plan of the transforms of series of one length, built by `wavefabric.runtime.kernels.series_plan`.
struct Plan {
    Index points;            // of a series
    Index inner;             // points of the inner transforms: `points`, or more for a convolution
    Index passes;
    const Index *radices;
    const Index *order;      // which transformed number is stored at each position
    const Complex *factors;  // per pass: w^(p k), p = 0, 1, ..., k = 1 ... its radix - 1
    const Complex *chirp;    // for a convolution: exp(-i pi j^2/n); and the transform of its kernel over `inner`, by position
    const Complex *kernel;
    const Index *place;      // position of each transformed number
};

template <int R> FN void load_factors(const Complex *factors, Index m, C *w) {
    if (m > 1)
#pragma GCC unroll 16
        for (int k = 1; k < R; ++k) w[k] = splat(factors[k - 1]);
}

// A pass of decimation in frequency over `blocks` blocks of `length` numbers: butterflies, then factors.
template <int R, class In, class Out> FN void fall(Index length, Index blocks, const Complex *factors, In in, Out out) {
    const Index m = length / R;
    for (Index p = 0; p < m; ++p, factors += R - 1) {
        C w[R];
        load_factors<R>(factors, m, w);
        for (Index b = p; b < blocks * length; b += length) {
            C v[R];
#pragma GCC unroll 16
            for (int k = 0; k < R; ++k) v[k] = in(b + m * k);
            Butterfly<R>::run(v);
            out(b, v[0]);
#pragma GCC unroll 16
            for (int k = 1; k < R; ++k) out(b + m * k, m > 1 ? v[k] * w[k] : v[k]);
        }
    }
}

// A pass of decimation in time: factors, then butterflies.
template <int R, class In, class Out> FN void rise(Index length, Index blocks, const Complex *factors, In in, Out out) {
    const Index m = length / R;
    for (Index p = 0; p < m; ++p, factors += R - 1) {
        C w[R];
        load_factors<R>(factors, m, w);
        for (Index b = p; b < blocks * length; b += length) {
            C v[R];
            v[0] = in(b);
#pragma GCC unroll 16
            for (int k = 1; k < R; ++k) v[k] = m > 1 ? in(b + m * k) * w[k] : in(b + m * k);
            Butterfly<R>::run(v);
#pragma GCC unroll 16
            for (int k = 0; k < R; ++k) out(b + m * k, v[k]);
        }
    }
}

#define RADICES(pass)                                                          \
    switch (radix) {                                                           \
    case 1: return out(0, in(0));                                              \
    case 2: return pass<2>(length, blocks, factors, in, out);                  \
    case 3: return pass<3>(length, blocks, factors, in, out);                  \
    case 4: return pass<4>(length, blocks, factors, in, out);                  \
    case 5: return pass<5>(length, blocks, factors, in, out);                  \
    case 7: return pass<7>(length, blocks, factors, in, out);                  \
    case 8: return pass<8>(length, blocks, factors, in, out);                  \
    case 11: return pass<11>(length, blocks, factors, in, out);                \
    case 13: return pass<13>(length, blocks, factors, in, out);                \
    }
template <class In, class Out> static void fall_by(Index radix, Index length, Index blocks, const Complex *factors, In in, Out out) {
    RADICES(fall)
}
template <class In, class Out> static void rise_by(Index radix, Index length, Index blocks, const Complex *factors, In in, Out out) {
    RADICES(rise)
}

// Sources and targets of series: arrays of vectors, and (lines.h) columns of a spectrum. A backward transform is a forward one with
// real and imaginary parts exchanged on input and output. These types are few, since all radices are compiled again for each.
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
// Access to another source or target by position: position i stands for number order[i].
template <class In> struct InOrder {
    In in;
    const Index *order;
    INLINED C operator()(Index place) const { return in(order[place]); }
};
template <class Out> struct OutInOrder {
    Out out;
    const Index *order;
    INLINED void operator()(Index place, C v) const { out(order[place], v); }
};

// Run all passes forward: read numbers from `in`, work in the array `a`, write to `out` by position.
template <class In, class Out> static void fall_all(const Plan &plan, C *a, In in, Out out) {
    Index length = plan.inner, blocks = 1;
    const Complex *factors = plan.factors;
    if (plan.passes == 1)
        for (Index i = 0; i < length; ++i) a[i] = in(i);
    for (Index i = 0; i < plan.passes; ++i) {
        const Index radix = plan.radices[i];
        if (i + 1 == plan.passes) fall_by(radix, length, blocks, factors, From{a}, out);
        else if (i == 0) fall_by(radix, length, blocks, factors, in, Into{a});
        else fall_by(radix, length, blocks, factors, From{a}, Into{a});
        factors += length / radix * (radix - 1);
        length /= radix;
        blocks *= radix;
    }
}

// Run all passes backward: read numbers from `in` by position, work in the array `a`, write to `out`.
template <class In, class Out> static void rise_all(const Plan &plan, C *a, In in, Out out) {
    Index length = 1, blocks = plan.inner;
    const Complex *factors = plan.factors;
    for (Index i = 0, left = plan.inner; i < plan.passes; ++i) {
        factors += left / plan.radices[i] * (plan.radices[i] - 1);
        left /= plan.radices[i];
    }
    if (plan.passes == 1)
        for (Index i = 0; i < plan.inner; ++i) a[i] = in(i);
    for (Index i = plan.passes; i-- > 0;) {
        const Index radix = plan.radices[i];
        length *= radix;
        blocks /= radix;
        factors -= length / radix * (radix - 1);
        if (i == 0) rise_by(radix, length, blocks, factors, From{a}, out);
        else if (i + 1 == plan.passes) rise_by(radix, length, blocks, factors, in, Into{a});
        else rise_by(radix, length, blocks, factors, From{a}, Into{a});
    }
}

// Convolve: multiply the series by the chirp, transform it, multiply by the kernel's transform, transform back.
template <class In> FN void convolve(const Plan &plan, C *a, In in) {
    for (Index i = 0; i < plan.points; ++i) a[i] = in(i) * splat(plan.chirp[i]);
    for (Index i = plan.points; i < plan.inner; ++i) a[i] = {V{}, V{}};
    fall_all(plan, a, From{a}, Into{a});
    for (Index i = 0; i < plan.inner; ++i) a[i] = a[i] * splat(plan.kernel[i]);  // with 1/inner
    rise_all(plan, a, FromSwapped{a}, IntoSwapped{a});
}

// Transform forward into an array of `inner` numbers, ordered by position, or naturally for a convolution.
template <class In> static void forth(const Plan &plan, C *a, In in) {
    if (!plan.chirp) return fall_all(plan, a, in, Into{a});
    convolve(plan, a, in);
    for (Index i = 0; i < plan.points; ++i) a[i] = a[i] * splat(plan.chirp[i]);
}
// Transform the result of `forth` back, overwriting the array; `out` gets real and imaginary parts exchanged.
template <class Out> static void back(const Plan &plan, C *a, Out out) {
    if (!plan.chirp) return rise_all(plan, a, FromSwapped{a}, out);
    convolve(plan, a, FromSwapped{a});
    for (Index i = 0; i < plan.points; ++i) out(i, a[i] * splat(plan.chirp[i]));
}
// Transforms from natural order to natural order; the array is scratch.
template <class In, class Out> static void forth_in_order(const Plan &plan, C *a, In in, Out out) {
    if (!plan.chirp) return fall_all(plan, a, in, OutInOrder<Out>{out, plan.order});
    convolve(plan, a, in);
    for (Index i = 0; i < plan.points; ++i) out(i, a[i] * splat(plan.chirp[i]));
}
template <class In, class Out> static void back_in_order(const Plan &plan, C *a, In in, Out out) {
    if (!plan.chirp) return rise_all(plan, a, InOrder<In>{in, plan.order}, out);
    convolve(plan, a, in);
    for (Index i = 0; i < plan.points; ++i) out(i, a[i] * splat(plan.chirp[i]));
}
