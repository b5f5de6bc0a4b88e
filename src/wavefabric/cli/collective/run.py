"""Implement `wavefabric collective run`, which runs a schedule between ranks, checks it and times it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from wavefabric.base.errors import InputError
from wavefabric.cli.collective.algorithm import (
    AlgorithmOptions,
    ScheduleOptions,
    build_by_name,
    schedule_from,
)
from wavefabric.cli.collective.setting import ORDER_HELP, CircuitOptions, make_setting
from wavefabric.cli.common.options import changed, option, options, refuse
from wavefabric.cli.common.parse import FACTOR_HELP, optional_sizes, parse_list
from wavefabric.cli.common.rank_session import MeasureOptions, check_free, show_measurement, start_ranks
from wavefabric.cli.common.show import status_line
from wavefabric.collectives import Schedule
from wavefabric.collectives.conditions import whole_elements
from wavefabric.fabric.execution import run_schedule as module
from wavefabric.runtime.exchange.launch import environment


@options()
class ScheduleRunOptions(ScheduleOptions):
    """Options of running a schedule, and of predicting its time."""

    sizes: str | None = option(
        "Bytes of the whole array: least:most, or with commas between; K, M, G: 2^10, …"
    )
    factor: int | None = option(FACTOR_HELP)
    dtype: str = option("{wavefabric.fabric.execution.timed_schedule:EXACT}.", default="float32")
    fabric: str | None = option("Predict for this fabric: a name or a file.", "--fabric", "-f")
    order: str | None = option(ORDER_HELP)
    model: str = option(
        "Of the prediction: auto, {wavefabric.fabric.cost_models.cost:COST_MODELS}.",
        default="auto",
        also=("auto",),
    )
    nccl: bool = option("Time NCCL's own operation too.", default=False)
    protocols: str = option(
        "Of P2P: copies (copy engines), signals, packets (a kernel each), auto (by size); comma between.",
        "--protocols",
        "--protocol",
        default="auto",
    )
    blocks: int | None = option("Thread blocks of a kernel. [default: as its largest piece needs]")
    graph: bool = option("Time kernels, and NCCL's, in a CUDA graph too.", default=False)
    output: Path | None = option(
        "Folder for the picture and the numbers (JSON); neither is written without.", "--output", "-o"
    )
    plot: bool | None = option(
        "Draw the picture, without --output in this folder. [default: yes with --output]", "--plot/--no-plot"
    )


def command(algorithm: AlgorithmOptions, options: ScheduleRunOptions, who: MeasureOptions) -> None:
    """Run a schedule on every transport; every element that arrives is checked.

    Examples:

    wavefabric collective run recursive all-reduce --ranks 4 --sizes 64K:16M

    mpiexec -n 4 wavefabric collective run best.json --fabric measured.toml
    """
    plot = options.output is not None if options.plot is None else options.plot
    if environment.rank() == 0:
        check_free("collective-run", options.output, plot, options.force)
    sizes = optional_sizes(options.sizes, options.factor)
    protocols = parse_list(options.protocols)
    module.check_protocols(protocols, options.blocks)
    setting = None
    if options.fabric is not None:
        setting = make_setting(CircuitOptions(fabric=options.fabric, order=options.order, circuits=None))
    else:
        refuse(changed(options, "model", "order"), "without --fabric", "with one")
    predicted: Any = None if setting is None else setting.fabric
    words, ranks, count = options.words, who.ranks, max(environment.ranks(), who.ranks or 1)
    schedule: Schedule | Callable[[int], Schedule]
    if words and len(words) == 2:
        name, collective = words
        inputs = replace(algorithm, ranks=count)

        def build(elements: int | None) -> Schedule:
            return build_by_name(name, collective, replace(inputs, elements=elements), predicted)

        # One schedule per size, unless the sizes of messages are given. An impossible one is refused before
        # any rank starts.
        example = build(algorithm.elements)
        schedule = build if algorithm.matrix is None else example
    else:
        example = schedule = schedule_from(words, algorithm)
        if ranks is None and environment.ranks() == 1:
            count = ranks = example.ranks
        if example.ranks != count:
            file = words[0] if words else ""
            raise InputError(f"--ranks: {count} given; allowed: {example.ranks}, as in {file}")
    if setting is not None and options.order is not None:
        element_bytes = max(sizes, default=1 << 26) / max(whole_elements(example), 1)
        predicted, _ = setting.in_order(example, element_bytes, options.model)
    job = start_ranks(replace(who, ranks=ranks), options.as_json)
    same = {name: getattr(options, name) for name in ("dtype", "model", "nccl", "blocks", "graph")}
    chosen = {"repeats": who.repeats, "fabric": predicted, "protocols": protocols}
    with status_line(options.as_json or job.rank > 0) as say:
        result = module.run(job, schedule, sizes, say, **same, **chosen)
    if job.rank == 0:
        show_measurement(module, result, options.as_json, options.output, plot)
