// Macros that pointwise kernels share. One thread per grid point: x along the block, y and z along the grid. A medium
// parameter is a full grid (full = 1) or one row used everywhere (full = 0).

#include "complex.h"

#define IN const REAL *__restrict__
#define FACTOR const Complex *__restrict__

#define POINT(nx, ny)                                                        \
    const int x = blockIdx.x * blockDim.x + threadIdx.x;                     \
    const int y = blockIdx.y, z = blockIdx.z;                                \
    if (x >= nx) return;                                                     \
    const Index i = ((Index)z * ny + y) * nx + x

#define AT(parameter, full) ((parameter)[(full) ? i : (Index)x])

#define LAYERS                                                                                                \
    REAL *part_x, REAL *part_y, REAL *part_z, const int *at_x, const int *at_y, const int *at_z, IN pml_x, \
        IN pml_y, IN pml_z, Index layers_nx, Index layers_ny, Index layers_x, Index layers_y
#define LAYERS_OF                                                                                                 \
    const SplitLayers layers = {part_x, part_y, part_z, at_x,      at_y,     at_z,    pml_x, pml_y, pml_z, layers_nx, \
                                layers_ny, layers_x, layers_y}

#define ITEM(count)                                                          \
    const Index i = (Index)blockIdx.x * blockDim.x + threadIdx.x;            \
    if (i >= count) return
