// Formulas of the adjoint ultrasound time step at one point: transposes of those in acoustics.h. A bar is the derivative of the
// objective with respect to a field.
#pragma once

#include "acoustics.h"

// What a part of the density that is damped changes of -bar (before - after).
FN REAL damped_work(REAL part, REAL f, REAL bar, REAL before, REAL after) {
    return bar * (before - after) - part * (f * f * before - after);
}

// Forward densities before and after a step at a point, with their parts inside layers, without what a source has added.
struct Change {
    REAL before, after;
    Parts parts_before, parts_after;
};

// The transpose of `advance`: gives the derivatives with respect to du along each axis, rate - mass f bar, and steps `bar` (the total)
// and its parts. `rate` is the derivative with respect to div u. If the density `differs`, what is to be added to the derivative with
// respect to rho0 goes to `density_bar`, and in a nonlinear step more enters the total and its parts.
FN Parts transposed(REAL &bar, Parts &parts, Parts f, bool in_x, bool in_y, bool in_z, REAL rate, REAL rho0, const Change &c, REAL dt,
                    bool nonlinear, bool differs, REAL &density_bar) {
    const REAL mass = mass_of(c.before, rho0, dt, nonlinear);
    const Parts flows = {rate - mass * (in_x ? f.x * parts.x : bar), rate - mass * (in_y ? f.y * parts.y : bar),
                         rate - mass * (in_z ? f.z * parts.z : bar)};
    REAL more = 0;
    if (differs) {
        REAL work = bar * (c.after - c.before);
        if (in_x) work += damped_work(parts.x, f.x, bar, c.parts_before.x, c.parts_after.x);
        if (in_y) work += damped_work(parts.y, f.y, bar, c.parts_before.y, c.parts_after.y);
        if (in_z) work += damped_work(parts.z, f.z, bar, c.parts_before.z, c.parts_after.z);
        density_bar = work * (dt / mass);
        if (nonlinear) more = density_bar + density_bar;
    }
    bar += more;
    parts = {f.x * f.x * parts.x + more, f.y * f.y * parts.y + more, f.z * f.z * parts.z + more};
    return flows;
}

// What `pressure` adds to the bar of the density, for q = c0^2 p_bar; `rate` becomes rho0 L1{tau q} where the medium loses energy.
FN REAL transposed_pressure(REAL q, REAL rho, REAL rho0, REAL ratio, REAL tau, REAL loss, REAL shift, bool nonlinear, bool lossy,
                            bool stokes, bool disperses, REAL &rate) {
    if (lossy) rate = rho0 * (stokes ? tau * q : loss);
    if (nonlinear) q += q * ratio * rho / rho0;
    return disperses ? q - shift : q;
}

// What a part inside a layer adds to rho0 dt div u of a step, from its values before and after.
FN REAL undamped(REAL f, REAL before, REAL after) { return (f - 1) * (before + after / f); }

// Derivatives of the equation of state in one step at a point; see `medium_gradients` of adjoint/kernels.py.
struct StateBars {
    REAL speed, alpha, ratio, density;
};
FN StateBars state_bars(REAL bar, REAL p, REAL rho, REAL c, REAL rho0, REAL ratio, REAL tau, REAL unit, REAL shift, REAL power,
                        REAL eta_factor, bool nonlinear, bool lossy, bool disperses, bool absorbs) {
    const REAL over = nonlinear ? c * c * rho * rho / (rho0 + rho0) : (REAL)0;          // by B/A: what it adds to p
    const REAL loss = lossy ? p - c * c * rho - ratio * over : (REAL)0;                  // c0^2 (tau L1 - eta L2)
    const REAL moved = disperses ? eta_factor * c * c * c * shift : (REAL)0;             // c0^2 eta L2{rho}/tau
    return {bar * (p + p + (power - 1) * loss - tau * moved) / c, bar * (absorbs ? loss / unit : -unit * moved), bar * over,
            -bar * ratio * over / rho0};
}
