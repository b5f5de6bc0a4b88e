"""What is simulated: a model as GPUs share it, a trace, or a time step of our own simulations."""

from __future__ import annotations

import glob
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Protocol

from wavefabric.cli.common.options import changed, check_choice, check_range, option, options, refuse
from wavefabric.cli.train.searching import METHODS, SearchOptions, search_strategy
from wavefabric.errors import InputError
from wavefabric.training.gpu.device_file import load_device
from wavefabric.training.gpu.device_model import DeviceModel
from wavefabric.training.gpu.precision import PRECISIONS
from wavefabric.training.iteration.engine import CallTimes
from wavefabric.training.iteration.memory import MemoryNeed, check_memory, strategy_needs
from wavefabric.training.iteration.task_graph import TaskGraph
from wavefabric.training.iteration.tasks import Workload
from wavefabric.training.models import load_model
from wavefabric.training.strategies.strategy import Strategy, check_strategy
from wavefabric.training.strategies.strategy_text import parse_strategy
from wavefabric.units import quantity

_MOST = 10**12
#: Time steps of our own simulations, with what they are of unless it is given behind a colon.
STEPS = {"fibre": "120x1048576", "ultrasound": "1024x1024x1024:local"}


@options("Model and GPUs")
class WorkOptions:
    """How the model is shared, and on which GPUs."""

    strategy: str = option(
        "Words with commas between: data, sharded, tables, recompute, tensor:4, pipeline:2, expert:8, "
        "bucket:25M; a file (JSON); or search: the best that Markov chains find; chain: of one stage, "
        "by a dynamic program.",
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
        "GPU: {wavefabric.training.gpu.device_model:DEVICES}, or a file (TOML).",
        default="h200",
        checked=False,
    )
    precision: str = option("{wavefabric.training.gpu.precision:PRECISIONS}.", default="tf32")
    memory: str | None = option("Of a GPU, such as 80GB. \\[default: the device's]")


class SimulatedWork(Protocol):
    """What the words of the command line describe, for any number of GPUs."""

    name: str
    title: str  # with how it is simulated
    memory: float  # B of a GPU

    def check(self, gpus: int) -> None:
        """Refuse a number of GPUs before anything is simulated."""

    def make(self, gpus: int, fabric: CallTimes) -> Workload | TaskGraph:
        """What so many GPUs do."""
        ...


class ModelWork:
    """A model and a strategy for it."""

    def __init__(
        self,
        text: str,
        asked: WorkOptions,
        device: DeviceModel,
        memory: float,
        find: SearchOptions,
        policy: str,
    ):
        self._policy = policy
        self.asked, self.device, self.memory, self.find = asked, device, memory, find
        self.model = load_model(text)
        if asked.batch is not None:
            if is_file(asked.strategy):
                given = f"{asked.batch} given with {asked.strategy}"
                raise InputError(f"--batch: {given}; allowed: --global-batch, or none: the file's")
            self.model = replace(self.model, batch=asked.batch)
        self.searched = asked.strategy in METHODS
        if asked.strategy == "chain":
            refuse(changed(find, "proposals", "seed"), "with --strategy chain", "with --strategy search")
        if self.searched:
            refuse(changed(asked, "microbatches"), f"with --strategy {asked.strategy}", "with a strategy")
        else:
            refuse(changed(find), f"with --strategy {asked.strategy}", f"with {' or '.join(METHODS)}")
        self.name = self.model.name
        self.title = f"{self.name}, strategy {asked.strategy}, {asked.precision} on {device.name}"
        self._known: dict[int, Workload] = {}

    def check(self, gpus: int) -> None:
        """Refuse what cannot be shared so, or does not fit."""
        if not self.searched:
            self._given(gpus)

    def make(self, gpus: int, fabric: CallTimes) -> Workload:
        """The model on so many GPUs; the strategy is searched for on this fabric, if it is."""
        if not self.searched:
            return self._given(gpus)
        precision = PRECISIONS[self.asked.precision]
        setting = self.model, gpus, self.device, precision, fabric
        strategy = search_strategy(
            setting, self.asked.strategy, self.find,
            memory=self.memory, batch=self.asked.global_batch, policy=self._policy,
        )  # fmt: skip
        return Workload(self.model, strategy, self.device, precision)

    def _given(self, gpus: int) -> Workload:
        if gpus not in self._known:
            precision = PRECISIONS[self.asked.precision]
            workload = Workload(self.model, self._strategy(gpus), self.device, precision)
            check_memory(largest_need(workload), self.memory)
            self._known[gpus] = workload
        return self._known[gpus]

    def _strategy(self, gpus: int) -> Strategy:
        asked, parts = self.asked, self.asked.microbatches
        if not is_file(asked.strategy):
            text = asked.strategy if parts is None else f"{asked.strategy},microbatches:{parts}"
            return parse_strategy(text, self.model, gpus, batch=asked.global_batch)
        strategy = parse_strategy(Path(asked.strategy), self.model, gpus, batch=asked.global_batch)
        if parts is not None:
            strategy = replace(strategy, microbatches=parts)
            check_strategy(self.model, strategy)
        return strategy


class StepWork:
    """A time step of light in a fibre, or of ultrasound."""

    def __init__(self, text: str, device: DeviceModel):
        from wavefabric.training.wave_steps import parse_wave_step

        make = parse_wave_step(text if ":" in text else f"{text}:{STEPS[text]}").make
        self.memory = device.memory
        self.name = f"time step of {text}"
        self.title = f"{self.name} on {device.name}"
        self._step = cache(lambda gpus: make(gpus, device))

    def check(self, gpus: int) -> None:
        """Refuse what cannot be divided so."""
        self._step(gpus)

    def make(self, gpus: int, fabric: CallTimes) -> TaskGraph:
        """The step's tasks."""
        return self._step(gpus)


class TraceWork:
    """What was recorded in a Chakra trace, for as many GPUs as it is of."""

    def __init__(self, prefix: str, device: DeviceModel, precision: str):
        from wavefabric.training.traces.chakra.read import read_chakra, trace_files
        from wavefabric.training.traces.order import gpus_of_workers

        self.memory = device.memory
        self.name = self.title = f"trace {prefix}"
        self.files = trace_files(prefix)
        self._graph = read_chakra(self.files, device, precision)
        self.gpus = sum(map(len, gpus_of_workers(self._graph)))

    def check(self, gpus: int) -> None:
        """Refuse another number of GPUs."""
        if gpus != self.gpus:
            raise InputError(f"--gpus: {gpus} given; allowed: {self.gpus}, those of the trace")

    def make(self, gpus: int, fabric: CallTimes) -> TaskGraph:
        """The trace's tasks."""
        return self._graph


def make_work(text: str, asked: WorkOptions, find: SearchOptions, policy: str) -> SimulatedWork:
    """What MODEL is: a trace, a time step, or a model by name or file; `policy` is that of the search."""
    check_choice("--precision", asked.precision, PRECISIONS)
    for name in ("batch", "global_batch", "microbatches"):
        check_range(f"--{name.replace('_', '-')}", getattr(asked, name), 1, _MOST, "whole numbers from 1")
    if asked.batch is not None and asked.global_batch is not None:
        given = f"{asked.global_batch} given with --batch {asked.batch}"
        raise InputError(f"--global-batch: {given}; allowed: one of the two")
    device = load_device(asked.device)
    memory = device.memory if asked.memory is None else quantity(asked.memory, "B", "--memory")
    if memory <= 0:
        raise InputError(f"--memory: {asked.memory} given; allowed: above 0")
    trace, step = trace_prefix(text), text.partition(":")[0] in STEPS
    if not (trace or step):
        return ModelWork(text, asked, device, memory, find, policy)
    others = (
        "strategy",
        "batch",
        "global_batch",
        "microbatches",
        "memory",
        *(() if trace else ("precision",)),
    )
    refuse(changed(asked, *others) | changed(find), f"with {text}", "with a model")
    return TraceWork(trace, device, asked.precision) if trace else StepWork(text, device)


def trace_prefix(text: str) -> str:
    """NAME of the files NAME.RANK.et, if there are such; else nothing."""
    match = re.fullmatch(r"(.+)\.[0-9]+\.et", text)
    prefix = match[1] if match else text
    return prefix if match or glob.glob(f"{glob.escape(prefix)}.[0-9]*.et") else ""


def largest_need(workload: Workload) -> MemoryNeed:
    """What a GPU holds of the pipeline stage that needs most."""
    return max(strategy_needs(workload), key=lambda need: need.total)


def is_file(strategy: str) -> bool:
    """Whether ``--strategy`` names a file."""
    return strategy.endswith(".json") or "/" in strategy
