// Checks of the fields of the ultrasound simulation between time steps: energy, peaks, and parts that alternate from step to step.
#include "../acoustics.h"
#include "driver.h"

// A box of grid points (`box_of` of acoustics/stability/energy.py).
struct Box {
    Index first, planes, rows, length, plane, row, x;
    Index all() const { return planes * rows; }
    Index at(Index r) const { return first + r / rows * plane + r % rows * row; }
};

// Sum of term(x) over a row, in double, in an order that does not depend on the width of vectors.
template <class Term> FN double row_sum(Index n, Term term) {
    double sums[16] = {};
    Index x = 0;
    for (; x + 16 <= n; x += 16)
        for (Index k = 0; k < 16; ++k) sums[k] += (double)term(x + k);
    for (Index k = 0; x < n; ++x, ++k) sums[k] += (double)term(x);
    for (Index half = 8; half; half /= 2)
        for (Index k = 0; k < half; ++k) sums[k] += sums[k + half];
    return sums[0];
}

// Maximum of sign * p over a row and of `most`.
FN REAL row_peak(Index n, const REAL *p, REAL sign, REAL most) {
    REAL peaks[16];
    for (Index k = 0; k < 16; ++k) peaks[k] = most;
    Index x = 0;
    for (; x + 16 <= n; x += 16)
        for (Index k = 0; k < 16; ++k) peaks[k] = sign * p[x + k] > peaks[k] ? sign * p[x + k] : peaks[k];
    for (Index k = 0; x < n; ++x, ++k) peaks[k] = sign * p[x] > peaks[k] ? sign * p[x] : peaks[k];
    for (Index k = 1; k < 16; ++k) peaks[0] = peaks[k] > peaks[0] ? peaks[k] : peaks[0];
    return peaks[0];
}

// A medium parameter from grid index `at` and column x of a row on, so that loops need not tell one row from a full grid.
FN const REAL *in_row(Medium parameter, Index at, Index x) { return parameter.data + (parameter.full ? at : x); }

// Each of `parts` parts of the rows is summed by one thread: results depend on the number of parts, not on that of threads.
static void field_sums(Thread t, double *partials, Index parts, const REAL *p, const REAL *rho, const REAL *ux, const REAL *uy,
                       const REAL *uz, Medium density, Medium along_x, Medium along_y, Medium along_z, const double *weights,
                       const Box *box, int axes) {
    const Box b = *box;
    const REAL *u[] = {ux, uy, uz};
    const Medium of[] = {along_x, along_y, along_z};
    for (Index part = t.first(parts); part < t.last(parts); ++part) {
        double energy = 0;
        REAL high = p[b.first], low = -high;
        for (Index r = b.all() * part / parts; r < b.all() * (part + 1) / parts; ++r) {
            const Index at = b.at(r), y = r % b.rows;
            const REAL *pressure = p + at, *total = rho + at, *rho0 = in_row(density, at, b.x);
            energy += (weights ? weights[2 * y] : 1.0) *
                      row_sum(b.length, [=](Index x) { return potential_energy(pressure[x], total[x], rho0[x]); });
            for (int axis = 0; axis < axes; ++axis) {
                const REAL *velocity = u[axis] + at, *staggered = in_row(of[axis], at, b.x);
                energy += (weights ? weights[2 * y + (axis == 1)] : 1.0) *
                          row_sum(b.length, [=](Index x) { return kinetic_energy(velocity[x], staggered[x]); });
            }
            high = row_peak(b.length, pressure, 1, high);
            low = row_peak(b.length, pressure, -1, low);
        }
        partials[3 * part] = energy, partials[3 * part + 1] = high, partials[3 * part + 2] = -low;
    }
}
EXPORT(field_sums)

static void add_alternating(Thread t, Counted<REAL> sums, const REAL *p, const Index *clock, const Box *box, Index every,
                            Index steps) {
    const Box b = *box;
    const Index left = steps_to_look(*clock + 1, every, steps);
    if (left > 8) return;
    const REAL weight = alternating_weight(left), before = left == 8 ? 0 : 1;
    for (Index r = t.first(b.all()); r < t.last(b.all()); ++r) {
        REAL *sum = sums.data + r * b.length;
        const REAL *now = p + b.at(r);
        EACH(x, 0, b.length) sum[x] = (before != 0 ? sum[x] : (REAL)0) + weight * now[x];
    }
}
EXPORT(add_alternating)

static void square_sums(Thread t, double *partials, Index parts, const REAL *sums, const REAL *p, const Box *box) {
    const Box b = *box;
    for (Index part = t.first(parts); part < t.last(parts); ++part) {
        double one = 0, other = 0;
        for (Index r = b.all() * part / parts; r < b.all() * (part + 1) / parts; ++r) {
            const REAL *sum = sums + r * b.length, *now = p + b.at(r);
            one += row_sum(b.length, [=](Index x) { return sum[x] * sum[x]; });
            other += row_sum(b.length, [=](Index x) { return now[x] * now[x]; });
        }
        partials[2 * part] = one, partials[2 * part + 1] = other;
    }
}
EXPORT(square_sums)

static void squared_slopes(Thread t, double *partials, Index parts, const REAL *field, int nx, int ny, int nz) {
    const Index row = nx, plane = row * ny, rows = (Index)ny * nz;
    for (Index part = t.first(parts); part < t.last(parts); ++part) {
        double *sums = partials + 4 * part;
        for (int k = 0; k < 4; ++k) sums[k] = 0;
        for (Index r = rows * part / parts; r < rows * (part + 1) / parts; ++r) {
            const REAL *p = field + r * row;
            const Index y = r % ny, z = r / ny;
            sums[0] += row_sum(row - 1, [=](Index x) { return squared_slope(p[x], p[x + 1]); });
            if (y + 1 < ny) sums[1] += row_sum(row, [=](Index x) { return squared_slope(p[x], p[x + row]); });
            if (z + 1 < nz) sums[2] += row_sum(row, [=](Index x) { return squared_slope(p[x], p[x + plane]); });
            sums[3] += row_sum(row, [=](Index x) { return squared_slope(0, p[x]); });
        }
    }
}
EXPORT(squared_slopes)
