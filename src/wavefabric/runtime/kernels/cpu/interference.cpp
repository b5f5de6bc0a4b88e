// Sums over frequencies of four-wave mixing. In double precision.
//
// For a frequency f of row i and f1 = f + x, the mismatch D changes with f2 along row j, f3 = f2 + x. Between knots the product of
// spectra g and the mismatch D are approximated as linear in f2. Then with the integrals M of |mu|^2 and N of M over D
//
//     integral of g |mu|^2 df2 = h ([g M]/dD - (dg/dD^2) [N]),    dD, dg the differences between the knots, h apart,
//
// is exact however narrow the resonances of |mu|^2 are compared with h.
#include "four_wave.h"

typedef Table<double> Power;

// |mu|^2, its integral M from 0, and the integral N of M, at a mismatch.
static Integrals<double> power(const Power &table, double mismatch) {
    const double turns = table.period > 0 ? rint(mismatch / table.period) : 0.0, inner = mismatch - turns * table.period;
    const double size = fabs(inner), edge = table.step * (double)(table.values.count - 1);
    const Index last = table.once.count - 1;
    if (size > edge && table.period == 0) {
        const double limit = table.once[last] + table.tail / edge;
        const double twice = table.twice[last] + limit * (size - edge) - table.tail * log(size / edge);
        return {table.tail / (size * size), copysign(limit - table.tail / size, inner), twice};
    }
    Integrals<double> all = within(table, size);
    // Each period adds its integral of |mu|^2 to M; N grows by the integral of M over the periods in between.
    const double whole = 2 * table.once[last];
    all.twice += turns * whole * (inner + table.period * turns / 2);
    all.once = copysign(all.once, inner) + turns * whole;
    return all;
}

// Integral of |mu|^2 over a rectangle of area `area`, whose mismatch changes by `change` about `middle`.
static double rectangle(double middle, double change, double area, const Power &table) {
    const double reach = 0.5 * fabs(change);
    if (table.period == 0 && fabs(middle) - reach > table.step * (double)table.values.count)
        return area * table.tail / (middle * middle - reach * reach);
    if (reach < table.step) return area * power(table, middle).value;
    return area * (power(table, middle + reach).once - power(table, middle - reach).once) / (2 * reach);
}

// Integral of g |mu|^2 over a channel with centre f2 and the pulse `second`, where f2 + x lies d Hz from the centre of the channel of
// f3, of the pulse `third`.
static double pair(double x, double base, double f2, double d, Pulse second, Pulse third, Counted<const double> beta,
                   const Power &table, double area) {
    const double reach2 = second.width() / 2, reach3 = third.width() / 2;
    const double low = -reach3 - d > -reach2 ? -reach3 - d : -reach2, high = reach3 - d < reach2 ? reach3 - d : reach2;
    double at = base + phase(beta, f2 + low) - phase(beta, f2 + low + x);
    const double slope = (base + phase(beta, f2 + high) - phase(beta, f2 + high + x) - at) / (high - low);
    if (table.period > 0) at -= rint((at + slope * (high - low) / 2) / table.period) * table.period;
    const double rounded2 = second.rolloff * second.rate, rounded3 = third.rolloff * third.rate, half = (high - low) / 2;
    const double rounded = rounded2 > rounded3 ? rounded2 : rounded3, edge = half < rounded ? half : rounded;
    double total = 0, mass = 0, v = low, g = rounded == 0 ? 1.0 : raised_cosine(low, second) * raised_cosine(low + d, third);
    Integrals<double> here = power(table, at);
    for (Index k = 1; k < 2 * EDGE + 2; ++k) {
        const double next = knot(k, low, high, edge, 1), h = next - v;
        if (h <= 0) continue;
        const double g1 = raised_cosine(next, second) * raised_cosine(next + d, third), step = slope * h;
        const Integrals<double> there = power(table, at + step);
        mass += h * (g + g1) / 2;
        if (fabs(step) < 2 * table.step) total += h * (g + g1) / 2 * power(table, at + step / 2).value;
        else total += ((g1 * there.once - g * here.once) - (g1 - g) * (there.twice - here.twice) / step) / slope;
        v = next;
        g = g1;
        at += step;
        here = there;
    }
    return mass > 0 ? total * area / mass : 0.0;
}

// Integral of P_j(f2) P_j(f2 + x) |mu|^2 df2 over all channels. `ALIKE`: all have one pulse.
template <bool ALIKE>
static double act(double x, double base, const Comb &comb, Counted<const double> areas, const Row &row, const Power &table) {
    const double widest = comb.widest();
    double total = 0;
    const Index count = comb.centres.count;
    for (Index c2 = 0, low = 0; c2 < count; ++c2) {
        const double third = comb.centres[c2] + x;
        const Pulse pulse2 = comb.pulse(c2);
        const double width2 = pulse2.width();
        while (low < count && comb.centres[low] <= third - widest) ++low;
        for (Index c3 = low; c3 < count && comb.centres[c3] < third + widest; ++c3) {
            const double both = row.density[c2] * row.density[c3], d = third - comb.centres[c3];
            const Pulse pulse3 = ALIKE ? pulse2 : comb.pulse(c3);
            const double width3 = ALIKE ? width2 : pulse3.width(), wider = ALIKE ? 0 : width3 - width2;
            const double mean = ALIKE ? width2 : (width2 + width3) / 2;
            if (!ALIKE && fabs(d) > mean) continue;
            // Estimate the pair's mean mismatch and its change across the pair, well enough to choose a formula.
            double middle = base + row.phases[c2] - row.phases[c3] - PI * d * (row.delays[c2] + row.delays[c3]);
            double slope = row.delays[c2] - row.delays[c3] - PI * d * (row.curvatures[c2] + row.curvatures[c3]);
            double both_wide = mean - fabs(d);
            if (!ALIKE && wider != 0) {  // the middle of what they share is not half way between the centres
                const double shift = 2 * PI * copysign(fmin(fabs(wider) / 4, fabs(d) / 2), d * wider);
                middle += shift * (row.delays[c2] - row.delays[c3]);
                slope += shift * (row.curvatures[c2] - row.curvatures[c3]);
                both_wide = fmin(both_wide, fmin(width2, width3));
            }
            slope *= 2 * PI;
            const double change = fabs(slope * both_wide);
            bool wraps = table.period > 0 && fabs(middle) + change > table.period / 2;
            if (wraps && change < table.period / 2) {
                middle -= rint(middle / table.period) * table.period;
                wraps = fabs(middle) + change > table.period / 2;
            }
            if (both == 0 || (!wraps && fabs(middle) - change > table.negligible)) continue;
            const double area = overlap(d, wider > 0 ? width3 : width2, ALIKE ? areas.data : comb.table(areas, c2, c3));
            // Pairs whose mismatch exceeds its change across the pair are treated as rectangles.
            if (wraps ? change > 8 * table.period : fabs(middle) > change)
                total += both * rectangle(middle, slope * area, area, table);
            else total += both * pair(x, base, comb.centres[c2], d, pulse2, pulse3, row.beta, table, area);
        }
    }
    return total;
}

// out[0] += sum over x of weight P_i(f1) times the integral of P_j(f2) P_j(f2 + x) |mu|^2 df2; out[1] += the same times `slow`.
static void interference(Thread t, Nodes nodes, Comb comb, Counted<const double> areas, Row row_i, Row row_j, Power table,
                         Counted<double> out) {
    const Index columns = nodes.columns();
    const bool alike = comb.rates.count == 1;
    for (Index n = t.first(nodes.f.count); n < t.last(nodes.f.count); ++n) {
        const double here = phase(row_i.beta, nodes.f[n]);
        for (Index i = n * columns; i < (n + 1) * columns; ++i) {
            const double scale = nodes.weight[i] * row_i.density[nodes.channel[i]];
            if (!(scale > 0)) continue;
            const double base = phase(row_i.beta, nodes.f[n] + nodes.alias + nodes.x[i]) - here;
            const double value = scale * (alike ? act<true>(nodes.x[i], base, comb, areas, row_j, table)
                                        : act<false>(nodes.x[i], base, comb, areas, row_j, table));
            out[n] += value;
            out[nodes.f.count + n] += value * nodes.slow[i];
        }
    }
}
EXPORT(interference)

static void power_integrals(Thread, Power table, double mismatch, Counted<double> out) {
    power(table, mismatch).store(out);
}
EXPORT(power_integrals)
