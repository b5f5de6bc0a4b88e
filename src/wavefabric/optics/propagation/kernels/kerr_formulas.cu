// The Kerr operators, by what they do to one sample of one row or group: for kerr.cu, kerr_chunks.cu and kerr_one_sided.cu,
// which it goes before. kerr_formulas.py explains them.
//
// Compiled once per field type: REAL, REAL2 (float/float2 or double/double2).

#ifndef REAL
#define REAL double
#define REAL2 double2
#endif

typedef long long Index;

__device__ __forceinline__ REAL power(REAL2 a) { return a.x * a.x + a.y * a.y; }

// Fields stream past the second-level cache (here and by __ldcs), so that the powers of groups stay in it.
__device__ __forceinline__ void put(REAL2* at, REAL2 value) { __stcs(at, value); }

// --- powers of a group ---------------------------------------------------------------------------

__device__ __forceinline__ REAL cross(REAL2 x, REAL2 y) { return x.x * y.y - x.y * y.x; }  // Im x*y

// |x|^2, |y|^2 and Im x*y of a row, or summed over the rows of a group.
struct Sums {
    REAL xx, yy, xy;
    __device__ __forceinline__ void add(const Sums& row)
    {
        xx += row.xx;
        yy += row.yy;
        xy += row.xy;
    }
};

// --- rows ----------------------------------------------------------------------------------------

// A sample after an operator. k4: of the last stage of RK4IP, for the local error.
struct Row {
    REAL2 a, k, k4;
};

__device__ __forceinline__ REAL2 scaled(REAL2 a, REAL v) { return {v * a.x, v * a.y}; }
__device__ __forceinline__ REAL2 times_i(REAL2 a, REAL v) { return {-v * a.y, v * a.x}; }

__device__ __forceinline__ void sine_cosine(float x, float* s, float* c) { sincosf(x, s, c); }
__device__ __forceinline__ void sine_cosine(double x, double* s, double* c) { sincos(x, s, c); }

__device__ __forceinline__ REAL2 turned(REAL2 a, REAL re, REAL im)
{
    return {a.x + (a.x * re - a.y * im), a.y + (a.x * im + a.y * re)};
}

// (cos phase - 1, sin phase), without cancellation.
__device__ __forceinline__ void rotation(REAL phase, REAL* re, REAL* im)
{
    REAL s, c;
    sine_cosine(phase * REAL(0.5), &s, &c);
    *re = REAL(-2) * s * s;
    *im = REAL(2) * s * c;
}

// The squared local error of a step is the sum of this times 0.01 h^2.
__device__ __forceinline__ double squared_difference(const Row& now, double h)
{
    const double x = 6.0 / h * now.k4.x - now.k.x, y = 6.0 / h * now.k4.y - now.k.y;
    return x * x + y * y;
}

// --- operators -----------------------------------------------------------------------------------
//
// STAGES phase rates follow one another. `row` gives what a row adds to the sums of its group; |y|^2 is the power that the
// first rate comes from. `begin` keeps of the sums what later stages need: NUMBERS of them, `stride` apart. `advance` goes
// from the rate and power of one stage to the power of the next, `update` from the last rate to the sample. Where an
// operator TURNS A, `turn` gives the factor less 1, the same for all rows of a group.

struct OfPower {
    static constexpr int STAGES = 1, NUMBERS = 0;
    static constexpr bool READS_K = false, WRITES_A = true, WRITES_K = false, TURNS = false, MEASURES = false;
    static __device__ __forceinline__ Sums row(REAL2 a, REAL2, double) { return {0, power(a), 0}; }
    static __device__ __forceinline__ void begin(const Sums&, REAL*, Index) {}
    static __device__ __forceinline__ REAL advance(int, REAL, REAL, REAL*, Index, double) { return 0; }
};

struct Derivative : OfPower {
    static constexpr bool WRITES_A = false, WRITES_K = true;
    static __device__ __forceinline__ Row update(REAL2 a, REAL2, REAL rate, const REAL*, Index, double)
    {
        return {a, times_i(a, rate)};
    }
};

template <class Operator> struct Turning : OfPower {
    static constexpr bool TURNS = true;
    static __device__ __forceinline__ Row update(REAL2 a, REAL2, REAL rate, const REAL* numbers, Index stride, double h)
    {
        REAL re, im;
        Operator::turn(rate, numbers, stride, h, &re, &im);
        return {turned(a, re, im)};
    }
};

struct Rotate : Turning<Rotate> {
    static __device__ __forceinline__ void turn(REAL rate, const REAL*, Index, double h, REAL* re, REAL* im)
    {
        rotation(REAL(h) * rate, re, im);
    }
};

// Numbers: |A|^2, the multiplier of A in the increment of a stage, and the weighted sum of these.
struct RotateRungeKutta4 : Turning<RotateRungeKutta4> {
    static constexpr int STAGES = 4, NUMBERS = 5;
    static __device__ __forceinline__ void begin(const Sums& sums, REAL* numbers, Index stride)
    {
        numbers[0] = sums.yy;
        for (int j = 1; j < NUMBERS; ++j) numbers[j * stride] = 0;
    }
    // How much of the increment before goes into the argument of a stage.
    static __device__ __forceinline__ REAL before(int stage)
    {
        return stage == 0 ? REAL(0) : (stage == 3 ? REAL(1) : REAL(0.5));
    }
    static __device__ __forceinline__ REAL advance(int stage, REAL rate, REAL, REAL* numbers, Index stride, double h)
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
    static __device__ __forceinline__ void turn(REAL rate, const REAL* numbers, Index stride, double h, REAL* re, REAL* im)
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
    static __device__ __forceinline__ void begin(const Sums& sums, REAL* numbers, Index stride)
    {
        numbers[stride] = sums.xx;
        numbers[2 * stride] = sums.xy;
    }
    static __device__ __forceinline__ REAL advance(int, REAL rate, REAL yy, REAL* numbers, Index stride, double h)
    {
        return Operator::next_power(numbers[stride], yy, numbers[2 * stride], Operator::step(h) * rate);
    }
};

// a is A_I, k is k1/h; y is a + k1/2.
struct RK4IPMiddle : OfRK4IP<RK4IPMiddle> {
    static __device__ __forceinline__ Sums row(REAL2 a, REAL2 k, double h)
    {
        const REAL half = REAL(0.5 * h);
        const REAL2 b = {a.x + half * k.x, a.y + half * k.y};
        return {power(a), power(b), cross(a, b)};
    }
    static __device__ __forceinline__ REAL step(double h) { return REAL(h); }
    static __device__ __forceinline__ REAL next_power(REAL xx, REAL yy, REAL xy, REAL u)
    {
        return xx + u * (REAL(0.25) * u * yy - xy);
    }
    static __device__ __forceinline__ Row update(REAL2 a, REAL2 k, REAL rate, const REAL* numbers, Index, double h)
    {
        const REAL u = REAL(h) * numbers[0], v = REAL(h) * rate;
        const REAL2 d = scaled(k, REAL(0.5 * h));
        const REAL2 k2 = {-u * (a.y + d.y), u * (a.x + d.x)};
        const REAL2 k3 = {-v * (a.y + REAL(0.5) * k2.y), v * (a.x + REAL(0.5) * k2.x)};
        return {{a.x + k3.x, a.y + k3.y},
                {a.x + (d.x + k2.x + k3.x) * REAL(1.0 / 3.0), a.y + (d.y + k2.y + k3.y) * REAL(1.0 / 3.0)}};
    }
};

// a is the argument c of k4, k the sum s that k4/6 goes to.
struct RK4IPLast : OfRK4IP<RK4IPLast> {
    static constexpr bool MEASURES = true;
    static __device__ __forceinline__ Sums row(REAL2 c, REAL2 s, double) { return {power(s), power(c), cross(s, c)}; }
    static __device__ __forceinline__ REAL step(double h) { return REAL(h) * REAL(1.0 / 6.0); }
    static __device__ __forceinline__ REAL next_power(REAL xx, REAL yy, REAL xy, REAL u)
    {
        return xx + u * (u * yy - REAL(2) * xy);
    }
    static __device__ __forceinline__ Row update(REAL2 c, REAL2 s, REAL rate, const REAL* numbers, Index, double h)
    {
        const REAL u = step(h) * numbers[0];
        const REAL2 k4 = {-u * c.y, u * c.x};
        const REAL2 out = {s.x + k4.x, s.y + k4.y};
        return {out, {-rate * out.y, rate * out.x}, k4};
    }
};

// All of them, by the names of `KerrOperator`: each .cu file ends with its kernels of every operator.
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
