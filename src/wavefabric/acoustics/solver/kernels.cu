// Kernels of the time step on a GPU, one thread per point; arguments are those of the table in kernels.py.

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

extern "C" __global__ void apply_window(int nx, int ny, Complex *spectrum, const double *z_squares, const double *y_squares,
                                        const double *x_squares, const double *table, Index count) {
    POINT(nx, ny);
    spectrum[i] = spectrum[i] * (REAL)window_at(z_squares[z] + y_squares[y] + x_squares[x], table, count);
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
    REAL g = gx[i];  // read before writing: total and rate may be the arrays gx and gy
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

// Combine the values of all threads of a block by `join`, in a fixed order; only thread 0 gets the result.
template <class T, class F>
__device__ __forceinline__ T joined(T value, T *shared, F join) {
    __syncthreads();
    shared[threadIdx.x] = value;
    for (int half = blockDim.x / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) shared[threadIdx.x] = join(shared[threadIdx.x], shared[threadIdx.x + half]);
    }
    return threadIdx.x ? value : shared[0];  // other threads would read it while thread 0 writes it
}

// One block per element; sums in a fixed order.
extern "C" __global__ void sample_elements(REAL *target, const REAL *field, const Index *bounds, Index, const Index *points,
                                           const double *weights) {
    __shared__ double sums[256];
    double value = 0.0;
    for (Index i = bounds[blockIdx.x] + threadIdx.x; i < bounds[blockIdx.x + 1]; i += blockDim.x)
        value += weights[i] * (double)field[points[i]];
    value = joined(value, sums, [](double a, double b) { return a + b; });
    if (threadIdx.x == 0) target[blockIdx.x] = (REAL)value;
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

// 16 bytes per thread; arrays are aligned to 16 bytes. The last thread does the remaining values one by one.
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

// --- Checks of the fields --------------------------------------------------------------------------------

// A box of grid points (`box_of` of stability/energy.py).
struct Box {
    Index first, planes, rows, length, plane, row, x;
    // Call f(index in the grid, number in the box, x, y) for the points of this thread block's part: one warp per row.
    template <class F>
    __device__ __forceinline__ void part(F f) const {
        const Index all = planes * rows, end = all * (blockIdx.x + 1) / gridDim.x;
        for (Index r = all * blockIdx.x / gridDim.x + threadIdx.x / 32; r < end; r += blockDim.x / 32) {
            const Index y = r % rows, at = first + r / rows * plane + y * row;
            for (Index i = threadIdx.x % 32; i < length; i += 32) f(at + i, r * length + i, x + i, y);
        }
    }
};

// A medium parameter: one row for all, a full grid, or values per material, `stride` apart, with an 8- or 16-bit index.
struct Parameter {
    const REAL *values;
    Index stride;
    const void *index;
    int form;
    __device__ __forceinline__ REAL at(Index i, Index x) const {
        if (form == 8) return values[((const unsigned char *)index)[i] * stride];
        if (form == 16) return values[((const unsigned short *)index)[i] * stride];
        return values[form ? i : x];
    }
};
#define PARAMETER(name) const REAL *name, Index name##_stride, const void *name##_index, int name##_form
#define PARAMETER_OF(name) Parameter{name, name##_stride, name##_index, name##_form}

extern "C" __global__ void field_sums(double *partials, Index, const REAL *p, const REAL *rho, const REAL *ux, const REAL *uy,
                                      const REAL *uz, PARAMETER(density), PARAMETER(along_x), PARAMETER(along_y),
                                      PARAMETER(along_z), const double *weights, const Index *box, int axes) {
    __shared__ double shared[256];
    const Parameter rho0 = PARAMETER_OF(density), of_x = PARAMETER_OF(along_x), of_y = PARAMETER_OF(along_y), of_z = PARAMETER_OF(along_z);
    double energy = 0, high = p[box[0]], low = high;
    ((const Box *)box)->part([&](Index i, Index, Index x, Index y) {
        const double whole = weights ? weights[2 * y] : 1, half = weights ? weights[2 * y + 1] : 1;
        energy += whole * potential_energy(p[i], rho[i], rho0.at(i, x));
        energy += whole * kinetic_energy(ux[i], of_x.at(i, x));
        if (axes > 1) energy += half * kinetic_energy(uy[i], of_y.at(i, x));
        if (axes > 2) energy += kinetic_energy(uz[i], of_z.at(i, x));
        high = p[i] > high ? p[i] : high;
        low = p[i] < low ? p[i] : low;
    });
    energy = joined(energy, shared, [](double a, double b) { return a + b; });
    high = joined(high, shared, [](double a, double b) { return a > b ? a : b; });
    low = joined(low, shared, [](double a, double b) { return a < b ? a : b; });
    if (threadIdx.x) return;
    double *out = partials + 3 * blockIdx.x;
    out[0] = energy, out[1] = high, out[2] = low;
}

extern "C" __global__ void add_alternating(REAL *sums, Index count, const REAL *p, const Index *clock, const Index *box,
                                           Index every, Index steps) {
    ITEM(count);
    const Box &b = *(const Box *)box;
    const Index left = steps_to_look(*clock + 1, every, steps), row = i / b.length;
    if (left > 8) return;
    const REAL value = alternating_weight(left) * p[b.first + row / b.rows * b.plane + row % b.rows * b.row + i % b.length];
    sums[i] = left == 8 ? value : sums[i] + value;
}

extern "C" __global__ void square_sums(double *partials, Index, const REAL *sums, const REAL *p, const Index *box) {
    __shared__ double shared[256];
    double one = 0, other = 0;
    ((const Box *)box)->part([&](Index i, Index item, Index, Index) {
        one += sums[item] * sums[item];
        other += p[i] * p[i];
    });
    one = joined(one, shared, [](double a, double b) { return a + b; });
    other = joined(other, shared, [](double a, double b) { return a + b; });
    if (threadIdx.x) return;
    partials[2 * blockIdx.x] = one;
    partials[2 * blockIdx.x + 1] = other;
}

extern "C" __global__ void squared_slopes(double *partials, Index, const REAL *field, int nx, int ny, int nz) {
    __shared__ double shared[256];
    const Index row = nx, plane = row * ny, points = plane * nz;
    double sums[4] = {};
    for (Index i = blockIdx.x * (Index)blockDim.x + threadIdx.x; i < points; i += (Index)gridDim.x * blockDim.x) {
        if (i % row + 1 < row) sums[0] += squared_slope(field[i], field[i + 1]);
        if (i % plane + row < plane) sums[1] += squared_slope(field[i], field[i + row]);
        if (i + plane < points) sums[2] += squared_slope(field[i], field[i + plane]);
        sums[3] += squared_slope(0, field[i]);
    }
    for (int k = 0; k < 4; ++k) {
        const double sum = joined(sums[k], shared, [](double a, double b) { return a + b; });
        if (threadIdx.x == 0) partials[4 * blockIdx.x + k] = sum;
    }
}

extern "C" __global__ void tick(Index *clock) { *clock += 1; }
