// Pointwise kernels of the adjoint time step; arguments are those of the table in kernels.py. Arrays that are not
// requested are null.

#define PARTS(name) const REAL *name##_x, const REAL *name##_y, const REAL *name##_z

extern "C" __global__ void adjoint_losses(int nx, int ny, REAL *loss, REAL *shift, IN p, IN speed, int speed_full, IN tau,
                                          int tau_full, REAL eta_factor, int disperses) {
    POINT(nx, ny);
    const REAL c = AT(speed, speed_full), value = AT(tau, tau_full) * c * c * p[i];
    loss[i] = value;
    if (disperses) shift[i] = eta_factor * c * value;
}

extern "C" __global__ void adjoint_pressure(int nx, int ny, REAL *total, LAYERS, REAL *rate, IN p, IN rho, IN speed,
                                            int speed_full, IN density, int density_full, IN ratio, int ratio_full, IN tau,
                                            int tau_full, const REAL *loss, const REAL *shift, int nonlinear, int lossy,
                                            int stokes, int disperses) {
    POINT(nx, ny);
    LAYERS_OF;
    const REAL c = AT(speed, speed_full), rho0 = AT(density, density_full);
    REAL out = 0;
    const REAL more = transposed_pressure(c * c * p[i], nonlinear ? rho[i] : (REAL)0, rho0, nonlinear ? AT(ratio, ratio_full) : (REAL)0,
                                          stokes ? AT(tau, tau_full) : (REAL)0, lossy && !stokes ? loss[i] : (REAL)0,
                                          disperses ? shift[i] : (REAL)0, nonlinear, lossy, stokes, disperses, out);
    if (lossy) rate[i] = out;
    put_density(layers, total[i], x, y, z, more, false, 1);
}

extern "C" __global__ void adjoint_density(int nx, int ny, REAL *total, LAYERS, REAL *gx, REAL *gy, REAL *gz, IN density,
                                           int full, REAL *density_gradient, IN before, PARTS(before), IN after,
                                           PARTS(after), REAL dt, int nonlinear, int lossy, int differs, int axes) {
    POINT(nx, ny);
    LAYERS_OF;
    const Densities change = {before, before_x, before_y, before_z, after, after_x, after_y, after_z};
    REAL bar = total[i], density_bar = 0;
    const Parts flows = transpose_point(layers, i, x, y, z, bar, lossy ? gx[i] : (REAL)0, AT(density, full), change, dt, nonlinear,
                                   differs, density_bar);
    gx[i] = flows.x;
    if (axes > 1) gy[i] = flows.y;
    if (axes > 2) gz[i] = flows.z;
    total[i] = bar;
    if (density_gradient) density_gradient[i] += density_bar;
}

extern "C" __global__ void adjoint_velocity(int nx, int ny, REAL *u, REAL *g, IN density, int full, IN pml,
                                            REAL *density_gradient, IN before, IN after, int axis, REAL dt, int subtracts) {
    POINT(nx, ny);
    const REAL f = pml[axis == 0 ? x : axis == 1 ? y : z], rho = AT(density, full);
    const REAL bar = subtracts ? u[i] - g[i] : u[i];
    if (density_gradient) density_gradient[i] += bar * (f * f * before[i] - after[i]) / rho;
    g[i] = f * dt / rho * bar;
    u[i] = f * f * bar;
}

extern "C" __global__ void medium_gradients(int nx, int ny, const REAL *p_bar, REAL *speed_bar, REAL *density_bar,
                                            REAL *alpha_bar, REAL *ratio_bar, IN p, IN rho, IN speed, int speed_full,
                                            IN density, int density_full, IN ratio, int ratio_full, IN tau, int tau_full,
                                            IN unit, int unit_full, IN shift, REAL power, REAL eta_factor, int nonlinear,
                                            int lossy, int disperses, int absorbs) {
    POINT(nx, ny);
    const StateBars bars = state_bars(p_bar[i], p[i], rho[i], AT(speed, speed_full), nonlinear ? AT(density, density_full) : (REAL)1,
                                      nonlinear ? AT(ratio, ratio_full) : (REAL)0, disperses ? AT(tau, tau_full) : (REAL)0,
                                      alpha_bar ? AT(unit, unit_full) : (REAL)1, disperses ? shift[i] : (REAL)0, power, eta_factor,
                                      nonlinear, lossy, disperses, absorbs);
    if (speed_bar) speed_bar[i] += bars.speed;
    if (alpha_bar) alpha_bar[i] += bars.alpha;
    if (nonlinear && ratio_bar) ratio_bar[i] += bars.ratio;
    if (nonlinear && density_bar) density_bar[i] += bars.density;
}

extern "C" __global__ void forward_rate(int nx, int ny, REAL *rate, LAYERS, IN rate_bar, IN density, int full,
                                        REAL *density_gradient, IN before, PARTS(before), IN after, PARTS(after), REAL dt,
                                        int nonlinear) {
    POINT(nx, ny);
    LAYERS_OF;
    const Densities change = {before, before_x, before_y, before_z, after, after_x, after_y, after_z};
    const Inside in = inside(layers, x, y, z);
    const REAL rho0 = AT(density, full);
    REAL sum = before[i] - after[i];
    if (in.any()) {
        const Parts b = load_parts(change.first(layers), in, x, y, z), a = load_parts(change.second(layers), in, x, y, z);
        if (in.x >= 0) sum += undamped(pml_x[x], b.x, a.x);
        if (in.y >= 0) sum += undamped(pml_y[y], b.y, a.y);
        if (in.z >= 0) sum += undamped(pml_z[z], b.z, a.z);
    }
    const REAL divergence = sum / mass_of(before[i], rho0, dt, nonlinear);
    rate[i] = rho0 * divergence;
    if (density_gradient) density_gradient[i] += rate_bar[i] * divergence / rho0;
}

extern "C" __global__ void alpha_gradient(int nx, int ny, REAL *gradient, IN p_bar, IN speed, int speed_full, IN unit_tau,
                                          int unit_full, IN loss) {
    POINT(nx, ny);
    const REAL c = AT(speed, speed_full);
    gradient[i] += p_bar[i] * c * c * AT(unit_tau, unit_full) * loss[i];
}

extern "C" __global__ void density_sum(int nx, int ny, REAL *out, const REAL *total, LAYERS, REAL parts) {
    POINT(nx, ny);
    LAYERS_OF;
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
                                        const Index *columns, const double *weights, const REAL *rows, Index number,
                                        Index samples, const Index *clock) {
    ITEM(count);
    const REAL *values = rows + *clock % number * samples;
    double sum = 0;
    for (Index j = bounds[i]; j < bounds[i + 1]; ++j) sum += weights[j] * (double)values[columns[j]];
    field[index[i]] += (REAL)sum;
}

extern "C" __global__ void accumulate_products(REAL *sums, const REAL *field, const Index *index, Index count,
                                               const REAL *signal, Index rows, Index columns, const Index *first,
                                               Index delays, const REAL *weights, Index weighted) {
    ITEM(count);
    const Index at = first[delays > 1 ? i : 0];
    if (at >= rows) return;
    sums[i] += field[index[i]] * signal[at * columns + (columns > 1 ? i : 0)] * weights[weighted > 1 ? i : 0];
}
