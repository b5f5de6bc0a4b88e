// Complex numbers and butterflies of discrete Fourier transforms in registers, radices 2, 3, 4, 5, 7, 8, 11, 13, 16 and 32.
// Compiled once per type: REAL (float or double).

typedef long long Index;

struct __align__(2 * sizeof(REAL)) Complex {
    REAL x, y;
};

__device__ __forceinline__ Complex operator+(Complex a, Complex b) { return {a.x + b.x, a.y + b.y}; }
__device__ __forceinline__ Complex operator-(Complex a, Complex b) { return {a.x - b.x, a.y - b.y}; }
__device__ __forceinline__ Complex operator*(Complex a, Complex b) {
    return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x};
}
__device__ __forceinline__ Complex operator*(Complex a, REAL b) { return {a.x * b, a.y * b}; }
__device__ __forceinline__ Complex swapped(Complex a) { return {a.y, a.x}; }
__device__ __forceinline__ Complex conjugate(Complex a) { return {a.x, -a.y}; }
__device__ __forceinline__ Complex minus_i(Complex a) { return {a.y, -a.x}; }

// --- Butterflies: v[k] <- sum over j of v[j] exp(-2 pi i j k / R) ---------------------------------------
// Values are Complex, or a type of several complex numbers with the same operators.

// A constant with the residual of its rounding to REAL. In single precision the residual matters: an error of 3e-8 would be
// the same for all values in every step of a simulation. (Twiddle factors are many; their rounding errors average out.)
struct Constant {
    double value;
    __device__ __forceinline__ constexpr REAL first() const { return (REAL)value; }
    __device__ __forceinline__ constexpr REAL rest() const { return (REAL)(value - (double)(REAL)value); }
};

// Fused multiply-add: the residual is below half a last bit and would be lost if added to a rounded product.
__device__ __forceinline__ Complex operator*(Complex v, Constant c) {
    if constexpr (sizeof(REAL) == 8) return v * c.first();
    return {fma(v.x, c.first(), v.x * c.rest()), fma(v.y, c.first(), v.y * c.rest())};
}

// v exp(-i a), with c = cos a and s = sin a.
__device__ __forceinline__ Complex turned(Complex v, Constant c, Constant s) {
    if constexpr (sizeof(REAL) == 8) return v * Complex{c.first(), -s.first()};
    const Complex rest = {v.x * c.rest() + v.y * s.rest(), v.y * c.rest() - v.x * s.rest()};
    return {fma(v.x, c.first(), fma(v.y, s.first(), rest.x)), fma(v.y, c.first(), fma(-v.x, s.first(), rest.y))};
}

// Odd primes: cosine and sine sums of the pairs (k, R - k).
template <int R, class V>
__device__ __forceinline__ void odd_butterfly(V *v, const Constant *cosine, const Constant *sine) {
    V even[R / 2], odd[R / 2];
    const V first = v[0];
    V total = first;
#pragma unroll
    for (int j = 0; j < R / 2; ++j) {
        even[j] = v[j + 1] + v[R - 1 - j];
        odd[j] = v[j + 1] - v[R - 1 - j];
        total = total + even[j];
    }
    v[0] = total;
#pragma unroll
    for (int k = 1; k <= R / 2; ++k) {
        V a = first, b = odd[0] * sine[k - 1];
        a = a + even[0] * cosine[k - 1];
#pragma unroll
        for (int j = 1; j < R / 2; ++j) {
            const int turn = (j + 1) * k % R;
            const int entry = turn <= R / 2 ? turn - 1 : R - 1 - turn;
            a = a + even[j] * cosine[entry];
            b = b + odd[j] * Constant{turn <= R / 2 ? sine[entry].value : -sine[entry].value};
        }
        v[k] = a + minus_i(b);
        v[R - k] = a - minus_i(b);
    }
}

template <int R, class V>
__device__ __forceinline__ void butterfly(V *v) {
    static_assert((R >= 2 && R <= 5) || R == 7 || R == 8 || R == 11 || R == 13 || R == 16 || R == 32, "no such radix");
    if constexpr (R == 2) {
        const V a = v[0];
        v[0] = a + v[1];
        v[1] = a - v[1];
    } else if constexpr (R == 3) {
        const Constant s = {0.86602540378443864676};
        const V sum = v[1] + v[2], difference = minus_i(v[1] - v[2]) * s;
        const V middle = v[0] - sum * (REAL)0.5;
        v[0] = v[0] + sum;
        v[1] = middle + difference;
        v[2] = middle - difference;
    } else if constexpr (R == 4) {
        const V a = v[0] + v[2], b = v[0] - v[2], c = v[1] + v[3], d = minus_i(v[1] - v[3]);
        v[0] = a + c;
        v[1] = b + d;
        v[2] = a - c;
        v[3] = b - d;
    } else if constexpr (R == 5) {
        const Constant c[2] = {{0.30901699437494742410}, {-0.80901699437494742410}};
        const Constant s[2] = {{0.95105651629515357212}, {0.58778525229247312917}};
        odd_butterfly<5>(v, c, s);
    } else if constexpr (R == 7) {
        const Constant c[3] = {{0.62348980185873353053}, {-0.22252093395631440429}, {-0.90096886790241912624}};
        const Constant s[3] = {{0.78183148246802980871}, {0.97492791218182360702}, {0.43388373911755812048}};
        odd_butterfly<7>(v, c, s);
    } else if constexpr (R == 11) {
        const Constant c[5] = {{0.84125353283118116886}, {0.41541501300188642553}, {-0.14231483827328514044},
                               {-0.65486073394528506406}, {-0.95949297361449738989}};
        const Constant s[5] = {{0.54064081745559758211}, {0.90963199535451837141}, {0.98982144188093273238},
                               {0.75574957435425828377}, {0.28173255684142969771}};
        odd_butterfly<11>(v, c, s);
    } else if constexpr (R == 13) {
        const Constant c[6] = {{0.88545602565320989590}, {0.56806474673115580251}, {0.12053668025532305335},
                               {-0.35460488704253562597}, {-0.74851074817110109863}, {-0.97094181742605202716}};
        const Constant s[6] = {{0.46472317204376854566}, {0.82298386589365639458}, {0.99270887409805399280},
                               {0.93501624268541482344}, {0.66312265824079520238}, {0.23931566428755776715}};
        odd_butterfly<13>(v, c, s);
    } else if constexpr (R == 8) {
        const Constant s = {0.70710678118654752440};
        V e[4] = {v[0], v[2], v[4], v[6]}, o[4] = {v[1], v[3], v[5], v[7]};
        butterfly<4>(e);
        butterfly<4>(o);
        o[1] = (o[1] + minus_i(o[1])) * s;
        o[2] = minus_i(o[2]);
        o[3] = (minus_i(o[3]) - o[3]) * s;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            v[k] = e[k] + o[k];
            v[k + 4] = e[k] - o[k];
        }
    } else if constexpr (R == 16) {
        const Constant c = {0.92387953251128675613}, s = {0.38268343236508977173}, h = {0.70710678118654752440};
        V w[16];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            w[4 * j] = v[j];
            w[4 * j + 1] = v[j + 4];
            w[4 * j + 2] = v[j + 8];
            w[4 * j + 3] = v[j + 12];
            butterfly<4>(w + 4 * j);
        }
        w[5] = turned(w[5], c, s), w[7] = turned(w[7], s, c), w[13] = turned(w[13], s, c);
        w[6] = (w[6] + minus_i(w[6])) * h, w[9] = (w[9] + minus_i(w[9])) * h;
        w[10] = minus_i(w[10]), w[11] = (minus_i(w[11]) - w[11]) * h, w[14] = (minus_i(w[14]) - w[14]) * h;
        w[15] = V() - turned(w[15], c, s);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            V last[4] = {w[k], w[4 + k], w[8 + k], w[12 + k]};
            butterfly<4>(last);
            v[k] = last[0];
            v[k + 4] = last[1];
            v[k + 8] = last[2];
            v[k + 12] = last[3];
        }
    } else {
        const Constant cosine[8] = {{1}, {0.98078528040323044913}, {0.92387953251128675613}, {0.83146961230254523708},
                                    {0.70710678118654752440}, {0.55557023301960222474}, {0.38268343236508977173},
                                    {0.19509032201612826785}};
        V e[16], o[16];
#pragma unroll
        for (int k = 0; k < 16; ++k) e[k] = v[2 * k], o[k] = v[2 * k + 1];
        butterfly<16>(e);
        butterfly<16>(o);
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            V w = k < 8 ? o[k] : minus_i(o[k]);  // times exp(-i pi (k % 8) / 16)
            if (k % 8 == 4) w = (w + minus_i(w)) * cosine[4];
            else if (k % 8) w = turned(w, cosine[k % 8], cosine[8 - k % 8]);
            v[k] = e[k] + w;
            v[k + 16] = e[k] - w;
        }
    }
}

// --- Shared by transforms of several stages --------------------------------------------------------------

__host__ __device__ constexpr int ceiling(int a, int b) { return (a + b - 1) / b; }

template <int... R>
struct Radices {
    static constexpr int count = sizeof...(R);
};
