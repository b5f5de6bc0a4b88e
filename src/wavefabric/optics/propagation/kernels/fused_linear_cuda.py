"""Launches of ``fused_linear.cu``."""

from __future__ import annotations

import numpy as np

from wavefabric.optics.propagation.kernels.fused_plan import FusedPlan
from wavefabric.spectral.inplace_fft import SOURCES

PACKAGE = "wavefabric.optics.propagation.kernels"


class FusedLinear:
    """exp(h L̂) of rows of one length and type on one CUDA device."""

    def __init__(self, device, plan: FusedPlan):
        self._device, self.plan = device, plan
        module = device.module(PACKAGE, "fused_linear.cu", before=SOURCES, prelude=plan.prelude())
        columns, rows = plan.columns, plan.rows
        #: Of each kernel: threads of a block, and bytes of its shared memory.
        self._kernels = {"rows_transfer": (rows.threads * rows.side, rows.shared(rows.gap))}
        if columns.points > 1:
            block = columns.threads * columns.side, columns.shared(plan.column_gap)
            self._kernels |= {"columns_forth": block, "columns_back": block}
        self._functions = {name: module.get_function(name) for name in self._kernels}
        for name, (_, shared) in self._kernels.items():
            if shared > 48 * 1024:
                self._functions[name].max_dynamic_shared_size_bytes = shared
        self._legs = device.asarray(plan.leg_factors())
        self._columns = None
        if columns.points > 1:
            self._columns = device.asarray(plan.roots()), device.asarray(plan.split_factors())

    def propagate(self, field, transfers, table_row) -> None:
        """``field`` (rows, N) ← exp(h L̂) field, in place; ``transfers`` as made by `transfers`."""
        plan, rows = self.plan, field.shape[0]
        tiles = -(-plan.rows.points // plan.columns.side)
        if self._columns:
            self._launch("columns_forth", tiles * rows, field, *self._columns)
        blocks = plan.columns.points // plan.rows.side * rows // plan.together
        self._launch("rows_transfer", blocks, field, self._legs, transfers, table_row, np.int32(rows))
        if self._columns:
            self._launch("columns_back", tiles * rows, field, *self._columns)

    def _launch(self, name: str, blocks: int, *arguments) -> None:
        threads, shared = self._kernels[name]
        self._device.launch(self._functions[name], (blocks,), (threads,), arguments, shared)
