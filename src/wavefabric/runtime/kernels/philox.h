// Philox-4x32-10: four random words from a 128-bit counter and a 64-bit key, and normal numbers from them. J. K. Salmon et al.,
// "Parallel random numbers: as easy as 1, 2, 3", SC11 (2011), doi:10.1145/2063384.2063405; constants of the Random123 library.
#pragma once

#include "point.h"

typedef unsigned int u32;
typedef unsigned long long u64;

struct RandomWords {
    u32 w0, w1, w2, w3;
};

FN RandomWords philox(u64 index, u64 high, u64 key) {
    u32 c0 = (u32)index, c1 = (u32)(index >> 32), c2 = (u32)high, c3 = (u32)(high >> 32);
    u32 k0 = (u32)key, k1 = (u32)(key >> 32);
    for (int round = 0; round < 10; ++round) {
        const u64 p0 = 0xD2511F53ull * c0, p1 = 0xCD9E8D57ull * c2;
        c0 = (u32)(p1 >> 32) ^ c1 ^ k0;
        c1 = (u32)p1;
        c2 = (u32)(p0 >> 32) ^ c3 ^ k1;
        c3 = (u32)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return {c0, c1, c2, c3};
}

// Integer of 53 bits, 0 ... 2^53 - 1, from two random words.
FN double bits53(u32 a, u32 b) { return (double)((u64)(a >> 5) << 26 | (u64)(b >> 6)); }

// Two uniform numbers of 53 bits: `height` in (0, 1], so that its logarithm is finite, and `turn` in [0, 1).
struct Uniform {
    double height, turn;
};
FN Uniform uniform(u64 index, u64 high, u64 key) {
    const double scale = 1.0 / 9007199254740992.0;  // 2^-53
    const RandomWords w = philox(index, high, key);
    return {(bits53(w.w0, w.w1) + 1.0) * scale, bits53(w.w2, w.w3) * scale};
}

// Circular complex Gaussian, E|n|^2 = sigma^2, by the method of Box and Muller (1958), doi:10.1214/aoms/1177706645, in double.
struct Normal {
    double re, im;
};
FN Normal complex_normal(double sigma, Uniform u) {
    const double radius = sigma * sqrt(-log(u.height));
#ifdef __CUDACC__
    double s, c;
    sincospi(2.0 * u.turn, &s, &c);
#else
    const double angle = 6.283185307179586 * u.turn, s = sin(angle), c = cos(angle);
#endif
    return {radius * c, radius * s};
}
