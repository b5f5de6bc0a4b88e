// Formulas of the Kerr operators for one sample of one row or phase group.
//
// A Runge-Kutta increment is i times one real phase per group times a field. Powers of intermediate fields therefore follow from three
// sums over the rows of a group (|A|^2, |B|^2, Im A*B), and a kernel reads each field once, however many stages its operator has.
#pragma once

#include "fused.h"

#ifdef __CUDACC__
#define MEMBER static __device__ __forceinline__
#else
#define MEMBER static inline __attribute__((always_inline))
#endif

// A sample of a field, sqrt(W); CUDA has types for it, float2 or double2.
#ifndef REAL2
struct Sample {
    REAL x, y;
};
#define REAL2 Sample
#endif

FN REAL power(REAL2 a) { return a.x * a.x + a.y * a.y; }

// --- powers of a group ---------------------------------------------------------------------------

FN REAL cross(REAL2 x, REAL2 y) { return x.x * y.y - x.y * y.x; }  // Im x*y

// |x|^2, |y|^2 and Im x*y of a row, or summed over the rows of a group.
struct Sums {
    REAL xx, yy, xy;
};
FN Sums operator+(Sums a, Sums b) { return {a.xx + b.xx, a.yy + b.yy, a.xy + b.xy}; }

// --- rows ----------------------------------------------------------------------------------------

// A sample after an operator. k4: increment of the last stage of RK4IP, for the local error.
struct Row {
    REAL2 a, k, k4;
};

FN REAL2 scaled(REAL2 a, REAL v) { return {v * a.x, v * a.y}; }
FN REAL2 times_i(REAL2 a, REAL v) { return {-v * a.y, v * a.x}; }

#ifdef __CUDACC__
FN void sine_cosine(float x, float* s, float* c) { sincosf(x, s, c); }
FN void sine_cosine(double x, double* s, double* c) { sincos(x, s, c); }
#else
FN float floor_of(float x) { return __builtin_floorf(x); }
FN double floor_of(double x) { return __builtin_floor(x); }
// Polynomial in q by Horner's rule, the coefficient of the highest power first.
FN REAL horner(REAL, REAL sum) { return sum; }
template <class... More> FN REAL horner(REAL q, REAL sum, double next, More... more)
{
    return horner(q, fused(sum, q, (REAL)next), more...);
}
// Sine and cosine of x less the nearest multiple k pi: both have the opposite sign if k is odd. Taylor series on [-pi/2, pi/2]; the
// remainders y^23/23! and y^24/24! are below 2e-18.
FN void sine_cosine(REAL x, REAL* s, REAL* c)
{
    const REAL pi = (REAL)3.141592653589793, rest = (REAL)(3.141592653589793 - (double)pi);
    const REAL k = floor_of(fused(x, (REAL)0.3183098861837907, REAL(0.5)));
    const REAL y = fused(-k, rest, fused(-k, pi, x)), q = y * y;
    *s = y * horner(q, (REAL)1.9572941063391263e-20, -8.2206352466243295e-18, 2.8114572543455206e-15, -7.6471637318198164e-13,
                        1.6059043836821613e-10, -2.5052108385441720e-08, 2.7557319223985893e-06, -1.9841269841269841e-04,
                        8.3333333333333332e-03, -1.6666666666666666e-01, 1.0);
    *c = horner(q, (REAL)-8.8967913924505741e-22, 4.1103176233121648e-19, -1.5619206968586225e-16, 4.7794773323873853e-14,
                    -1.1470745597729725e-11, 2.0876756987868100e-09, -2.7557319223985888e-07, 2.4801587301587302e-05,
                    -1.3888888888888889e-03, 4.1666666666666664e-02, -0.5, 1.0);
}
#endif

FN REAL2 turned(REAL2 a, REAL re, REAL im)
{
    return {a.x + (a.x * re - a.y * im), a.y + (a.x * im + a.y * re)};
}

// (cos phase - 1, sin phase), without cancellation.
FN void rotation(REAL phase, REAL* re, REAL* im)
{
    REAL s, c;
    sine_cosine(phase * REAL(0.5), &s, &c);
    *re = REAL(-2) * s * s;
    *im = REAL(2) * s * c;
}

// Add to the gradient y of a sample a the contribution of its group's power: 2 a times the derivative with respect to the power.
FN REAL2 with_power(REAL2 y, REAL by_power, REAL2 a) { return {y.x + 2 * by_power * a.x, y.y + 2 * by_power * a.y}; }

// |6 k4/h - k|^2 of a sample. The squared local error of a step is the sum of this times 0.01 h^2.
FN double squared_difference(const Row& now, double h)
{
    const double x = 6.0 / h * now.k4.x - now.k.x, y = 6.0 / h * now.k4.y - now.k.y;
    return x * x + y * y;
}

// --- operators -----------------------------------------------------------------------------------
//
// An operator computes STAGES phase rates, one after another. `row` returns what a row adds to the sums of its group; the first rate
// follows from the power |y|^2. `begin` stores what later stages need of the sums: NUMBERS numbers, `stride` apart. `advance` computes
// the power of the next stage from the rate and power of a stage, `update` the sample from the last rate. For an operator that TURNS
// A, `turn` returns the factor less 1, the same for all rows of a group.

struct OfPower {
    static constexpr int STAGES = 1, NUMBERS = 0;
    static constexpr bool READS_K = false, WRITES_A = true, WRITES_K = false, TURNS = false, MEASURES = false;
    MEMBER Sums row(REAL2 a, REAL2, double) { return {0, power(a), 0}; }
    MEMBER void begin(const Sums&, REAL*, Index) {}
    MEMBER REAL advance(int, REAL, REAL, REAL*, Index, double) { return 0; }
};

struct Derivative : OfPower {
    static constexpr bool WRITES_A = false, WRITES_K = true;
    MEMBER Row update(REAL2 a, REAL2, REAL rate, const REAL*, Index, double)
    {
        return {a, times_i(a, rate)};
    }
};

template <class Operator> struct Turning : OfPower {
    static constexpr bool TURNS = true;
    MEMBER Row update(REAL2 a, REAL2, REAL rate, const REAL* numbers, Index stride, double h)
    {
        REAL re, im;
        Operator::turn(rate, numbers, stride, h, &re, &im);
        return {turned(a, re, im)};
    }
};

struct Rotate : Turning<Rotate> {
    MEMBER void turn(REAL rate, const REAL*, Index, double h, REAL* re, REAL* im)
    {
        rotation(REAL(h) * rate, re, im);
    }
};

// Numbers: |A|^2; the multiplier of A in the increment of a stage (re, im); the weighted sum of these multipliers (re, im).
struct RotateRungeKutta4 : Turning<RotateRungeKutta4> {
    static constexpr int STAGES = 4, NUMBERS = 5;
    MEMBER void begin(const Sums& sums, REAL* numbers, Index stride)
    {
        numbers[0] = sums.yy;
        for (int j = 1; j < NUMBERS; ++j) numbers[j * stride] = 0;
    }
    // Weight of the previous increment in the argument of a stage.
    MEMBER REAL before(int stage)
    {
        return stage == 0 ? REAL(0) : (stage == 3 ? REAL(1) : REAL(0.5));
    }
    MEMBER REAL advance(int stage, REAL rate, REAL, REAL* numbers, Index stride, double h)
    {
        const REAL u = REAL(h) * rate, weight = REAL(stage == 0 ? 1 : 2) / REAL(6);
        const REAL mr = -u * (before(stage) * numbers[2 * stride]), mi = u * (1 + before(stage) * numbers[stride]);
        numbers[stride] = mr;
        numbers[2 * stride] = mi;
        numbers[3 * stride] += weight * mr;
        numbers[4 * stride] += weight * mi;
        const REAL x = 1 + before(stage + 1) * mr, y = before(stage + 1) * mi;
        return numbers[0] * (x * x + y * y);
    }
    MEMBER void turn(REAL rate, const REAL* numbers, Index stride, double h, REAL* re, REAL* im)
    {
        const REAL u = REAL(h) * rate, weight = REAL(1) / REAL(6);
        *re = numbers[3 * stride] - weight * (u * numbers[2 * stride]);
        *im = numbers[4 * stride] + weight * (u * (1 + numbers[stride]));
    }
};

// Two stages of RK4IP. Numbers: the first phase rate, |x|^2 and Im x*y.
template <class Operator> struct OfRK4IP : OfPower {
    static constexpr int STAGES = 2, NUMBERS = 3;
    static constexpr bool READS_K = true, WRITES_K = true;
    MEMBER void begin(const Sums& sums, REAL* numbers, Index stride)
    {
        numbers[stride] = sums.xx;
        numbers[2 * stride] = sums.xy;
    }
    MEMBER REAL advance(int, REAL rate, REAL yy, REAL* numbers, Index stride, double h)
    {
        return Operator::next_power(numbers[stride], yy, numbers[2 * stride], Operator::step(h) * rate);
    }
};

// a is A_I, k is k1/h; in the sums, x is a and y is a + k1/2.
struct RK4IPMiddle : OfRK4IP<RK4IPMiddle> {
    MEMBER Sums row(REAL2 a, REAL2 k, double h)
    {
        const REAL half = REAL(0.5 * h);
        const REAL2 b = {a.x + half * k.x, a.y + half * k.y};
        return {power(a), power(b), cross(a, b)};
    }
    MEMBER REAL step(double h) { return REAL(h); }
    MEMBER REAL next_power(REAL xx, REAL yy, REAL xy, REAL u)
    {
        return xx + u * (REAL(0.25) * u * yy - xy);
    }
    MEMBER Row update(REAL2 a, REAL2 k, REAL rate, const REAL* numbers, Index, double h)
    {
        const REAL u = REAL(h) * numbers[0], v = REAL(h) * rate;
        const REAL2 d = scaled(k, REAL(0.5 * h));
        const REAL2 k2 = {-u * (a.y + d.y), u * (a.x + d.x)};
        const REAL2 k3 = {-v * (a.y + REAL(0.5) * k2.y), v * (a.x + REAL(0.5) * k2.x)};
        return {{a.x + k3.x, a.y + k3.y},
                {a.x + (d.x + k2.x + k3.x) * REAL(1.0 / 3.0), a.y + (d.y + k2.y + k3.y) * REAL(1.0 / 3.0)}};
    }
};

// a is the argument c of k4, k the sum s to which k4/6 is added.
struct RK4IPLast : OfRK4IP<RK4IPLast> {
    static constexpr bool MEASURES = true;
    MEMBER Sums row(REAL2 c, REAL2 s, double) { return {power(s), power(c), cross(s, c)}; }
    MEMBER REAL step(double h) { return REAL(h) * REAL(1.0 / 6.0); }
    MEMBER REAL next_power(REAL xx, REAL yy, REAL xy, REAL u)
    {
        return xx + u * (u * yy - REAL(2) * xy);
    }
    MEMBER Row update(REAL2 c, REAL2 s, REAL rate, const REAL* numbers, Index, double h)
    {
        const REAL u = step(h) * numbers[0];
        const REAL2 k4 = {-u * c.y, u * c.x};
        const REAL2 out = {s.x + k4.x, s.y + k4.y};
        return {out, {-rate * out.y, rate * out.x}, k4};
    }
};

// All operators, by the names of `KerrOperator`; each file of kernels ends with the kernels of every operator.
#define KERR_OPERATORS_OF_ONE_FIELD(KERNELS)  \
    KERNELS(derivative, Derivative)           \
    KERNELS(rotate, Rotate)
#define KERR_OPERATORS_OF_TWO_FIELDS(KERNELS)  \
    KERNELS(rk4ip_middle, RK4IPMiddle)         \
    KERNELS(rk4ip_last, RK4IPLast)
#define KERR_OPERATORS(KERNELS)            \
    KERR_OPERATORS_OF_ONE_FIELD(KERNELS)   \
    KERR_OPERATORS_OF_TWO_FIELDS(KERNELS)  \
    KERNELS(rotate_rk4, RotateRungeKutta4)
