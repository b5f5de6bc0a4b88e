// Mixing of modes: products of rows of a field and a unitary matrix, with sums in double precision.
#pragma once

#include "fused.h"

// (re, im) += (u + i v) (x + i y)
FN void add_product(double &re, double &im, double u, double v, double x, double y) {
    re = fused(u, x, fused(-v, y, re));
    im = fused(u, y, fused(v, x, im));
}
