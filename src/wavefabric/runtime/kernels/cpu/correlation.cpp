// Sums of four-wave mixing of symbols with themselves: the integral of sqrt(g) mu over one channel, as in interference.cpp. In double.
#include "four_wave.h"

typedef Table<Complex> Amplitude;
// Knots on the flat part where the mismatch is a parabola.
constexpr Index BENT = 16;

// mu and its two integrals at a mismatch. Beyond the table, mu does not add to the integrals.
static Integrals<Complex> amplitude(const Amplitude &table, double mismatch) {
    const double edge = table.step * (double)(table.values.count - 1), size = fabs(mismatch) < edge ? fabs(mismatch) : edge;
    Integrals<Complex> all = within(table, size);
    all.twice = all.twice + all.once * (fabs(mismatch) - size);
    if (mismatch < 0) {
        all.value.im = -all.value.im;
        all.once.re = -all.once.re;
        all.twice.im = -all.twice.im;
    }
    return all;
}

// Coefficients of 1, u, u^2 and u^4 of a mismatch.
struct Mismatch {
    double c0, c1, c2, c4;
    double at(double u) const { return c0 + u * (c1 + u * (c2 + c4 * u * u)); }
};

// Integral of sqrt(g) mu du, g the product of one channel's spectrum at u + d/2 and u - d/2; `inner` knots on the flat part.
static Complex product(double d, Mismatch mismatch, Index inner, Pulse pulse, const Amplitude &table) {
    const double high = (pulse.width() - fabs(d)) / 2, rounded = pulse.rolloff * pulse.rate, edge = high < rounded ? high : rounded;
    Complex total = {0, 0};
    double u = -high, g = 0, at = 0;
    Integrals<Complex> here = {{0, 0}, {0, 0}, {0, 0}};
    for (Index k = 0; k < 2 * EDGE + inner + 1; ++k) {
        const double u1 = knot(k, -high, high, edge, inner);
        if (k > 0 && u1 <= u) continue;
        const double g1 = sqrt(raised_cosine(u1 - d / 2, pulse) * raised_cosine(u1 + d / 2, pulse));
        const double at1 = mismatch.at(u1), h = u1 - u, step = at1 - at;
        const Integrals<Complex> there = amplitude(table, at1);
        if (k > 0 && fabs(step) < 0.5 * table.step)
            total = total + h / 2 * (g + g1) * amplitude(table, at + step / 2).value;
        else if (k > 0)
            total = total + h * ((g1 * there.once - g * here.once) - (g1 - g) * (there.twice - here.twice) / step) / step;
        u = u1;
        g = g1;
        at = at1;
        here = there;
    }
    return total;
}

// Integral of sqrt(g) mu df2, f2 and f3 = f2 + d in `channel`; `middle`: the mismatch at their middle, `slope`: its slope, 1/(m Hz).
static Complex difference(double d, double middle, double slope, Index channel, const Comb &comb, Counted<const double> roots,
                          const Amplitude &table) {
    const Pulse pulse = comb.pulse(channel);
    if (fabs(d) >= pulse.width()) return {0, 0};
    if (fabs(slope) * (pulse.width() - fabs(d)) < 2 * table.step)  // 1/6 of the fastest turn
        return overlap(d, pulse.width(), comb.table(roots, channel, channel)) * amplitude(table, middle).value;
    return product(d, {middle, slope, 0, 0}, 1, pulse, table);
}

// `out` += integral over f and f1 of one channel of |integral of sqrt(g) mu df2|^2, f2 and f3 in `other`, less slow phase noise.
// `walks` (s/m): delays of the first channel's centre less the second's, with one sum in `out` for each; `curvatures`: beta2 of both.
// `other` is any channel of the second's pulse.
// Within a channel only beta2 is taken into account.
static void correlation(Thread thread, Counted<const double> walks, Nodes nodes, Index other, Comb comb, Counted<const double> roots,
                        Counted<const double> curvatures, Amplitude table, Counted<double> out) {
    for (Index t = thread.first(walks.count); t < thread.last(walks.count); ++t)
        for (Index n = 0; n < nodes.each; ++n) {
            const double u = nodes.f[n] - comb.centres[nodes.received[0]];
            for (Index k = 0; k < nodes.inside; ++k) {
                const Index i = n * nodes.columns() + k;
                const double d = nodes.x[i], middle = 2 * PI * d * (walks[t] + 2 * PI * curvatures[0] * (u + d / 2));
                const double value = square(difference(d, middle, -4 * PI * PI * d * curvatures[1], other, comb, roots, table));
                out[t] += nodes.weights[n] * nodes.weight[i] * (1 - nodes.slow[i]) * value;
            }
        }
}
EXPORT(correlation)

// `out` (2, F) += sum over f3 of |integral of sqrt(g) mu df1|^2 g(f3), and the double integral of sqrt(g) mu, in the channel of f.
static void channel_correlation(Thread t, Nodes nodes, Comb comb, Counted<const double> roots, Row row, Amplitude table,
                                Counted<Complex> out) {
    const Index columns = nodes.columns(), count = nodes.f.count;
    for (Index n = t.first(count); n < t.last(count); ++n) {
        const Index mine = nodes.received[n];
        const double here = phase(row.beta, nodes.f[n]), centre = comb.centres[mine];
        for (Index i = n * columns; i < (n + 1) * columns; ++i) {
            if (nodes.weight[i] == 0 || nodes.channel[i] != mine) continue;
            const double d = nodes.x[i], f3 = nodes.f[n] + d, third = phase(row.beta, f3);
            // f1 and f2 = f + f3 - f1 lie at a distance u on either side of the middle of f and f3.
            const double middle = (nodes.f[n] + f3) / 2, w = 2 * PI * middle;
            const double *k = row.beta.data - 1;  // k[n] is beta_n
            const double second = k[2] + higher_orders(k, 2, row.beta.count, w, 2);
            const double fourth = k[4] + higher_orders(k, 4, row.beta.count, w, 4);
            const double bend = 4 * PI * PI * second, flat = 2 * phase(row.beta, middle) - third - here;
            const Mismatch even = {flat, 0, bend, 4 * square(square(PI)) / 3 * fourth};
            out[n].re += nodes.weight[i] * square(product(2 * (middle - centre), even, BENT, comb.pulse(mine), table));
            const double root = sqrt(raised_cosine(f3 - centre, comb.pulse(mine)));
            if (!(root > 0)) continue;
            const double walk = 2 * PI * d * row.delays[mine], slope = -4 * PI * PI * d * row.curvatures[mine];
            const Complex value = difference(d, third - here - walk, slope, mine, comb, roots, table);
            out[count + n] = out[count + n] + nodes.weight[i] / root * value;
        }
    }
}
EXPORT(channel_correlation)

static void amplitude_integrals(Thread, Amplitude table, double mismatch, Counted<Complex> out) {
    amplitude(table, mismatch).store(out);
}
EXPORT(amplitude_integrals)
