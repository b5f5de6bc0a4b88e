// Passes of the fused time step on a GPU, one axis each, with all pointwise work inside; see axis_passes_cuda.py.
// Real grids are (NZ, NY, NX), spectra (NZ, NY, HALF), their rows padded to PITCH, whole sectors of memory; the
// formulas are those of plane_passes.py. Along x, pairs of real rows travel as one complex row. Spectra hold
// F{u_y} or d/dy in s0, x in s2, z in s1. WITH_X, WITH_Y, WITH_Z: axes that are transformed here.

#define HALF (NX / 2 + 1)
#define ROWS ((Index)NY * NZ)
#define INLINE __device__ __forceinline__
#define PASS(axis) extern "C" __global__ void __launch_bounds__(P##axis *T##axis)
#define TABLE const Complex *__restrict__
#define REALS const REAL *__restrict__
#define EACH_ROW(i, pair) _Pragma("unroll") for (int i = 0; i < 2; ++i) if (i ? pair.both : pair.here)
extern __shared__ char memory[];
// --- Along x: pairs of rows -----------------------------------------------------------------------------

#if WITH_X
typedef Rows<NX, PX, TX> LayoutX;
typedef Axis<LayoutX, Radices<RADICES_X>, Radices<REVERSED_X>> AxisX;

struct Pair {
    Index first;
    bool here, both;
    int y[2], z[2];
    // The pair of this place, or the one that a list of `count` pairs names there.
    INLINE Pair(const int *list = nullptr, int count = 0) {
        const Index place = (Index)blockIdx.x * TX + threadIdx.x / PX;
        first = 2 * (list == nullptr ? place : place < count ? (Index)list[place] : ROWS);
        here = first < ROWS;
        both = first + 1 < ROWS;
        for (int i = 0; i < 2; ++i) {
            const Index row = first + (i && both);
            y[i] = row % NY;
            z[i] = row / NY;
        }
    }
};

// What a pass reads is copied to shared memory at its start, all at once and without registers, so that many
// loads are under way while others compute. Words are one complex or one value of each of two rows wide.
INLINE void copy_async(Complex *target, const void *source) {
#ifdef __CUDA_ARCH__
    const unsigned to = (unsigned)__cvta_generic_to_shared(target);
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(source), "n"(sizeof(Complex)) : "memory");
#else
    *target = *(const Complex *)source;
#endif
}

struct Staging {  // shared memory behind the exchange area, this transform's share of it
    Complex *next;
    INLINE Staging(int words) : next((Complex *)memory + TX * (NX + NX / 8 + 1) + LayoutX::transform() * words) {}
    INLINE const Complex *spectrum(const Complex *s, const Pair &pair) {
        Complex *here = next;
        next += 2 * HALF;
        const Complex *a = s + pair.first * PITCH;
        for (int m = LayoutX::lane(); m < HALF; m += PX) {
            if (pair.here) copy_async(here + m, a + m);
            if (pair.both) copy_async(here + HALF + m, a + PITCH + m);
            if (!pair.both) here[HALF + m] = {0, 0};
        }
        return here;
    }
    // Two rows of a field, as they lie: value n of row i is word i NX + n. (An odd last row is loaded alone.)
    INLINE const REAL *field(const REAL *f, const Pair &pair) {
        Complex *here = next;
        next += NX;
        const Complex *a = (const Complex *)(f + pair.first * NX);
        if (pair.both)
            for (int m = LayoutX::lane(); m < NX; m += PX) copy_async(here + m, a + m);
        else if (pair.here)
            for (int m = LayoutX::lane(); m < NX; m += PX) ((REAL *)here)[m] = f[pair.first * NX + m];
        return (const REAL *)here;
    }
    static INLINE void wait() {
#ifdef __CUDA_ARCH__
        asm volatile("cp.async.wait_all;" ::: "memory");
#endif
        __syncthreads();
    }
};

// Half spectra of two rows, p + i q, back to real: row 0 in v.y, row 1 in v.x.
INLINE void rows_back(Complex *v, const Complex *staged, const Complex *twiddle) {
    AxisX::far(v, [&](Complex &value, int n) {
        const int m = n <= NX / 2 ? n : NX - n;
        Complex p = staged[m], q = staged[HALF + m];
        if (m == 0 || 2 * m == NX) p.y = q.y = 0;  // a real row has none
        if (n > NX / 2) p = conjugate(p), q = conjugate(q);
        value = {p.y + q.x, p.x - q.y};  // p + i q, swapped
    });
    AxisX::back(v, (Complex *)memory, twiddle);
}

// Two real rows (row 0 in v.x, row 1 in v.y) to their half spectra.
INLINE void rows_forth(Complex *v, Complex *spectrum, const Pair &pair, const Complex *twiddle) {
    Complex *shared = (Complex *)memory;
    AxisX::forth(v, shared, twiddle);
    __syncthreads();
    AxisX::far(v, [&](Complex &value, int n) { shared[LayoutX::at(n)] = value; });
    __syncthreads();
    Complex *a = spectrum + pair.first * PITCH, *b = a + PITCH;
    for (int m = LayoutX::lane(); m < HALF; m += PX) {
        const Complex p = shared[LayoutX::at(m)], q = shared[LayoutX::at(m ? NX - m : 0)];
        if (pair.here) a[m] = {(REAL)0.5 * (p.x + q.x), (REAL)0.5 * (p.y - q.y)};
        if (pair.both) b[m] = {(REAL)0.5 * (p.y + q.y), (REAL)0.5 * (q.x - p.x)};
    }
}

struct Grid {  // a medium parameter: a full grid or one row
    const REAL *at;
    int full;
    INLINE REAL operator()(Index row, int x) const { return at[full ? row * NX + x : x]; }
};

struct Source {  // a pattern times a signal, or nothing
    const REAL *pattern, *signal;
    INLINE REAL amplitude(const Index *clock) const { return pattern ? signal[*clock] : (REAL)0; }
};

// Rows of up to three fields, one a block layer: all, or the pairs of a list.
PASS(X) x_forward(const REAL *f0, const REAL *f1, const REAL *f2, Complex *s0, Complex *s1, Complex *s2,
                  const int *__restrict__ list, int count, TABLE twiddle) {
    const Pair pair(list, count);
    const REAL *field = blockIdx.y == 0 ? f0 : blockIdx.y == 1 ? f1 : f2;
    Complex v[AxisX::values];
    AxisX::near(v, [&](Complex &value, int n) {
        value.x = pair.here ? field[pair.first * NX + n] : (REAL)0;
        value.y = pair.both ? field[(pair.first + 1) * NX + n] : (REAL)0;
    });
    rows_forth(v, blockIdx.y == 0 ? s0 : blockIdx.y == 1 ? s1 : s2, pair, twiddle);
}

PASS(X) x_backward(const Complex *__restrict__ spectrum, REAL *field, TABLE twiddle) {
    const Pair pair;
    Staging staging(2 * HALF);
    const Complex *staged = staging.spectrum(spectrum, pair);
    staging.wait();
    Complex v[AxisX::values];
    rows_back(v, staged, twiddle);
    AxisX::near(v, [&](Complex &value, int n) {
        if (pair.here) field[pair.first * NX + n] = value.y;
        if (pair.both) field[(pair.first + 1) * NX + n] = value.x;
    });
}

// One component a block layer: u <- pml (pml u - dt / rho dp), a pattern, and the spectrum of the result.
struct Component {
    Complex *spectrum;
    REAL *u;
    const REAL *pml;
    Grid density;
    Source source;
};

PASS(X) x_velocity(const Component *components, REAL dt, const Index *clock, int forward, TABLE twiddle) {
    const Pair pair;
    const int axis = blockIdx.y;
    const Component c = components[axis];
    Staging staging(2 * HALF + 2 * NX);
    const Complex *spectrum = staging.spectrum(c.spectrum, pair);
    const REAL *velocity = staging.field(c.u, pair);
    const REAL *density = c.density.full ? staging.field(c.density.at, pair) : c.density.at;
    const int second = c.density.full ? NX : 0;
    const REAL amplitude = c.source.amplitude(clock);
    staging.wait();
    Complex v[AxisX::values];
    rows_back(v, spectrum, twiddle);
    AxisX::near(v, [&](Complex &value, int n) {
        const REAL g[2] = {value.y, value.x};
        REAL now[2] = {0, 0};  // round-off of a gradient is no velocity: it would spoil the other row
        EACH_ROW(i, pair) {
            const Index row = pair.first + i, at = row * NX + n;
            const REAL f = c.pml[axis == 0 ? n : axis == 1 ? pair.y[i] : pair.z[i]];
            REAL u = f * (f * velocity[i * NX + n] - dt / density[i * second + n] * g[i]);
            if (c.source.pattern) u += c.source.pattern[at] * amplitude;
            c.u[at] = now[i] = u;
        }
        value = {now[0], now[1]};
    });
    if (forward) rows_forth(v, c.spectrum, pair, twiddle);
}

struct State {
    Shell shell;
    REAL *rho, *p;
    Grid speed, density, ratio, tau, eta;
    REAL *rate, *total;           // where other ranks will want rho0 div u and the density as fields:
    const unsigned char *wanted;  // in rows whose flag is not 0
};

INLINE REAL state_of(const State &s, Index row, int x, REAL total, REAL extra) {
    if (NONLINEAR) extra += s.ratio(row, x) * total * total / ((REAL)2 * s.density(row, x));
    const REAL c = s.speed(row, x);
    return c * c * (total + extra);
}

// Parts of the density of a pair of rows, copied to shared memory while transforms run: of few rows, and of the
// ends of the others.
struct StagedParts {
    REAL *x, *y, *z;  // row i begins at i layers_x, or i NX
    int in_y[2], in_z[2], layers_x;
    INLINE StagedParts(const Shell &s, const Pair &pair) : layers_x(s.layers_x) {
        EACH_ROW(i, pair) {
            in_y[i] = s.at_y[pair.y[i]];
            in_z[i] = s.at_z[pair.z[i]];
        }
    }
    static INLINE void copy(REAL *target, const REAL *source, int count) {
        for (int m = LayoutX::lane(); m < count; m += PX) {
#ifdef __CUDA_ARCH__
            const unsigned to = (unsigned)__cvta_generic_to_shared(target + m);
            asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(source + m), "n"(sizeof(REAL))
                         : "memory");
#else
            target[m] = source[m];
#endif
        }
    }
    // Each into the place of a spectrum that was transformed: no thread reads it after the transform's barriers.
    INLINE void copy_x(const Complex *place, const Shell &s, const Pair &pair) {
        x = (REAL *)place;
        EACH_ROW(i, pair) copy(x + i * layers_x, s.x + (pair.first + i) * layers_x, layers_x);
    }
    INLINE void copy_y_or_z(const Complex *place, const Shell &s, const Pair &pair) {
        y = (REAL *)place;
        EACH_ROW(i, pair) {
            const Inside in = {-1, in_y[i], in_z[i]};
            if (in.y >= 0) copy(y + i * NX, part_y(s, in, 0, pair.z[i]), NX);
            else if (in.z >= 0) copy(y + i * NX, part_z(s, in, 0, pair.y[i]), NX);
        }
    }
    INLINE void copy_z_beside_y(const Complex *place, const Shell &s, const Pair &pair) {
        z = (REAL *)place;
        EACH_ROW(i, pair) {
            const Inside in = {-1, in_y[i], in_z[i]};
            if (in.y >= 0 && in.z >= 0) copy(z + i * NX, part_z(s, in, 0, pair.y[i]), NX);
        }
    }
    INLINE Inside inside(const Shell &s, int i, int n) const { return {s.at_x[n], in_y[i], in_z[i]}; }
    INLINE Parts parts(Inside in, int i, int n) const {
        const REAL *along_z = in.y >= 0 ? z : y;
        return {in.x >= 0 ? x[i * layers_x + in.x] : (REAL)0, in.y >= 0 ? y[i * NX + n] : (REAL)0,
                in.z >= 0 ? along_z[i * NX + n] : (REAL)0};
    }
};

// MODE 0: pressure and its spectrum; 1: with Stokes absorption; 2: spectra of rho0 div u (s0) and of the density
// (s1), for the power law; 3: only the densities; 4: the densities, and rho0 div u into p (Stokes).
template <int MODE>
INLINE void density(Complex *s0, Complex *s1, const Complex *s2, const State &s, const Source &source, REAL dt,
                    const Index *clock, const Complex *twiddle) {
    const Pair pair;
    Staging staging(6 * HALF + 2 * NX);
    const Complex *ax = staging.spectrum(s2, pair), *ay = staging.spectrum(s0, pair);
    const Complex *az = staging.spectrum(s1, pair);
    const REAL *before = staging.field(s.rho, pair);
    const REAL *rho0 = s.density.full ? staging.field(s.density.at, pair) : s.density.at;
    const int second = s.density.full ? NX : 0;
    const REAL amplitude = source.amplitude(clock);
    staging.wait();
    Complex gx[AxisX::values], gy[AxisX::values], gz[AxisX::values];
    StagedParts staged(s.shell, pair);
    rows_back(gx, ax, twiddle);
    staged.copy_x(ax, s.shell, pair);
    rows_back(gy, ay, twiddle);
    staged.copy_y_or_z(ay, s.shell, pair);
    rows_back(gz, az, twiddle);
    staged.copy_z_beside_y(az, s.shell, pair);
    staging.wait();
    AxisX::near(gx, [&](Complex &value, int n) {
        const int slot = &value - gx;
        const REAL a[2] = {value.y, value.x}, b[2] = {gy[slot].y, gy[slot].x}, c[2] = {gz[slot].y, gz[slot].x};
        REAL one[2] = {0, 0}, two[2] = {0, 0};
        EACH_ROW(i, pair) {
            const Index row = pair.first + i, at = row * NX + n, here = i * NX + n;
            const REAL rho = rho0[i * second + n], was = before[here];
            const REAL mass = dt * (NONLINEAR ? rho + (REAL)2 * was : rho);
            const Parts flow = {mass * a[i], mass * b[i], mass * c[i]};
            const Inside in = staged.inside(s.shell, i, n);
            const REAL more = source.pattern ? source.pattern[at] * amplitude : (REAL)0;
            REAL total = was - (flow.x + flow.y + flow.z);
            if (in.any()) {
                Parts part = staged.parts(in, i, n);
                total = advance(s.shell, in, n, pair.y[i], pair.z[i], was, flow, part, true);
                part = {part.x + more, part.y + more, part.z + more};
                store_parts(s.shell, in, n, pair.y[i], pair.z[i], part);
            }
            total += (REAL)3 * more;
            s.rho[at] = total;
            const REAL rate = rho * (a[i] + b[i] + c[i]);
            if (MODE == 2) {
                one[i] = rate;
                two[i] = total;
                if (s.wanted && s.wanted[row]) {
                    s.rate[at] = rate;
                    if (s.total) s.total[at] = total;
                }
            } else if (MODE < 2) {
                one[i] = state_of(s, row, n, total, MODE ? s.tau(row, n) * rate : (REAL)0);
                s.p[at] = one[i];
            } else if (MODE == 4) s.p[at] = rate;
        }
        value = {one[0], one[1]};
        gy[slot] = {two[0], two[1]};
    });
    if (MODE < 3) rows_forth(gx, s0, pair, twiddle);
    if (MODE == 2) rows_forth(gy, s1, pair, twiddle);
}

#define DENSITY(name, mode)                                                                                         \
    PASS(X) name(Complex *s0, Complex *s1, const Complex *s2, const State *state, const Source *source, REAL dt,    \
                 const Index *clock, TABLE twiddle) { density<mode>(s0, s1, s2, *state, *source, dt, clock, twiddle); }

DENSITY(x_density, ABSORPTION)
// With a source at points to come: it changes the densities before the pressure can follow.
DENSITY(x_density_points, (ABSORPTION == 2 ? 2 : 3 + ABSORPTION))

// p as in pressure_row and its spectrum; loss 0: none; 1: L1 and, if disperses, L2 from spectra; 2: Stokes, from p.
PASS(X) x_pressure(Complex *s0, const Complex *s1, const State *state, int loss, int disperses, TABLE twiddle) {
    const Pair pair;
    const State s = *state;
    Staging staging(4 * HALF + NX);
    const Complex *a1 = loss == 1 ? staging.spectrum(s0, pair) : nullptr;
    const Complex *a2 = disperses ? staging.spectrum(s1, pair) : nullptr;
    const REAL *rho = staging.field(s.rho, pair);
    staging.wait();
    Complex l1[AxisX::values], l2[AxisX::values];
    if (loss == 1) rows_back(l1, a1, twiddle);
    if (disperses) rows_back(l2, a2, twiddle);
    AxisX::near(l1, [&](Complex &value, int n) {
        const Complex shift = l2[&value - l1];
        const REAL a[2] = {value.y, value.x}, b[2] = {shift.y, shift.x};
        REAL p[2] = {0, 0};
        EACH_ROW(i, pair) {
            const Index row = pair.first + i, at = row * NX + n, here = i * NX + n;
            REAL extra = 0;
            if (loss) extra += s.tau(row, n) * (loss == 1 ? a[i] : s.p[at]);
            if (disperses) extra -= s.eta(row, n) * b[i];
            p[i] = state_of(s, row, n, rho[here], extra);
            s.p[at] = p[i];
        }
        value = {p[0], p[1]};
    });
    rows_forth(l1, s0, pair, twiddle);
}
#endif

// --- Along y and z: tiles of columns ---------------------------------------------------------------------

// Column of this thread along y in plane blockIdx.y, or along z at y = blockIdx.y.
struct Column {
    int kx;
    bool here;
    Index first, step;
    INLINE Column(int tile, bool along_y)
        : kx(blockIdx.x * tile + threadIdx.x % tile),
          here(kx < HALF),
          first((along_y ? (Index)blockIdx.y * NY : (Index)blockIdx.y) * PITCH + kx),
          step(along_y ? PITCH : (Index)NY * PITCH) {}
    INLINE REAL get(const REAL *s, int n) const { return here ? s[first + n * step] : (REAL)0; }
    INLINE Complex get(const Complex *s, int n) const { return here ? s[first + n * step] : Complex{0, 0}; }
};

#if WITH_Y
typedef Axis<Columns<NY, PY, TY>, Radices<RADICES_Y>, Radices<REVERSED_Y>> AxisY;

// Back along y: to <- after(F^-1 before(s)).
template <class F, class G>
INLINE void back_along_y(Complex *to, const Complex *s, const Column &c, const Complex *twiddle, F before, G after) {
    Complex v[AxisY::values];
    AxisY::near(v, [&](Complex &value, int n) { value = c.get(s, n); });
    AxisY::near(v, [&](Complex &value, int n) { value = swapped(before(value, n)); });
    AxisY::forth(v, (Complex *)memory, twiddle);
    AxisY::far(v, [&](Complex &value, int n) { if (c.here) to[c.first + n * c.step] = after(swapped(value)); });
}

// Transforms of up to three spectra in place, one a block layer.
PASS(Y) y_transform(Complex *s0, Complex *s1, Complex *s2, int inverse, TABLE twiddle) {
    const Column c(TY, true);
    Complex *s = blockIdx.z == 0 ? s0 : blockIdx.z == 1 ? s1 : s2;
    Complex v[AxisY::values];
    AxisY::near(v, [&](Complex &value, int n) { value = c.get(s, n); });
    if (inverse) AxisY::near(v, [&](Complex &value, int) { value = swapped(value); });
    AxisY::forth(v, (Complex *)memory, twiddle);
    AxisY::far(v, [&](Complex &value, int n) {
        if (c.here) s[c.first + n * c.step] = inverse ? swapped(value) : value;
    });
}

// s0 = kappa F{p}, s1 = d/dz of it: back along y into d/dx (s2), d/dy (s0), d/dz (s1).
PASS(Y) y_gradient(Complex *s0, Complex *s1, Complex *s2, TABLE dx, TABLE dy, TABLE twiddle) {
    const Column c(TY, true);
    const Complex factor = c.here ? dx[c.kx] : Complex{0, 0};
    const auto same = [](Complex value, int = 0) { return value; };
    back_along_y(s2, s0, c, twiddle, same, [&](Complex value) { return value * factor; });
    // s0 again, from the second-level cache: registers are dearer.
    back_along_y(s0, s0, c, twiddle, [&](Complex value, int n) { return value * dy[n]; }, same);
    back_along_y(s1, s1, c, twiddle, same, same);
}
#endif

#if WITH_Z
typedef Axis<Columns<NZ, PZ, TZ>, Radices<RADICES_Z>, Radices<REVERSED_Z>> AxisZ;

INLINE void back_along_z(Complex *v, Complex *s, const Column &c, const Complex *twiddle) {
    AxisZ::back(v, (Complex *)memory, twiddle);
    AxisZ::near(v, [&](Complex &value, int n) { if (c.here) s[c.first + n * c.step] = swapped(value); });
}

// Along z there and back: s <- F^-1 f(F s).
template <class F>
INLINE void multiply_along_z(Complex *s, const Column &c, const Complex *twiddle, F f) {
    Complex v[AxisZ::values];
    AxisZ::near(v, [&](Complex &value, int n) { value = c.get(s, n); });
    AxisZ::forth(v, (Complex *)memory, twiddle);
    AxisZ::far(v, [&](Complex &value, int n) { value = swapped(f(value, n)); });
    back_along_z(v, s, c, twiddle);
}

// s0 <- kappa F{p} and s1 <- d/dz of it.
PASS(Z) z_gradient(Complex *s0, Complex *s1, REALS kappa, TABLE dz, TABLE twiddle) {
    const Column c(TZ, false);
    Complex v[AxisZ::values], w[AxisZ::values];
    AxisZ::near(v, [&](Complex &value, int n) { value = c.get(s0, n); });
    AxisZ::forth(v, (Complex *)memory, twiddle);
    AxisZ::far(v, [&](Complex &value, int n) {
        value = value * c.get(kappa, n);
        w[&value - v] = swapped(value * dz[n]);
        value = swapped(value);
    });
    back_along_z(v, s0, c, twiddle);
    back_along_z(w, s1, c, twiddle);
}

// Layer 0: u_y in s0, 1: u_z in s1, 2: u_x in s2; each times kappa and its derivative, back along z.
PASS(Z) z_divergence(Complex *s0, Complex *s1, Complex *s2, REALS kappa, TABLE dx, TABLE dy, TABLE dz, int first,
                     TABLE twiddle) {
    const Column c(TZ, false);
    const int layer = first + blockIdx.z;
    const Complex uniform = layer == 0 ? dy[blockIdx.y] : c.here ? dx[c.kx] : Complex{0, 0};
    multiply_along_z(layer == 0 ? s0 : layer == 1 ? s1 : s2, c, twiddle, [&](Complex value, int n) {
        const REAL k = c.get(kappa, n);
        return value * ((layer == 1 ? dz[n] : uniform) * k);
    });
}

// Layer 0: s0 times operator0, layer 1: s1 times operator1; along z there and back.
PASS(Z) z_scale(Complex *s0, Complex *s1, REALS operator0, REALS operator1, TABLE twiddle) {
    const Column c(TZ, false);
    const REAL *scale = blockIdx.z == 0 ? operator0 : operator1;
    Complex *s = blockIdx.z == 0 ? s0 : s1;
    multiply_along_z(s, c, twiddle, [&](Complex value, int n) { return value * c.get(scale, n); });
}

// s times a complex factor of k_z and a scale, along z there and back.
PASS(Z) z_translate(Complex *s, TABLE factor, REAL scale, TABLE twiddle) {
    const Column c(TZ, false);
    multiply_along_z(s, c, twiddle, [&](Complex value, int n) { return value * (factor[n] * scale); });
}
#endif
