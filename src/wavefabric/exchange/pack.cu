// Boxes of fields to and from a linear buffer; see pack.py. TYPE is the type of a value (real, or a complex
// number as a vector of two), WEIGHTED whether it is real and may be multiplied by the weights WEIGHT.

struct Row {
    long long first[3], size[3], at;
};

// One message a layer of blocks (y), one field a layer (z); threads take values in the order of the buffer.
template <int OUT>
__device__ __forceinline__ void move(TYPE *buffer, TYPE *const *fields, const Row *table, long long ny, long long nx,
                                     const WEIGHT *wz, const WEIGHT *wy, const WEIGHT *wx) {
    const Row row = table[blockIdx.y];
    TYPE *field = fields[blockIdx.z];
    const unsigned lx = row.size[2], ly = row.size[1], lines = ly * (unsigned)row.size[0];
    const long long volume = (long long)lines * lx;
    TYPE *part = buffer + row.at + blockIdx.z * volume;
    // blockDim = (lanes along x, lines).
    for (unsigned line = blockIdx.x * blockDim.y + threadIdx.y; line < lines; line += gridDim.x * blockDim.y) {
        const unsigned z = line / ly, y = line - z * ly;
        const long long from = ((row.first[0] + z) * ny + row.first[1] + y) * nx + row.first[2];
        const long long to = (long long)line * lx;
        for (unsigned x = threadIdx.x; x < lx; x += blockDim.x) {
            if (OUT) {
                part[to + x] = field[from + x];
            } else {
                TYPE value = part[to + x];
#if WEIGHTED
                if (wz) value *= wz[row.first[0] + z] * wy[row.first[1] + y] * wx[row.first[2] + x];
#endif
                field[from + x] = value;
            }
        }
    }
}

extern "C" __global__ void pack(TYPE *buffer, TYPE *const *fields, const Row *table, long long ny, long long nx) {
    move<1>(buffer, fields, table, ny, nx, nullptr, nullptr, nullptr);
}

extern "C" __global__ void unpack(TYPE *buffer, TYPE *const *fields, const Row *table, long long ny, long long nx,
                                  const WEIGHT *wz, const WEIGHT *wy, const WEIGHT *wx) {
    move<0>(buffer, fields, table, ny, nx, wz, wy, wx);
}
