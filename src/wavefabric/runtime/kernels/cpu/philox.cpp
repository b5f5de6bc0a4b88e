// Random numbers: element i of a sequence depends only on the seed, the stream and i + offset.
#include "../philox.h"

#include "driver.h"

static void write_block(u32 *out, RandomWords w) {
    out[0] = w.w0;
    out[1] = w.w1;
    out[2] = w.w2;
    out[3] = w.w3;
}

static void philox_uint32(Thread t, Counted<u32> out, u64 seed, u64 stream, u64 offset) {
    Index i = t.first(out.count);
    const Index end = t.last(out.count);
    while (i < end) {
        const u64 at = offset + (u64)i;
        if ((at & 3) == 0 && i + 4 <= end) {
            const Index blocks = (end - i) / 4;
            u32 *first = out.data + i;
            EACH(b, 0, blocks) write_block(first + 4 * b, philox((at >> 2) + (u64)b, stream, seed));
            i += 4 * blocks;
            continue;
        }
        u32 block[4];
        write_block(block, philox(at >> 2, stream, seed));
        out[i++] = block[at & 3];
    }
}
EXPORT(philox_uint32)

static void add_complex_normal(Thread t, Counted<Complex> out, double sigma, u64 seed, u64 stream, u64 offset) {
    constexpr Index MOST = 64;  // uniform numbers per loop, which the compiler vectorises
    double height[MOST], turn[MOST];
    for (Index first = t.first(out.count); first < t.last(out.count); first += MOST) {
        const Index left = t.last(out.count) - first, count = left < MOST ? left : MOST;
        EACH(i, 0, count) {
            const Uniform u = uniform(offset + (u64)(first + i), stream, seed);
            height[i] = u.height;
            turn[i] = u.turn;
        }
        Complex *to = out.data + first;
        for (Index i = 0; i < count; ++i) {
            const Normal n = complex_normal(sigma, {height[i], turn[i]});
            to[i] = {(REAL)((double)to[i].re + n.re), (REAL)((double)to[i].im + n.im)};
        }
    }
}
EXPORT(add_complex_normal)
