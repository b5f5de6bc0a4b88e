"""`wavefabric collective run`: a schedule between real ranks: checked, timed, and its time predicted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from wavefabric.cli.collective.algorithm import AlgorithmOptions, Words, build_by_name, schedule_from
from wavefabric.cli.collective.setting import CircuitOptions, Order, make_setting
from wavefabric.cli.common import ranks as common_ranks
from wavefabric.cli.common.measure import (
    Device,
    Factor,
    RankSession,
    Repeats,
    Threads,
    Transports,
    check_free,
)
from wavefabric.cli.common.options import Force, Json, grouped, option
from wavefabric.cli.common.parse import optional_sizes
from wavefabric.errors import InputError

if TYPE_CHECKING:
    from wavefabric.collectives import Schedule
    from wavefabric.fabric import AnyFabric


@grouped
def command(
    algorithm: AlgorithmOptions,
    words: Words = None,
    sizes: Annotated[
        str | None,
        option(
            "--sizes", help="Bytes of the whole array: least:most, or with commas between; K, M, G: 2^10, …"
        ),
    ] = None,
    factor: Factor = None,
    dtype: Annotated[
        str, option("--dtype", help="{wavefabric.execution.collective_data:EXACT}.")
    ] = "float32",
    fabric: Annotated[
        str | None, option("--fabric", "-f", help="Predict for this fabric: a name or a file.")
    ] = None,
    model: Annotated[str, option("--model", help="Of the prediction: auto, alpha-beta, flow.")] = "auto",
    order: Order = None,
    nccl: Annotated[bool, option("--nccl", help="Time NCCL's own operation too.")] = False,
    repeats: Repeats = 5,
    transports: Transports = "all",
    ranks: common_ranks.Ranks = None,
    placement: common_ranks.Placement = None,
    device: Device = "auto",
    threads: Threads = None,
    as_json: Json = False,
    output: Annotated[
        Path | None,
        option(
            "--output",
            "-o",
            help="Folder for the picture and the numbers (JSON); neither is written without.",
        ),
    ] = None,
    plot: Annotated[
        bool | None,
        option(
            "--plot/--no-plot",
            help="Draw the picture, without --output in this folder. \\[default: yes with --output]",
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Run a schedule on every transport; every element that arrives is checked.

    Examples:

    wavefabric collective run recursive all-reduce --ranks 4 --sizes 64K:16M

    mpiexec -n 4 wavefabric collective run best.json --fabric measured.toml
    """
    from wavefabric.collectives.conditions import whole_elements
    from wavefabric.exchange.launch import environment
    from wavefabric.execution import collective_run as module

    plot = output is not None if plot is None else plot
    if common_ranks.is_rank_zero():
        check_free("collective-run", output, plot, force)
    chosen = optional_sizes(sizes, factor)
    if fabric is None:
        for name, value in (("--order", order), ("--model", None if model == "auto" else model)):
            if value is not None:
                raise InputError(f"{name}: {value} given without --fabric; allowed: with one")
    setting = None if fabric is None else make_setting(fabric, CircuitOptions(), order)
    predicted: Any = None if setting is None else setting.fabric
    count = max(environment.ranks(), ranks or 1)
    schedule: Schedule | Callable[[int], Schedule]
    if words and len(words) == 2:
        # One for each size; refused before any rank starts.
        build = partial(_with_elements, *words, replace(algorithm, ranks=count), predicted)
        example, schedule = build(algorithm.elements), build
    else:
        example = schedule = schedule_from(words, algorithm)
        if ranks is None and environment.ranks() == 1:
            count = ranks = example.ranks
        if example.ranks != count:
            file = words[0] if words else ""
            raise InputError(f"--ranks: {count} given; allowed: {example.ranks}, as in {file}")
    if setting is not None and order is not None:
        element_bytes = max(chosen, default=1 << 26) / max(whole_elements(example), 1)
        predicted, _ = setting.in_order(example, element_bytes, model)
    with RankSession(ranks, transports, placement, device, threads, as_json) as job:
        result = module.run(
            job.ranks, schedule, chosen, dtype, repeats, predicted, nccl, job.say, model=model
        )
        job.show(module, result, output, plot)


def _with_elements(
    name: str, collective: str, options: AlgorithmOptions, fabric: AnyFabric | None, elements: int | None
) -> Schedule:
    return build_by_name(name, collective, replace(options, elements=elements), fabric)
