// Parts of the density inside the perfectly matched layers, stored as by `SplitLayers` of acoustics/solver/split_density.py.
#pragma once

#include "../acoustics.h"
#include "driver.h"

struct Layers {
    REAL *x, *y, *z;                 // (nz, ny, layers_x), (nz, layers_y, nx), (layers_z, ny, nx)
    const int *at_x, *at_y, *at_z;   // position of a grid index among the points of the axis' layers, -1 outside
    const REAL *pml_x, *pml_y, *pml_z;
    Index nx, ny, layers_x, layers_y;
    REAL *row_x(Index z, Index y) const { return x + (z * ny + y) * layers_x; }
    REAL *row_y(Index z, Index in_y) const { return y + (z * layers_y + in_y) * nx; }
    REAL *row_z(Index in_z, Index y) const { return z + (in_z * ny + y) * nx; }
};
template <> struct Take<Layers> {
    static constexpr int words = 13;
    static Layers from(const Word *w) {
        return {(REAL *)w[0].pointer,      (REAL *)w[1].pointer,       (REAL *)w[2].pointer,
                (const int *)w[3].pointer, (const int *)w[4].pointer,  (const int *)w[5].pointer,
                (const REAL *)w[6].pointer, (const REAL *)w[7].pointer, (const REAL *)w[8].pointer,
                w[9].integer,              w[10].integer,              w[11].integer,
                w[12].integer};
    }
};

// Call work(begin, end, place) for each stretch of a row along x; place: its first point's position in the layers, -1 outside.
template <class Work> FN void stretches(const Layers &s, Work work) {
    for (Index begin = 0, end; begin < s.nx; begin = end) {
        const bool in = s.at_x[begin] >= 0;
        for (end = begin + 1; end < s.nx && (s.at_x[end] >= 0) == in; ++end) {}
        work(begin, end, s.at_x[begin]);
    }
}

// One row of the density's time step; arrays begin at the row. `gx`, `gy`, `gz` are the derivatives of the velocity.
struct DensityRow {
    REAL *__restrict__ total;
    const REAL *__restrict__ gx, *__restrict__ gy, *__restrict__ gz, *__restrict__ density;
    REAL dt;
    bool second, third;  // whether there are gradients along y and z
};

template <bool in_x, bool in_y, bool in_z, bool nonlinear>
FN void advance_stretch(const Layers &s, const DensityRow &r, Index begin, Index end, REAL *__restrict__ part_x,
                        REAL *__restrict__ part_y, REAL *__restrict__ part_z, REAL f_y, REAL f_z) {
    const REAL *__restrict__ f_x = s.pml_x;
    const bool second = r.second, third = r.third;
    const REAL dt = r.dt;
    EACH(x, begin, end) {
        const REAL mass = mass_of(r.total[x], r.density[x], dt, nonlinear);
        const Parts flow = {mass * r.gx[x], second ? mass * r.gy[x] : (REAL)0, third ? mass * r.gz[x] : (REAL)0};
        Parts parts = {in_x ? part_x[x] : (REAL)0, in_y ? part_y[x] : (REAL)0, in_z ? part_z[x] : (REAL)0};
        const Parts f = {in_x ? f_x[x] : (REAL)1, f_y, f_z};
        r.total[x] = advance(r.total[x], flow, f, parts, in_x, in_y, in_z, second, third);
        if (in_x) part_x[x] = parts.x;
        if (in_y) part_y[x] = parts.y;
        if (in_z) part_z[x] = parts.z;
    }
}

template <bool nonlinear> FN void advance_row(const Layers &s, const DensityRow &r, Index z, Index y) {
    const int in_y = s.at_y[y], in_z = s.at_z[z];
    REAL *part_y = in_y >= 0 ? s.row_y(z, in_y) : 0, *part_z = in_z >= 0 ? s.row_z(in_z, y) : 0;
    const REAL f_y = s.pml_y[y], f_z = in_z >= 0 ? s.pml_z[z] : (REAL)1;
    stretches(s, [&](Index begin, Index end, int place) {
        REAL *part_x = s.row_x(z, y) + place - begin;
#define STRETCH(in_x, in_y, in_z) \
    return advance_stretch<in_x, in_y, in_z, nonlinear>(s, r, begin, end, part_x, part_y, part_z, f_y, f_z)
        if (place < 0) {
            if (!part_y && !part_z) STRETCH(false, false, false);
            if (!part_z) STRETCH(false, true, false);
            if (!part_y) STRETCH(false, false, true);
            STRETCH(false, true, true);
        }
        if (!part_y && !part_z) STRETCH(true, false, false);
        if (!part_z) STRETCH(true, true, false);
        if (!part_y) STRETCH(true, false, true);
        STRETCH(true, true, true);
#undef STRETCH
    });
}

// Set each of `parts` parts of the density at one point to `value`, or add `value` to each; `total` is the row of the point.
FN void put_density(const Layers &s, REAL *total, REAL value, bool replace, REAL parts, Index z, Index y, Index x) {
    total[x] = (replace ? (REAL)0 : total[x]) + parts * value;
    const int in_x = s.at_x[x], in_y = s.at_y[y], in_z = s.at_z[z];
    const auto put = [&](REAL &part) { part = replace ? value : part + value; };
    if (in_x >= 0) put(s.row_x(z, y)[in_x]);
    if (in_y >= 0) put(s.row_y(z, in_y)[x]);
    if (in_z >= 0) put(s.row_z(in_z, y)[x]);
}

// Add pattern times amplitude to each of `parts` parts of the density of a row.
FN void add_density_row(const Layers &s, REAL *__restrict__ total, const REAL *__restrict__ pattern, REAL amplitude, REAL parts,
                        Index z, Index y) {
    const REAL whole = parts * amplitude;
    EACH(x, 0, s.nx) total[x] += pattern[x] * whole;
    stretches(s, [&](Index begin, Index end, int place) {
        REAL *part = s.row_x(z, y) + place - begin;
        if (place >= 0) EACH(x, begin, end) part[x] += pattern[x] * amplitude;
    });
    const int in_y = s.at_y[y], in_z = s.at_z[z];
    if (in_y >= 0) EACH(x, 0, s.nx) s.row_y(z, in_y)[x] += pattern[x] * amplitude;
    if (in_z >= 0) EACH(x, 0, s.nx) s.row_z(in_z, y)[x] += pattern[x] * amplitude;
}

// One row of the medium, as the equation of state needs it.
struct MediumRow {
    const REAL *__restrict__ speed, *__restrict__ density, *__restrict__ ratio, *__restrict__ tau;
    REAL eta_factor;
};

template <bool nonlinear, bool lossy, bool disperses>
FN void pressure_row(REAL *p, const REAL *__restrict__ rho, const MediumRow &m, const REAL *loss, const REAL *shift, Index n) {
    const REAL eta_factor = m.eta_factor;
    EACH(x, 0, n)
        p[x] = pressure(rho[x], m.speed[x], nonlinear ? m.density[x] : (REAL)1, nonlinear ? m.ratio[x] : (REAL)0,
                        lossy || disperses ? m.tau[x] : (REAL)0, eta_factor, lossy ? loss[x] : (REAL)0,
                        disperses ? shift[x] : (REAL)0, nonlinear, lossy, disperses);
}

// `p` may be the same array as `loss` or `shift`.
FN void pressure_row(REAL *p, const REAL *rho, const MediumRow &m, const REAL *loss, const REAL *shift, Index n, bool nonlinear,
                     bool lossy, bool disperses) {
    if (nonlinear) {
        if (disperses) pressure_row<true, true, true>(p, rho, m, loss, shift, n);
        else if (lossy) pressure_row<true, true, false>(p, rho, m, loss, shift, n);
        else pressure_row<true, false, false>(p, rho, m, loss, shift, n);
    } else {
        if (disperses && lossy) pressure_row<false, true, true>(p, rho, m, loss, shift, n);
        else if (lossy) pressure_row<false, true, false>(p, rho, m, loss, shift, n);
        else pressure_row<false, false, false>(p, rho, m, loss, shift, n);
    }
}
