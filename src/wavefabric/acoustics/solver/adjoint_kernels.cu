// Pointwise kernels of the adjoint time step; formulas and arguments are explained in adjoint_kernels.py. A null array is
// one that nobody asks for.

#define PARTS(name) const REAL *name##_x, const REAL *name##_y, const REAL *name##_z

extern "C" __global__ void adjoint_losses(REAL *loss, int nx, int ny, REAL *shift, IN p, IN speed, int speed_full, IN tau,
                                          int tau_full, REAL eta_factor, int disperses) {
    POINT(nx, ny);
    const REAL c = AT(speed, speed_full), value = AT(tau, tau_full) * c * c * p[i];
    loss[i] = value;
    if (disperses) shift[i] = eta_factor * c * value;
}

extern "C" __global__ void adjoint_pressure(REAL *total, int nx, int ny, LAYERS, REAL *rate, IN p, IN rho, IN speed,
                                            int speed_full, IN density, int density_full, IN ratio, int ratio_full, IN tau,
                                            int tau_full, const REAL *loss, const REAL *shift, int nonlinear, int lossy,
                                            int stokes, int disperses) {
    POINT(nx, ny);
    LAYERS_OF(nx, ny);
    const REAL c = AT(speed, speed_full), rho0 = AT(density, density_full);
    REAL more = c * c * p[i];
    if (lossy) rate[i] = rho0 * (stokes ? AT(tau, tau_full) * more : loss[i]);
    if (nonlinear) more += more * AT(ratio, ratio_full) * rho[i] / rho0;
    if (disperses) more -= shift[i];
    put_density(layers, total[i], x, y, z, more, false, 1);
}

extern "C" __global__ void adjoint_density(REAL *total, int nx, int ny, LAYERS, REAL *gx, REAL *gy, REAL *gz, IN density,
                                           int full, REAL *density_gradient, IN before, PARTS(before), IN after, PARTS(after),
                                           REAL dt, int nonlinear, int lossy, int differs, int axes) {
    POINT(nx, ny);
    LAYERS_OF(nx, ny);
    const Change change = {before, before_x, before_y, before_z, after, after_x, after_y, after_z};
    REAL bar = total[i], density_bar = 0;
    const Flows flows = transposed(layers, i, x, y, z, bar, lossy ? gx[i] : (REAL)0, AT(density, full), change, dt, nonlinear,
                                   differs, density_bar);
    gx[i] = flows.x;
    if (axes > 1) gy[i] = flows.y;
    if (axes > 2) gz[i] = flows.z;
    total[i] = bar;
    if (density_gradient) density_gradient[i] += density_bar;
}

extern "C" __global__ void adjoint_velocity(REAL *u, int nx, int ny, REAL *g, IN density, int full, IN pml,
                                            REAL *density_gradient, IN before, IN after, int axis, REAL dt, int subtracts) {
    POINT(nx, ny);
    const REAL f = pml[axis == 0 ? x : axis == 1 ? y : z], rho = AT(density, full);
    const REAL bar = subtracts ? u[i] - g[i] : u[i];
    if (density_gradient) density_gradient[i] += bar * (f * f * before[i] - after[i]) / rho;
    g[i] = f * dt / rho * bar;
    u[i] = f * f * bar;
}

extern "C" __global__ void medium_gradients(const REAL *p_bar, int nx, int ny, REAL *speed_bar, REAL *density_bar,
                                            REAL *alpha_bar, REAL *ratio_bar, IN p, IN rho, IN speed, int speed_full,
                                            IN density, int density_full, IN ratio, int ratio_full, IN tau, int tau_full,
                                            IN unit_tau, int unit_full, IN loss, IN shift, IN divergence, IN rate_bar,
                                            REAL power, REAL eta_factor, int nonlinear, int lossy, int disperses) {
    POINT(nx, ny);
    const REAL c = AT(speed, speed_full), rho0 = AT(density, density_full), bar = p_bar[i], r = rho[i];
    if (speed_bar) {
        REAL sum = 2 * bar * p[i] / c;
        if (lossy) sum += bar * c * AT(tau, tau_full) * (power - 1) * loss[i];
        if (disperses) sum -= bar * c * c * AT(tau, tau_full) * power * eta_factor * shift[i];
        speed_bar[i] += sum;
    }
    if (alpha_bar) {
        REAL sum = loss[i];
        if (disperses) sum -= c * eta_factor * shift[i];
        alpha_bar[i] += bar * c * c * AT(unit_tau, unit_full) * sum;
    }
    if (nonlinear && ratio_bar) ratio_bar[i] += bar * c * c * r * r / (2 * rho0);
    if (density_bar) {
        REAL sum = 0;
        if (nonlinear) sum -= bar * c * c * AT(ratio, ratio_full) * (r / rho0) * (r / rho0) / 2;
        if (lossy) sum += divergence[i] * rate_bar[i] / rho0;
        density_bar[i] += sum;
    }
}

extern "C" __global__ void density_sum(REAL *out, int nx, int ny, const REAL *total, LAYERS, REAL parts) {
    POINT(nx, ny);
    LAYERS_OF(nx, ny);
    const Inside in = inside(layers, x, y, z);
    const Parts kept = load_parts(layers, in, x, y, z);
    const REAL bar = total[i];
    REAL sum = parts * bar;
    if (in.x >= 0) sum += kept.x - bar;
    if (in.y >= 0) sum += kept.y - bar;
    if (in.z >= 0) sum += kept.z - bar;
    out[i] = sum;
}

extern "C" __global__ void add_readings(REAL *field, const Index *index, Index count, const Index *bounds,
                                        const Index *columns, const double *weights, const REAL *values) {
    ITEM(count);
    double sum = 0;
    for (Index j = bounds[i]; j < bounds[i + 1]; ++j) sum += weights[j] * (double)values[columns[j]];
    field[index[i]] += (REAL)sum;
}

extern "C" __global__ void accumulate_products(REAL *sums, const REAL *field, const Index *index, Index count,
                                               const REAL *signal, Index rows, Index columns, const Index *first,
                                               int delayed, const REAL *weights, int weighted) {
    ITEM(count);
    const Index at = first[delayed ? i : 0];
    if (at >= rows) return;
    sums[i] += field[index[i]] * signal[at * columns + (columns > 1 ? i : 0)] * weights[weighted ? i : 0];
}
