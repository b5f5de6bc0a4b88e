// Kernels along x of the fused adjoint time step on a GPU, beside those of fused_rows.cu, which they transpose.

#if WITH_X
// One component a block layer: u' -= F^-1 of its spectrum, then the spectrum of pml dt / rho u', and u' <- pml^2 u'.
struct AdjointComponent {
    Complex *spectrum;
    REAL *u;
    const REAL *pml;
    Grid<FORM_STAGGERED> density;
    const REAL *before, *after;  // forward velocities, and the derivative with respect to the density, or null
    REAL *density_bar;
};

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
        const Complex pml = axis == 0 ? *(const Complex *)(c.pml + 2 * j) : Complex{across, across};
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

struct AdjointState {
    SplitLayers layers;
    REAL *total;
    const REAL *rate;  // the derivative with respect to div u, where the medium absorbs
    Grid<FORM_DENSITY> density;
    Change change;
    REAL *density_bar;
};

// The derivatives with respect to du along x (s2), y (s0) and z (s1), and the density a step back.
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
            const Flows flows = transposed(s.layers, i, x, row.y, row.z, bar, rate, rho0, s.change, dt, NONLINEAR, differs,
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
    for (int axis = 0; axis < 3; ++axis) {
        const Space space(axis);
        AxisX::near(v, [&](Complex &value, int j) { value = space.mine[j]; });
        LayoutX::sync();
        space.forth(v, row, axis == 0 ? s2 : axis == 1 ? s0 : s1, twiddle);
    }
}
#endif
