// Formulas of one sample of one row, for the sweeps over ranks (kerr_ranks.cu, peer_sweeps.cu); kerr_ranks.py
// explains them. Goes before them.
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

// Of |x|^2, |y|^2 and Im x*y over the rows of a group.
struct Sums {
    REAL xx = 0, yy = 0, xy = 0;
    __device__ __forceinline__ void add(REAL2 x, REAL2 y)
    {
        xx += power(x);
        yy += power(y);
        xy += x.x * y.y - x.y * y.x;
    }
};

// x + half y.
__device__ __forceinline__ REAL2 ahead(REAL2 x, REAL2 y, REAL half) { return {x.x + half * y.x, x.y + half * y.y}; }

// The power of the next stage, whose rows are turned by u; (square, cross) is (1/4, 1) in the middle and (1, 2) at last.
__device__ __forceinline__ REAL next_power(REAL xx, REAL yy, REAL xy, REAL u, REAL square, REAL cross)
{
    return xx + u * (square * u * yy - cross * xy);
}

// --- rows ----------------------------------------------------------------------------------------

struct Pair {
    REAL2 a, k;
};

__device__ __forceinline__ REAL2 times_i(REAL2 a, REAL v) { return {-v * a.y, v * a.x}; }

__device__ __forceinline__ void sine_cosine(float x, float* s, float* c) { sincosf(x, s, c); }
__device__ __forceinline__ void sine_cosine(double x, double* s, double* c) { sincos(x, s, c); }

__device__ __forceinline__ REAL2 turned(REAL2 a, REAL re, REAL im)
{
    return {a.x + (a.x * re - a.y * im), a.y + (a.x * im + a.y * re)};
}

// a exp(i phase), without cancellation.
__device__ __forceinline__ REAL2 rotated(REAL2 a, REAL phase)
{
    REAL s, c;
    sine_cosine(phase * REAL(0.5), &s, &c);
    return turned(a, REAL(-2) * s * s, REAL(2) * s * c);
}

// k2 and k3 from h theta of both: a is A_I, k is k1/h, half is h/2.
__device__ __forceinline__ Pair middle(REAL2 a, REAL2 k, REAL u, REAL v, REAL half)
{
    const REAL2 d = {half * k.x, half * k.y};
    const REAL2 k2 = {-u * (a.y + d.y), u * (a.x + d.x)};
    const REAL2 k3 = {-v * (a.y + REAL(0.5) * k2.y), v * (a.x + REAL(0.5) * k2.x)};
    return {{a.x + k3.x, a.y + k3.y},
            {a.x + (d.x + k2.x + k3.x) * REAL(1.0 / 3.0), a.y + (d.y + k2.y + k3.y) * REAL(1.0 / 3.0)}};
}

// k4 from u = h theta/6, and the derivative of the new field from its rate v. Adds the squared local error, if asked.
__device__ __forceinline__ Pair last(REAL2 c, REAL2 s, REAL u, REAL v, double* error, double h)
{
    const REAL2 k4 = {-u * c.y, u * c.x};
    const REAL2 out = {s.x + k4.x, s.y + k4.y};
    const REAL2 next = {-v * out.y, v * out.x};
    if (error) {
        const double x = 6.0 / h * k4.x - next.x, y = 6.0 / h * k4.y - next.y;
        *error += 0.01 * h * h * (x * x + y * y);
    }
    return {out, next};
}
