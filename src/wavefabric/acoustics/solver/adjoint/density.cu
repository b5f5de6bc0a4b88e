// Transpose of the density update at one point on a GPU: loads and stores around `transposed` of adjoint.h.

#include "adjoint.h"

// Forward density before and after a step, with its parts inside layers.
struct Densities {
    const REAL *before, *before_x, *before_y, *before_z, *after, *after_x, *after_y, *after_z;
    __device__ __forceinline__ SplitLayers layers(SplitLayers s, const REAL *x, const REAL *y, const REAL *z) const {
        s.x = (REAL *)x;
        s.y = (REAL *)y;
        s.z = (REAL *)z;
        return s;
    }
    __device__ __forceinline__ SplitLayers first(const SplitLayers &s) const {
        return layers(s, before_x, before_y, before_z);
    }
    __device__ __forceinline__ SplitLayers second(const SplitLayers &s) const {
        return layers(s, after_x, after_y, after_z);
    }
};

// Apply `transposed` at one point: `bar` is the derivative with respect to the total, `rho0` the ambient density.
__device__ __forceinline__ Parts transpose_point(const SplitLayers &s, Index i, int x, int y, int z, REAL &bar, REAL rate,
                                                 REAL rho0, const Densities &d, REAL dt, bool nonlinear, bool differs,
                                                 REAL &density_bar) {
    const Inside in = inside(s, x, y, z);
    Parts parts = load_parts(s, in, x, y, z);
    const Parts f = {in.x >= 0 ? s.pml_x[x] : (REAL)1, in.y >= 0 ? s.pml_y[y] : (REAL)1, in.z >= 0 ? s.pml_z[z] : (REAL)1};
    Change change = {nonlinear || differs ? d.before[i] : (REAL)0, differs ? d.after[i] : (REAL)0, {0, 0, 0}, {0, 0, 0}};
    if (differs && in.any()) {
        change.parts_before = load_parts(d.first(s), in, x, y, z);
        change.parts_after = load_parts(d.second(s), in, x, y, z);
    }
    const Parts flows = transposed(bar, parts, f, in.x >= 0, in.y >= 0, in.z >= 0, rate, rho0, change, dt, nonlinear, differs,
                                   density_bar);
    if (in.any()) store_parts(s, in, x, y, z, parts);
    return flows;
}
