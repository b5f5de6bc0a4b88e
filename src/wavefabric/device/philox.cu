// Philox4x32-10, the CUDA twin of philox.py: same names, same numbers to round-off.
// Launch: one-dimensional grid-stride loops, any grid and block size are right.
// Needs no header; the arguments are those of philox.py, each array followed by its size.

typedef unsigned int u32;
typedef unsigned long long u64;

struct Words { u32 w0, w1, w2, w3; };

static __device__ __forceinline__ Words philox_block(u64 index, u64 high, u64 key)
{
    u32 c0 = (u32)index, c1 = (u32)(index >> 32), c2 = (u32)high, c3 = (u32)(high >> 32);
    u32 k0 = (u32)key, k1 = (u32)(key >> 32);
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        const u32 h0 = __umulhi(0xD2511F53u, c0), l0 = 0xD2511F53u * c0;
        const u32 h1 = __umulhi(0xCD9E8D57u, c2), l1 = 0xCD9E8D57u * c2;
        c0 = h1 ^ c1 ^ k0;
        c1 = l1;
        c2 = h0 ^ c3 ^ k1;
        c3 = l0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    const Words words = {c0, c1, c2, c3};
    return words;
}

// 53 bits of two words.
static __device__ __forceinline__ u64 bits53(u32 a, u32 b)
{
    return (u64)(a >> 5) << 26 | (u64)(b >> 6);
}

static __device__ __forceinline__ double2 complex_normal(u64 index, double sigma, u64 seed, u64 stream)
{
    const double scale = 1.0 / 9007199254740992.0;  // 2^-53
    const Words w = philox_block(index, stream, seed);
    const double radius = sigma * sqrt(-log((double)(bits53(w.w0, w.w1) + 1) * scale));
    double s, c;
    sincospi(2.0 * ((double)bits53(w.w2, w.w3) * scale), &s, &c);
    double2 n;
    n.x = radius * c;
    n.y = radius * s;
    return n;
}

extern "C" __global__ void philox_uint32(u32* out, long long n, u64 seed, u64 stream, u64 offset)
{
    const long long stride = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
        const u64 at = offset + (u64)i;
        const Words w = philox_block(at >> 2, stream, seed);
        const u32 word = (u32)at & 3u;
        out[i] = word == 0 ? w.w0 : word == 1 ? w.w1 : word == 2 ? w.w2 : w.w3;
    }
}

extern "C" __global__ void add_complex_normal_f64(double2* out, long long n, double sigma,
                                                  u64 seed, u64 stream, u64 offset)
{
    const long long stride = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
        const double2 g = complex_normal(offset + (u64)i, sigma, seed, stream);
        out[i].x += g.x;
        out[i].y += g.y;
    }
}

extern "C" __global__ void add_complex_normal_f32(float2* out, long long n, double sigma,
                                                  u64 seed, u64 stream, u64 offset)
{
    const long long stride = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
        const double2 g = complex_normal(offset + (u64)i, sigma, seed, stream);
        // As Numba rounds it: add in double, then to single.
        out[i].x = (float)((double)out[i].x + g.x);
        out[i].y = (float)((double)out[i].y + g.y);
    }
}
