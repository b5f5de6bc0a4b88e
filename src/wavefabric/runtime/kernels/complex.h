// Complex numbers of spectra.
#pragma once

#include "point.h"

struct Complex {
    REAL re, im;
};

FN Complex operator*(Complex a, Complex b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
FN Complex operator*(Complex a, REAL b) { return {a.re * b, a.im * b}; }
FN Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
