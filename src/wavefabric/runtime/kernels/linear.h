// Linear propagation in a fibre at one frequency: exp(h L) with L = -alpha/2 - i beta1 w + i beta2 w^2/2 - i beta3 w^3/6
// + i beta4 w^4/24 ... (d/dt -> +i w). Coefficients k are alpha, beta1 to beta_orders in SI, four orders or more.
#pragma once

#include "fused.h"

// Angular frequency of bin i of n, rad/s; the Nyquist frequency counts as negative.
FN double frequency(Index i, Index n, double domega) { return domega * (double)(2 * i < n ? i : i - n); }

// Sum over n > `from` of beta_n w^(n - from) (from - less)!/(n - less)!, n up to `orders`: what higher orders add to beta_from in
// the series of beta, or with less = from in its derivative. `k` as above.
FN double higher_orders(const double *k, Index from, Index orders, double w, Index less = 0) {
    double sum = 0;
    for (Index n = orders; n > from; --n) sum = w / (double)(n - less) * (k[n] + sum);
    return sum;
}

FN double transfer_phase(const double *k, Index orders, double w, double h) {
    return h * w * (-k[1] + w * (k[2] / 2 + w * (-k[3] / 6 + w * (k[4] + higher_orders(k, 4, orders, -w)) / 24)));
}

// Magnitude exp(-alpha h/2) of the transfer function over n, the scale that the unscaled inverse transform needs.
FN double transfer_size(const double *k, double h, Index n) { return exp(-0.5 * k[0] * h) / (double)n; }

// Multiply re + i im by a + i b in double precision and round once: factors rounded to single would bias every step the same way.
FN void apply_factor(REAL &re, REAL &im, double a, double b) {
    const double x = re, y = im;
    re = (REAL)fused(x, a, -(y * b));
    im = (REAL)fused(x, b, y * a);
}
