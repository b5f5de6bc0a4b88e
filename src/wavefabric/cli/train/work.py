"""What is simulated: a model, how GPUs share it, on which GPUs, in which precision."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from wavefabric.cli.common.options import check_choice, check_range, option, options
from wavefabric.errors import InputError
from wavefabric.training.device_file import load_device
from wavefabric.training.engine import CallTimes
from wavefabric.training.graph import ModelGraph
from wavefabric.training.memory import MemoryNeed, check_memory, strategy_needs
from wavefabric.training.models import load_model
from wavefabric.training.precision import PRECISIONS
from wavefabric.training.strategy import Strategy, check_strategy
from wavefabric.training.strategy_text import parse_strategy
from wavefabric.training.tasks import Workload
from wavefabric.units import quantity

_MOST = 10**12


@options("Model and GPUs")
class WorkOptions:
    """How the model is shared, and on which GPUs."""

    strategy: str = option(
        "Words with commas between: data, sharded, tables, recompute, tensor:4, pipeline:2, expert:8, "
        "bucket:25M; or a file (JSON).",
        default="data",
    )
    batch: int | None = option(
        "Samples of an iteration for each data-parallel GPU. \\[default: the model's recipe]"
    )
    global_batch: int | None = option("Samples of an iteration of all GPUs, instead of --batch.")
    microbatches: int | None = option(
        "Parts of a batch that follow one another. \\[default: by the strategy]"
    )
    device: str = option(
        "GPU: {wavefabric.training.device_model:DEVICES}, or a file (TOML).", default="h200", checked=False
    )
    precision: str = option("{wavefabric.training.precision:PRECISIONS}.", default="tf32")
    memory: str | None = option("Of a GPU, such as 80GB. \\[default: the device's]")


class Work:
    """A model as the options say, for any number of GPUs."""

    def __init__(self, model: str, asked: WorkOptions):
        check_choice("--precision", asked.precision, PRECISIONS)
        for name in ("batch", "global_batch", "microbatches"):
            check_range(f"--{name.replace('_', '-')}", getattr(asked, name), 1, _MOST, "whole numbers from 1")
        if asked.batch is not None and asked.global_batch is not None:
            given = f"{asked.global_batch} given with --batch {asked.batch}"
            raise InputError(f"--global-batch: {given}; allowed: one of the two")
        self.asked = asked
        self.model = _model(model, asked)
        self.device = load_device(asked.device)
        self.memory = self.device.memory if asked.memory is None else quantity(asked.memory, "B", "--memory")
        if self.memory <= 0:
            raise InputError(f"--memory: {asked.memory} given; allowed: above 0")
        self._known: dict[int, Workload] = {}

    @property
    def title(self) -> str:
        """What is simulated, in words."""
        asked = self.asked
        return f"{self.model.name}, strategy {asked.strategy}, {asked.precision} on {self.device.name}"

    def workload(self, gpus: int, fabric: CallTimes | None = None) -> Workload:
        """The model on so many GPUs; `InputError` if it cannot be shared so, or does not fit."""
        if gpus not in self._known:
            precision = PRECISIONS[self.asked.precision]
            workload = Workload(self.model, self._strategy(gpus), self.device, precision)
            check_memory(largest_need(workload), self.memory)
            self._known[gpus] = workload
        return self._known[gpus]

    def _strategy(self, gpus: int) -> Strategy:
        asked, total = self.asked, self.asked.global_batch
        parts = asked.microbatches
        if is_file(asked.strategy):
            strategy = parse_strategy(Path(asked.strategy), self.model, gpus, batch=total)
            if parts is not None:
                strategy = replace(strategy, microbatches=parts)
                check_strategy(self.model, strategy)
            return strategy
        text = asked.strategy if parts is None else f"{asked.strategy},microbatches:{parts}"
        return parse_strategy(text, self.model, gpus, batch=total)


def largest_need(workload: Workload) -> MemoryNeed:
    """What a GPU holds of the pipeline stage that needs most."""
    return max(strategy_needs(workload), key=lambda need: need.total)


def is_file(strategy: str) -> bool:
    """Whether ``--strategy`` names a file."""
    return strategy.endswith(".json") or "/" in strategy


def _model(text: str, asked: WorkOptions) -> ModelGraph:
    model = load_model(text)
    if asked.batch is None:
        return model
    if is_file(asked.strategy):
        given = f"{asked.batch} given with {asked.strategy}"
        raise InputError(f"--batch: {given}; allowed: --global-batch, or none: the file's")
    return replace(model, batch=asked.batch)
