// Kerr operators on whole fields, (rows, n) complex; see kerr.py. Threads work on tiles of neighbouring samples, so that sums and
// numbers of phase groups stay in the caches. Sums over a group run in row order, so that results depend neither on where tiles end
// nor on the number of threads.
#include "../kerr.h"
#include "vector.h"

// Maximum number of samples of a tile.
constexpr Index TILE = 256;

// Rows of phase groups: group g has the rows from start[g] to start[g + 1] - 1.
struct Groups {
    const Index *start;
    Index count, tile;
    Index tiles(Index n) const { return (n + tile - 1) / tile; }
    // Samples of tile `number` of n samples.
    Index samples(Index number, Index n) const { return n - number * tile < tile ? n - number * tile : tile; }
};
template <> struct Take<Groups> {
    static constexpr int words = 3;
    static Groups from(const Word *w) { return {(const Index *)w[0].pointer, w[1].integer, w[2].integer}; }
};

// Numbers per phase group and sample: the next group's lie `group` elements further, the next number of a group `number` elements.
template <class T> struct Numbers {
    T *data;
    Index group, number;
    T *operator[](Index g) const { return data + g * group; }
};

// Phase groups with gamma kappa between those of one rank, rad/(W m), as a dense matrix (`rank` 0) or as factors of rank `rank`; and
// scratch, (threads, arrays, tall, tile).
struct Coupling {
    Groups groups;
    const REAL *dense, *left, *right;
    Index rank, arrays, tall;
    REAL *scratch;
    // Array `number` of a thread's scratch: numbers of groups.
    Numbers<REAL> array(Thread t, Index number) const {
        const Index size = tall * groups.tile;
        return {scratch + (t.number * arrays + number) * size, groups.tile, size};
    }
};
template <> struct Take<Coupling> {
    static constexpr int words = 10;
    static Coupling from(const Word *w) {
        return {Take<Groups>::from(w), (const REAL *)w[3].pointer, (const REAL *)w[4].pointer, (const REAL *)w[5].pointer,
                w[6].integer, w[7].integer, w[8].integer, (REAL *)w[9].pointer};
    }
};
// Arrays of the scratch: power, phase rate and low-rank product of groups, then the numbers that an operator keeps.
enum Scratch { POWER, RATE, LOW, KEPT };

// --- Matrices -----------------------------------------------------------------------------------------------------

// For ROWS neighbouring rows of the matrix: out = matrix p if `first`, else out += matrix p.
template <int ROWS> static void multiply_rows(const REAL *matrix, Index columns, Numbers<const REAL> p, bool first,
                                              Numbers<REAL> out, Index row, Index m) {
    Index t = 0;
    for (; t + LANES <= m; t += LANES) {
        V sum[ROWS];
        for (int c = 0; c < ROWS; ++c) sum[c] = first ? V{} : load(out[row + c] + t);
        for (Index d = 0; d < columns; ++d) {
            const V v = load(p[d] + t);
            for (int c = 0; c < ROWS; ++c) sum[c] = fma(splat(matrix[(row + c) * columns + d]), v, sum[c]);
        }
        for (int c = 0; c < ROWS; ++c) store(out[row + c] + t, sum[c]);
    }
    for (; t < m; ++t)
        for (int c = 0; c < ROWS; ++c) {
            REAL sum = first ? 0 : out[row + c][t];
            for (Index d = 0; d < columns; ++d) sum = fused(matrix[(row + c) * columns + d], p[d][t], sum);
            out[row + c][t] = sum;
        }
}

static void multiply(const REAL *matrix, Index rows, Index columns, Numbers<const REAL> p, bool first, Numbers<REAL> out, Index m) {
    Index row = 0;
    for (; row + 5 <= rows; row += 5) multiply_rows<5>(matrix, columns, p, first, out, row, m);
    for (; row < rows; ++row) multiply_rows<1>(matrix, columns, p, first, out, row, m);
}

// out = gamma kappa p
static void phase_rates(Thread t, const Coupling &c, Numbers<REAL> p, Numbers<REAL> out, Index m) {
    const Numbers<const REAL> from = {p.data, p.group, p.number};
    const Index groups = c.groups.count;
    if (c.rank == 0) return multiply(c.dense, groups, groups, from, true, out, m);
    const Numbers<REAL> low = c.array(t, LOW);
    multiply(c.right, c.rank, groups, from, true, low, m);
    multiply(c.left, groups, c.rank, {low.data, low.group, low.number}, true, out, m);
}

// --- Parts of an operator -----------------------------------------------------------------------------------------

// A tile of two fields (the same one twice if the operator has one); rows lie n samples apart.
struct Tile {
    REAL2 *a, *k;
    Index n, m;
};

template <class Operator, bool FIRST> FN void add_row(const Tile &tile, Index r, double h, REAL *yy, REAL *xx, REAL *xy) {
    const REAL2 *a = tile.a + r * tile.n, *k = tile.k + r * tile.n;
    EACH(t, 0, tile.m) {
        const Sums s = Operator::row(a[t], k[t], h);
        yy[t] = FIRST ? s.yy : yy[t] + s.yy;
        if constexpr (Operator::READS_K) {
            xx[t] = FIRST ? s.xx : xx[t] + s.xx;
            xy[t] = FIRST ? s.xy : xy[t] + s.xy;
        }
    }
}

// Compute the powers from which the first phase rate follows, and the numbers that later stages need.
template <class Operator> static void begin(const Tile &tile, const Groups &groups, double h, Numbers<REAL> power,
                                            Numbers<REAL> numbers) {
    REAL xx[TILE], xy[TILE];
    for (Index g = 0; g < groups.count; ++g) {
        REAL *yy = power[g], *kept = numbers[g];
        if (groups.start[g] == groups.start[g + 1]) EACH(t, 0, tile.m) yy[t] = xx[t] = xy[t] = 0;
        for (Index r = groups.start[g]; r < groups.start[g + 1]; ++r)
            if (r == groups.start[g]) add_row<Operator, true>(tile, r, h, yy, xx, xy);
            else add_row<Operator, false>(tile, r, h, yy, xx, xy);
        if constexpr (Operator::NUMBERS > 0) EACH(t, 0, tile.m) {
            Sums sums = {0, yy[t], 0};
            if constexpr (Operator::READS_K) sums = {xx[t], yy[t], xy[t]};
            Operator::begin(sums, kept + t, numbers.number);
        }
    }
}

// Compute the power of the next stage; `out` may be the array `power` of this stage.
template <class Operator> static void advance(int stage, const REAL *rate, const REAL *power, REAL *numbers, Index stride, REAL *out,
                                              double h, Index first, Index last) {
    EACH(t, first, last) out[t] = Operator::advance(stage, rate[t], power[t], numbers + t, stride, h);
}

// Update the rows from the last phase rate. With MEASURED, return the squared local error.
template <class Operator, bool MEASURED> static double update(const Tile &tile, const Groups &groups, double h,
                                                              Numbers<const REAL> rates, Numbers<const REAL> numbers) {
    constexpr bool measured = MEASURED && Operator::MEASURES;
    REAL re[TILE], im[TILE];
    double errors[measured ? TILE : 1];
    if (measured) for (Index t = 0; t < tile.m; ++t) errors[t] = 0;
    for (Index g = 0; g < groups.count; ++g) {
        const REAL *rate = rates[g], *kept = numbers[g];
        if constexpr (Operator::TURNS) EACH(t, 0, tile.m) Operator::turn(rate[t], kept + t, numbers.number, h, re + t, im + t);
        for (Index r = groups.start[g]; r < groups.start[g + 1]; ++r) {
            REAL2 *a = tile.a + r * tile.n, *k = tile.k + r * tile.n;
            EACH(t, 0, tile.m) {
                Row now;
                if constexpr (Operator::TURNS) now.a = turned(a[t], re[t], im[t]);
                else now = Operator::update(a[t], k[t], rate[t], kept + t, numbers.number, h);
                if constexpr (Operator::WRITES_A) a[t] = now.a;
                if constexpr (Operator::WRITES_K) k[t] = now.k;
                if constexpr (measured) errors[t] += squared_difference(now, h);
            }
        }
    }
    double total = 0;
    if (measured) for (Index t = 0; t < tile.m; ++t) total += errors[t];
    return 0.01 * h * h * total;
}

FN Numbers<const REAL> constant(Numbers<REAL> n) { return {n.data, n.group, n.number}; }

// --- One rank -----------------------------------------------------------------------------------------------------

// errors: null, or the squared local error of each tile.
template <class Operator, bool MEASURED> static void kerr(Thread thread, Counted<REAL2> A, REAL2 *K, double h, double *errors,
                                                          const Coupling &c) {
    const Groups &groups = c.groups;
    const Numbers<REAL> power = c.array(thread, POWER), rate = c.array(thread, RATE), numbers = c.array(thread, KEPT);
    // RK4IP needs both of its phase rates to update rows: `numbers` keeps the first.
    const Numbers<REAL> first_rate = Operator::STAGES == 2 ? numbers : rate;
    const Index tiles = groups.tiles(A.count);
    for (Index i = thread.first(tiles); i < thread.last(tiles); ++i) {
        const Tile tile = {A.data + i * groups.tile, K + i * groups.tile, A.count, groups.samples(i, A.count)};
        begin<Operator>(tile, groups, h, power, numbers);
        for (int stage = 0; stage + 1 < Operator::STAGES; ++stage) {
            phase_rates(thread, c, power, first_rate, tile.m);
            for (Index g = 0; g < groups.count; ++g)
                advance<Operator>(stage, first_rate[g], power[g], numbers[g], numbers.number, power[g], h, 0, tile.m);
        }
        phase_rates(thread, c, power, rate, tile.m);
        const double error = update<Operator, MEASURED>(tile, groups, h, constant(rate), constant(numbers));
        if (MEASURED) errors[i] = error;
    }
}

static void kerr_phase_rate(Thread thread, Counted<REAL2> A, REAL *rate, Coupling c) {
    const Numbers<REAL> power = c.array(thread, POWER), kept = c.array(thread, KEPT);
    const Index tiles = c.groups.tiles(A.count);
    for (Index i = thread.first(tiles); i < thread.last(tiles); ++i) {
        const Index lo = i * c.groups.tile, m = c.groups.samples(i, A.count);
        begin<OfPower>({A.data + lo, A.data + lo, A.count, m}, c.groups, 0, power, kept);
        phase_rates(thread, c, power, {rate + lo, A.count, 0}, m);
    }
}
EXPORT(kerr_phase_rate)

static void rotate_mean(Thread thread, Counted<const REAL2> H, REAL2 *A, const REAL *rate0, const REAL *rate1, double h, Coupling c) {
    const Groups &groups = c.groups;
    const REAL half = (REAL)(0.5 * h);
    REAL re[TILE], im[TILE];
    const Index tiles = groups.tiles(H.count);
    for (Index i = thread.first(tiles); i < thread.last(tiles); ++i) {
        const Index lo = i * groups.tile, m = groups.samples(i, H.count);
        for (Index g = 0; g < groups.count; ++g) {
            const REAL *one = rate0 + g * H.count + lo, *two = rate1 + g * H.count + lo;
            EACH(t, 0, m) rotation(half * (one[t] + two[t]), re + t, im + t);
            for (Index r = groups.start[g]; r < groups.start[g + 1]; ++r) {
                const REAL2 *from = H.data + r * H.count + lo;
                REAL2 *to = A + r * H.count + lo;
                EACH(t, 0, m) to[t] = turned(from[t], re[t], im[t]);
            }
        }
    }
}
EXPORT(rotate_mean)

// cos phase - 1 and sin phase, for tests.
static void rotations(Thread thread, Counted<const REAL> phases, REAL *re, REAL *im) {
    ITEMS(i, thread, phases.count) rotation(phases[i], re + i, im + i);
}
EXPORT(rotations)

// Return the larger of `most` and |v|; a NaN stays, since comparisons with it are false.
FN REAL larger(REAL most, REAL v) {
    v = v < 0 ? -v : v;
    return v > most || v != v ? v : most;
}
static REAL largest(REAL *most, Index m) {
    REAL all = 0;
    for (Index t = 0; t < m; ++t) all = larger(all, most[t]);
    return all;
}

// Write the largest |phase rate| of each thread.
static void max_phase_rate(Thread thread, Counted<REAL2> A, double *most, Coupling c) {
    REAL largest_of[TILE] = {};
    const Numbers<REAL> power = c.array(thread, POWER), kept = c.array(thread, KEPT), rate = c.array(thread, RATE);
    const Index tiles = c.groups.tiles(A.count);
    for (Index i = thread.first(tiles); i < thread.last(tiles); ++i) {
        const Index lo = i * c.groups.tile, m = c.groups.samples(i, A.count);
        begin<OfPower>({A.data + lo, A.data + lo, A.count, m}, c.groups, 0, power, kept);
        phase_rates(thread, c, power, rate, m);
        for (Index g = 0; g < c.groups.count; ++g) EACH(t, 0, m) largest_of[t] = larger(largest_of[t], rate[g][t]);
    }
    most[thread.number] = largest(largest_of, TILE);
}
EXPORT(max_phase_rate)

// --- Adjoints on one rank -----------------------------------------------------------------------------------------

enum Adjoint { OF_DERIVATIVE, OF_ROTATE, OF_PHASE_RATE, OF_TURN };

template <Adjoint OF> static void kerr_adjoint(Thread thread, Counted<REAL2> A, REAL2 *Y, double h, const REAL *factors, REAL *slope,
                                               const Coupling &c, const Coupling &transposed) {
    const Groups &groups = c.groups;
    const Numbers<REAL> power = c.array(thread, POWER), rate = c.array(thread, RATE), by_power = c.array(thread, KEPT);
    REAL re[TILE], im[TILE];
    const Index tiles = groups.tiles(A.count), n = A.count;
    for (Index i = thread.first(tiles); i < thread.last(tiles); ++i) {
        const Index lo = i * groups.tile, m = groups.samples(i, n);
        begin<OfPower>({A.data + lo, A.data + lo, n, m}, groups, 0, power, by_power);
        phase_rates(thread, c, power, rate, m);
        for (Index g = 0; g < groups.count; ++g) {
            REAL *out = slope + g * n + lo, *in = power[g], *sum = by_power[g];
            const REAL *rates = rate[g], factor = factors[g], step = (REAL)h;
            if constexpr (OF == OF_ROTATE) EACH(t, 0, m) rotation(-step * factor * rates[t], re + t, im + t);
            EACH(t, 0, m) sum[t] = 0;
            for (Index r = groups.start[g]; r < groups.start[g + 1]; ++r) {
                const REAL2 *a = A.data + r * n + lo;
                REAL2 *y = Y + r * n + lo;
                EACH(t, 0, m) {
                    if constexpr (OF == OF_ROTATE) y[t] = turned(y[t], re[t], im[t]);
                    sum[t] += cross(a[t], y[t]);
                }
            }
            EACH(t, 0, m) {
                const REAL by_rate = OF == OF_PHASE_RATE ? out[t] : step * sum[t];
                out[t] = OF == OF_TURN ? by_rate : by_rate * rates[t];
                in[t] = factor * by_rate;
            }
        }
        if constexpr (OF == OF_TURN) continue;
        phase_rates(thread, transposed, power, by_power, m);
        for (Index g = 0; g < groups.count; ++g) {
            const REAL *rates = rate[g], *by = by_power[g], turn = -(REAL)h * factors[g];
            for (Index r = groups.start[g]; r < groups.start[g + 1]; ++r) {
                const REAL2 *a = A.data + r * n + lo;
                REAL2 *y = Y + r * n + lo;
                EACH(t, 0, m) y[t] = with_power(OF == OF_DERIVATIVE ? times_i(y[t], turn * rates[t]) : y[t], by[t], a[t]);
            }
        }
    }
}

#define ADJOINT(name, OF)                                                                                              \
    static void kerr_adjoint_##name(Thread t, Counted<REAL2> A, REAL2 *Y, double h, const REAL *factors, REAL *slope,   \
                                    Coupling c, Coupling transposed) {                                                 \
        kerr_adjoint<OF>(t, A, Y, h, factors, slope, c, transposed);                                                   \
    }                                                                                                                  \
    EXPORT(kerr_adjoint_##name)
ADJOINT(derivative, OF_DERIVATIVE)
ADJOINT(rotate, OF_ROTATE)
ADJOINT(phase_rate, OF_PHASE_RATE)
ADJOINT(turn, OF_TURN)

// --- Chunks of several ranks --------------------------------------------------------------------------------------
//
// A chunk begins at sample t0 of the field and has m samples; numbers of groups are (own groups, m).

static void couple(Thread thread, REAL *out, Index own, Index m, const REAL *part, Index others, const REAL *matrix, bool first) {
    const Index tiles = (m + TILE - 1) / TILE;
    for (Index i = thread.first(tiles); i < thread.last(tiles); ++i) {
        const Index lo = i * TILE, size = m - lo < TILE ? m - lo : TILE;
        multiply(matrix, own, others, {part + lo, m, 0}, first, {out + lo, m, 0}, size);
    }
}
EXPORT(couple)

// Write the largest |theta| of each thread.
static void max_rate(Thread thread, Counted<REAL> theta, double *most) {
    REAL largest_of[TILE] = {};
    for (Index lo = thread.first(theta.count); lo < thread.last(theta.count); lo += TILE) {
        const Index left = thread.last(theta.count) - lo, m = left < TILE ? left : TILE;
        EACH(t, 0, m) largest_of[t] = larger(largest_of[t], theta[lo + t]);
    }
    most[thread.number] = largest(largest_of, TILE);
}
EXPORT(max_rate)

template <class Operator> static void begin_chunk(Thread thread, Counted<REAL2> A, REAL2 *K, Index t0, double h, REAL *power,
                                                  Index m, REAL *numbers, const Groups &groups) {
    const Index tiles = groups.tiles(m);
    for (Index i = thread.first(tiles); i < thread.last(tiles); ++i) {
        const Index lo = i * groups.tile;
        begin<Operator>({A.data + t0 + lo, K + t0 + lo, A.count, groups.samples(i, m)}, groups, h, {power + lo, m, 0},
                        {numbers + lo, m, groups.count * m});
    }
}

template <class Operator, bool MEASURED> static void update_chunk(Thread thread, Counted<REAL2> A, REAL2 *K, Index t0,
                                                                  const REAL *rate, Index m, double h, const REAL *numbers,
                                                                  double *errors, const Groups &groups) {
    const Index tiles = groups.tiles(m);
    for (Index i = thread.first(tiles); i < thread.last(tiles); ++i) {
        const Index lo = i * groups.tile;
        const double error = update<Operator, MEASURED>({A.data + t0 + lo, K + t0 + lo, A.count, groups.samples(i, m)}, groups, h,
                                                        {rate + lo, m, 0}, {numbers + lo, m, groups.count * m});
        if (MEASURED) errors[i] = error;
    }
}

// All operators, each with the kernel of one rank and those of chunks.
#define KERNELS_OF(name, Operator)                                                                                            \
    static void kerr_##name(Thread t, Counted<REAL2> A, REAL2 *K, double h, double *errors, Coupling c) {                     \
        if (errors && Operator::MEASURES) kerr<Operator, Operator::MEASURES>(t, A, K, h, errors, c);                          \
        else kerr<Operator, false>(t, A, K, h, errors, c);                                                                    \
    }                                                                                                                         \
    EXPORT(kerr_##name)                                                                                                       \
    static void begin_##name(Thread t, Counted<REAL2> A, REAL2 *K, Index t0, double h, Counted<REAL> power, REAL *numbers,    \
                             Groups groups) {                                                                                 \
        begin_chunk<Operator>(t, A, K, t0, h, power.data, power.count, numbers, groups);                                      \
    }                                                                                                                         \
    EXPORT(begin_##name)                                                                                                      \
    static void advance_##name(Thread t, int stage, Counted<const REAL> rate, double h, const REAL *power, REAL *numbers,     \
                               REAL *out) {                                                                                   \
        advance<Operator>(stage, rate.data, power, numbers, rate.count, out, h, t.first(rate.count), t.last(rate.count));     \
    }                                                                                                                         \
    EXPORT(advance_##name)                                                                                                    \
    static void update_##name(Thread t, Counted<REAL2> A, REAL2 *K, Index t0, Counted<const REAL> rate, double h,             \
                              const REAL *numbers, double *errors, Groups groups) {                                           \
        if (errors && Operator::MEASURES)                                                                                     \
            update_chunk<Operator, Operator::MEASURES>(t, A, K, t0, rate.data, rate.count, h, numbers, errors, groups);       \
        else update_chunk<Operator, false>(t, A, K, t0, rate.data, rate.count, h, numbers, errors, groups);                   \
    }                                                                                                                         \
    EXPORT(update_##name)
KERR_OPERATORS(KERNELS_OF)
