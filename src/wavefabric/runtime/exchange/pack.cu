// Kernels that copy boxes of fields to and from a linear buffer; see pack.py. TYPE: type of a value (real, or a complex
// number as a vector of two). WEIGHTED: whether values are real and may be multiplied by weights of type WEIGHT.

struct Row {
    long long first[3], size[3], at;
};

// Call use(z, y, x, number in the box) for all points of a box; the blocks along x of the grid share the lines of the box.
template <class Use> __device__ __forceinline__ void for_box(const Row &row, Use use) {
    const unsigned lx = row.size[2], ly = row.size[1], lines = ly * (unsigned)row.size[0];
    // blockDim.x threads work along x, blockDim.y threads on different lines.
    for (unsigned line = blockIdx.x * blockDim.y + threadIdx.y; line < lines; line += gridDim.x * blockDim.y) {
        const unsigned z = line / ly, y = line - z * ly;
        for (unsigned x = threadIdx.x; x < lx; x += blockDim.x) use(z, y, x, (long long)line * lx + x);
    }
}

__device__ __forceinline__ long long offset(const Row &row, long long ny, long long nx, unsigned z, unsigned y, unsigned x) {
    return ((row.first[0] + z) * ny + row.first[1] + y) * nx + row.first[2] + x;
}

// Copy a box of a field to a part of a buffer.
__device__ __forceinline__ void box_out(TYPE *part, const TYPE *field, const Row &row, long long ny, long long nx) {
    for_box(row, [&](unsigned z, unsigned y, unsigned x, long long at) { part[at] = field[offset(row, ny, nx, z, y, x)]; });
}

// Store value(z, y, x, number in the box), times the weights if any, in a box of a field.
template <class Value>
__device__ __forceinline__ void box_in(TYPE *field, const Row &row, long long ny, long long nx, const WEIGHT *wz,
                                       const WEIGHT *wy, const WEIGHT *wx, Value value) {
    for_box(row, [&](unsigned z, unsigned y, unsigned x, long long at) {
        TYPE result = value(z, y, x, at);
#if WEIGHTED
        if (wz) result *= wz[row.first[0] + z] * wy[row.first[1] + y] * wx[row.first[2] + x];
#endif
        field[offset(row, ny, nx, z, y, x)] = result;
    });
}

// Copy a part of a buffer, which another GPU may have written, to a box of a field, times the weights if any.
__device__ __forceinline__ void box_in(const TYPE *part, TYPE *field, const Row &row, long long ny, long long nx,
                                       const WEIGHT *wz, const WEIGHT *wy, const WEIGHT *wx) {
    box_in(field, row, ny, nx, wz, wy, wx,
           [&](unsigned, unsigned, unsigned, long long at) { return __ldcg(part + at); });
}

__device__ __forceinline__ long long volume(const Row &row) { return row.size[0] * row.size[1] * row.size[2]; }

// Grid: one message per blockIdx.y, one field per blockIdx.z; threads take values in the order of the buffer.
extern "C" __global__ void pack(TYPE *const *fields, const Row *table, long long ny, long long nx, TYPE *buffer) {
    const Row row = table[blockIdx.y];
    box_out(buffer + row.at + blockIdx.z * volume(row), fields[blockIdx.z], row, ny, nx);
}

extern "C" __global__ void unpack(TYPE *const *fields, const Row *table, long long ny, long long nx, TYPE *buffer,
                                  const WEIGHT *wz, const WEIGHT *wy, const WEIGHT *wx) {
    const Row row = table[blockIdx.y];
    box_in(buffer + row.at + blockIdx.z * volume(row), fields[blockIdx.z], row, ny, nx, wz, wy, wx);
}

// Copy boxes of `sources` to boxes of `fields`, message by message; `ry` and `rx`: sizes of the sources along y and x.
extern "C" __global__ void copy(TYPE *const *fields, const Row *table, long long ny, long long nx,
                                const TYPE *const *sources, const Row *source_table, long long ry, long long rx,
                                const WEIGHT *wz, const WEIGHT *wy, const WEIGHT *wx) {
    const Row from = source_table[blockIdx.y];
    const TYPE *const source = sources[blockIdx.z];
    box_in(fields[blockIdx.z], table[blockIdx.y], ny, nx, wz, wy, wx,
           [&](unsigned z, unsigned y, unsigned x, long long) { return source[offset(from, ry, rx, z, y, x)]; });
}
