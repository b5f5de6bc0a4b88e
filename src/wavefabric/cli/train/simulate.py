"""`wavefabric train MODEL`: an iteration of training on a fabric, or many of them compared."""

from __future__ import annotations

from typing import Annotated

import typer

from wavefabric.cli.common.options import changed, check_choice
from wavefabric.cli.common.parse import parse_list
from wavefabric.cli.common.planning_options import PlanningOptions
from wavefabric.cli.common.progress import make_progress
from wavefabric.cli.common.show import conclude
from wavefabric.cli.train.fabrics import (
    TrainFabricOptions,
    all_gpus,
    parse_fabrics,
    parse_gpus,
    planning_words,
)
from wavefabric.cli.train.searching import SearchOptions
from wavefabric.cli.train.table import facts, show_case, show_comparison
from wavefabric.cli.train.work import ModelWork, TraceWork, WorkOptions, make_work
from wavefabric.cli.train.written import ResultOptions, check_files, write_files
from wavefabric.errors import InputError
from wavefabric.training.compare import check_lists, compare
from wavefabric.training.comparison_picture import draw_comparison
from wavefabric.training.iteration.engine import POLICIES

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="Name, such as bert-large (`wavefabric train models`); a file (JSON); a Chakra trace (NAME of "
        "NAME.0.et, …); or a time step: fibre:MODESxSAMPLES or "
        "ultrasound:NXxNYxNZ[:local].",
    ),
]


def command(
    model: Model,
    work: WorkOptions,
    where: TrainFabricOptions,
    circuits: PlanningOptions,
    find: SearchOptions,
    result: ResultOptions,
) -> None:
    """Time of a training iteration on a fabric, what of it is communication, and what bounds it.

    Examples:

    wavefabric train bert-large --gpus 256 --fabric lightpath --collective lumorph-4 -o timeline.png

    wavefabric train gpt-7b --gpus 64 --strategy tensor:8,pipeline:2,sharded --precision bf16

    wavefabric train ncf --gpus 4,16,64,256 --fabric switch,lightpath --collective ring,lumorph-2 --compare
    """
    check_choice("--policy", where.policy, POLICIES)
    find.check()
    fabrics, collectives = parse_fabrics(where.fabric), parse_list(where.collective)
    asked = make_work(model, work, find, where.policy)
    if where.gpus is not None:
        gpus = parse_gpus(where.gpus)
    else:
        gpus = [asked.gpus] if isinstance(asked, TraceWork) else all_gpus(fabrics)
    check_lists(gpus, fabrics, collectives)
    if not result.compare:
        for name, given in (("gpus", gpus), ("fabric", fabrics), ("collective", collectives)):
            if len(given) > 1:
                text = getattr(where, name)
                raise InputError(f"--{name}: {text} given; allowed: one, or several with --compare")
    inputs = (model, work.strategy, work.device, *(asked.files if isinstance(asked, TraceWork) else ()))
    check_files(result, inputs, gpus[0], isinstance(asked, ModelWork))
    for count in gpus:
        asked.check(count)
    # A search has a bar of its own.
    single = len(gpus) * len(fabrics) * len(collectives) == 1
    progress = make_progress(result.as_json or single or getattr(asked, "searched", False))
    cases = compare(
        asked.make, gpus, fabrics, collectives,
        policy=where.policy, merge=not result.pictured, circuits=changed(circuits), progress=progress,
    )  # fmt: skip
    title = ", ".join([asked.title, f"{where.policy} calls", *planning_words(circuits)])
    if result.compare:
        written = [] if result.output is None else [draw_comparison(result.output, cases, title)]
        found = {"work": title, "cases": [facts(case) for case in cases]}
        conclude(result.as_json, found, written, lambda: show_comparison(cases, title))
    else:
        written = write_files(cases[0], result, asked.name)
        found = {"work": title, **facts(cases[0])}
        conclude(result.as_json, found, written, lambda: show_case(cases[0], title, asked.memory))
