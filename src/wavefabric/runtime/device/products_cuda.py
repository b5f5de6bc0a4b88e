"""Multiply matrices with cuBLAS; names and argument order are those of ``products.py``."""

import cupy
import numpy as np
from cupy.cuda import cublas

# From cuBLAS's headers: cudaDataType_t of the elements and cublasComputeType_t, by arithmetic.
_R_32F, _R_16BF = 0, 14
_COMPUTE_32F, _COMPUTE_32F_FAST_TF32 = 68, 77
_KINDS = {
    "fp32": (_R_32F, _COMPUTE_32F),
    "tf32": (_R_32F, _COMPUTE_32F_FAST_TF32),
    "bf16": (_R_16BF, _COMPUTE_32F),
}
_GEMM_DEFAULT = -1


class ProductKernels:
    """Provides the functions of ``products.py`` on one CUDA device; bf16 values are stored as uint16."""

    def __init__(self, device):
        self._one, self._zero = np.ones(1, np.float32), np.zeros(1, np.float32)

    def random_matrix(self, shape, arithmetic):
        values = cupy.random.default_rng(0).standard_normal(shape, np.float32)
        if arithmetic != "bf16":
            return values
        return (values.view(np.uint32) >> 16).astype(np.uint16)

    def multiply(self, a, b, out, arithmetic, transpose_a=False, transpose_b=False):
        (m, n), k = out.shape, a.shape[0 if transpose_a else 1]
        kind, compute = _KINDS[arithmetic]
        # cuBLAS is column-major, so every matrix appears transposed: outᵀ = bᵀ aᵀ.
        cublas.gemmEx(
            *(cupy.cuda.get_cublas_handle(), int(transpose_b), int(transpose_a), n, m, k),
            *(self._one.ctypes.data, b.data.ptr, kind, b.shape[1], a.data.ptr, kind, a.shape[1]),
            *(self._zero.ctypes.data, out.data.ptr, kind, out.shape[1], compute, _GEMM_DEFAULT),
        )


#: Class that `Device.kernels` uses on a GPU.
KERNELS = ProductKernels
