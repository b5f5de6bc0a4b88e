"""Define the operators from which integrators are built: linear propagation and the Kerr operator."""

from dataclasses import dataclass

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.optics.fibre.fibre import Fibre
from wavefabric.optics.propagation.kernels import KerrOperator
from wavefabric.optics.propagation.kernels.fused_linear_cuda import FusedSteps
from wavefabric.optics.propagation.kernels.fused_plan import FusedPlan, fused_plan
from wavefabric.optics.propagation.linear_propagation import ProductsInTransforms, TransformsAndTable
from wavefabric.optics.propagation.phase_groups import phase_group_coupling
from wavefabric.optics.propagation.rank_modes import RankModes

DERIVATIVE = KerrOperator("derivative")
ROTATE = KerrOperator("rotate")
ROTATE_RK4 = KerrOperator("rotate_rk4", stages=4, numbers=5)
RK4IP_MIDDLE = KerrOperator("rk4ip_middle", stages=2, numbers=3)
RK4IP_LAST = KerrOperator("rk4ip_last", stages=2, numbers=3)


@dataclass
class OperationCounts:
    """Counts the operations of a propagation: FFTs of all rows, and exchanges of phase-group powers by ranks.

    On one rank each Kerr kernel counts as one exchange.
    """

    steps: int = 0
    rejected: int = 0
    ffts: int = 0
    exchanges: int = 0


def linear_coefficients(fibre: Fibre, local_modes: RankModes) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct sets of α, β1, β2, … of a rank's rows, and the number of each row's set."""
    rows = np.repeat(np.column_stack([fibre.alpha, fibre.beta]), 2, axis=0)
    if fibre.row_delays is not None:
        rows[:, 1] += fibre.row_delays
    rows = rows[local_modes.slice]
    coefficients, row = np.unique(rows, axis=0, return_inverse=True)
    # numpy.unique may return any memory order; CUDA kernels need C order.
    return np.ascontiguousarray(coefficients), row.reshape(-1).astype(np.int32)


def fused_plan_of(device, n: int, dtype) -> FusedPlan | None:
    """Return the plan of fused kernels for rows of ``n`` samples; None if ``device`` or ``n`` allow none."""
    return fused_plan(n, dtype, device.block_memory) if device.block_memory else None


def linear_nbytes(device, rows: int, n: int, dtype, table_rows: int, lengths: int) -> int:
    """Return the bytes that linear propagation over ``lengths`` lengths needs: tables, GPU work area."""
    if fused_plan_of(device, n, dtype):
        return 0
    work_area = 0 if device.name == "cpu" else rows * n * np.dtype(dtype).itemsize
    return work_area + 16 * n * table_rows * lengths


class FibreOperators:
    """Applies linear propagation L̂ and Kerr operator N̂ of one fibre, on one device, to fields of one shape.

    Rows have ``n`` samples at ``sample_rate`` Hz; ``dtype`` is complex64 or complex128, else InputError.
    ``kerr`` and ``svd_tolerance`` are options of `phase_group_coupling`; ``local_modes`` are this rank's
    modes, by default all.
    """

    #: Bytes that all ranks receive, in total, in one exchange.
    exchange_bytes = 0

    def __init__(
        self, device, fibre: Fibre, n, sample_rate, dtype, kerr="auto", svd_tolerance=1e-12, local_modes=None
    ):
        self.device, self.fibre, self.n = device, fibre, int(n)
        self.local_modes: RankModes = local_modes or RankModes((0, fibre.modes))
        self.dtype = np.dtype(dtype)
        if self.dtype not in (np.dtype(np.complex64), np.dtype(np.complex128)):
            raise InputError(f"field: type {self.dtype} given; allowed: complex64, complex128")
        if self.n < 1 or not sample_rate > 0:
            raise InputError(f"field: {n} samples at {sample_rate} Hz given; both must be positive")
        #: Real type of the fields, and their shape on this rank: (2M, N) on a single rank.
        self.real, self.shape = np.finfo(self.dtype).dtype, (self.local_modes.rows, self.n)
        self.kernels = device.kernels("wavefabric.optics.propagation.kernels.kerr")
        self.counts = OperationCounts()
        self._lay_out_kerr(kerr, svd_tolerance)
        self._sample_rate = float(sample_rate)
        self.propagation = self.linear_propagation()
        self._energy = device.empty((self.local_modes.rows,), np.float64)
        self.error = device.zeros((1,), np.float64)

    def _lay_out_kerr(self, kerr: str, svd_tolerance: float) -> None:
        self.coupling = phase_group_coupling(self.fibre.kappa_rows(), self.fibre.gamma, kerr, svd_tolerance)
        self.layout = self.kernels.KerrLayout(self.device, self.coupling, self.n, self.dtype)

    def linear_propagation(self, conjugate: bool = False) -> FusedSteps | TransformsAndTable:
        """Create the `LinearPropagation` of this rank's rows, or with ``conjugate`` its adjoint."""
        coefficients, row = linear_coefficients(self.fibre, self.local_modes)
        if conjugate:
            coefficients[:, 1:] *= -1  # β gives phases, which change sign; the loss stays
        plan = fused_plan_of(self.device, self.n, self.dtype)
        if plan:
            return FusedSteps(self.device, plan, coefficients, row, self._sample_rate)
        fft = self.device.row_fft(self.local_modes.rows, self.n, self.dtype)
        tables = ProductsInTransforms if self.device.name == "cpu" else TransformsAndTable
        return tables(self.device, self.kernels, coefficients, row, self.n, self._sample_rate, fft)

    def empty(self):
        """Allocate a field of the shape of this rank."""
        return self.device.empty(self.shape, self.dtype)

    def empty_rates(self):
        """Allocate an array of Kerr phase rates, (phase groups, N)."""
        return self.device.empty((self.coupling.groups, self.n), self.real)

    def prepare(self, *lengths: float) -> None:
        """Compute the transfer functions of ``lengths`` in advance, so that no step has to."""
        for length in lengths:
            self.propagation.prepare(length)

    def linear(self, A, length: float) -> None:
        """Propagate ``A`` linearly over ``length`` m, in place: A ← exp(length · L̂) A."""
        self.propagation.propagate(A, length)
        self.counts.ffts += 2

    def kerr_derivative(self, A, K) -> None:
        """Compute the change of the field ``A`` per metre by the Kerr effect: K ← N̂(A)A."""
        self._kerr(DERIVATIVE, A, K, 0)

    def kerr_rotate(self, A, h: float) -> None:
        """Propagate ``A`` over ``h`` m by the Kerr effect alone, exactly: A ← exp(h N̂(A)) A."""
        self._kerr(ROTATE, A, A, h)

    def kerr_rotate_rk4(self, A, h: float) -> None:
        """Propagate ``A`` over ``h`` m by the Kerr effect alone, A' = N̂(A)A, with one step of RK4."""
        self._kerr(ROTATE_RK4, A, A, h)

    def rk4ip_middle(self, A, K, h: float) -> None:
        """Compute k2, k3 of RK4IP from A = A_I and K = k1/h: A ← A_I + k3, K ← A_I + k1/6 + k2/3 + k3/3."""
        self._kerr(RK4IP_MIDDLE, A, K, h)

    def rk4ip_last(self, A, K, h: float, measure: bool = False) -> None:
        """Compute k4 of RK4IP: A ← K + k4/6, K ← N̂(A)A; ``measure`` also sets the squared local error."""
        self._kerr(RK4IP_LAST, A, K, h, self.error if measure else None)

    def _kerr(self, operator: KerrOperator, A, K, h: float, error=None) -> None:
        """Apply a Kerr operator in place to the fields A and K; if it has one field, A is passed as both."""
        self.kernels.kerr(operator, A, K, h, self.layout, error)
        self.counts.exchanges += 1

    def kerr_phase_rate(self, A, rate) -> None:
        """Set rate ← Σ γκ|A|², the Kerr phase rate (rad/m) of each phase group and sample."""
        self.kernels.kerr_phase_rate(A, rate, self.layout)
        self.counts.exchanges += 1

    def rotate_mean(self, H, A, rate0, rate1, h: float) -> None:
        """Turn the phases of ``H`` by the mean of two Kerr phase rates: A ← exp(i h (rate0 + rate1)/2) H."""
        self.kernels.rotate_mean(H, A, rate0, rate1, h, self.layout)

    def max_phase_rate(self, A) -> float:
        """Return the largest Kerr phase rate, rad/m."""
        self.counts.exchanges += 1
        return self.kernels.max_phase_rate(A, self.layout)

    def squared_error(self) -> float:
        """Return the squared local error of the last ``rk4ip_last`` with ``measure``, over all rows."""
        return float(self.device.to_host(self.error)[0])

    def energy(self, A) -> np.ndarray:
        """Return Σ_t |A|² of every row of the fibre, (2M,) on the host, W × samples."""
        self.kernels.row_energy(A, self._energy)
        return self._all_rows(self._energy)

    def distance(self, A, B) -> float:
        """Return ‖A − B‖² over all rows of the fibre, W × samples."""
        self.kernels.row_distance(A, B, self._energy)
        return float(self._all_rows(self._energy).sum())

    def _all_rows(self, values) -> np.ndarray:
        """Gather ``values``, one number per local row, from all ranks; return those of all rows."""
        return self.device.to_host(values).copy()

    def graph(self, work, kernels_alone: bool = False):
        """Return a callable that repeats the kernel launches of ``work`` at low cost; see `Device.graph`."""
        return self.device.graph(work, kernels_alone)
