// Fused multiply-add that formulas call by name, so that results do not depend on which operations a compiler fuses.
#pragma once

#include "point.h"

// a b + c, rounded once; twice on processors without the instruction, where calls of a library would be fifty times as slow.
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
