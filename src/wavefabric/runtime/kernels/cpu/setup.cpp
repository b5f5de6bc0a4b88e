// Operations on arrays of a grid before the first time step; each reads an array once.
#include <cmath>
#include <numeric>

#include "driver.h"

struct Strides {  // in numbers, not bytes
    Index z, y, x;
};
template <> struct Take<Strides> : Record<Strides, Index, Index, Index> {};

// Size of a tile of two axes that is copied at once: in one array its numbers share a cache line, in the other they lie in 16 lines. The
// third axis advances by a few numbers, which lie in the same pages of memory.
constexpr Index TILE = 16, ROWS_TOGETHER = 8;

// Copy `source` to `target`, an array of the same shape with another order in memory.
static void copy_field(Thread t, REAL *target, Strides to, const REAL *source, Strides from, Grid grid) {
    if (from.x == 1 && to.x == 1) {
        for (Index row = t.first(grid.rows()); row < t.last(grid.rows()); ++row) {
            const Index z = row / grid.ny, y = row % grid.ny;
            const REAL *in = source + z * from.z + y * from.y;
            REAL *out = target + z * to.z + y * to.y;
            EACH(x, 0, grid.nx) out[x] = in[x];
        }
        return;
    }
    // near: the axis other than x along which the source has the smaller stride; other: the remaining axis.
    const bool along_z = std::abs(from.z) <= std::abs(from.y);
    const Index near = along_z ? grid.nz : grid.ny, other = along_z ? grid.ny : grid.nz;
    const Index near_from = along_z ? from.z : from.y, near_to = along_z ? to.z : to.y;
    const Index other_from = along_z ? from.y : from.z, other_to = along_z ? to.y : to.z;
    const Index tiles = (near + TILE - 1) / TILE, groups = (other + ROWS_TOGETHER - 1) / ROWS_TOGETHER;
    for (Index unit = t.first(tiles * groups); unit < t.last(tiles * groups); ++unit) {
        const Index n0 = unit / groups * TILE, o0 = unit % groups * ROWS_TOGETHER;
        const Index n1 = n0 + TILE < near ? n0 + TILE : near, o1 = o0 + ROWS_TOGETHER < other ? o0 + ROWS_TOGETHER : other;
        for (Index x0 = 0; x0 < grid.nx; x0 += TILE)
            for (Index o = o0; o < o1; ++o)
                for (Index n = n0; n < n1; ++n) {
                    const REAL *in = source + o * other_from + n * near_from;
                    REAL *out = target + o * other_to + n * near_to;
                    const Index end = x0 + TILE < grid.nx ? x0 + TILE : grid.nx;
                    for (Index x = x0; x < end; ++x) out[x * to.x] = in[x * from.x];
                }
    }
}
EXPORT(copy_field)

// out = mean of each number and the next along an axis (0 for x); for the last number the next is the first (`wrap`) or itself.
static void stagger(Thread t, REAL *out, const REAL *field, Grid grid, Index axis, bool wrap) {
    const Index plane = grid.ny * grid.nx, whole = grid.size();
    ROWS(t, grid) {
        const REAL *row = field + first;
        REAL *to = out + first;
        if (axis == 0) {
            EACH(x, 0, grid.nx - 1) to[x] = (row[x] + row[x + 1]) * (REAL)0.5;
            to[grid.nx - 1] = wrap ? (row[grid.nx - 1] + row[0]) * (REAL)0.5 : row[grid.nx - 1];
            continue;
        }
        const Index at = axis == 1 ? y : z, last = (axis == 1 ? grid.ny : grid.nz) - 1;
        const Index apart = axis == 1 ? grid.nx : plane, around = axis == 1 ? plane : whole;
        const REAL *next = row + (at < last ? apart : apart - around);
        if (at == last && !wrap) EACH(x, 0, grid.nx) to[x] = row[x];
        else EACH(x, 0, grid.nx) to[x] = (row[x] + next[x]) * (REAL)0.5;
    }
}
EXPORT(stagger)

// Minimum and maximum of numbers, both NaN if any number is; tracked per lane, so that the compiler uses vectors.
constexpr Index LANES = 16;
template <class T> struct Range {
    T low[LANES], high[LANES], none[LANES];  // 1 if a number is NaN
    Range() {
        for (Index k = 0; k < LANES; ++k) {
            low[k] = INFINITY;
            high[k] = -INFINITY;
            none[k] = 0;
        }
    }
    template <class Value> INLINED void add(Value value) {
        for (Index k = 0; k < LANES; ++k) {
            const T x = value(k);
            low[k] = x < low[k] ? x : low[k];
            high[k] = x > high[k] ? x : high[k];
            none[k] = x != x ? (T)1 : none[k];
        }
    }
    void put(double *out) const {
        T least = low[0], most = high[0], any = 0;
        for (Index k = 0; k < LANES; ++k) {
            least = low[k] < least ? low[k] : least;
            most = high[k] > most ? high[k] : most;
            any += none[k];
        }
        out[0] = any != 0 ? NAN : (double)least;
        out[1] = any != 0 ? NAN : (double)most;
    }
};

// Write the minimum and maximum of each part of a field, (parts, 2).
static void ranges(Thread t, Counted<const REAL> field, Counted<double> out) {
    const Index parts = out.count / 2;
    for (Index part = t.first(parts); part < t.last(parts); ++part) {
        const Index end = field.count * (part + 1) / parts;
        Range<REAL> range;
        Index i = field.count * part / parts;
        for (; i + LANES <= end; i += LANES) {
            const REAL *at = &field[i];
            range.add([=](Index k) { return at[k]; });
        }
        for (; i < end; ++i) range.add([=](Index) { return field[i]; });
        range.put(&out[2 * part]);
    }
}
EXPORT(ranges)

// Read LANES numbers from `first` on, only up to `end`: the first one stands for those beyond. A parameter may be one number.
static INLINED void read_lanes(Counted<const REAL> field, Index first, Index end, double *to) {
    if (field.count > 1 && first + LANES <= end) {
        const REAL *at = &field[first];
        EACH(k, 0, LANES) to[k] = (double)at[k];
    } else
        for (Index k = 0; k < LANES; ++k) to[k] = (double)field[field.count > 1 ? first + (first + k < end ? k : 0) : 0];
}

// Points of a block of a medium whose powers are computed only if they may be extremes.
constexpr Index POINTS = 256;

// For each part of a medium, (parts, 11): ranges of rho c^2, alpha c^y, alpha c^(y + 1) and alpha c^(y + 2); the largest alpha c, and
// c and alpha at the first point that has it. A parameter is an array, or one number.
constexpr Index EXTREMES = 11;
static void medium_extremes(Thread t, Counted<const REAL> c, Counted<const REAL> density, Counted<const REAL> alpha, Index points,
                            double power, Counted<double> out) {
    const Index parts = out.count / EXTREMES;
    double speed = NAN, factor = 0;  // c and c^y of the previous point, often the same
    for (Index part = t.first(parts); part < t.last(parts); ++part) {
        const Index end = points * (part + 1) / parts;
        double *to = &out[part * EXTREMES];
        Range<double> stiffness, losses[3];
        double most[3] = {-INFINITY, 0, 0}, loss_ranges[6];  // ranges of the losses so far
        Index most_at = points;
        // Whether no loss of a block is an extreme: powers are monotonic, up to rounding. False if any number is NaN.
        auto inside = [&](const double *cs, const double *alphas) {
            double low = alphas[0] * pow(cs[0], power) * (1 - 1e-12), high = alphas[1] * pow(cs[1], power) * (1 + 1e-12);
            bool result = alphas[0] >= 0 && cs[1] * alphas[1] < most[0];
            for (int k = 0; k < 3; ++k, low *= cs[0], high *= cs[1]) result = result && low >= loss_ranges[2 * k] && high <= loss_ranges[2 * k + 1];
            return result;
        };
        for (int k = 0; k < 3; ++k) losses[k].put(loss_ranges + 2 * k);
        // Blocks that follow one another lie far apart: soon few have extremes, also where a parameter rises steadily.
        const Index begin = points * part / parts, blocks = (end - begin + POINTS - 1) / POINTS;
        Index skip = blocks * 5 / 8 + 1;
        while (std::gcd(skip, blocks) != 1) ++skip;
        for (Index block = 0; block < blocks; ++block) {
            const Index first = begin + block * skip % blocks * POINTS, last = first + POINTS < end ? first + POINTS : end;
            double cs[LANES], alphas[LANES], densities[LANES];
            Range<double> speeds, factors;
            for (Index i = first; i < last; i += LANES) {
                read_lanes(c, i, last, cs);
                read_lanes(alpha, i, last, alphas);
                read_lanes(density, i, last, densities);
                speeds.add([&](Index k) { return cs[k]; });
                factors.add([&](Index k) { return alphas[k]; });
                stiffness.add([&](Index k) { return densities[k] * cs[k] * cs[k]; });
            }
            double c_range[2], alpha_range[2];
            speeds.put(c_range);
            factors.put(alpha_range);
            if (inside(c_range, alpha_range)) continue;
            for (Index i = first; i < last; i += LANES) {
                double powers[LANES];
                read_lanes(c, i, last, cs);
                read_lanes(alpha, i, last, alphas);
                for (Index k = 0; k < LANES; ++k) {
                    if (cs[k] != speed) {
                        speed = cs[k];
                        factor = pow(speed, power);
                    }
                    powers[k] = alphas[k] * factor;
                }
                losses[0].add([&](Index k) { return powers[k]; });
                losses[1].add([&](Index k) { return powers[k] * cs[k]; });
                losses[2].add([&](Index k) { return powers[k] * (cs[k] * cs[k]); });
                for (Index k = 0; k < LANES && i + k < last; ++k)
                    if (cs[k] * alphas[k] > most[0] || (cs[k] * alphas[k] == most[0] && i + k < most_at)) {
                        most_at = i + k;
                        most[0] = cs[k] * alphas[k];
                        most[1] = cs[k];
                        most[2] = alphas[k];
                    }
            }
            for (int k = 0; k < 3; ++k) losses[k].put(loss_ranges + 2 * k);
        }
        stiffness.put(to);
        for (int k = 0; k < 3; ++k) losses[k].put(to + 2 + 2 * k);
        for (int k = 0; k < 3; ++k) to[8 + k] = most[k];
    }
}
EXPORT(medium_extremes)
