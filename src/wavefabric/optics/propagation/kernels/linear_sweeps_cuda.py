"""Launches of ``linear_sweeps.cu``."""

from __future__ import annotations

import numpy as np

from wavefabric.optics.propagation.kernels.sweep_plan import SweepPlan
from wavefabric.spectral.inplace_fft import SOURCES

PACKAGE = "wavefabric.optics.propagation.kernels"


class LinearSweeps:
    """exp(h L̂) of rows of one length and type on one CUDA device."""

    def __init__(self, device, plan: SweepPlan):
        self._device, self.plan = device, plan
        self._module = device.module(PACKAGE, "linear_sweeps.cu", before=SOURCES, prelude=plan.prelude())
        self._legs = device.asarray(plan.leg_factors())
        self._columns = None
        if plan.columns.points > 1:
            self._columns = device.asarray(plan.roots()), device.asarray(plan.split_factors())

    def propagate(self, field, transfers, table_row) -> None:
        """``field`` (rows, N) ← exp(h L̂) field, in place; ``transfers`` as made by `transfers`."""
        plan, rows = self.plan, field.shape[0]
        tiles = -(-plan.rows.points // plan.columns.side)
        shared = plan.columns.shared(plan.column_gap)
        if self._columns:
            self._launch("columns_forth", plan.columns, tiles * rows, shared, field, *self._columns)
        blocks = plan.columns.points // plan.rows.side * rows // plan.together
        arguments = field, self._legs, transfers, table_row, np.int32(rows)
        self._launch("rows_transfer", plan.rows, blocks, plan.rows.shared(plan.rows.gap), *arguments)
        if self._columns:
            self._launch("columns_back", plan.columns, tiles * rows, shared, field, *self._columns)

    def _launch(self, name, transforms, blocks, shared, *arguments) -> None:
        function = self._module.get_function(name)
        if shared > 48 * 1024 and function.max_dynamic_shared_size_bytes < shared:
            function.max_dynamic_shared_size_bytes = shared
        self._device.launch(function, (blocks,), (transforms.threads * transforms.side,), arguments, shared)


class LinearSweepKernels:
    """Makes `LinearSweeps` on one CUDA device."""

    def __init__(self, device):
        self._device = device

    def sweeps(self, plan: SweepPlan) -> LinearSweeps:
        return LinearSweeps(self._device, plan)


#: What `Device.kernels` makes on a GPU.
KERNELS = LinearSweepKernels
