"""Bytes that a workload needs on a GPU: the need of each pipeline stage, from that of its layers."""

from __future__ import annotations

from collections import defaultdict

from wavefabric.training.graph import Layer
from wavefabric.training.memory import MemoryNeed, memory_bytes
from wavefabric.training.strategy import Layout
from wavefabric.training.tasks import Workload


def stage_memory(workload: Workload) -> tuple[MemoryNeed, ...]:
    """What one GPU of each pipeline stage holds; stage s of p keeps p − s microbatches (`memory_bytes`)."""
    model, strategy = workload.model, workload.strategy
    alike: dict[tuple[int, Layout], list[Layer]] = defaultdict(list)
    for layer, stage, layout in zip(model.layers, strategy.stage, strategy.layouts, strict=True):
        alike[stage, layout].append(layer)
    needs = [MemoryNeed()] * strategy.stages
    for (stage, layout), layers in alike.items():
        needs[stage] += memory_bytes(
            layers,
            strategy.batch / strategy.microbatches / layout.data,
            min(strategy.stages - stage, strategy.microbatches),
            layout.tensor,
            workload.precision,
            model.optimizer,
            sharded=layout.data // layout.expert if strategy.sharded else 1,
            experts=layout.expert,
            recompute=strategy.recompute,
        )
    return tuple(needs)


def largest_memory(workload: Workload) -> MemoryNeed:
    """What the GPUs of the stage that needs most hold each."""
    return max(stage_memory(workload), key=lambda need: need.total)
