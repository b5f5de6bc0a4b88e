// Kernels of the time step on a GPU, one thread a point; arguments are those of the table in kernels.py.

extern "C" __global__ void fill_operator(int nx, int ny, REAL *out, const double *kx2, const double *ky2, const double *kz2,
                                         int kind, double parameter, double scale) {
    POINT(nx, ny);
    out[i] = (REAL)(scale * wavenumber_operator(kx2[x] + ky2[y] + kz2[z], kind, parameter));
}

extern "C" __global__ void fill_absorption(int nx, int ny, REAL *out, const REAL *speed, int speed_full, const REAL *alpha,
                                           int alpha_full, double factor, double power) {
    POINT(nx, ny);
    out[i] = (REAL)(factor * (double)AT(alpha, alpha_full) * pow((double)AT(speed, speed_full), power));
}

extern "C" __global__ void gradient_spectra(int nx, int ny, Complex *sx, Complex *sy, Complex *sz, IN kappa, FACTOR dx,
                                            FACTOR dy, FACTOR dz, int axes) {
    POINT(nx, ny);
    const Complex p = sx[i] * kappa[i];
    sx[i] = p * dx[x];
    if (axes > 1) sy[i] = p * dy[y];
    if (axes > 2) sz[i] = p * dz[z];
}

extern "C" __global__ void divergence_spectra(int nx, int ny, Complex *sx, Complex *sy, Complex *sz, IN kappa, FACTOR dx,
                                              FACTOR dy, FACTOR dz, int axes) {
    POINT(nx, ny);
    const REAL k = kappa[i];
    sx[i] = sx[i] * (dx[x] * k);
    if (axes > 1) sy[i] = sy[i] * (dy[y] * k);
    if (axes > 2) sz[i] = sz[i] * (dz[z] * k);
}

extern "C" __global__ void scale_spectrum(int nx, int ny, Complex *spectrum, const REAL *op) {
    POINT(nx, ny);
    spectrum[i] = spectrum[i] * op[i];
}

extern "C" __global__ void ring_divergence_spectra(int nx, int ny, Complex *sx, Complex *sr, FACTOR quotient, IN kappa,
                                                   FACTOR dx, FACTOR dr) {
    POINT(nx, ny);
    const REAL k = kappa[i];
    sx[i] = sx[i] * (dx[x] * k);
    const Complex slope = sr[i] * dr[y], other = quotient[i];
    sr[i] = (slope + other) * k;
}

extern "C" __global__ void translate_spectrum(int nx, int ny, Complex *spectrum, const Complex *factor, int axis,
                                              REAL scale) {
    POINT(nx, ny);
    spectrum[i] = spectrum[i] * (factor[axis == 0 ? x : axis == 1 ? y : z] * scale);
}

extern "C" __global__ void update_velocity(int nx, int ny, REAL *__restrict__ u, IN gradient, IN density, int full, IN pml,
                                           int axis, REAL dt) {
    POINT(nx, ny);
    const REAL f = pml[axis == 0 ? x : axis == 1 ? y : z];
    u[i] = velocity(u[i], gradient[i], AT(density, full), f, dt);
}

extern "C" __global__ void update_density(int nx, int ny, REAL *__restrict__ total, LAYERS, IN gx, IN gy, IN gz, IN density,
                                          int full, REAL dt, int nonlinear, int axes) {
    POINT(nx, ny);
    LAYERS_OF;
    const REAL mass = mass_of(total[i], AT(density, full), dt, nonlinear);
    const Parts flow = {mass * gx[i], axes > 1 ? mass * gy[i] : (REAL)0, axes > 2 ? mass * gz[i] : (REAL)0};
    const Inside in = inside(layers, x, y, z);
    Parts parts = load_parts(layers, in, x, y, z);
    total[i] = advance(layers, in, x, y, z, total[i], flow, parts, axes);
    store_parts(layers, in, x, y, z, parts);
}

extern "C" __global__ void absorption_terms(int nx, int ny, REAL *total, REAL *rate, const REAL *rho, const REAL *gx,
                                            const REAL *gy, const REAL *gz, const REAL *density, int full, int axes) {
    POINT(nx, ny);
    REAL g = gx[i];  // total and rate may be gx and gy
    if (axes > 1) g += gy[i];
    if (axes > 2) g += gz[i];
    total[i] = rho[i];
    rate[i] = AT(density, full) * g;
}

extern "C" __global__ void update_pressure(int nx, int ny, REAL *__restrict__ p, IN rho, IN speed, int speed_full,
                                           IN density, int density_full, IN ratio, int ratio_full, IN tau, int tau_full,
                                           REAL eta_factor, IN loss, IN shift, int nonlinear, int lossy, int disperses) {
    POINT(nx, ny);
    const REAL rho0 = nonlinear ? AT(density, density_full) : (REAL)1, b = nonlinear ? AT(ratio, ratio_full) : (REAL)0;
    const REAL t = lossy || disperses ? AT(tau, tau_full) : (REAL)0;
    p[i] = pressure(rho[i], AT(speed, speed_full), rho0, b, t, eta_factor, lossy ? loss[i] : (REAL)0, disperses ? shift[i] : (REAL)0,
                    nonlinear, lossy, disperses);
}

extern "C" __global__ void split_density(int nx, int ny, REAL *total, LAYERS, const REAL *p, const REAL *speed, int full,
                                         REAL parts) {
    POINT(nx, ny);
    LAYERS_OF;
    const REAL c = AT(speed, full);
    put_density(layers, total[i], x, y, z, p[i] / (parts * c * c), true, parts);
}

// --- Sources -------------------------------------------------------------------------------------------

extern "C" __global__ void set_points(REAL *field, const Index *index, Index count, const REAL *signal, Index columns,
                                      const Index *clock, int replace) {
    ITEM(count);
    const REAL value = signal[*clock * columns + (columns > 1 ? i : 0)];
    field[index[i]] = replace ? value : field[index[i]] + value;
}

extern "C" __global__ void set_density_points(REAL *total, LAYERS, const Index *index, Index count, const REAL *signal,
                                              Index columns, const Index *clock, int replace, REAL parts) {
    ITEM(count);
    LAYERS_OF;
    const REAL value = signal[*clock * columns + (columns > 1 ? i : 0)];
    const Index row = index[i] / layers.nx;
    put_density(layers, total[index[i]], index[i] % layers.nx, row % layers.ny, row / layers.ny, value, replace, parts);
}

extern "C" __global__ void add_delayed(REAL *field, const Index *index, Index count, const Index *delay, const REAL *signal,
                                       Index samples, const Index *clock) {
    ITEM(count);
    const Index at = delay[i] + *clock;
    if (at < samples) field[index[i]] += signal[at];
}

extern "C" __global__ void clear(REAL *field, Index count) {
    ITEM(count);
    field[i] = 0;
}

extern "C" __global__ void add_pattern(REAL *field, Index count, const REAL *pattern, const REAL *signal,
                                       const Index *clock) {
    ITEM(count);
    field[i] += pattern[i] * signal[*clock];
}

extern "C" __global__ void mix_patterns(REAL *field, Index count, const REAL *first, const REAL *second,
                                        const REAL *signals, const Index *clock) {
    ITEM(count);
    field[i] = first[i] * signals[2 * *clock] + second[i] * signals[2 * *clock + 1];
}

extern "C" __global__ void add_density_pattern(int nx, int ny, REAL *total, LAYERS, const REAL *pattern, const REAL *signal,
                                               const Index *clock, REAL parts) {
    POINT(nx, ny);
    LAYERS_OF;
    put_density(layers, total[i], x, y, z, pattern[i] * signal[*clock], false, parts);
}

// --- Recording -----------------------------------------------------------------------------------------

extern "C" __global__ void sample(REAL *target, const REAL *field, const Index *corners, Index count, Index each,
                                  const double *weights, int interpolate) {
    ITEM(count);
    if (interpolate) {
        double value = 0.0;
        for (Index j = 0; j < each; ++j) value += weights[i * each + j] * (double)field[corners[i * each + j]];
        target[i] = (REAL)value;
    } else {
        target[i] = field[corners[i]];
    }
}

// A block an element; sums in a fixed order.
extern "C" __global__ void sample_elements(REAL *target, const REAL *field, const Index *bounds, Index, const Index *points,
                                           const double *weights) {
    __shared__ double sums[256];
    double value = 0.0;
    for (Index i = bounds[blockIdx.x] + threadIdx.x; i < bounds[blockIdx.x + 1]; i += blockDim.x)
        value += weights[i] * (double)field[points[i]];
    sums[threadIdx.x] = value;
    for (int half = blockDim.x / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    if (threadIdx.x == 0) target[blockIdx.x] = (REAL)sums[0];
}

extern "C" __global__ void store_row(REAL *rows, const REAL *values, Index count, const Index *clock, Index start,
                                     Index number) {
    ITEM(count);
    rows[(*clock - start) % number * count + i] = values[i];
}

extern "C" __global__ void keep_maximum(REAL *target, Index count, const REAL *values) {
    ITEM(count);
    target[i] = max(target[i], values[i]);
}

extern "C" __global__ void keep_minimum(REAL *target, Index count, const REAL *values) {
    ITEM(count);
    target[i] = min(target[i], values[i]);
}

// 16 bytes a thread; arrays begin at multiples of that. The last thread takes what is left.
struct alignas(16) Pack {
    REAL v[16 / sizeof(REAL)];
};

extern "C" __global__ void accumulate_tone(REAL *__restrict__ cosines, REAL *__restrict__ sines, IN values, Index count,
                                           const double *weights, const Index *clock, Index start) {
    const double *of_step = weights + 2 * (*clock - start);
    const REAL cosine = (REAL)of_step[0], sine = (REAL)of_step[1];
    const int each = 16 / sizeof(REAL);
    ITEM((count + each - 1) / each);
    if ((i + 1) * each > count) {
        for (Index k = i * each; k < count; ++k) {
            cosines[k] += cosine * values[k];
            sines[k] += sine * values[k];
        }
        return;
    }
    const Pack p = ((const Pack *)values)[i];
    Pack a = ((Pack *)cosines)[i], b = ((Pack *)sines)[i];
    for (int k = 0; k < each; ++k) {
        a.v[k] += cosine * p.v[k];
        b.v[k] += sine * p.v[k];
    }
    ((Pack *)cosines)[i] = a;
    ((Pack *)sines)[i] = b;
}

extern "C" __global__ void add_squares(double *target, Index count, const REAL *values) {
    ITEM(count);
    target[i] += (double)values[i] * (double)values[i];
}

extern "C" __global__ void tick(Index *clock) { *clock += 1; }
