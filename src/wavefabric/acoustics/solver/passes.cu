// What the passes of the fused time step share, and what a step knows of a medium; see axis_passes_cuda.py.
// Real grids are (NZ, NY, NX), spectra (NZ, NY, HALF), their rows padded to PITCH, whole cache lines; the formulas
// are those of row_kernels.py. Spectra hold F{u_y} or d/dy in s0, x in s2, z in s1; the derivatives dx, dy, dz
// carry the 1/N of the transforms. WITH_X, WITH_Y, WITH_Z: axes that are transformed here.

#define HALF (NX / 2 + 1)
#define ROWS ((Index)NY * NZ)
#define INLINE __device__ __forceinline__
// At least so many blocks a multiprocessor must find registers: one loads while another computes.
#define PASS_OF(axis, blocks) extern "C" __global__ void __launch_bounds__(P##axis *T##axis, blocks)
#define PASS(axis) PASS_OF(axis, B##axis)
#define TABLE const Complex *__restrict__
#define REALS const REAL *__restrict__
extern __shared__ __align__(16) char memory[];
