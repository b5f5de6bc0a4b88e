"""Build the work that `wavefabric train` simulates: a model with a strategy, a trace, or a wave time step."""

import glob
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any

from wavefabric.base.errors import InputError
from wavefabric.base.units import quantity, time_words
from wavefabric.cli.common.options import changed, option, options, refuse
from wavefabric.cli.common.progress import make_progress
from wavefabric.training.gpu.device_file import load_device
from wavefabric.training.gpu.device_model import DeviceModel
from wavefabric.training.gpu.precision import PRECISIONS
from wavefabric.training.iteration.engine import CallTimes
from wavefabric.training.iteration.faults import parse_stragglers, with_stragglers
from wavefabric.training.iteration.memory import check_memory, largest_need
from wavefabric.training.iteration.task_graph import TaskGraph
from wavefabric.training.iteration.tasks import build_tasks
from wavefabric.training.iteration.workload import Workload
from wavefabric.training.models import load_model
from wavefabric.training.models.graph import ModelGraph
from wavefabric.training.search.search import PROPOSALS, search
from wavefabric.training.strategies.strategy import Strategy, check_strategy
from wavefabric.training.strategies.strategy_text import parse_strategy
from wavefabric.training.traces.chakra.read import read_chakra, trace_files
from wavefabric.training.traces.chakra.sources import ARCHIVES
from wavefabric.training.traces.order import gpus_of_workers
from wavefabric.training.wave_steps import parse_wave_step

_COUNT = {"limits": (1, 10**12), "allowed": "whole numbers from 1"}
#: Options that only the search for a strategy has.
_SEARCH = ("proposals", "seconds", "seed")
#: Words that --strategy takes instead of a strategy, and the method of `search` for each.
METHODS = {"search": "markov", "chain": "chain"}
#: Time steps of our own simulations, with the default for their size, which follows a colon.
STEPS = {"fibre": "120x1048576", "ultrasound": "1024x1024x1024:local"}


@options("Model and GPUs")
class WorkOptions:
    """Options of the parallelisation strategy or the search for one, and of the GPUs."""

    strategy: str = option(
        "Words with commas between: data, sharded, tables, recompute, selective, sequence, overlap, ring, "
        "tensor:4, pipeline:2, interleave:2, expert:8, context:2, zero:1, bucket:25M; a file (JSON); "
        "search: the best that Markov chains find; chain: of one stage, by a dynamic program.",
        default="data",
    )
    batch: int | None = option(
        "Samples of an iteration for each data-parallel GPU. [default: the model's recipe]", **_COUNT
    )
    global_batch: int | None = option("Samples of an iteration of all GPUs, instead of --batch.", **_COUNT)
    microbatches: int | None = option(
        "Parts of a batch that follow one another. [default: by the strategy]", **_COUNT
    )
    device: str = option(
        "GPU: {wavefabric.training.gpu.device_model:DEVICES}, or a file (TOML).",
        default="h200",
        checked=False,
    )
    precision: str = option("{wavefabric.training.gpu.precision:PRECISIONS}.", default="tf32")
    memory: str | None = option("Of a GPU, such as 80GB. [default: the device's]")
    groups: Path | None = option("Groups of GPUs of a Chakra trace by name, as ASTRA-sim has them (JSON).")
    straggler: str | None = option(
        "GPUs that compute slower, such as 5:1.5,9:2 (GPU 5 takes 1.5 times as long)."
    )
    proposals: int | None = option(
        "Strategies that the Markov chains try at most. [default: 600]", panel="Search", limits=(1, 10**9)
    )
    seconds: float | None = option(
        "End after so long with the best so far.", panel="Search", limits=(1e-3, 1e9)
    )
    seed: int = option("Of random choices.", default=0, panel="Search", limits=(0,))


@dataclass(frozen=True)
class SimulatedWork:
    """Describes what `wavefabric train` simulates, for any number of GPUs.

    ``check`` raises `InputError` for an impossible number of GPUs, before anything is simulated.
    """

    name: str
    title: str  # the name, and how the work is simulated
    memory: float  # B per GPU
    make: Callable[[int, CallTimes], Workload | TaskGraph]
    check: Callable[[int], object]
    is_model: bool = False
    searched: bool = False  # whether ``make`` searches for a strategy
    gpus: int | None = None  # number of GPUs of a trace
    files: Sequence[Path] = ()  # files of a trace


def _model_work(
    text: str, options: WorkOptions, device: DeviceModel, memory: float, policy: str
) -> SimulatedWork:
    """Return the work of training the model ``text``, with the given strategy or a search for one."""
    model, precision = load_model(text), PRECISIONS[options.precision]
    if options.batch is not None:
        if is_file(options.strategy):
            allowed = "--global-batch, or none: the file's"
            refuse(changed(options, "batch"), f"with {options.strategy}", allowed)
        model = replace(model, batch=options.batch)
    title = f"{model.name}, strategy {options.strategy}, {options.precision} on {device.name}"
    if options.strategy == "chain":
        refuse(changed(options, "proposals", "seed"), "with --strategy chain", "with --strategy search")
    if options.strategy in METHODS:
        refuse(changed(options, "microbatches"), f"with --strategy {options.strategy}", "with a strategy")

        def best(gpus: int, fabric: CallTimes) -> Workload:
            setting = model, gpus, device, precision, fabric
            return _search(setting, options, memory=memory, batch=options.global_batch, policy=policy)

        refuse(changed(options, "straggler"), f"with --strategy {options.strategy}", "with a strategy")
        return SimulatedWork(model.name, title, memory, best, lambda gpus: None, True, searched=True)
    refuse(changed(options, *_SEARCH), f"with --strategy {options.strategy}", f"with {' or '.join(METHODS)}")
    stragglers = tuple(_stragglers(options).items())

    @cache
    def workload(gpus: int) -> Workload:
        """Build the workload; `InputError` if the strategy or the memory does not fit ``gpus`` GPUs."""
        made = Workload(model, _strategy(model, options, gpus), device, precision, stragglers)
        check_memory(largest_need(made), memory, workload=made)
        if stragglers:
            build_tasks(made)  # raises InputError for stragglers among GPUs without work
        return made

    return SimulatedWork(model.name, title, memory, lambda gpus, _: workload(gpus), workload, True)


def _search(setting: tuple[Any, ...], options: WorkOptions, **limits: Any) -> Workload:
    """Search for the best strategy, and return the work of training a model with it.

    ``setting``: the model, the number of GPUs and the further positional arguments of `search`; ``limits``:
    its keyword arguments. After Ctrl-C, a line on stderr says that the best strategy so far is used.
    """
    proposals, method = options.proposals or PROPOSALS, options.strategy
    bar = make_progress()
    bar.start(proposals if method == "search" else None, f"search, {setting[1]} GPUs")

    def tell(made: int, limit: int, best: float) -> None:
        bar.update(made, f"best {time_words(best)}" if isfinite(best) else "none fits yet")

    try:
        result = search(
            *setting, method=METHODS[method], proposals=proposals, seed=options.seed, seconds=options.seconds,
            progress=tell, **limits,
        )  # fmt: skip
    finally:
        bar.finish()
    if result.stopped == "interrupted":
        line = f"search interrupted after {result.tried} strategies; the best of them is taken"
        print(f"wavefabric: {line}", file=sys.stderr)
    return Workload(setting[0], result.strategy, *setting[2:4])


def _strategy(model: ModelGraph, options: WorkOptions, gpus: int) -> Strategy:
    parts, text = options.microbatches, options.strategy
    if parts is not None and not is_file(text):
        text += f",microbatches:{parts}"
    strategy = parse_strategy(text, model, gpus, batch=options.global_batch)
    if parts is not None:  # a strategy from a file does not have them yet
        strategy = replace(strategy, microbatches=parts)
        check_strategy(model, strategy)
    return strategy


def _stragglers(options: WorkOptions) -> dict[int, float]:
    return {} if options.straggler is None else parse_stragglers(options.straggler)


def _on_gpus(graph: TaskGraph, device: DeviceModel, options: WorkOptions) -> TaskGraph:
    """Return a task graph with the slow GPUs that ``options`` names.

    Computation is slowed by simultaneous communication as on ``device``.
    """
    slower = with_stragglers(graph, gpus_of_workers(graph), _stragglers(options))
    return replace(slower, slowdown=device.overlap_slowdown)


def _step_work(text: str, device: DeviceModel, options: WorkOptions) -> SimulatedWork:
    """Return the work of a time step of a fibre or ultrasound simulation."""
    step = parse_wave_step(text if ":" in text else f"{text}:{STEPS[text]}")
    tasks = cache(lambda gpus: _on_gpus(step(gpus, device), device, options))
    name = f"time step of {text}"
    return SimulatedWork(name, f"{name} on {device.name}", device.memory, lambda gpus, _: tasks(gpus), tasks)


def _trace_work(prefix: str, device: DeviceModel, options: WorkOptions) -> SimulatedWork:
    """Return the work recorded in a Chakra trace, which allows only the trace's number of GPUs."""
    files = trace_files(prefix)
    graph = _on_gpus(read_chakra(files, device, options.precision, options.groups), device, options)
    count = sum(map(len, gpus_of_workers(graph)))

    def check(gpus: int) -> None:
        if gpus != count:
            raise InputError(f"--gpus: {gpus} given; allowed: {count}, those of the trace")

    name = f"trace {prefix}"
    return SimulatedWork(name, name, device.memory, lambda *_: graph, check, gpus=count, files=files)


def make_work(text: str, options: WorkOptions, policy: str) -> SimulatedWork:
    """Return the work of MODEL: a trace, a time step, or a model; ``policy`` is used in searches."""
    if options.batch is not None:
        refuse(changed(options, "global_batch"), f"with --batch {options.batch}", "one of the two")
    device = load_device(options.device)
    memory = device.memory if options.memory is None else quantity(options.memory, "B", "--memory")
    if memory <= 0:
        raise InputError(f"--memory: {options.memory} given; allowed: above 0")
    trace, step = trace_prefix(text), text.partition(":")[0] in STEPS
    if not (trace or step):
        refuse(changed(options, "groups"), f"with {text}", "with a Chakra trace")
        return _model_work(text, options, device, memory, policy)
    others = ["strategy", "batch", "global_batch", "microbatches", "memory"]
    others += [] if trace else ["precision", "groups"]
    refuse(changed(options, *others, *_SEARCH), f"with {text}", "with a model")
    return (_trace_work if trace else _step_work)(trace or text, device, options)


def trace_prefix(text: str) -> str:
    """Return the NAME of the trace files NAME.RANK.et (or .json) that ``text`` names; else "".

    The path of an archive, or of one file that cannot be a model's, is returned as it is.
    """
    match = re.fullmatch(r"(.+)\.[0-9]+\.(et|json)(\.gz)?", text)
    if not match and text.endswith((*ARCHIVES, ".et", ".et.gz", ".json.gz")):
        return text
    prefix = match[1] if match else text
    matches = (glob.glob(f"{glob.escape(prefix)}.[0-9]*.{end}*") for end in ("et", "json"))
    return prefix if match or any(matches) else ""


def is_file(strategy: str) -> bool:
    """Whether ``--strategy`` names a file."""
    return strategy.endswith(".json") or "/" in strategy
