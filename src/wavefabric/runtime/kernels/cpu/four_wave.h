// Four-wave mixing in theory: spectra of channels, phases, and integrals of a response over the phase mismatch. In double, SI.
#pragma once

#include "../linear.h"
#include "driver.h"

constexpr double PI = 3.141592653589793;
// Knots on a rounded edge of a spectrum, from its foot to the flat part.
constexpr Index EDGE = 2;

// Table of a response at mismatches 0, `step`, 2 `step` ... (1/m), of its integral, and of the integral of that. `period`: in the
// mismatch, or 0; without a period a power is tail/mismatch^2 beyond the table. Mixing beyond the mismatch `negligible` is ignored.
template <class Value> struct Table {
    Counted<const Value> values, once, twice;
    double step, period, tail, negligible;
};
template <class Value>
struct Take<Table<Value>> : Record<Table<Value>, Counted<const Value>, Counted<const Value>, Counted<const Value>, double, double,
                                   double, double> {};

// A row of the field: beta1, beta2 ... (4 orders or more), power over symbol rate, phase, delay and beta2 by channel.
struct Row {
    Counted<const double> beta, density, phases, delays, curvatures;
};
template <>
struct Take<Row> : Record<Row, Counted<const double>, Counted<const double>, Counted<const double>, Counted<const double>,
                          Counted<const double>> {};

// Spectrum of a channel: symbol rate and roll-off of its pulses.
struct Pulse {
    double rate, rolloff;
    double width() const { return rate * (1 + rolloff); }
};

// Points of each table of `overlap`: distances from 0 to the width of the wider spectrum.
constexpr Index OVERLAPS = 1025;

// Channels in ascending order: centres in Hz from the fibre's centre, kind of each one's pulse; symbol rate and roll-off of a kind.
struct Comb {
    Counted<const double> centres;
    Counted<const Index> kinds;
    Counted<const double> rates, rolloffs;
    Pulse pulse(Index channel) const { return {rates[kinds[channel]], rolloffs[kinds[channel]]}; }
    double widest() const {
        double width = 0;
        for (Index k = 0; k < rates.count; ++k) width = fmax(width, Pulse{rates[k], rolloffs[k]}.width());
        return width;
    }
    // The table for `overlap` of two channels among `areas`, (kinds, kinds, OVERLAPS).
    const double *table(Counted<const double> areas, Index one, Index other) const {
        return areas.data + (kinds[one] * rates.count + kinds[other]) * OVERLAPS;
    }
};
template <>
struct Take<Comb>
    : Record<Comb, Counted<const double>, Counted<const Index>, Counted<const double>, Counted<const double>> {};

// Frequencies f (F), and for each the offsets x = f1 - f (F, X), as `wavefabric.optics.theory.sums.Nodes`.
struct Nodes {
    Counted<const double> f, weights;
    Counted<const Index> received;
    Counted<const double> x, weight, slow;
    Counted<const Index> channel;
    double alias;
    Index each, inside;
    Index columns() const { return x.count / f.count; }
};
template <>
struct Take<Nodes>
    : Record<Nodes, Counted<const double>, Counted<const double>, Counted<const Index>, Counted<const double>,
             Counted<const double>, Counted<const double>, Counted<const Index>, double, Index, Index> {};

FN Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
FN Complex operator*(double a, Complex b) { return b * a; }
FN Complex operator/(Complex a, double b) { return {a.re / b, a.im / b}; }
FN double square(double x) { return x * x; }
FN double square(Complex z) { return z.re * z.re + z.im * z.im; }

// beta1 w + beta2 w^2/2 + beta3 w^3/6 + beta4 w^4/24 ... of the optical offset f in Hz.
FN double phase(Counted<const double> beta, double f) {
    const double w = 2 * PI * f;
    return w * (beta[0] + w * (beta[1] / 2 + w * (beta[2] / 6 + w * ((beta[3] + higher_orders(beta.data - 1, 4, beta.count, w)) / 24))));
}

// Raised-cosine spectrum of a channel at f Hz from its centre; 1 in the flat part, whose ends belong to it if there are no edges.
FN double raised_cosine(double f, Pulse pulse) {
    const double edge = pulse.rolloff > 1e-9 ? pulse.rolloff : 1e-9, roll = (fabs(f) / pulse.rate - (1 - pulse.rolloff) / 2) / edge;
    return roll <= 0 ? 1.0 : roll >= 1 ? 0.0 : 0.5 + 0.5 * cos(PI * roll);
}

// Value of a response, its integral, and the integral of its integral.
template <class Value> struct Integrals {
    Value value, once, twice;
    void store(Counted<Value> out) const { out[0] = value, out[1] = once, out[2] = twice; }
};

// Value and integrals at the mismatch `size` of a table, by cubics with known slopes.
template <class Value> FN Integrals<Value> within(const Table<Value> &table, double size) {
    const double step = table.step;
    Index cell = (Index)(size / step);
    if (cell > table.values.count - 2) cell = table.values.count - 2;
    const double t = size / step - (double)cell;
    const Value first = table.values[cell], final = table.values[cell + 1];
    const Value low = table.once[cell], high = table.once[cell + 1];
    Value rise = (high - low) / step;
    const Value bend = 3.0 * rise - 2.0 * first - final, end = first + final - 2.0 * rise;
    const Value once = low + step * t * (first + t * (bend + t * end));
    rise = (table.twice[cell + 1] - table.twice[cell]) / step;
    const Value twice = low + t * (3.0 * rise - 2.0 * low - high + t * (low + high - 2.0 * rise));
    return {first + t * (2.0 * bend + 3.0 * t * end), once, table.twice[cell] + step * t * twice};
}

// Knot k of a band from `low` to `high`: EDGE steps up, `inner` along the flat part, EDGE down.
FN double knot(Index k, double low, double high, double edge, Index inner) {
    if (k <= EDGE) return low + edge * (double)k / (double)EDGE;
    if (k >= EDGE + inner) return high - edge * (double)(2 * EDGE + inner - k) / (double)EDGE;
    return low + edge + (high - low - 2 * edge) * (double)(k - EDGE) / (double)inner;
}

// Integral of the product of two channels' spectra d Hz apart, interpolated from `areas` at 0 ... `width`, that of the wider one.
FN double overlap(double d, double width, const double *areas) {
    const double t = fabs(d) / width * (double)(OVERLAPS - 1);
    Index cell = (Index)t;
    if (cell > OVERLAPS - 2) cell = OVERLAPS - 2;
    return areas[cell] + (t - (double)cell) * (areas[cell + 1] - areas[cell]);
}
