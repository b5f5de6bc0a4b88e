// Pointwise kernels of the adjoint time step; formulas and arguments are explained in kernels.py. A null array is
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
                                            IN unit, int unit_full, IN shift, REAL power, REAL eta_factor,
                                            int nonlinear, int lossy, int disperses, int absorbs) {
    POINT(nx, ny);
    const REAL c = AT(speed, speed_full), bar = p_bar[i], r = rho[i];
    const REAL rho0 = nonlinear ? AT(density, density_full) : (REAL)1, b = nonlinear ? AT(ratio, ratio_full) : (REAL)0;
    const REAL loss = lossy ? p[i] - c * c * (r + b * r * r / (2 * rho0)) : (REAL)0;
    const REAL l2 = disperses && (speed_bar || !absorbs) ? eta_factor * c * shift[i] : (REAL)0;
    if (speed_bar) {
        REAL sum = 2 * p[i] / c;
        if (lossy) sum += (power - 1) * loss / c;
        if (disperses) sum -= c * AT(tau, tau_full) * l2;
        speed_bar[i] += bar * sum;
    }
    if (alpha_bar) alpha_bar[i] += bar * (absorbs ? loss / AT(unit, unit_full) : -c * c * AT(unit, unit_full) * l2);
    if (nonlinear && ratio_bar) ratio_bar[i] += bar * c * c * r * r / (2 * rho0);
    if (nonlinear && density_bar) density_bar[i] -= bar * b * (c * r / rho0) * (c * r / rho0) / 2;
}

extern "C" __global__ void forward_rate(REAL *rate, int nx, int ny, LAYERS, IN rate_bar, IN density, int full,
                                        REAL *density_gradient, IN before, PARTS(before), IN after, PARTS(after), REAL dt,
                                        int nonlinear) {
    POINT(nx, ny);
    LAYERS_OF(nx, ny);
    const Change change = {before, before_x, before_y, before_z, after, after_x, after_y, after_z};
    const Inside in = inside(layers, x, y, z);
    const REAL rho0 = AT(density, full), mass = dt * (nonlinear ? 2 * before[i] + rho0 : rho0);
    REAL sum = before[i] - after[i];
    if (in.any()) {
        const Parts b = load_parts(change.first(layers), in, x, y, z), a = load_parts(change.second(layers), in, x, y, z);
        if (in.x >= 0) sum += (pml_x[x] - 1) * b.x + (1 - 1 / pml_x[x]) * a.x;
        if (in.y >= 0) sum += (pml_y[y] - 1) * b.y + (1 - 1 / pml_y[y]) * a.y;
        if (in.z >= 0) sum += (pml_z[z] - 1) * b.z + (1 - 1 / pml_z[z]) * a.z;
    }
    sum *= rho0 / mass;
    rate[i] = sum;
    if (density_gradient) density_gradient[i] += rate_bar[i] * sum / (rho0 * rho0);
}

extern "C" __global__ void alpha_gradient(REAL *gradient, int nx, int ny, IN p_bar, IN speed, int speed_full, IN unit_tau,
                                          int unit_full, IN loss) {
    POINT(nx, ny);
    const REAL c = AT(speed, speed_full);
    gradient[i] += p_bar[i] * c * c * AT(unit_tau, unit_full) * loss[i];
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
