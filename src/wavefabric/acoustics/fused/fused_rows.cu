// Kernels along x of the fused time step on a GPU: rows of real fields and their half spectra, with all pointwise work.

#if WITH_X
// One source: adds a pattern times a signal, adds or sets values at points, or does nothing.
struct Source {
    const REAL *pattern, *signal;  // signal (steps, columns) or, for a transducer, `columns` samples
    const int *first, *x;          // points of row r: x[first[r]] ... x[first[r + 1] - 1]; null without points
    const Index *column;           // of each point, its column of the signal or its delay
    Index columns, delayed, replace;
    INLINE REAL amplitude(const Index *clock) const { return pattern ? signal[*clock] : (REAL)0; }
    // Call put(x, value) for the points of a row, each by one thread.
    template <class F>
    INLINE void at_points(const Row &row, Index step, F put) const {
        if (!row.here) return;
        for (int i = first[row.number] + LayoutX::lane(); i < first[row.number + 1]; i += PX) {
            const Index at = delayed ? step + column[i] : step * columns + (columns > 1 ? column[i] : 0);
            if (!delayed || at < columns) put(x[i], signal[at]);
        }
    }
    // Add or set the values at points in the row in shared memory. Contains barriers: all threads of the row call this.
    INLINE void put_at_points(const Space &space, const Row &row, Index step) const {
        LayoutX::sync();
        at_points(row, step, [&](int at, REAL value) {
            REAL &old = ((REAL *)space.mine)[at];
            old = replace ? value : old + value;
        });
        LayoutX::sync();
    }
};

// Transform rows of up to three fields along x, one field per blockIdx.y: all rows, or those of `list`.
#if WITH_X_FORWARD
KERNEL(X) x_forward(const REAL *f0, const REAL *f1, const REAL *f2, Complex *s0, Complex *s1, Complex *s2,
                  const int *__restrict__ list, int count, TABLE twiddle) {
    const Row row(list, count);
    const REAL *field = blockIdx.y == 0 ? f0 : blockIdx.y == 1 ? f1 : f2;
    Complex v[AxisX::values];
    AxisX::near(v, [&](Complex &value, int j) { value = row.get(field, j); });
    Space(0).forth(v, row, blockIdx.y == 0 ? s0 : blockIdx.y == 1 ? s1 : s2, twiddle);
}
#endif

#if WITH_X_BACKWARD
KERNEL(X) x_backward(const Complex *__restrict__ spectrum, REAL *field, TABLE twiddle) {
    const Row row;
    const Space space(0);
    space.spectrum(spectrum, row);
    space.commit();
    space.wait<0>();
    Complex v[AxisX::values];
    space.back(v, twiddle);
    AxisX::near(v, [&](Complex &value, int j) { row.put(field, j, swapped(value)); });
}
#endif

// One velocity component per blockIdx.y: u <- pml (pml u - dt / rho dp), then sources, then the spectrum of the result.
struct Component {
    Complex *spectrum;
    REAL *u;
    const REAL *pml;
    Grid<FORM_STAGGERED> density;
    MaterialIndex<FORM_STAGGERED> index;
    Source source, transducer;
};

INLINE REAL updated(REAL u, REAL pml, REAL dt_rho, REAL gradient) { return pml * (pml * u - dt_rho * gradient); }

#if WITH_X_VELOCITY
KERNEL_OF(X, BV) x_velocity(const Component *__restrict__ components, REAL dt, const Index *clock, int forward,
                          TABLE twiddle) {
    const Row row;
    const int axis = blockIdx.y;
    const Component c = components[axis];
    const Space space(0), velocity(1), density(2);
    space.spectrum(c.spectrum, row);
    space.commit();
    velocity.field(c.u, row);
    if (c.density.full) {
        if constexpr (FORM_STAGGERED >= INDEX8) c.index.copy(density, row);
        else density.field(c.density.at, row);
    }
    space.commit();
    const REAL across = axis == 0 ? (REAL)1 : c.pml[axis == 1 ? row.y : row.z];
    const REAL amplitude = c.source.amplitude(clock);
    const bool at_points = c.source.first || c.transducer.first;
    const REAL uniform = dt / *c.density.at;
    space.wait<1>();
    Complex v[AxisX::values];
    space.back(v, twiddle);
    space.wait<0>();
    AxisX::near(v, [&](Complex &value, int j) {
        const Complex was = velocity.mine[j];
        Complex dt_rho = {uniform, uniform};
        if (c.density.full) {
            Complex rho0;
            if constexpr (FORM_STAGGERED >= INDEX8) rho0 = c.density.of<1>(c.index.of_space(density, j));
            else rho0 = density.mine[j];
            dt_rho = {dt / rho0.x, dt / rho0.y};
        }
        const Complex pml = axis == 0 ? pair_at(c.pml, j) : Complex{across, across};
        value = {updated(was.x, pml.x, dt_rho.x, value.y), updated(was.y, pml.y, dt_rho.y, value.x)};
        if (c.source.pattern) value = value + row.get(c.source.pattern, j) * amplitude;
        if (at_points) velocity.mine[j] = value;
        else row.put(c.u, j, value);
    });
    if (at_points) {
        if (c.source.first) c.source.put_at_points(velocity, row, *clock);
        if (c.transducer.first) c.transducer.put_at_points(velocity, row, *clock);
        AxisX::near(v, [&](Complex &value, int j) {
            value = velocity.mine[j];
            row.put(c.u, j, value);
        });
    }
    if (forward) space.forth(v, row, c.spectrum, twiddle);
}
#endif

struct State {
    SplitLayers layers;
    REAL *rho, *p;
    Grid<FORM_SPEED> speed;
    Grid<FORM_DENSITY> density;
    Grid<FORM_RATIO> ratio;
    Grid<FORM_TAU> tau;
    MaterialIndex<INDEX_FORM> index;  // for parameters by material, which are columns of `table`
    const REAL *table;
    REAL *rate, *total;           // rho0 div u and the density as fields for other ranks,
    const unsigned char *wanted;  // stored in rows whose flag is not 0
    INLINE Pair materials(const Row &row, int j) const {
        if constexpr (INDEX_FORM >= INDEX8) return index.get(row, j);
        else return {0, 0};
    }
    INLINE Complex density_at(const Row &row, int j) const {
        if constexpr (FORM_DENSITY >= INDEX8) return density.template of<PARAMETERS>(materials(row, j));
        else return density.get(row, j);
    }
};

// The medium at two neighbouring points: materials are read in the constructor, full grids when they are used.
struct Medium {
    const State &s;
    const Row &row;
    int j;
    Material a, b;
    INLINE Medium(const State &s, const Row &row, int j, Pair materials) : s(s), row(row), j(j), a(), b() {
        if constexpr (INDEX_FORM >= INDEX8) a = material(s.table, materials.x), b = material(s.table, materials.y);
    }
    template <int FORM>
    INLINE Complex of(const Grid<FORM> &parameter, REAL x, REAL y) const {
        if constexpr (FORM >= INDEX8) return {x, y};
        else return parameter.get(row, j);
    }
    INLINE Complex speed() const { return of(s.speed, a.speed, b.speed); }
    INLINE Complex density() const { return of(s.density, a.density, b.density); }
    INLINE Complex ratio() const { return of(s.ratio, a.ratio, b.ratio); }
    INLINE Complex tau() const { return of(s.tau, a.tau, b.tau); }
};

INLINE REAL pressure_of(REAL speed, REAL total, REAL density, REAL ratio, REAL extra) {
    if (NONLINEAR) extra += ratio * total * total / ((REAL)2 * density);
    return speed * speed * (total + extra);
}

INLINE Complex state_of(const Medium &m, Complex total, Complex extra) {
    const Complex c = m.speed();
    const Complex rho0 = NONLINEAR ? m.density() : Complex{1, 1};
    const Complex ratio = NONLINEAR ? m.ratio() : Complex{0, 0};
    return {pressure_of(c.x, total.x, rho0.x, ratio.x, extra.x), pressure_of(c.y, total.y, rho0.y, ratio.y, extra.y)};
}

INLINE REAL mass_of(REAL rho0, REAL rho, REAL dt) { return dt * (NONLINEAR ? rho0 + (REAL)2 * rho : rho0); }

INLINE Complex mass_at(const State &s, const Row &row, int j, REAL dt) {
    const Complex rho0 = s.density_at(row, j), rho = NONLINEAR ? row.get(s.rho, j) : Complex{0, 0};
    return {mass_of(rho0.x, rho.x, dt), mass_of(rho0.y, rho.y, dt)};
}

// Damp `part`; return what damping removes, divided by `mass`. (At mass 0, a density of -rho0 / 2, the total misses it.)
INLINE REAL taken(REAL &part, REAL f, REAL mass, REAL du) {
    const REAL lost = damp(part, f, mass * du);
    return mass == 0 ? (REAL)0 : lost / mass;
}

// Advance the x part of the density by one step, and add to du (swapped) what the total loses by damping.
INLINE void damped_along_x(Complex *du, const State &s, const Row &row, REAL dt) {
    REAL *part = s.layers.x + row.number * s.layers.layers_x;
    AxisX::near(du, [&](Complex &value, int j) {
        const int a = INDEX_X(2 * j), b = INDEX_X(2 * j + 1);  // for most points the compiler knows that they lie outside
        if (!row.here || (a < 0 && b < 0)) return;
        const Complex mass = mass_at(s, row, j, dt);
        if (a >= 0) value.y += taken(part[a], s.layers.pml_x[2 * j], mass.x, value.y);
        if (b >= 0) value.x += taken(part[b], s.layers.pml_x[2 * j + 1], mass.y, value.x);
    });
}

// Advance the y or z part of the density in a row inside the layers: `part` of all points of the row, one factor for all.
// Points are loaded in groups: all at once would need too many registers, one by one would wait for each load.
INLINE void damped(Complex *du, REAL *part, REAL factor, const State &s, const Row &row, REAL dt) {
    constexpr int at_once = 4;
#pragma unroll
    for (int group = 0; group < ceiling(AxisX::values, at_once); ++group) {
        Complex now[at_once], mass[at_once];
        AxisX::near(du, [&](Complex &value, int j) {
            const int slot = &value - du - group * at_once;
            if (slot < 0 || slot >= at_once) return;
            now[slot] = pair_at(part, j);
            mass[slot] = mass_at(s, row, j, dt);
        });
        AxisX::near(du, [&](Complex &value, int j) {
            const int slot = &value - du - group * at_once;
            if (slot < 0 || slot >= at_once) return;
            value.y += taken(now[slot].x, factor, mass[slot].x, value.y);
            value.x += taken(now[slot].y, factor, mass[slot].y, value.x);
            put_pair(part, j, now[slot]);
        });
    }
}

// Correct the total of a row: in corners of layers it is the sum of the parts, and a source may add its pattern.
INLINE void put_corners_and_pattern(Complex *total, const State &s, const Row &row, const REAL *pattern, REAL amplitude) {
    for (int x = LayoutX::lane(); x < NX; x += PX) {
        REAL &value = ((REAL *)total)[x];
        const Inside in = inside(s.layers, x, row.y, row.z);
        if (keeps_all(in, DIMENSIONS)) value = total_of(load_parts(s.layers, in, x, row.y, row.z));
        if (pattern)
            put_density(s.layers, value, x, row.y, row.z, pattern[row.number * NX + x] * amplitude, false, (REAL)DIMENSIONS);
    }
}

#define LOSSLESS 0
#define STOKES 1
#define POWER_LAW 2

// Update the density of a row with its sources, then compute the pressure and its spectrum (s0) or, for the power law,
// the spectra of rho0 div u (s0) and, with dispersion, of the density (s1).
#if WITH_X_DENSITY
KERNEL(X) x_density(Complex *s0, Complex *s1, const Complex *s2, const State *__restrict__ state,
                  const Source *__restrict__ argument, REAL dt, const Index *clock, TABLE twiddle) {
    constexpr bool lossy = ABSORPTION != LOSSLESS;
    const State &s = *state;
    const Source &source = *argument;
    const Row row;
    const Space even(0), odd(1);
    even.spectrum(s2, row);
    even.commit();
    odd.spectrum(s0, row);
    odd.commit();
    const Inside in = {-1, s.layers.at_y[row.y], s.layers.at_z[row.z]};
    Complex v[AxisX::values], flow[AxisX::values];  // the sum of du over the axes, swapped, with damping
    const Space rate(2);                             // the same without damping, if the medium absorbs
#pragma unroll 1
    for (int axis = 0; axis < DIMENSIONS; ++axis) {
        const Space space(axis == 1);
        space.wait<1>();
        space.back(v, twiddle);
        LayoutX::sync();  // the copies that follow may overwrite values of the exchange
        if (axis == 1) space.field(s.rho, row);
        else if (axis + 2 < DIMENSIONS) space.spectrum(s1, row);
        else if constexpr (FORM_DENSITY >= INDEX8) s.index.copy(space, row);
        else if (FORM_DENSITY == FULL) space.field(s.density.at, row);
        space.commit();
        if (lossy)
            AxisX::near(v, [&](Complex &value, int j) { rate.mine[j] = axis ? rate.mine[j] + value : value; });
        if (axis == 0) damped_along_x(v, s, row, dt);
        else if (row.here && (axis == 1 ? in.y : in.z) >= 0) {
            REAL *part = axis == 1 ? part_y(s.layers, in, 0, row.z) : part_z(s.layers, in, 0, row.y);
            damped(v, part, axis == 1 ? s.layers.pml_y[row.y] : s.layers.pml_z[row.z], s, row, dt);
        }
        AxisX::near(v, [&](Complex &value, int) {
            Complex &sum = flow[&value - v];
            sum = axis ? sum + value : value;
        });
    }
    const REAL uniform = *s.density.at;
    const auto materials = [&](int j) {
        if constexpr (FORM_DENSITY >= INDEX8) return s.index.of_space(even, j);
        else return s.materials(row, j);
    };
    const auto medium = [&](int j) {
        if constexpr (FORM_DENSITY >= INDEX8) return s.density.of<PARAMETERS>(materials(j));
        else return FORM_DENSITY == FULL ? even.mine[j] : Complex{uniform, uniform};
    };
    Complex *total = odd.mine;
    even.wait<0>();
    AxisX::near(flow, [&](Complex &du, int j) {
        const Complex rho0 = medium(j), was = total[j];
        total[j] = {was.x - mass_of(rho0.x, was.x, dt) * du.y, was.y - mass_of(rho0.y, was.y, dt) * du.x};
    });
    LayoutX::sync();
    if (row.here && ((in.y >= 0 && (DIMENSIONS < 3 || in.z >= 0)) || source.pattern))
        put_corners_and_pattern(total, s, row, source.pattern, source.amplitude(clock));
    LayoutX::sync();
    if (source.first) {
        source.at_points(row, *clock, [&](int x, REAL value) {
            put_density(s.layers, ((REAL *)total)[x], x, row.y, row.z, value, source.replace, (REAL)DIMENSIONS);
        });
        LayoutX::sync();
    }
    const bool sent = ABSORPTION == POWER_LAW && s.wanted && row.here && s.wanted[row.number];
    AxisX::near(v, [&](Complex &value, int j) {
        const Complex now = total[j];
        row.put(s.rho, j, now);
        Complex extra = {0, 0};
        if (lossy) {
            const Complex rho0 = medium(j), sum = rate.mine[j];
            extra = {rho0.x * sum.y, rho0.y * sum.x};
        }
        value = extra;
        if (sent) {
            row.put(s.rate, j, extra);
            if (s.total) row.put(s.total, j, now);
        }
        if (ABSORPTION != POWER_LAW) {
            const Medium m(s, row, j, materials(j));
            if (ABSORPTION == STOKES) {
                const Complex tau = m.tau();
                extra = {tau.x * extra.x, tau.y * extra.y};
            }
            value = state_of(m, now, extra);
            row.put(s.p, j, value);
        }
    });
    even.forth(v, row, s0, twiddle);
    if (ABSORPTION == POWER_LAW && DISPERSES) {
        AxisX::near(v, [&](Complex &value, int j) { value = total[j]; });
        even.forth(v, row, s1, twiddle);
    }
}
#endif

// For power-law absorption: compute p, as in the pressure rows of kernels/cpu/planes.cpp, and its spectrum from those
// of L1 (s0) and, with `disperses`, L2 (s1). The kernel reads so many arrays that more threads, each loading directly,
// are faster than copies to shared memory (except of L2). `disperses` is an argument because nvcc spills more registers
// with a macro.
#if WITH_X_PRESSURE
KERNEL_OF(X, BP) x_pressure(Complex *s0, const Complex *s1, const State *__restrict__ state, int disperses,
                          REAL eta_factor, TABLE twiddle) {
    typedef RowsOf<false> Eager;
    const Row row;
    const Space space(0), shift(1);
    const auto back = [&](Complex *v, const Complex *spectrum) {
        const Complex *entries = spectrum + row.number * PITCH;
        Eager::back(v, space.all, fresh(twiddle), [&](int k) { return entries[k]; });
    };
    Complex v[AxisX::values], rho[AxisX::values];
    if (disperses) {
        back(v, s1);
        AxisX::near(v, [&](Complex &value, int j) { shift.mine[j] = swapped(value); });
    }
    back(v, s0);
    const State s = *state;
    AxisX::near(rho, [&](Complex &value, int j) { value = row.get(s.rho, j); });
    AxisX::near(v, [&](Complex &value, int j) {
        const Medium m(s, row, j, s.materials(row, j));
        const Complex tau = m.tau();
        Complex extra = {tau.x * value.y, tau.y * value.x};
        if (disperses) {
            const Complex c = m.speed(), more = shift.mine[j];
            extra = extra - Complex{eta_factor * tau.x * c.x * more.x, eta_factor * tau.y * c.y * more.y};
        }
        value = state_of(m, rho[&value - v], extra);
        row.put(s.p, j, value);
    });
    space.forth<Eager>(v, row, s0, fresh(twiddle));
}
#endif
#endif
