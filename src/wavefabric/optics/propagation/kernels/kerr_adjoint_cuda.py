"""Launches of ``kerr_adjoint.cu``: names and argument order of ``kerr_adjoint.py``."""

from wavefabric.optics.propagation.kernels.kerr_cuda import CudaKerrLayout

#: Shared arrays of phase groups that an operator's adjoint uses, unless it is 7.
_ARRAYS = {"turn": 4, "rotate_rk4": 10}


class CudaKerrAdjointLayout(CudaKerrLayout):
    """γκ of a `PhaseGroupCoupling` and its transpose as the adjoint kernels read them, and their module."""

    source, arrays = "kerr_adjoint.cu", 10

    def __init__(self, device, coupling, n: int, dtype):
        super().__init__(device, coupling, n, dtype)
        self.back = CudaKerrLayout(device, coupling.transposed, n, dtype)


class KerrAdjointKernels:
    """The kernels of ``kerr_adjoint.py`` on one CUDA device."""

    KerrAdjointLayout = CudaKerrAdjointLayout

    def __init__(self, device):
        self._device = device

    def kerr_adjoint(self, operator, A, Y, h, factors, rates, layout):
        arguments = A, Y, float(h), factors, rates, layout.back.struct
        layout.launch(f"kerr_adjoint_{operator.name}", _ARRAYS.get(operator.name, 7), *arguments)


#: What `Device.kernels` makes on a GPU.
KERNELS = KerrAdjointKernels
