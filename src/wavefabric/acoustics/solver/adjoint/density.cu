// The transpose of the density's update at one point; see `adjoint_density` of kernels.py.

struct Flows {  // derivatives with respect to du along each axis
    REAL x, y, z;
};

// Forward densities before and after a step, with the parts that are kept in layers.
struct Change {
    const REAL *before, *before_x, *before_y, *before_z, *after, *after_x, *after_y, *after_z;
    __device__ __forceinline__ SplitLayers layers(SplitLayers s, const REAL *x, const REAL *y, const REAL *z) const {
        s.x = (REAL *)x;
        s.y = (REAL *)y;
        s.z = (REAL *)z;
        return s;
    }
    __device__ __forceinline__ SplitLayers first(const SplitLayers &s) const {
        return layers(s, before_x, before_y, before_z);
    }
    __device__ __forceinline__ SplitLayers second(const SplitLayers &s) const {
        return layers(s, after_x, after_y, after_z);
    }
};

// What a part that is damped changes of -rho' (before - after).
__device__ __forceinline__ REAL damped_work(REAL part, REAL f, REAL total, REAL before, REAL after) {
    return total * (before - after) - part * (f * f * before - after);
}

// One point: `bar` is its total, `rho0` the density; what is to be added to the derivative with respect to that goes to
// `density_bar`. With `differs`, of the nonlinear step more is added to the total and its parts.
__device__ __forceinline__ Flows transposed(const SplitLayers &s, Index i, int x, int y, int z, REAL &bar, REAL rate,
                                            REAL rho0, const Change &change, REAL dt, bool nonlinear, bool differs,
                                            REAL &density_bar) {
    const Inside in = inside(s, x, y, z);
    Parts parts = load_parts(s, in, x, y, z);
    const REAL fx = in.x >= 0 ? s.pml_x[x] : (REAL)1, fy = in.y >= 0 ? s.pml_y[y] : (REAL)1,
               fz = in.z >= 0 ? s.pml_z[z] : (REAL)1;
    const REAL mass = dt * (nonlinear ? 2 * change.before[i] + rho0 : rho0);
    const Flows flows = {rate - mass * fx * (in.x >= 0 ? parts.x : bar), rate - mass * fy * (in.y >= 0 ? parts.y : bar),
                         rate - mass * fz * (in.z >= 0 ? parts.z : bar)};
    REAL more = 0;
    if (differs) {
        REAL work = bar * (change.after[i] - change.before[i]);
        if (in.any()) {
            const Parts b = load_parts(change.first(s), in, x, y, z), a = load_parts(change.second(s), in, x, y, z);
            if (in.x >= 0) work += damped_work(parts.x, fx, bar, b.x, a.x);
            if (in.y >= 0) work += damped_work(parts.y, fy, bar, b.y, a.y);
            if (in.z >= 0) work += damped_work(parts.z, fz, bar, b.z, a.z);
        }
        density_bar = work * dt / mass;
        if (nonlinear) more = 2 * density_bar;
    }
    bar += more;
    if (in.any()) {
        parts = {fx * fx * parts.x + more, fy * fy * parts.y + more, fz * fz * parts.z + more};
        store_parts(s, in, x, y, z, parts);
    }
    return flows;
}
