"""Propagate fields linearly on a GPU by the kernels of ``fused_linear.cu``."""

import numpy as np

from wavefabric.optics.propagation.kernels.fused_plan import FusedPlan, transfers
from wavefabric.optics.propagation.linear_propagation import LinearPropagation
from wavefabric.runtime.spectral.inplace_fft import SOURCES, leg_factors

PACKAGE = "wavefabric.optics.propagation.kernels"


class FusedSteps(LinearPropagation):
    """Propagates a field linearly by three kernels (one for short rows) of transforms and transfer function.

    ``coefficients`` are the distinct sets of α, β1, β2, …, ``table_row`` has the number of each row's set.
    Rows come in pairs, one pair per mode.
    """

    def __init__(self, device, plan: FusedPlan, coefficients, table_row, sample_rate: float):
        super().__init__()
        self._device, self.plan = device, plan
        self._coefficients, self._rate = np.asarray(coefficients), sample_rate
        self.table_row = device.asarray(table_row)
        apart = (np.diff(np.reshape(table_row, (-1, 2))) != 0).any()  # polarisations propagate differently
        prelude = (
            plan.prelude() + f"#define APART {int(apart)}\n#define ORDERS {self._coefficients.shape[1] - 1}\n"
        )
        module = device.module(PACKAGE, "fused_linear.cu", before=SOURCES, prelude=prelude)
        columns, rows = plan.columns, plan.rows
        #: Per kernel: threads of a block, and bytes of shared memory of a block.
        self._kernels = {"rows_transfer": (rows.threads * rows.side, rows.shared(rows.gap))}
        self._columns = None
        if columns.points > 1:
            block = columns.threads * columns.side, columns.shared(plan.column_gap)
            self._kernels |= {"columns_forth": block, "columns_back": block}
            self._columns = device.asarray(plan.roots()), device.asarray(plan.split_factors())
        self._functions = {name: module.get_function(name) for name in self._kernels}
        for name, (_, shared) in self._kernels.items():
            if shared > 48 * 1024:
                self._functions[name].max_dynamic_shared_size_bytes = shared
        self._legs = device.asarray(leg_factors(rows.radices, plan.dtype))

    def propagate(self, field, length: float) -> None:
        plan, rows, table = self.plan, field.shape[0], self.prepare(length)
        tiles = -(-plan.rows.points // plan.columns.side)
        if self._columns:
            self._launch("columns_forth", tiles * rows, field, *self._columns)
        blocks = plan.columns.points // plan.rows.side * rows // plan.kernels_at_once
        self._launch("rows_transfer", blocks, field, self._legs, table, self.table_row, np.int32(rows))
        if self._columns:
            self._launch("columns_back", tiles * rows, field, *self._columns)

    def _fill(self, free, length):
        made = self._device.asarray(transfers(self._coefficients, self._rate, length, self.plan.n))
        if free is None:
            return made
        free[...] = made
        return free

    def _launch(self, name: str, blocks: int, *arguments) -> None:
        threads, shared = self._kernels[name]
        self._device.launch(self._functions[name], (blocks,), (threads,), arguments, shared)
