// The parts into which the density is split inside the perfectly matched layers; see split_density.py.

#include "acoustics.h"

struct SplitLayers {
    REAL *x, *y, *z;
    const int *at_x, *at_y, *at_z;        // position of a grid index among the points of the axis' layers, -1 outside
    const REAL *pml_x, *pml_y, *pml_z;
    long long nx, ny, layers_x, layers_y;  // points along x and y: of the grid, of the layers
};

struct Inside {  // positions of a point in the layers of each axis, -1 outside
    int x, y, z;
    __device__ __forceinline__ bool any() const { return x >= 0 || y >= 0 || z >= 0; }
};

__device__ __forceinline__ REAL *part_x(const SplitLayers &s, Inside in, int y, int z) {
    return s.x + (z * s.ny + y) * s.layers_x + in.x;
}
__device__ __forceinline__ REAL *part_y(const SplitLayers &s, Inside in, int x, int z) {
    return s.y + (z * s.layers_y + in.y) * s.nx + x;
}
__device__ __forceinline__ REAL *part_z(const SplitLayers &s, Inside in, int x, int y) {
    return s.z + (in.z * s.ny + y) * s.nx + x;
}

__device__ __forceinline__ Inside inside(const SplitLayers &s, int x, int y, int z) {
    return {s.at_x[x], s.at_y[y], s.at_z[z]};
}

__device__ __forceinline__ Parts load_parts(const SplitLayers &s, Inside in, int x, int y, int z) {
    return {in.x >= 0 ? *part_x(s, in, y, z) : (REAL)0, in.y >= 0 ? *part_y(s, in, x, z) : (REAL)0,
            in.z >= 0 ? *part_z(s, in, x, y) : (REAL)0};
}

__device__ __forceinline__ void store_parts(const SplitLayers &s, Inside in, int x, int y, int z, Parts p) {
    if (in.x >= 0) *part_x(s, in, y, z) = p.x;
    if (in.y >= 0) *part_y(s, in, x, z) = p.y;
    if (in.z >= 0) *part_z(s, in, x, y) = p.z;
}

// Whether all parts are stored at a point: the total is then their sum, so that rounding errors do not accumulate.
__device__ __forceinline__ bool keeps_all(Inside in, int axes) {
    return in.x >= 0 && (in.y >= 0 || axes < 2) && (in.z >= 0 || axes < 3);
}
__device__ __forceinline__ REAL total_of(Parts parts) { return parts.x + parts.y + parts.z; }

// Advance the parts at a point by one step and return the total. `flow`: mass times du along each axis, 0 for missing axes.
__device__ __forceinline__ REAL advance(const SplitLayers &s, Inside in, int x, int y, int z, REAL total, Parts flow,
                                        Parts &parts, int axes) {
    const Parts f = {in.x >= 0 ? s.pml_x[x] : (REAL)1, in.y >= 0 ? s.pml_y[y] : (REAL)1, in.z >= 0 ? s.pml_z[z] : (REAL)1};
    return advance(total, flow, f, parts, in.x >= 0, in.y >= 0, in.z >= 0, axes > 1, axes > 2);
}

// Set each of the `parts` parts of the density at one point to `value`, or add `value` to each.
__device__ __forceinline__ void put_density(const SplitLayers &s, REAL &total, int x, int y, int z, REAL value, bool replace,
                                            REAL parts) {
    total = (replace ? (REAL)0 : total) + parts * value;
    const Inside in = inside(s, x, y, z);
    if (!in.any()) return;
    Parts p = {value, value, value};
    if (!replace) {
        const Parts before = load_parts(s, in, x, y, z);
        p = {before.x + value, before.y + value, before.z + value};
    }
    store_parts(s, in, x, y, z, p);
}
