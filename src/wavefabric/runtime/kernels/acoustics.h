// Formulas of the ultrasound time step at one point. Equations: Treeby et al. 2012, doi:10.1121/1.4712021; Treeby & Cox 2010,
// doi:10.1117/1.3360308. SI units.
#pragma once

#include "point.h"

// u = f (f u - dt/rho dp/dx): velocity under a perfectly matched layer with the factor f; eq. (17a) with (14) of 2010.
FN REAL velocity(REAL u, REAL gradient, REAL density, REAL f, REAL dt) { return f * (f * u - dt / density * gradient); }

// Decrease of the density per unit of div u in a step: dt rho0, or dt (2 rho + rho0) in a nonlinear medium; eq. (7).
FN REAL mass_of(REAL total, REAL density, REAL dt, bool nonlinear) {
    return dt * (nonlinear ? total + total + density : density);
}

// Update one part of the density inside a layer to f (f part - flow). Return what damping removes; the total loses it too.
FN REAL damp(REAL &part, REAL f, REAL flow) {
    const REAL undamped = part - flow;
    part = f * (f * part - flow);
    return undamped - part;
}

// p = c0^2 (rho [+ B/A rho^2/(2 rho0)] [+ tau L1] [- eta L2]), eq. (9); `eta_factor` is eta/(tau c0).
FN REAL pressure(REAL rho, REAL speed, REAL density, REAL ratio, REAL tau, REAL eta_factor, REAL loss, REAL shift,
                 bool nonlinear, bool lossy, bool disperses) {
    REAL extra = 0;
    if (nonlinear) extra += ratio * rho * rho / (density + density);
    if (lossy) extra += tau * loss;
    if (disperses) extra -= eta_factor * tau * speed * shift;
    return speed * speed * (rho + extra);
}

// Twice the energy density, J/m^3: potential energy at a pressure point, kinetic energy of one velocity component at its point. Without
// absorption p = c0^2 rho, so the potential energy is p^2/(rho0 c0^2). With dispersion the scheme conserves p rho, not p^2.
FN REAL potential_energy(REAL p, REAL rho, REAL density) { return fabs(rho * p) / density; }
FN REAL kinetic_energy(REAL u, REAL density) { return u * u * density; }

// Weight of the field `steps_left` steps before the last of nine, in its 8th-order difference in time divided by 2^8.
FN REAL alternating_weight(Index steps_left) {
    const int binomials[] = {1, -8, 28, -56, 70, -56, 28, -8, 1};
    return (REAL)binomials[steps_left] / 256;
}

// Time steps from step `done` to the next multiple of `every` or the last step, whichever is sooner; 0 if `done` is such a step.
FN Index steps_to_look(Index done, Index every, Index steps) {
    const Index next = (every - done % every) % every, last = steps - done;
    return next < last ? next : last;
}

// Operator of the wavenumber |k|, with k2 = |k|^2: sin(a |k|)/(a |k|), cos(a |k|), or |k|^a (0 at k = 0 unless a is 0).
enum { SINC, COSINE, POWER };
FN double wavenumber_operator(double k2, int kind, double a) {
    const double k = sqrt(k2);
    if (kind == COSINE) return cos(a * k);
    if (kind == POWER) return a == 0.0 ? 1.0 : k > 0.0 ? pow(k, a) : 0.0;
    return a * k == 0.0 ? 1.0 : sin(a * k) / (a * k);
}

// One value per axis at one point, such as the parts of the density; 0 for an axis without a value.
struct Parts {
    REAL x, y, z;
};

// Advance the parts of the density inside layers (in_x, ...) and return the total. `flow`: mass times du per axis; `f`: layer factors;
// `second`, `third`: whether the grid has these axes. With all parts stored the total is their sum: rounding errors do not accumulate.
FN REAL advance(REAL total, Parts flow, Parts f, Parts &parts, bool in_x, bool in_y, bool in_z, bool second, bool third) {
    total -= flow.x + flow.y + flow.z;
    if (in_x) total -= damp(parts.x, f.x, flow.x);
    if (in_y) total -= damp(parts.y, f.y, flow.y);
    if (in_z) total -= damp(parts.z, f.z, flow.z);
    return in_x && (in_y || !second) && (in_z || !third) ? parts.x + parts.y + parts.z : total;
}

// Window at the distance R sqrt(square) from the origin: `table` at 0, 1, ... R, linear between; beyond, its last value, 0.
FN double window_at(double square, const double *table, Index count) {
    const double radius = (double)(count - 1), at = radius * sqrt(square);
    const Index low = at < radius ? (Index)at : count - 2;
    const double part = at < radius ? at - (double)low : 1;
    return table[low] + part * (table[low + 1] - table[low]);
}

// Squared difference of two neighbours, in double.
FN double squared_slope(REAL a, REAL b) { return ((double)b - (double)a) * ((double)b - (double)a); }
