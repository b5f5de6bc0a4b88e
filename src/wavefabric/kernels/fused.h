// A product and a sum rounded once, where formulas ask for it by name: no compiler chooses the bits.
#pragma once

#include "point.h"

// a b + c; rounded twice on processors without an instruction for it, where each call would go to a library, fifty times as slow.
#if defined(__CUDACC__)
FN float fused(float a, float b, float c) { return fmaf(a, b, c); }
FN double fused(double a, double b, double c) { return fma(a, b, c); }
#elif defined(__FMA__) || defined(__ARM_FEATURE_FMA)
FN float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
FN double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }
#else
FN float fused(float a, float b, float c) { return a * b + c; }
FN double fused(double a, double b, double c) { return a * b + c; }
#endif
