// Formulas of one sample of one row, for kerr.cu, kerr_ranks.cu and peer_sweeps.cu; kerr.py and kerr_ranks.py
// explain them. Goes before them.
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

// Of |x|^2, |y|^2 and Im x*y over the rows of a group.
struct Sums {
    REAL xx = 0, yy = 0, xy = 0;
    __device__ __forceinline__ void add(REAL2 x, REAL2 y)
    {
        xx += power(x);
        yy += power(y);
        xy += cross(x, y);
    }
};

// x + half y.
__device__ __forceinline__ REAL2 ahead(REAL2 x, REAL2 y, REAL half) { return {x.x + half * y.x, x.y + half * y.y}; }

// The power of the next stage, whose rows are turned by u; (square, weight) is (1/4, 1) in the middle and (1, 2) at last.
__device__ __forceinline__ REAL next_power(REAL xx, REAL yy, REAL xy, REAL u, REAL square, REAL weight)
{
    return xx + u * (square * u * yy - weight * xy);
}

// --- rows ----------------------------------------------------------------------------------------

struct Pair {
    REAL2 a, k;
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

// a exp(i phase).
__device__ __forceinline__ REAL2 rotated(REAL2 a, REAL phase)
{
    REAL re, im;
    rotation(phase, &re, &im);
    return turned(a, re, im);
}

// k2 and k3 from h theta of both: a is A_I, d is k1/2.
__device__ __forceinline__ Pair middle(REAL2 a, REAL2 d, REAL u, REAL v)
{
    const REAL2 k2 = {-u * (a.y + d.y), u * (a.x + d.x)};
    const REAL2 k3 = {-v * (a.y + REAL(0.5) * k2.y), v * (a.x + REAL(0.5) * k2.x)};
    return {{a.x + k3.x, a.y + k3.y},
            {a.x + (d.x + k2.x + k3.x) * REAL(1.0 / 3.0), a.y + (d.y + k2.y + k3.y) * REAL(1.0 / 3.0)}};
}

// k4 from u = h theta/6, and the derivative of the new field from its rate v.
struct Last : Pair {
    REAL2 k4;
};
__device__ __forceinline__ Last last(REAL2 c, REAL2 s, REAL u, REAL v)
{
    const REAL2 k4 = {-u * c.y, u * c.x};
    const REAL2 out = {s.x + k4.x, s.y + k4.y};
    return {{out, {-v * out.y, v * out.x}}, k4};
}

// The squared local error of a step is the sum of this times 0.01 h^2.
__device__ __forceinline__ double squared_difference(const Last& now, double h)
{
    const double x = 6.0 / h * now.k4.x - now.k.x, y = 6.0 / h * now.k4.y - now.k.y;
    return x * x + y * y;
}
