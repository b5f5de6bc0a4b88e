// Macros and types of formulas that NVRTC compiles for GPUs and a C++ compiler for CPUs. REAL is float or double.
#pragma once

#ifdef __CUDACC__
#define FN __device__ __forceinline__
#else
#include <math.h>
#define FN static inline __attribute__((always_inline))
#endif

typedef long long Index;
