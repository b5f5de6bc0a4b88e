// Adjoints of the Kerr operators on one rank; kerr_adjoint.py is the reference and explains them.
// After kerr_formulas.cu and kerr_layout.cu.

enum Kind { DERIVATIVE, ROTATE, ROTATE_RK4, PHASE_RATE, TURN };

__device__ __forceinline__ REAL weight(int stage) { return REAL(stage == 0 || stage == 3 ? 1 : 2) / REAL(6); }

// Of the RK4 stages up to `stages`: the multiplier of A in the last increment, and their weighted sum. `first` is the phase
// rate of the first stage, the others follow `tall` apart; `length` is a step times the factor of the group.
struct Chain {
    REAL mr = 0, mi = 0, sr = 0, si = 0;
    __device__ __forceinline__ Chain(const REAL* first, int tall, REAL length, int stages)
    {
        for (int stage = 0; stage < stages; ++stage) {
            const REAL u = length * first[stage * tall], b = RotateRungeKutta4::before(stage), re = -u * (b * mi);
            mi = u * (1 + b * mr);
            mr = re;
            sr += weight(stage) * mr;
            si += weight(stage) * mi;
        }
    }
};

template <Kind KIND>
__device__ __forceinline__ void kerr_adjoint(const REAL2* A, REAL2* Y, double h, const REAL* factors, REAL* slope,
                                             const Layout* transposed, long long n, const Layout* layout)
{
    PROLOGUE
    REAL *const pw = group, *const cr = group + tall, *const ci = group + 2 * tall, *const in = group + 3 * tall;
    REAL *const low = group + 4 * tall, *const total = group + 5 * tall, *const theta = group + 6 * tall;
    REAL2 a[ROWS], y[ROWS];
    FOR_ROWS(i, r) {
        a[i] = A[r * n + t];
        y[i] = Y[r * n + t];
    }
    FOR_ROWS(i, r) {
        const int slot = w.row_slot[r];
        add_to_slot(part, slot, power(a[i]));
        add_to_slot(part + w.slots * LANES, slot, a[i].x * y[i].x + a[i].y * y[i].y);
        add_to_slot(part + 2 * w.slots * LANES, slot, cross(a[i], y[i]));
    }
    __syncthreads();
    FOR_GROUPS(c) {
        pw[AT(c)] = in[AT(c)] = group_sum(w, part, c);
        cr[AT(c)] = group_sum(w, part + w.slots * LANES, c);
        ci[AT(c)] = group_sum(w, part + 2 * w.slots * LANES, c);
    }
    if constexpr (KIND == TURN) {
        if (live) FOR_GROUPS(c) slope[c * n + t] = ci[AT(c)];
        return;
    }
    __syncthreads();
    const Layout back = *transposed;
    const REAL step = REAL(h);
    if constexpr (KIND == ROTATE_RK4) {
        // The slots, no fewer than groups, are free now.
        REAL *const by_power = part, *const nr = part + tall, *const ni = part + 2 * tall;
#pragma unroll 1
        for (int stage = 0; stage < 4; ++stage) {
            phase_rates(w, in, low, theta + stage * tall);
            if (stage < 3) FOR_GROUPS(c) {
                const Chain now(theta + AT(c), tall, step * factors[c], stage + 1);
                const REAL b = RotateRungeKutta4::before(stage + 1), x = 1 + b * now.mr, v = b * now.mi;
                in[AT(c)] = pw[AT(c)] * (x * x + v * v);
            }
            __syncthreads();
        }
#pragma unroll 1
        for (int stage = 3; stage >= 0; --stage) {
            const REAL b = RotateRungeKutta4::before(stage);
            FOR_GROUPS(c) {
                const int at = AT(c);
                const Chain now(theta + at, tall, step * factors[c], stage);
                REAL yr = weight(stage) * cr[at], yi = weight(stage) * ci[at];
                if (stage < 3) {
                    yr += RotateRungeKutta4::before(stage + 1) * nr[at];
                    yi += RotateRungeKutta4::before(stage + 1) * ni[at];
                }
                const REAL u = step * factors[c] * theta[stage * tall + at];
                const REAL rate = step * ((1 + b * now.mr) * yi - b * now.mi * yr);
                nr[at] = u * yi;
                ni[at] = -u * yr;
                in[at] = factors[c] * rate;
                const REAL part_of_slope = rate * theta[stage * tall + at];
                if (live) slope[c * n + t] = stage < 3 ? slope[c * n + t] + part_of_slope : part_of_slope;
            }
            __syncthreads();
            phase_rates(back, in, low, by_power);
            FOR_GROUPS(c) {
                const int at = AT(c);
                const Chain now(theta + at, tall, step * factors[c], stage);
                const REAL x = 1 + b * now.mr, v = b * now.mi, q = by_power[at];
                total[at] = (stage < 3 ? total[at] : 0) + q * (x * x + v * v);
                nr[at] += 2 * pw[at] * q * x;
                ni[at] += 2 * pw[at] * q * v;
            }
        }
        FOR_GROUPS(c) {
            const Chain all(theta + AT(c), tall, step * factors[c], 4);
            cr[AT(c)] = all.sr;
            ci[AT(c)] = -all.si;
        }
    } else {
        phase_rates(w, pw, low, theta);
        FOR_GROUPS(c) {
            const int at = AT(c);
            const REAL turn = step * factors[c] * theta[at];
            REAL rate = KIND == PHASE_RATE ? (live ? slope[c * n + t] : REAL(0)) : step * ci[at], re = 0, im = 0;
            if (KIND == DERIVATIVE) im = turn;
            if (KIND == ROTATE) {
                rotation(turn, &re, &im);
                rate += step * (ci[at] * re - cr[at] * im);
            }
            if (live) slope[c * n + t] = rate * theta[at];
            in[at] = factors[c] * rate;
            cr[at] = re;
            ci[at] = -im;
        }
        __syncthreads();
        phase_rates(back, in, low, total);
    }
    __syncthreads();
    FOR_ROWS(i, r) {
        const int at = AT(w.row_group[r]);
        const REAL re = cr[at], im = ci[at], q = 2 * total[at];
        REAL2 now = {q * a[i].x + (y[i].x * re - y[i].y * im), q * a[i].y + (y[i].x * im + y[i].y * re)};
        if (KIND != DERIVATIVE) now = {y[i].x + now.x, y[i].y + now.y};
        Y[r * n + t] = now;
    }
}

#define KERNEL(name, KIND)                                                                                        \
    extern "C" __global__ void kerr_adjoint_##name(const REAL2* A, REAL2* Y, double h, const REAL* factors,       \
                                                   REAL* slope, const Layout* transposed, long long n, const Layout* layout)  \
    {                                                                                                             \
        kerr_adjoint<KIND>(A, Y, h, factors, slope, transposed, n, layout);                                       \
    }
KERNEL(derivative, DERIVATIVE)
KERNEL(rotate, ROTATE)
KERNEL(rotate_rk4, ROTATE_RK4)
KERNEL(phase_rate, PHASE_RATE)
KERNEL(turn, TURN)
