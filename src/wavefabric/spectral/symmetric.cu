// Before and after the complex transforms of symmetric.py; one thread a column and row, planes along the grid's z.
// Arrays are (planes, ny, width), complex; those of halves (planes, ny/2, 2 width): the real parts of a row's
// columns become every other one of the columns, the imaginary parts those between them.

typedef long long Index;

struct Complex {
    REAL re, im;
};

__device__ __forceinline__ Complex operator*(Complex a, Complex b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
__device__ __forceinline__ Complex conjugate(Complex a) { return {a.re, -a.im}; }

// e^{-i pi part / whole}
__device__ __forceinline__ Complex turn(Index part, Index whole) {
    double s, c;
    sincospi((double)part / (double)whole, &s, &c);
    return {(REAL)c, (REAL)-s};
}

#define POINT(width, rows)                                          \
    const int x = blockIdx.x * blockDim.x + threadIdx.x;             \
    const int y = blockIdx.y;                                        \
    if (x >= width) return;                                          \
    const Index plane = (Index)blockIdx.z * rows * width;            \
    const Index at = plane + (Index)y * width + x

// Coefficients of a type III transform as those of a complex one: conj(w_y) (a_y - i a_{N-y}), w = e^{-i pi y/2N}.
extern "C" __global__ void unfold_even(Complex *out, const Complex *in, int width, int ny) {
    POINT(width, ny);
    Complex value = in[at];
    if (y) {
        const Complex other = in[plane + (Index)(ny - y) * width + x];
        value = {value.re + other.im, value.im - other.re};
    }
    out[at] = conjugate(turn(y, 2 * (Index)ny)) * value;
}

// Even places in order, then odd ones backwards: where a point lies among the transformed.
__device__ __forceinline__ int reordered(int y, int ny) { return y % 2 ? ny - 1 - y / 2 : y / 2; }

extern "C" __global__ void restore_even(Complex *out, const Complex *in, int width, int ny) {
    POINT(width, ny);
    out[at] = in[plane + (Index)reordered(y, ny) * width + x];
}

extern "C" __global__ void order_even(Complex *out, const Complex *in, int width, int ny, int odd) {
    POINT(width, ny);
    Complex value = in[at];
    if (odd && y % 2) value = {-value.re, -value.im};
    out[plane + (Index)reordered(y, ny) * width + x] = value;
}

// A type II transform: w_k v_k + conj(w_k) v_{N-k}. Of sines the coefficient of point y is that of N - y, 0 at y = 0.
extern "C" __global__ void fold_even(Complex *out, const Complex *in, int width, int ny, int odd) {
    POINT(width, ny);
    if (odd && !y) {
        out[at] = {0, 0};
        return;
    }
    const int k = odd ? ny - y : y;
    const Complex w = turn(k, 2 * (Index)ny);
    const Complex a = w * in[plane + (Index)k * width + x];
    const Complex b = conjugate(w) * in[plane + (Index)(k ? ny - k : 0) * width + x];
    out[at] = {a.re + b.re, a.im + b.im};
}

// A type IV transform of N real points is a complex one of N/2: t_n = (a_{2n} + i a_{N-1-2n}) e^{-i pi (8n+1)/8N}, and so after it.
// Sines: of the points backwards, every other result negative. x counts real columns, y points of the half.
extern "C" __global__ void pack_half(Complex *out, const REAL *in, int width, int ny, int sine) {
    const int columns = 2 * width, half = ny / 2;
    POINT(columns, half);
    const REAL *column = in + 2 * plane + x;
    const int first = 2 * y, last = ny - 1 - 2 * y;
    const Complex pair = {column[(Index)(sine ? last : first) * columns], column[(Index)(sine ? first : last) * columns]};
    out[at] = turn(8 * (Index)y + 1, 8 * (Index)ny) * pair;
}

extern "C" __global__ void unpack_half(REAL *out, const Complex *in, int width, int ny, int sine) {
    const int columns = 2 * width, half = ny / 2;
    POINT(columns, half);
    REAL *column = out + 2 * plane + x;
    const Complex value = turn(8 * (Index)y + 1, 8 * (Index)ny) * in[at];
    column[(Index)(2 * y) * columns] = 2 * value.re;
    column[(Index)(ny - 1 - 2 * y) * columns] = (sine ? 2 : -2) * value.im;
}
