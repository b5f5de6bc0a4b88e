// Formulas of the adjoint ultrasound time step at one point: transposes of those in acoustics.h. Names with "bar" are derivatives of
// the objective with respect to a field.
#pragma once

#include "acoustics.h"

// Return the correction of `work` in `transposed` for a damped part: part (after - f^2 before) in place of bar (after - before).
FN REAL damped_work(REAL part, REAL f, REAL bar, REAL before, REAL after) {
    return bar * (before - after) - part * (f * f * before - after);
}

// Forward density at a point before and after a step, and its parts inside layers, without what sources have added.
struct Change {
    REAL before, after;
    Parts parts_before, parts_after;
};

// Transpose of `advance`: return the derivatives with respect to du along each axis, rate - mass f bar, and update `bar` (of the total)
// and `parts`. `rate`: derivative with respect to div u. With `differs`, set `density_bar` to this step's contribution to the
// derivative with respect to rho0; in a nonlinear step, twice that is added to the total and its parts.
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

// Transpose of `pressure`: its contribution to the bar of the density, for q = c0^2 p_bar. If lossy, set `rate` to rho0 L1{tau q}.
FN REAL transposed_pressure(REAL q, REAL rho, REAL rho0, REAL ratio, REAL tau, REAL loss, REAL shift, bool nonlinear, bool lossy,
                            bool stokes, bool disperses, REAL &rate) {
    if (lossy) rate = rho0 * (stokes ? tau * q : loss);
    if (nonlinear) q += q * ratio * rho / rho0;
    return disperses ? q - shift : q;
}

// Return what a part inside a layer adds to before - after of the total; with all parts added, the sum is mass times div u.
FN REAL undamped(REAL f, REAL before, REAL after) { return (f - 1) * (before + after / f); }

// Derivatives of the equation of state by medium parameters, in one step at a point; see `medium_gradients` of adjoint/kernels.py.
struct StateBars {
    REAL speed, alpha, ratio, density;
};
FN StateBars state_bars(REAL bar, REAL p, REAL rho, REAL c, REAL rho0, REAL ratio, REAL tau, REAL unit, REAL shift, REAL power,
                        REAL eta_factor, bool nonlinear, bool lossy, bool disperses, bool absorbs) {
    const REAL over = nonlinear ? c * c * rho * rho / (rho0 + rho0) : (REAL)0;          // derivative of p by B/A
    const REAL loss = lossy ? p - c * c * rho - ratio * over : (REAL)0;                  // c0^2 (tau L1 - eta L2)
    const REAL moved = disperses ? eta_factor * c * c * c * shift : (REAL)0;             // c0^2 eta L2{rho}/tau
    return {bar * (p + p + (power - 1) * loss - tau * moved) / c, bar * (absorbs ? loss / unit : -unit * moved), bar * over,
            -bar * ratio * over / rho0};
}
