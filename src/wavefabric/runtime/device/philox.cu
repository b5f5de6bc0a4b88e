// Kernels that make random numbers; arguments as in philox.py. Grid-stride loops: any grid and block size is correct.
#include "complex.h"
#include "philox.h"

#define EACH(i, n)                                                                                  \
    for (Index i = (Index)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (Index)gridDim.x * blockDim.x)

extern "C" __global__ void philox_uint32(u32 *out, Index n, u64 seed, u64 stream, u64 offset) {
    EACH(i, n) {
        const u64 at = offset + (u64)i;
        const RandomWords w = philox(at >> 2, stream, seed);
        const u32 word = (u32)at & 3u;
        out[i] = word == 0 ? w.w0 : word == 1 ? w.w1 : word == 2 ? w.w2 : w.w3;
    }
}

extern "C" __global__ void add_complex_normal(Complex *out, Index n, double sigma, u64 seed, u64 stream, u64 offset) {
    EACH(i, n) {
        const Normal g = complex_normal(sigma, uniform(offset + (u64)i, stream, seed));
        out[i] = {(REAL)((double)out[i].re + g.re), (REAL)((double)out[i].im + g.im)};
    }
}
