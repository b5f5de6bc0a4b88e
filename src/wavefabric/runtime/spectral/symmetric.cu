// Kernels that run before and after the complex transforms of symmetric.py; one thread per column and row, planes along
// the grid's z. Arrays are complex, (planes, ny, width). Arrays of halves are (planes, ny/2, 2 width): even columns
// come from the real parts of a row's columns, odd columns from the imaginary parts. Coefficients are in the order
// 0, 2, 4, ..., 5, 3, 1.

typedef long long Index;

struct Complex {
    REAL re, im;
};

__device__ __forceinline__ Complex operator*(Complex a, Complex b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
__device__ __forceinline__ Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
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
    const Index plane = (Index)blockIdx.z * rows * width

// Convert the points of a type III transform to those of a complex one: conj(w_y) (a_y - i a_{N-y}),
// w_y = e^{-i pi y/2N}. A thread converts points y and N - y; y = 0 has no partner.
extern "C" __global__ void unfold_even(Complex *array, int width, int ny) {
    POINT(width, ny);
    if (!y) return;
    Complex &one = array[plane + (Index)y * width + x], &other = array[plane + (Index)(ny - y) * width + x];
    const Complex a = one, b = other;
    one = conjugate(turn(y, 2 * (Index)ny)) * Complex{a.re + b.im, a.im - b.re};
    if (y != ny - y) other = conjugate(turn(ny - y, 2 * (Index)ny)) * Complex{b.re + a.im, b.im - a.re};
}

// Complete a type II transform: w_k v_k + conj(w_k) v_{N-k}. For sines (odd), k gets the result of N - k, and k = 0 gets 0.
extern "C" __global__ void fold_even(Complex *array, int width, int ny, int odd) {
    POINT(width, ny);
    Complex &one = array[plane + (Index)y * width + x];
    if (!y) {
        one = odd ? Complex{0, 0} : one + one;
        return;
    }
    Complex &other = array[plane + (Index)(ny - y) * width + x];
    const Complex a = one, b = other, w = turn(y, 2 * (Index)ny), v = turn(ny - y, 2 * (Index)ny);
    const Complex of_one = w * a + conjugate(w) * b, of_other = v * b + conjugate(v) * a;
    one = odd ? of_other : of_one;
    if (y != ny - y) other = odd ? of_one : of_other;
}

// A type IV transform of N real points is a complex one of N/2: t_n = (a_{2n} + i a_{N-1-2n}) e^{-i pi (8n+1)/8N}; its
// result is multiplied by the same factor. Sines: points in reverse order, every other result negated. x counts real
// columns, y points of the half. `spectral`: rows are coefficients in order, row n for 2n, row N/2 + n for N-1-2n.
extern "C" __global__ void pack_half(Complex *out, const REAL *in, const REAL *factor, int width, int ny, int sine,
                                     int spectral) {
    const int columns = 2 * width, half = ny / 2;
    POINT(columns, half);
    const REAL *column = in + 2 * plane + x;
    const int row = spectral ? y : 2 * y, back = spectral ? half + y : ny - 1 - 2 * y;
    const REAL first = column[(Index)row * columns] * factor[row], last = column[(Index)back * columns] * factor[back];
    const Complex pair = sine ? Complex{last, first} : Complex{first, last};
    out[plane + (Index)y * columns + x] = turn(8 * (Index)y + 1, 8 * (Index)ny) * pair;
}

extern "C" __global__ void unpack_half(REAL *out, const Complex *in, int width, int ny, int sine, int spectral) {
    const int columns = 2 * width, half = ny / 2;
    POINT(columns, half);
    REAL *column = out + 2 * plane + x;
    const Complex value = turn(8 * (Index)y + 1, 8 * (Index)ny) * in[plane + (Index)y * columns + x];
    const int row = spectral ? y : 2 * y, back = spectral ? half + y : ny - 1 - 2 * y;
    column[(Index)row * columns] = 2 * value.re;
    column[(Index)back * columns] = (sine ? 2 : -2) * value.im;
}
