// Discrete Fourier transforms of a few points, separately in each lane of vectors: X_k = sum of v_j exp(-2 pi i j k/R).
#pragma once

#include "vector.h"

// Cosine and sine of 2 pi k/n, computed by their series at compile time.
struct Root {
    double cosine, sine;
};
constexpr Root root_of_unity(int k, int n) {
    const long double pi = 3.14159265358979323846264338327950288L;
    k = (k % n + n) % n;
    long double angle = 2 * pi * k / n;
    if (2 * k > n) angle -= 2 * pi;
    long double term = 1, cosine = 0, sine = 0;
    for (int i = 0; i < 60; i += 2) {
        cosine += term;
        term *= angle / (i + 1);
        sine += term;
        term *= -angle / (i + 2);
    }
    return {(double)cosine, (double)sine};
}

template <int R> struct Roots {
    Root of[R];
    constexpr Roots() : of{} {
        for (int k = 0; k < R; ++k) of[k] = root_of_unity(k, R);
    }
};

template <int R> struct Butterfly {  // for odd primes: sums and differences of the points j and R - j
    static INLINED void run(C *v) {
        constexpr int H = R / 2;
        constexpr Roots<R> roots;
        C sum[H], difference[H], total = v[0];
        for (int j = 0; j < H; ++j) {
            sum[j] = v[j + 1] + v[R - 1 - j];
            difference[j] = down(v[j + 1] - v[R - 1 - j]);
            total = total + sum[j];
        }
        C even[H], odd[H];
#pragma GCC unroll 16
        for (int k = 0; k < H; ++k) {
            even[k] = v[0];
            odd[k] = {V{}, V{}};
#pragma GCC unroll 16
            for (int j = 0; j < H; ++j) {
                const Root w = roots.of[(j + 1) * (k + 1) % R];
                even[k] = even[k] + times(sum[j], w.cosine);
                odd[k] = odd[k] + times(difference[j], w.sine);
            }
        }
        v[0] = total;
        for (int k = 0; k < H; ++k) {
            v[k + 1] = even[k] + odd[k];
            v[R - 1 - k] = even[k] - odd[k];
        }
    }
};
template <> struct Butterfly<2> {
    static INLINED void run(C *v) {
        const C a = v[0], b = v[1];
        v[0] = a + b;
        v[1] = a - b;
    }
};
template <> struct Butterfly<4> {
    static INLINED void run(C *v) {
        const C a = v[0] + v[2], b = v[0] - v[2], c = v[1] + v[3], d = down(v[1] - v[3]);
        v[0] = a + c;
        v[1] = b + d;
        v[2] = a - c;
        v[3] = b - d;
    }
};
template <> struct Butterfly<8> {
    static INLINED void run(C *v) {
        C e[4] = {v[0], v[2], v[4], v[6]}, o[4] = {v[1], v[3], v[5], v[7]};
        Butterfly<4>::run(e);
        Butterfly<4>::run(o);
        const double half = 0.70710678118654752440;
        o[1] = times(o[1] + down(o[1]), half);
        o[2] = down(o[2]);
        o[3] = times(down(o[3]) - o[3], half);
        for (int k = 0; k < 4; ++k) {
            v[k] = e[k] + o[k];
            v[k + 4] = e[k] - o[k];
        }
    }
};
