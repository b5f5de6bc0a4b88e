// Kernels along x of the fused adjoint time step on a GPU: transposes of the kernels of fused_rows.cu.

#if WITH_X
// One velocity component per blockIdx.y: u' -= F^-1 of its spectrum, then the spectrum of pml dt / rho u', then u' <- pml^2 u'.
struct AdjointComponent {
    Complex *spectrum;
    REAL *u;
    const REAL *pml;
    Grid<FORM_STAGGERED> density;
    const REAL *before, *after;  // forward velocities before and after the step, and the derivative with respect to the density; or null
    REAL *density_bar;
};

#if WITH_X_ADJOINT_VELOCITY
KERNEL_OF(X, BV) x_adjoint_velocity(const AdjointComponent *__restrict__ components, REAL dt, TABLE twiddle) {
    const Row row;
    const int axis = blockIdx.y;
    const AdjointComponent c = components[axis];
    const Space space(0), velocity(1), density(2);
    space.spectrum(c.spectrum, row);
    space.commit();
    velocity.field(c.u, row);
    if (c.density.full) density.field(c.density.at, row);
    space.commit();
    const REAL across = axis == 0 ? (REAL)1 : c.pml[axis == 1 ? row.y : row.z];
    const REAL uniform = *c.density.at;
    space.wait<1>();
    Complex v[AxisX::values];
    space.back(v, twiddle);
    space.wait<0>();
    AxisX::near(v, [&](Complex &value, int j) {
        const Complex was = velocity.mine[j], bar = {was.x - value.y, was.y - value.x};
        const Complex rho0 = c.density.full ? density.mine[j] : Complex{uniform, uniform};
        const Complex pml = axis == 0 ? pair_at(c.pml, j) : Complex{across, across};
        const Complex square = {pml.x * pml.x, pml.y * pml.y};
        if (c.density_bar) {
            const Complex b = row.get(c.before, j), a = row.get(c.after, j), sum = row.get(c.density_bar, j);
            row.put(c.density_bar, j, {sum.x + bar.x * (square.x * b.x - a.x) / rho0.x,
                                       sum.y + bar.y * (square.y * b.y - a.y) / rho0.y});
        }
        row.put(c.u, j, {square.x * bar.x, square.y * bar.y});
        value = {pml.x * dt / rho0.x * bar.x, pml.y * dt / rho0.y * bar.y};
    });
    space.forth(v, row, c.spectrum, twiddle);
}
#endif

struct AdjointState {
    SplitLayers layers;
    REAL *total;
    const REAL *p, *rho;  // the derivative with respect to p; the forward density
    REAL *rate;           // the derivative with respect to div u, where the medium absorbs
    Grid<FORM_SPEED> speed;
    Grid<FORM_DENSITY> density;
    Grid<FORM_RATIO> ratio;
    Grid<FORM_TAU> tau;
    Densities change;
    REAL *density_bar;
};

// Compute the spectra of tau c^2 p' (s0) and, with `disperses`, of eta c^2 p' (s1), for the fractional Laplacians.
#if WITH_X_ADJOINT_LOSSES
KERNEL(X) x_adjoint_losses(Complex *s0, Complex *s1, const AdjointState *__restrict__ state, REAL eta_factor, int disperses,
                           TABLE twiddle) {
    const AdjointState &s = *state;
    const Row row;
    const Space space(0);
    Complex v[AxisX::values], shift[AxisX::values];
    AxisX::near(v, [&](Complex &value, int j) {
        if (!row.here) return;
        const Complex c = s.speed.get(row, j), tau = s.tau.get(row, j), bar = row.get(s.p, j);
        value = {tau.x * c.x * c.x * bar.x, tau.y * c.y * c.y * bar.y};
        shift[&value - v] = {eta_factor * c.x * value.x, eta_factor * c.y * value.y};
    });
    space.forth(v, row, s0, twiddle);
    if (!disperses) return;
    LayoutX::sync();
    space.forth(shift, row, s1, twiddle);
}
#endif

// Add the contribution of p' to the adjoint density, and set `rate`, from the spectra of `x_adjoint_losses` after the Laplacians.
#if WITH_X_ADJOINT_PRESSURE
KERNEL_OF(X, BP) x_adjoint_pressure(Complex *s0, const Complex *s1, const AdjointState *__restrict__ state, int disperses,
                                    TABLE twiddle) {
    typedef RowsOf<false> Eager;
    const AdjointState s = *state;
    const Row row;
    const Space space(0), more(1);
    const auto back = [&](Complex *v, const Complex *spectrum) {
        const Complex *entries = spectrum + row.number * PITCH;
        Eager::back(v, space.all, fresh(twiddle), [&](int k) { return entries[k]; });
    };
    Complex v[AxisX::values];
    if (disperses) {
        back(v, s1);
        AxisX::near(v, [&](Complex &value, int j) { more.mine[j] = {-value.y, -value.x}; });
    }
    back(v, s0);
    AxisX::near(v, [&](Complex &value, int j) {
        if (!row.here) return;
        const Complex c = s.speed.get(row, j), rho0 = s.density.get(row, j), bar = row.get(s.p, j);
        row.put(s.rate, j, {rho0.x * value.y, rho0.y * value.x});
        Complex q = {c.x * c.x * bar.x, c.y * c.y * bar.y};
        if (NONLINEAR) {
            const Complex b = s.ratio.get(row, j), rho = row.get(s.rho, j);
            q = {q.x + q.x * b.x * rho.x / rho0.x, q.y + q.y * b.y * rho.y / rho0.y};
        }
        if (disperses) q = q + more.mine[j];
        more.mine[j] = q;
        row.put(s.total, j, row.get(s.total, j) + q);
    });
    LayoutX::sync();
    if (row.here)
        for (int x = LayoutX::lane(); x < NX; x += PX) {
            const Inside in = inside(s.layers, x, row.y, row.z);
            if (!in.any()) continue;
            const REAL value = ((REAL *)more.mine)[x];
            const Parts was = load_parts(s.layers, in, x, row.y, row.z);
            store_parts(s.layers, in, x, row.y, row.z, {was.x + value, was.y + value, was.z + value});
        }
}
#endif

// Compute the spectra of the derivatives with respect to du along x (s2), y (s0) and z (s1); step the adjoint density back.
#if WITH_X_ADJOINT_DENSITY
KERNEL(X) x_adjoint_density(Complex *s0, Complex *s1, Complex *s2, const AdjointState *__restrict__ state, REAL dt,
                            int differs, TABLE twiddle) {
    const AdjointState &s = *state;
    const Row row;
    const Space along_x(0), along_y(1), along_z(2);
    if (row.here)
        for (int x = LayoutX::lane(); x < NX; x += PX) {
            const Index i = row.number * NX + x;
            REAL bar = s.total[i], density_bar = 0;
            const REAL rate = ABSORPTION ? s.rate[i] : (REAL)0, rho0 = s.density.at[FORM_DENSITY == FULL ? i : 0];
            const Parts flows = transpose_point(s.layers, i, x, row.y, row.z, bar, rate, rho0, s.change, dt, NONLINEAR, differs,
                                           density_bar);
            ((REAL *)along_x.mine)[x] = flows.x;
            ((REAL *)along_y.mine)[x] = flows.y;
            ((REAL *)along_z.mine)[x] = flows.z;
            s.total[i] = bar;
            if (s.density_bar) s.density_bar[i] += density_bar;
        }
    LayoutX::sync();
    Complex v[AxisX::values];
#pragma unroll 1
    for (int axis = 0; axis < DIMENSIONS; ++axis) {
        const Space space(axis);
        AxisX::near(v, [&](Complex &value, int j) { value = space.mine[j]; });
        LayoutX::sync();
        space.forth(v, row, axis == 0 ? s2 : axis == 1 ? s0 : s1, twiddle);
    }
}
#endif
#endif
