// Linear propagation A <- F^-1 exp(h L) F A of rows of N = N1 N2 samples in three fused kernels over the field, in place, by the
// four-step split of the transform (Bailey 1990, doi 10.1007/BF00162341) without its transposition:
//   columns_forth: transforms of N1 points over samples N2 apart, times exp(-2 pi i k1 n2 / N);
//   rows_transfer: transforms of N2 neighbouring samples, times the transfer function at k = k1 + N1 k2, and back;
//   columns_back: the conjugate factor and the transforms of N1 points back.
// The spectrum stays digit-reversed: each frequency is multiplied where it lies. With N1 = 1 rows_transfer alone is enough.
//
// Compiled once per field type and N, after butterflies.cu and inplace_fft.cu. Macros: REAL, N1, N2; for columns RADICES1,
// THREADS1 (per column), TILE (columns per block), GAP1, BLOCKS1 (blocks per multiprocessor); for rows RADICES2, THREADS2,
// ROWS (per block), GAP2, BLOCKS2, PAIRED, and APART if the two rows of a pair have different transfer functions.

extern __shared__ char fused_memory[];

#define SAMPLES ((Index)(N1) * (N2))

#if N1 > 1
typedef ColumnTile<N1, THREADS1, TILE, GAP1> LayoutColumns;
typedef InPlace<LayoutColumns, RADICES1> Column;
constexpr int column_stages = Radices<RADICES1>::count;

// Twiddle factors of a column's transform times those of the split: after radices of product P the base is w_N^(P (m N2 + n2)).
struct ColumnTurn {
    const Wide *roots;  // (N1,) w_N1^m
    Wide lines[column_stages];  // w_N^(P n2) of each stage
    __device__ __forceinline__ ColumnTurn(const Wide *roots, const Wide *split, int n2) : roots(roots) {
#pragma unroll
        for (int stage = 0; stage < column_stages; ++stage) lines[stage] = split[stage * N2 + n2];
    }
    template <int P, int R, int STAGE, class V>
    __device__ __forceinline__ void turn(V *a, int m) const {
        if constexpr (STAGE + 1 < column_stages)
            turn_by_powers<R>(a, roots[P * m] * lines[STAGE]);
        else
            turn_by_powers<R>(a, lines[STAGE]);
    }
};

struct Address {  // address of this thread's column
    Complex *first;
    int n2;
    bool here;
    __device__ __forceinline__ Address(Complex *field) {
        constexpr int tiles = ceiling(N2, TILE);
        n2 = blockIdx.x % tiles * TILE + LayoutColumns::column();
        here = N2 % TILE == 0 || n2 < N2;
        if (!here) n2 = N2 - 1;
        first = field + blockIdx.x / tiles * SAMPLES + n2;
    }
};

// One block per tile of columns of a row: grid = (tiles * rows,).
extern "C" __global__ void __launch_bounds__(THREADS1 * TILE, BLOCKS1)
columns_forth(Complex *field, const Wide *__restrict__ roots, const Wide *__restrict__ split)
{
    const Address address(field);
    const ColumnTurn turn(roots, split, address.n2);
    Complex v[Column::values];
    Column::near(v, [&](Complex &value, int n) { value = address.first[(Index)n * N2]; });
    Column::forth(v, (Complex *)fused_memory, turn);
    Column::far(v, [&](Complex &value, int k) { if (address.here) address.first[(Index)k * N2] = value; });
}

extern "C" __global__ void __launch_bounds__(THREADS1 * TILE, BLOCKS1)
columns_back(Complex *field, const Wide *__restrict__ roots, const Wide *__restrict__ split)
{
    const Address address(field);
    const ColumnTurn turn(roots, split, address.n2);
    Complex v[Column::values];
    Column::far(v, [&](Complex &value, int k) { value = swapped(address.first[(Index)k * N2]); });
    Column::back(v, (Complex *)fused_memory, turn);
    Column::near(v, [&](Complex &value, int n) { if (address.here) address.first[(Index)n * N2] = swapped(value); });
}
#endif

// --- Rows -----------------------------------------------------------------------------------------------

typedef RowTile<N2, THREADS2, GAP2> LayoutRows;
typedef InPlace<LayoutRows, RADICES2> Row;
constexpr int row_stages = Radices<RADICES2>::count;

// Twiddle factors of a row's transform: one table of N2 / P numbers per stage, leg by leg. In double precision they are
// powers of the first leg's factor; in single precision powers would be too inaccurate, so each factor is loaded.
struct RowTurn {
    static constexpr int at_once = 5;  // more would spill registers
    const Complex *legs;
    template <int P, int R, int STAGE, class V>
    __device__ __forceinline__ void turn(V *a, int m) const {
        if constexpr (STAGE + 1 < row_stages) {
            constexpr int stride = N2 / (P * R), before = first<STAGE>();
            const Complex *here = legs + before + m;
            if constexpr (sizeof(REAL) == 8) {
                const Complex w = loaded(here + stride);
                turn_by_powers<R>(a, Wide{w.x, w.y});
            } else {
#pragma unroll
                for (int k = 1; k < R; ++k) {
                    if (k > at_once && k % at_once == 1) here += zero_after(some_part(a[k - at_once]));
                    a[k] = a[k] * loaded(here + k * stride);
                }
            }
        }
    }
    // Offset of a stage's table: each stage before it has a table of N2 / P numbers.
    template <int STAGE>
    static __host__ __device__ constexpr int first() {
        constexpr int radices[] = {RADICES2};
        int at = 0, left = N2;
        for (int stage = 0; stage < STAGE; ++stage) {
            at += left;
            left /= radices[stage];
        }
        return at;
    }
};

// exp(h L) / N of one row: its magnitude `size`, and its phase over pi as coefficients of x, x^2 ... x^ORDERS, x = k / N.
struct Transfer {
    double phase[ORDERS], size;
};

// sin(pi y) / y and cos(pi y) for |y| <= 1/4 as polynomials in y^2, highest power first, interpolated at Chebyshev points, to
// 4e-12, for fields in single precision (a transfer function rounded to single would bias every step the same way).
// In constant memory, as operands from there need no registers.
__constant__ double sine[] = {0.081001627420532296, -0.59920208086091509, 2.5501626472201782, -5.1677127691743632,
                              3.1415926535762};
__constant__ double cosine[] = {-0.025447386474968657, 0.23530540465948249, -1.3352619521436047, 4.0587121144592677,
                                -4.9348022004806369, 0.99999999999994438};

constexpr double shifter = 6755399441055744.0;  // 1.5 * 2^52: adding it leaves the nearest integer in the low bits

template <int N>
__device__ __forceinline__ double polynomial(const double (&terms)[N], double z)
{
    double sum = terms[0];
#pragma unroll
    for (int k = 1; k < N; ++k) sum = fma(sum, z, terms[k]);
    return sum;
}

__device__ __forceinline__ void sine_cosine_of_pi(double x, double *s, double *c, double) { sincospi(x, s, c); }

// Avoids conversions between integers and floating-point numbers, which are slow.
__device__ __forceinline__ void sine_cosine_of_pi(double x, double *s, double *c, float)
{
    const double shifted = fma(x, 2.0, shifter), y = fma(shifted - shifter, -0.5, x), z = y * y;
    const double a = polynomial(sine, z) * y, b = polynomial(cosine, z);
    const int quarter = (int)__double_as_longlong(shifted);
    const double u = quarter & 1 ? b : a, w = quarter & 1 ? a : b;
    *s = quarter & 2 ? -u : u;
    *c = (quarter + 1) & 2 ? -w : w;
}

__device__ __forceinline__ double whole_as_double(int k)
{
    return __longlong_as_double(0x4338000000000000LL + k) - shifter;
}

// A factor of the transfer function. For fields in single precision each part is split into its first 24 bits and the rest.
struct Factor {
    double s, c;
};
struct SplitFactor {
    float s, s_rest, c, c_rest;
    __device__ __forceinline__ SplitFactor(double sine, double cosine)
    {
        const double a = first_bits(sine), b = first_bits(cosine);
        s = (float)a, s_rest = (float)(sine - a), c = (float)b, c_rest = (float)(cosine - b);
    }
    static __device__ __forceinline__ double first_bits(double x)
    {
        return __longlong_as_double(__double_as_longlong(x) & ~0x1fffffffLL);
    }
};
// v (c + i s) with parts swapped, as accurate, or nearly so, as if computed in double precision and rounded.
__device__ __forceinline__ Complex product(Complex v, const Factor &f)
{
    return {(REAL)(v.x * f.s + v.y * f.c), (REAL)(v.x * f.c - v.y * f.s)};
}
__device__ __forceinline__ Complex product(Complex v, const SplitFactor &f)
{
    const float re = v.x, im = v.y;
    return {fmaf(re, f.s, fmaf(im, f.c, fmaf(re, f.s_rest, im * f.c_rest))),
            fmaf(re, f.c, fmaf(-im, f.s, fmaf(re, f.c_rest, -im * f.s_rest)))};
}

// A thread works on one value or, with PAIRED, on those of the two polarisations of a mode: neighbouring rows of the field
// that share twiddle factors and, unless APART, the transfer function, which are then computed once for both.
#if PAIRED
typedef Twin RowValue;
typedef SplitFactor RowFactor;
#else
typedef Complex RowValue;
typedef Factor RowFactor;
#endif
constexpr int together = sizeof(RowValue) / sizeof(Complex);
constexpr int ahead = PAIRED ? 2 : 4;  // values whose transfer function is computed at once

__device__ __forceinline__ void read(Complex &value, const Complex *at) { value = at[0]; }
__device__ __forceinline__ void read(Twin &value, const Complex *at) { value = {at[0], at[SAMPLES]}; }
__device__ __forceinline__ void write_swapped(Complex value, Complex *at) { at[0] = swapped(value); }
__device__ __forceinline__ void write_swapped(Twin value, Complex *at)
{
    at[0] = swapped(value.a);
    at[SAMPLES] = swapped(value.b);
}
template <class F>
__device__ __forceinline__ Twin product(Twin v, const F &f) { return {product(v.a, f), product(v.b, f)}; }

// The transfer function at x = k / N.
__device__ __forceinline__ RowFactor factor(const Transfer &t, double x)
{
    double phase = t.phase[ORDERS - 1];
#pragma unroll
    for (int k = ORDERS - 2; k >= 0; --k) phase = fma(phase, x, t.phase[k]);
    double s, c;
    sine_cosine_of_pi(x * phase, &s, &c, REAL());
    return RowFactor{s * t.size, c * t.size};
}

// One block per ROWS neighbouring k1 of a row of the field, or of two rows; the row of the field varies fastest.
// grid = (N1 / ROWS * rows / together,).
extern "C" __global__ void __launch_bounds__(THREADS2 * ROWS, BLOCKS2)
rows_transfer(Complex *field, const Complex *__restrict__ legs, const Transfer *__restrict__ transfers,
              const int *__restrict__ table_row, int rows)
{
    const int row = blockIdx.x % (rows / together) * together;
    const int k1 = blockIdx.x / (rows / together) * ROWS + LayoutRows::row();
    Complex *const line = field + row * SAMPLES + (Index)k1 * N2;
    const RowTurn turn = {legs};
    RowValue v[Row::values];
    Row::near(v, [&](RowValue &value, int n) { read(value, line + n); });
    Row::forth(v, (RowValue *)fused_memory, turn);
    const Transfer t = transfers[table_row[row]];
#if PAIRED && APART
    const Transfer other = transfers[table_row[row + 1]];
#endif
    Row::far(v, [&](RowValue &value, int k2) {
        const int slot = &value - v, zero = slot < ahead ? 0 : zero_after(some_part(v[slot < ahead ? 0 : slot - ahead]));
        const int k = k1 + N1 * k2 + zero;
        const double x = whole_as_double(2 * k < N1 * N2 ? k : k - N1 * N2) * (1.0 / (N1 * N2));
#if PAIRED && APART
        value = {product(value.a, factor(t, x)), product(value.b, factor(other, x))};
#else
        value = product(value, factor(t, x));
#endif
    });
    Row::back(v, (RowValue *)fused_memory, turn);
    Row::near(v, [&](RowValue &value, int n) { write_swapped(value, line + n); });
}
