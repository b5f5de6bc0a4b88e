// Passes along x of the fused time step on a GPU: rows of real fields and their half spectra, with all pointwise work.

#if WITH_X
typedef Axis<Rows<NX / 2, PX, TX>, Radices<RADICES_X>, Radices<REVERSED_X>> AxisX;
typedef RealRows<AxisX> RowsX;

// The row of this thread, or the one that a list of `count` rows names for it.
struct Row {
    Index number;
    bool here;
    int y, z;
    INLINE Row(const int *list = nullptr, int count = 0) {
        const Index place = (Index)blockIdx.x * TX + threadIdx.x / PX;
        here = place < (list == nullptr ? ROWS : (Index)count);
        number = !here ? 0 : list == nullptr ? place : (Index)list[place];
        y = number % NY;
        z = number / NY;
    }
    INLINE Index at(int j) const { return number * NX + 2 * j; }
    INLINE Complex get(const REAL *field, int j) const {
        return here ? *(const Complex *)(field + at(j)) : Complex{0, 0};
    }
    INLINE void put(REAL *field, int j, Complex value) const {
        if (here) *(Complex *)(field + at(j)) = value;
    }
    INLINE void back(Complex *v, const Complex *spectrum, const Complex *twiddle) const {
        const Complex *entries = spectrum + number * PITCH;
        RowsX::back(v, (Complex *)memory, twiddle, [&](int k) { return here ? entries[k] : Complex{0, 0}; });
    }
    INLINE void forth(Complex *v, Complex *spectrum, const Complex *twiddle) const {
        Complex *entries = spectrum + number * PITCH;
        RowsX::forth(v, (Complex *)memory, twiddle, [&](int k, Complex value) { if (here) entries[k] = value; });
    }
};

// Shared memory of this thread alone, behind that of the transforms: a set of values as in registers.
struct Kept {
    Complex *first;
    INLINE Kept(int set) : first((Complex *)memory + RowsX::words + set * AxisX::values * PX * TX + threadIdx.x) {}
    INLINE Complex &operator[](int slot) const { return first[slot * PX * TX]; }
};

struct Grid {  // a medium parameter: a full grid or one row; never written
    const REAL *at;
    int full;
    INLINE Complex get(const Row &row, int j) const {
        const REAL *here = at + (full ? row.at(j) : 2 * j);
#ifdef __CUDA_ARCH__
        if constexpr (sizeof(REAL) == 4) {
            const float2 pair = __ldg((const float2 *)here);
            return {(REAL)pair.x, (REAL)pair.y};
        } else {
            const double2 pair = __ldg((const double2 *)here);
            return {(REAL)pair.x, (REAL)pair.y};
        }
#else
        return *(const Complex *)here;
#endif
    }
};

struct Source {  // a pattern times a signal, or nothing
    const REAL *pattern, *signal;
    INLINE REAL amplitude(const Index *clock) const { return pattern ? signal[*clock] : (REAL)0; }
};

// Rows of up to three fields, one a block layer: all, or those of a list.
PASS(X) x_forward(const REAL *f0, const REAL *f1, const REAL *f2, Complex *s0, Complex *s1, Complex *s2,
                  const int *__restrict__ list, int count, TABLE twiddle) {
    const Row row(list, count);
    const REAL *field = blockIdx.y == 0 ? f0 : blockIdx.y == 1 ? f1 : f2;
    Complex v[AxisX::values];
    AxisX::near(v, [&](Complex &value, int j) { value = row.get(field, j); });
    row.forth(v, blockIdx.y == 0 ? s0 : blockIdx.y == 1 ? s1 : s2, twiddle);
}

PASS(X) x_backward(const Complex *__restrict__ spectrum, REAL *field, TABLE twiddle) {
    const Row row;
    Complex v[AxisX::values];
    row.back(v, spectrum, twiddle);
    AxisX::near(v, [&](Complex &value, int j) { row.put(field, j, swapped(value)); });
}

// One component a block layer: u <- pml (pml u - dt / rho dp), a pattern, and the spectrum of the result.
struct Component {
    Complex *spectrum;
    REAL *u;
    const REAL *pml;
    Grid density;
    Source source;
};

INLINE REAL updated(REAL u, REAL pml, REAL dt, REAL density, REAL gradient) {
    return pml * (pml * u - dt / density * gradient);
}

PASS(X) x_velocity(const Component *components, REAL dt, const Index *clock, int forward, TABLE twiddle) {
    const Row row;
    const int axis = blockIdx.y;
    const Component c = components[axis];
    Complex v[AxisX::values], u[AxisX::values];
    row.back(v, c.spectrum, twiddle);
    AxisX::near(u, [&](Complex &value, int j) { value = row.get(c.u, j); });
    const REAL across = axis == 0 ? (REAL)1 : c.pml[axis == 1 ? row.y : row.z];
    const REAL amplitude = c.source.amplitude(clock);
    AxisX::near(v, [&](Complex &value, int j) {
        const Complex density = c.density.get(row, j), was = u[&value - v];
        const Complex pml = axis == 0 ? *(const Complex *)(c.pml + 2 * j) : Complex{across, across};
        value = {updated(was.x, pml.x, dt, density.x, value.y), updated(was.y, pml.y, dt, density.y, value.x)};
        if (c.source.pattern) value = value + row.get(c.source.pattern, j) * amplitude;
        row.put(c.u, j, value);
    });
    if (forward) row.forth(v, c.spectrum, twiddle);
}

struct State {
    Shell shell;
    REAL *rho, *p;
    Grid speed, density, ratio, tau, eta;
    REAL *rate, *total;           // where other ranks will want rho0 div u and the density as fields:
    const unsigned char *wanted;  // in rows whose flag is not 0
};

INLINE REAL pressure_of(REAL speed, REAL total, REAL density, REAL ratio, REAL extra) {
    if (NONLINEAR) extra += ratio * total * total / ((REAL)2 * density);
    return speed * speed * (total + extra);
}

INLINE Complex state_of(const State &s, const Row &row, int j, Complex total, Complex extra) {
    const Complex c = s.speed.get(row, j);
    const Complex rho0 = NONLINEAR ? s.density.get(row, j) : Complex{1, 1};
    const Complex ratio = NONLINEAR ? s.ratio.get(row, j) : Complex{0, 0};
    return {pressure_of(c.x, total.x, rho0.x, ratio.x, extra.x), pressure_of(c.y, total.y, rho0.y, ratio.y, extra.y)};
}

// The layers of one axis that a row crosses, or lies in, and its part of the density there.
struct Layers {
    const int *at_x;  // along x; else null
    const REAL *pml;
    REAL across;
    REAL *part;
    bool in;
    INLINE Layers(const Shell &s, const Row &row, int axis) : at_x(nullptr), pml(nullptr), across(1), part(nullptr) {
        const int y = s.at_y[row.y], z = s.at_z[row.z];
        if (axis == 0) {
            at_x = s.at_x;
            pml = s.pml_x;
            part = s.x + row.number * s.layers_x;
            in = s.layers_x > 0;
        } else {
            in = (axis == 1 ? y : z) >= 0;
            if (!in) return;
            across = axis == 1 ? s.pml_y[row.y] : s.pml_z[row.z];
            part = axis == 1 ? part_y(s, {-1, y, z}, 0, row.z) : part_z(s, {-1, y, z}, 0, row.y);
        }
        in = in && row.here;
    }
    INLINE int place(int x) const { return at_x ? at_x[x] : x; }
    INLINE REAL factor(int x) const { return at_x ? pml[x] : across; }
};

// Part of the density that flows along one axis, one step on. To du, swapped, is added what the total loses by damping.
INLINE void damped(Complex *du, const Layers &layers, const State &s, const Row &row, REAL dt) {
    Complex part[AxisX::values], mass[AxisX::values];
    AxisX::near(part, [&](Complex &value, int j) {
        const int a = layers.place(2 * j), b = layers.place(2 * j + 1);
        value = {a >= 0 ? layers.part[a] : (REAL)0, b >= 0 ? layers.part[b] : (REAL)0};
        if (a < 0 && b < 0) return;
        const Complex rho0 = s.density.get(row, j);
        mass[&value - part] = (NONLINEAR ? rho0 + row.get(s.rho, j) * (REAL)2 : rho0) * dt;
    });
    AxisX::near(du, [&](Complex &value, int j) {
        const int slot = &value - du, a = layers.place(2 * j), b = layers.place(2 * j + 1);
        Complex now = part[slot];
        const Complex m = mass[slot];
        if (a >= 0) {
            value.y += damp(now.x, layers.factor(2 * j), m.x * value.y) / m.x;
            layers.part[a] = now.x;
        }
        if (b >= 0) {
            value.x += damp(now.y, layers.factor(2 * j + 1), m.y * value.x) / m.y;
            layers.part[b] = now.y;
        }
    });
}

// MODE 0: pressure and its spectrum; 1: with Stokes absorption; 2: spectra of rho0 div u (s0) and of the density
// (s1), for the power law; 3: only the densities; 4: the densities, and rho0 div u into p (Stokes).
template <int MODE>
INLINE void density(Complex *s0, Complex *s1, const Complex *s2, const State &s, const Source &source, REAL dt,
                    const Index *clock, const Complex *twiddle) {
    constexpr bool lossy = MODE == 1 || MODE == 2 || MODE == 4;
    const Row row;
    const Kept flow(0), rate(lossy);  // sums of du over the axes: with what damping takes, and without
    Complex v[AxisX::values];
#pragma unroll 1
    for (int axis = 0; axis < 3; ++axis) {
        row.back(v, axis == 0 ? s2 : axis == 1 ? (const Complex *)s0 : (const Complex *)s1, twiddle);
        if (lossy)
            AxisX::near(v, [&](Complex &value, int) {
                const int slot = &value - v;
                rate[slot] = axis ? rate[slot] + swapped(value) : swapped(value);
            });
        const Layers layers(s.shell, row, axis);
        if (layers.in) damped(v, layers, s, row, dt);
        AxisX::near(v, [&](Complex &value, int) {
            const int slot = &value - v;
            flow[slot] = axis ? flow[slot] + swapped(value) : swapped(value);
        });
    }
    AxisX::near(v, [&](Complex &value, int j) { value = row.get(s.rho, j); });
    const int in_y = s.shell.at_y[row.y], in_z = s.shell.at_z[row.z];
    const REAL amplitude = source.amplitude(clock);
    AxisX::near(v, [&](Complex &value, int j) {
        const int slot = &value - v;
        const Complex rho0 = s.density.get(row, j), du = flow[slot];
        const Complex mass = (NONLINEAR ? rho0 + value * (REAL)2 : rho0) * dt;
        REAL total[2] = {value.x - mass.x * du.x, value.y - mass.y * du.y};
        if (row.here && (source.pattern || (in_y >= 0 && in_z >= 0))) {
            const Complex more = source.pattern ? row.get(source.pattern, j) * amplitude : Complex{0, 0};
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int x = 2 * j + i;
                const Inside in = inside(s.shell, x, row.y, row.z);
                // Where all parts are kept, rounding errors of the total do not pile up.
                if (in.x >= 0 && in.y >= 0 && in.z >= 0) {
                    const Parts parts = load_parts(s.shell, in, x, row.y, row.z);
                    total[i] = parts.x + parts.y + parts.z;
                }
                if (source.pattern)
                    put_density(s.shell, total[i], x, row.y, row.z, i ? more.y : more.x, false, (REAL)3);
            }
        }
        const Complex now = {total[0], total[1]};
        row.put(s.rho, j, now);
        Complex extra = {0, 0};
        if (lossy) {
            const Complex sum = rate[slot];
            extra = {rho0.x * sum.x, rho0.y * sum.y};
        }
        if (MODE == 2) {
            flow[slot] = now;
            value = extra;
            if (s.wanted && row.here && s.wanted[row.number]) {
                row.put(s.rate, j, extra);
                if (s.total) row.put(s.total, j, now);
            }
        } else if (MODE < 2) {
            if (MODE == 1) {
                const Complex tau = s.tau.get(row, j);
                extra = {tau.x * extra.x, tau.y * extra.y};
            }
            value = state_of(s, row, j, now, extra);
            row.put(s.p, j, value);
        } else if (MODE == 4) row.put(s.p, j, extra);
    });
    if (MODE < 3) row.forth(v, s0, twiddle);
    if (MODE == 2) {
        AxisX::near(v, [&](Complex &value, int) { value = flow[&value - v]; });
        row.forth(v, s1, twiddle);
    }
}

#define DENSITY(name, mode)                                                                                         \
    PASS(X) name(Complex *s0, Complex *s1, const Complex *s2, const State *state, const Source *source, REAL dt,    \
                 const Index *clock, TABLE twiddle) { density<mode>(s0, s1, s2, *state, *source, dt, clock, twiddle); }

DENSITY(x_density, ABSORPTION)
// With a source at points to come: it changes the densities before the pressure can follow.
DENSITY(x_density_points, (ABSORPTION == 2 ? 2 : 3 + ABSORPTION))

// p as in pressure_row and its spectrum; loss 0: none; 1: L1 and, if disperses, L2 from spectra; 2: Stokes, from p.
PASS(X) x_pressure(Complex *s0, const Complex *s1, const State *state, int loss, int disperses, TABLE twiddle) {
    const Row row;
    const State s = *state;
    const Kept kept(0);
    Complex v[AxisX::values];
    if (disperses) {
        row.back(v, s1, twiddle);
        AxisX::near(v, [&](Complex &value, int) { kept[&value - v] = swapped(value); });
    }
    if (loss == 1) row.back(v, s0, twiddle);
    else if (loss) AxisX::near(v, [&](Complex &value, int j) { value = swapped(row.get(s.p, j)); });
    Complex rho[AxisX::values];
    AxisX::near(rho, [&](Complex &value, int j) { value = row.get(s.rho, j); });
    AxisX::near(v, [&](Complex &value, int j) {
        const int slot = &value - v;
        Complex extra = {0, 0};
        if (loss) {
            const Complex tau = s.tau.get(row, j);
            extra = {tau.x * value.y, tau.y * value.x};
        }
        if (disperses) {
            const Complex eta = s.eta.get(row, j), shift = kept[slot];
            extra = extra - Complex{eta.x * shift.x, eta.y * shift.y};
        }
        value = state_of(s, row, j, rho[slot], extra);
        row.put(s.p, j, value);
    });
    row.forth(v, s0, twiddle);
}
#endif
