// Vectors of the processor's width, complex numbers of vectors, and permutations of lanes.
#pragma once

#include "driver.h"

#if defined(__AVX512F__) && !defined(NARROW)
#include <immintrin.h>
#define VECTOR_BYTES 64
#elif defined(__AVX__)
#include <immintrin.h>
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#if defined(__ARM_NEON)
#include <arm_neon.h>
#endif
#endif

typedef REAL V __attribute__((vector_size(VECTOR_BYTES)));
typedef REAL Unaligned __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(REAL)), may_alias));
constexpr int LANES = VECTOR_BYTES / sizeof(REAL);
constexpr bool SINGLE = sizeof(REAL) == 4;

FN V load(const REAL *p) { return *(const Unaligned *)p; }
FN void store(REAL *p, V v) { *(Unaligned *)p = v; }
FN V splat(REAL value) { return V{} + value; }

// a b + c, rounded once where the processor has an instruction for that.
FN V fma(V a, V b, V c) {
#if defined(__AVX512F__) && !defined(NARROW)
    if constexpr (SINGLE) return (V)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
    else return (V)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(__FMA__)
    if constexpr (SINGLE) return (V)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
    else return (V)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#elif defined(__ARM_NEON)
    if constexpr (SINGLE) return (V)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
    else return (V)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
#else
    return a * b + c;
#endif
}

// x c for a constant that REAL cannot represent exactly: single precision also uses the residual, so that long runs of transforms neither
// gain nor lose energy.
FN V times(V x, double c) {
    const REAL high = (REAL)c;
    if constexpr (!SINGLE) return x * high;
    const REAL low = (REAL)(c - (double)high);
    return low == 0 ? x * high : fma(x, splat(high), x * low);  // rounded once: the other way round the residual would be lost
}

struct C {  // a complex number in each lane
    V re, im;
};
FN C operator+(C a, C b) { return {a.re + b.re, a.im + b.im}; }
FN C operator-(C a, C b) { return {a.re - b.re, a.im - b.im}; }
FN C operator*(C a, V b) { return {a.re * b, a.im * b}; }
FN C times(C a, double c) { return {times(a.re, c), times(a.im, c)}; }
FN C operator*(C a, C b) { return {fma(a.re, b.re, -(a.im * b.im)), fma(a.re, b.im, a.im * b.re)}; }
FN C splat(Complex c) { return {splat(c.re), splat(c.im)}; }
FN C conjugate(C a) { return {a.re, -a.im}; }
FN C swapped(C a) { return {a.im, a.re}; }
FN C down(C a) { return {a.im, -a.re}; }  // a (-i)
FN C up(C a) { return {-a.im, a.re}; }    // a i

// Select lanes of two vectors: lane i of the result is lane Rule::from(i), counted through the first vector, then the second.
template <int... I> struct Lanes {};
template <int N, int... I> struct Count : Count<N - 1, N - 1, I...> {};
template <int... I> struct Count<0, I...> { using type = Lanes<I...>; };
template <class Rule, int... I> FN V shuffled(V a, V b, Lanes<I...>) { return __builtin_shufflevector(a, b, Rule::from(I)...); }
template <class Rule> FN V shuffle(V a, V b) { return shuffled<Rule>(a, b, typename Count<LANES>::type{}); }

struct Even { static constexpr int from(int i) { return 2 * i; } };
struct Odd { static constexpr int from(int i) { return 2 * i + 1; } };
struct Low { static constexpr int from(int i) { return i / 2 + i % 2 * LANES; } };
struct High { static constexpr int from(int i) { return (i + LANES) / 2 + i % 2 * LANES; } };
// The first half twice.
struct Repeat { static constexpr int from(int i) { return i % (LANES / 2); } };
// Alternate blocks of S lanes of both vectors: the even blocks of both, or the odd blocks of both.
template <int S> struct EvenBlocks { static constexpr int from(int i) { return i & S ? i - S + LANES : i; } };
template <int S> struct OddBlocks { static constexpr int from(int i) { return i & S ? i + LANES : i + S; } };

// Load or store LANES complex numbers, half of them at p, half at q.
FN C load_complex(const Complex *p, const Complex *q) {
    const V a = load((const REAL *)p), b = load((const REAL *)q);
    return {shuffle<Even>(a, b), shuffle<Odd>(a, b)};
}
FN void store_complex(Complex *p, Complex *q, C v) {
    store((REAL *)p, shuffle<Low>(v.re, v.im));
    store((REAL *)q, shuffle<High>(v.re, v.im));
}

// Transpose a square of vectors whose elements are blocks of S lanes, with as many vectors as a vector has blocks; if END < LANES, only
// squares of END lanes within it.
template <int S, int BLOCK, int END> INLINED void transpose_blocks(V *v) {
    if constexpr (S < END) {
#pragma GCC unroll 16
        for (int i = 0; i < LANES / BLOCK; ++i)
            if (!(i & S / BLOCK)) {
                const V a = v[i], b = v[i + S / BLOCK];
                v[i] = shuffle<EvenBlocks<S>>(a, b);
                v[i + S / BLOCK] = shuffle<OddBlocks<S>>(a, b);
            }
        transpose_blocks<2 * S, BLOCK, END>(v);
    }
}
FN void transpose(V *v) { transpose_blocks<1, 1, LANES>(v); }
FN void transpose_pairs(V *v) { transpose_blocks<2, 2, LANES>(v); }

// Load LANES numbers of each of LANES rows, row `last` again if there are fewer: v[j] gets number j of every row, one row per lane.
FN void load_square(const REAL *rows, Index stride, Index last, V *v) {
#if defined(__AVX512F__)
    // Quarters of rows are combined while they are loaded, which saves half of the permutations of lanes.
    if constexpr (SINGLE && LANES == 16) {
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
            const REAL *row[4];
            for (int g = 0; g < 4; ++g) row[g] = rows + (i + 4 * g < last ? i + 4 * g : last) * stride;
#pragma GCC unroll 4
            for (int q = 0; q < 4; ++q) {
                __m512 w = _mm512_castps128_ps512(_mm_loadu_ps((const float *)row[0] + 4 * q));
                w = _mm512_insertf32x4(w, _mm_loadu_ps((const float *)row[1] + 4 * q), 1);
                w = _mm512_insertf32x4(w, _mm_loadu_ps((const float *)row[2] + 4 * q), 2);
                w = _mm512_insertf32x4(w, _mm_loadu_ps((const float *)row[3] + 4 * q), 3);
                v[4 * q + i] = (V)w;
            }
        }
        transpose_blocks<1, 1, 4>(v);
        return;
    }
#endif
#pragma GCC unroll 16
    for (int i = 0; i < LANES; ++i) v[i] = load(rows + (i < last ? i : last) * stride);
    transpose(v);
}
