"""Declare and launch the CPU kernels of Kerr operators, transfer functions and norms.

The formulas are in `wavefabric.runtime.kernels`; the CUDA kernels have the same names and argument order.

A field ``A`` is (rows, N), C-contiguous, complex64 or complex128, √W. Rows of one *phase group* are
contiguous and share a Kerr phase: the phase rate of group g is Σ_d γκ_gd P_d in rad/m, P_d the power of all
rows of group d. Steps ``h`` are in metres.

On one rank an operator is one kernel (`CpuKerrKernels.kerr`). On several ranks an operator is split where
powers of groups are exchanged: `kerr_begin`, `couple`, `kerr_advance` and `kerr_update` do one part each, for
samples ``t0`` to ``t0 + m`` of the field (a *chunk*); arrays over groups are then (local groups, m),
C-contiguous, real. A group split between ranks has a part on each rank, with the sums over that rank's rows;
these sums are added when phases are computed.

Kernels without a method below:

- ``kerr_phase_rate``: rate[g, t] = Σ_d γκ_gd P_d, rad/m, for every group; ``rate`` is (groups, N), real.
- ``rotate_mean``: A = exp(i h (rate0 + rate1)/2) H, with rates from ``kerr_phase_rate``.
- ``couple``: out = matrix @ part if ``first``, else out += matrix @ part. ``out`` (local groups, m) in rad/m,
  ``part`` (groups of one rank, m) in W, ``matrix`` γκ between them, rad/(W m).
- ``transfer_table``: exp(h L̂(ω))/N, where 1/N normalises the unscaled transforms. ``table`` (table rows, N)
  complex128; ``coefficients`` (table rows, 1 + orders): α, β1, β2, … (4 orders or more) in SI; ``domega``
  in rad/s. L̂ = −α/2 − iβ1ω + iβ2ω²/2 − iβ3ω³/6 + iβ4ω⁴/24 … (∂/∂t → +iω).
- ``row_energy``: out[r] = Σ_t |A[r, t]|², W × samples, float64; NaN if the row contains NaN.
  ``row_distance``: out[r] = Σ_t |A[r, t] − B[r, t]|².
"""

from typing import Any

import numpy as np

from wavefabric.optics.propagation.kernels import ADJOINTS, KerrOperator
from wavefabric.optics.propagation.phase_groups import PhaseGroupCoupling
from wavefabric.runtime.kernels.cpu_launch import address
from wavefabric.runtime.kernels.table import kernel_table

#: Bytes of one tile of one field: two fields and the sums stay in the second-level cache.
TILE_BYTES = 1 << 18
#: Largest number of samples of a tile, as in ``kerr.cpp``.
MOST_SAMPLES = 256
#: Kernels that callers launch directly, without a Python method around them.
_AS_THEY_ARE = "kerr_phase_rate", "rotate_mean", "couple", "transfer_table", "row_energy", "row_distance"
#: Scratch values per group and sample: power, phase rate, low-rank product, and numbers of an operator.
_ARRAYS = 8
_OPERATORS = "derivative", "rotate", "rotate_rk4", "rk4ip_middle", "rk4ip_last"
_OF_AN_OPERATOR = """
    items kerr_{0}(columns array A, array K, double h, optional doubles errors, coupling layout)
    items begin_{0}(columns array A, array K, int t0, double h, columns array power, array numbers, groups
        layout)
    items advance_{0}(int stage, counted array rate, double h, array power, array numbers, array out)
    items update_{0}(columns array A, array K, int t0, columns array rate, double h, array numbers, optional
        doubles errors, groups layout)
"""
_OF_AN_ADJOINT = """
    items kerr_adjoint_{0}(columns array A, array Y, double h, array factors, array slope, coupling layout,
        coupling transposed)
"""
_OTHERS = """
    items kerr_phase_rate(columns array A, array rate, coupling layout)
    items rotate_mean(columns array H, array A, array rate0, array rate1, double h, coupling layout)
    items max_phase_rate(columns array A, doubles most, coupling layout)
    items couple(shape array out, rows array part, array matrix, int first)
    items max_rate(counted array theta, doubles most)
    items transfer_table(shape doubles table, columns doubles coefficients, double domega, double h)
    items row_energy(shape array A, doubles out)
    items row_distance(shape array A, array B, doubles out)
"""
_TEXT = [_OF_AN_OPERATOR.format(name) for name in _OPERATORS]
_TEXT += [_OF_AN_ADJOINT.format(name) for name in ADJOINTS]
TABLE = kernel_table("".join(_TEXT) + _OTHERS, __package__ or "", "kerr.cu")


def tile_samples(bytes_a_sample: int) -> int:
    """Return the samples in a tile of about `TILE_BYTES`: a multiple of 16 from 16 to `MOST_SAMPLES`."""
    return int(min(max(TILE_BYTES // bytes_a_sample // 16 * 16, 16), MOST_SAMPLES))


class KerrChunkLayout:
    """Describes a rank's phase groups for kernels that process chunks of samples.

    ``start`` has the first row of each group; its last element is the number of rows.
    """

    def __init__(self, device, start, n: int, dtype):
        self.start = np.ascontiguousarray(start, np.int64)
        self.tile = tile_samples(int(self.start[-1]) * np.dtype(dtype).itemsize)
        self.errors = np.zeros(-(-n // self.tile))
        #: Arguments that kernels receive in place of this object.
        self.words: tuple[int, ...] = address(self.start), self.start.size - 1, self.tile


class KerrLayout(KerrChunkLayout):
    """Holds γκ between phase groups, and scratch memory, for one rank's kernels; rows have ``n`` samples."""

    def __init__(self, device, coupling: PhaseGroupCoupling, n: int, dtype):
        super().__init__(device, coupling.start, n, dtype)
        real = np.finfo(dtype).dtype
        matrices = *coupling.blocks, coupling.left, coupling.right
        self.matrices = [np.array(matrix, real, order="C") for matrix in matrices]
        tall = max(coupling.groups, coupling.rank)
        self._scratch = device.empty((device.threads, _ARRAYS, tall, self.tile), real)
        self.words += (*map(address, self.matrices), coupling.rank, _ARRAYS, tall, address(self._scratch))


class CpuKerrKernels:
    """Provides the kernels of Kerr operators, transfer functions and norms on one CPU device."""

    KerrLayout = KerrLayout
    KerrChunkLayout = KerrChunkLayout

    def __init__(self, device):
        self._kernels: Any = device.kernels(TABLE)
        self._most = np.zeros(device.threads)
        for name in _AS_THEY_ARE:
            setattr(self, name, getattr(self._kernels, name))

    # --- one rank ------------------------------------------------------------------------------------

    def kerr(self, operator: KerrOperator, A, K, h, layout, error=None):
        """Apply a Kerr operator in place to fields ``A`` and ``K``, or to ``A`` twice if it has one field.

        - ``derivative``: K = N̂(A) A = i (γκ|A|²) A, √W/m.
        - ``rotate``: A ← exp(i h γκ|A|²) A: the exact flow of N̂ over h, since |A|² is invariant under it.
        - ``rotate_rk4``: A ← the classical Runge–Kutta (RK4) approximation of that flow. Every stage is A
          times one complex number per group, so it needs only the powers of groups.
        - ``rk4ip_middle``: stages k2 and k3 of RK4IP, eq. (6c, 6d), and the sums that the last transforms
          need. In: A = A_I and K = k1/h. Out: A ← A_I + k3 and K ← A_I + k1/6 + k2/3 + k3/3.
        - ``rk4ip_last``: stage k4 of RK4IP, eq. (6e, 6f), and the first stage of the next step. In: A = the
          argument of k4, K = the propagated sum of (6f). Out: A ← K + k4/6, the new field; K ← N̂(A)A.
          ``error`` (float64, one element) receives Σ|h (k4/h − N̂(A)A)/10|², the squared local error of the
          embedded third-order solution (Balac & Mahé 2013, doi 10.1016/j.cpc.2012.12.020).
        """
        errors = None if error is None else layout.errors
        getattr(self._kernels, f"kerr_{operator.name}")(A, K, h, errors, layout)
        if error is not None:
            # Sum by tiles, not by threads: so the sum does not depend on the number of threads.
            error[0] = layout.errors.sum()

    def kerr_adjoint(self, name: str, A, Y, h, factors, slope, layout, transposed):
        """Convert ``Y`` from the gradient for a Kerr operator's output to that for its input ``A``, in place.

        The gradient of a real f with respect to a complex field A is ∂f/∂Re A + i ∂f/∂Im A. Phase rates are
        θ = c γκP with a factor c per group, ``factors`` (groups,), real. An operator multiplies the rows of a
        group by one number m(θ), so ``Y`` becomes m* Y + 2 (∂f/∂P) A with ∂f/∂P = (γκ)ᵀ c ∂f/∂θ. The ``name``
        (of `ADJOINTS`) selects the operator:

        - ``derivative``: h N̂(A) A. ``rotate``: exp(h N̂(A)) A.
        - ``phase_rate``: θ; ``slope`` holds ∂f/∂θ, and the result is added to ``Y``.
        - ``turn``: exp(i h φ) A as a function of φ: ``slope`` ← ∂f/∂φ of each group; ``Y`` is the gradient
          for A and stays unchanged.

        Except for ``turn``, ``slope`` (groups, N), real, receives ∂f/∂c at each sample, to be summed over
        samples. ``transposed`` is the layout of (γκ)ᵀ.
        """
        getattr(self._kernels, f"kerr_adjoint_{name}")(A, Y, h, factors, slope, layout, transposed)

    def max_phase_rate(self, A, layout) -> float:
        """Return the largest |phase rate| over groups and time, rad/m (NaN if the field holds one)."""
        self._most.fill(0)
        self._kernels.max_phase_rate(A, self._most, layout)
        return float(self._most.max())

    # --- chunks of several ranks ---------------------------------------------------------------------

    def kerr_begin(self, operator: KerrOperator, A, K, t0, h, power, numbers, layout):
        """Compute the powers (W) of phase groups that determine the first phase rates; set ``power`` to them.

        ``numbers`` (the operator's number of values, groups, m) receives values for later stages. A stage of
        RK4IP turns the rows x of a group into x + iφ y, with φ proportional to its phase rate: ``power`` is
        |y|², ``numbers`` are the phase rate, |x|² and Im x*y. For ``rotate_rk4`` they are |A|², and real and
        imaginary parts of a stage's multiplier of A and of their weighted sum.
        """
        getattr(self._kernels, f"begin_{operator.name}")(A, K, t0, h, power, numbers, layout)

    def kerr_advance(self, operator: KerrOperator, stage, rate, h, power, numbers, out):
        """Set ``out`` to the powers of local groups in the next stage, from the phase rates of this stage."""
        getattr(self._kernels, f"advance_{operator.name}")(stage, rate, h, power, numbers, out)

    def couple_advance(self, operator: KerrOperator, stage, rate, part, matrix, h, power, numbers, out):
        """Set ``rate`` from ``part``, the powers of the groups of all ranks; then call `kerr_advance`."""
        self._kernels.couple(rate, part, matrix, True)
        self.kerr_advance(operator, stage, rate, h, power, numbers, out)

    def kerr_update(self, operator: KerrOperator, A, K, t0, rate, h, numbers, layout, error=None):
        """Update the rows of ``A`` and ``K`` in a chunk of samples from the operator's last phase rates.

        ``error``, if not None, receives the squared local error of this rank's rows in the chunk.
        """
        errors = None if error is None else layout.errors[: -(-rate.shape[1] // layout.tile)]
        getattr(self._kernels, f"update_{operator.name}")(A, K, t0, rate, h, numbers, errors, layout)
        if errors is not None and error is not None:
            error[0] = errors.sum()

    def max_rate(self, theta) -> float:
        """Return the largest absolute value of the phase rates ``theta``, rad/m; NaN if any is NaN."""
        self._most.fill(0)
        self._kernels.max_rate(theta, self._most)
        return float(self._most.max())


#: Class that `Device.kernels` creates on a CPU.
KERNELS = CpuKerrKernels
