"""`wavefabric train MODEL`: an iteration of training on a fabric, or many of them compared."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wavefabric.cli.common.files import PICTURES, check_target
from wavefabric.cli.common.options import OutputOptions, check_choice, option, options, refuse
from wavefabric.cli.common.parse import parse_list
from wavefabric.cli.common.progress import make_progress
from wavefabric.cli.common.show import conclude
from wavefabric.cli.train.fabrics import FabricOptions, all_gpus, parse_fabrics, parse_gpus
from wavefabric.cli.train.table import facts, show_case, show_comparison
from wavefabric.cli.train.work import Work, WorkOptions
from wavefabric.errors import InputError
from wavefabric.training.compare import Case, check_lists, compare
from wavefabric.training.comparison_picture import draw_comparison
from wavefabric.training.engine import POLICIES
from wavefabric.training.strategy_file import save_strategy

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="Name, such as bert-large (`wavefabric train models`), or a file (JSON)."
    ),
]


@options()
class ResultOptions(OutputOptions):
    """What is compared and written."""

    compare: bool = option("Compare all of --gpus, --fabric and --collective, lists.", default=False)
    output: Path | None = option("Picture, with --compare: throughput over GPUs.", "--output", "-o")
    save_strategy: Path | None = option("Strategy (JSON), which --strategy reads.")


def command(model: Model, work: WorkOptions, where: FabricOptions, result: ResultOptions) -> None:
    """Time of a training iteration on a fabric, what of it is communication, and what bounds it.

    Examples:

    wavefabric train bert-large --gpus 256 --fabric lightpath --collective lumorph-4

    wavefabric train gpt-7b --gpus 64 --strategy tensor:8,pipeline:2,sharded --precision bf16

    wavefabric train ncf --gpus 4,16,64,256 --fabric switch,lightpath --collective ring,lumorph-2 --compare
    """
    _check_outputs(model, work, result)
    check_choice("--policy", where.policy, POLICIES)
    fabrics = parse_fabrics(where.fabric)
    gpus = all_gpus(fabrics) if where.gpus is None else parse_gpus(where.gpus)
    collectives = parse_list(where.collective)
    check_lists(gpus, fabrics, collectives)
    if not result.compare:
        for name, given in (("gpus", gpus), ("fabric", fabrics), ("collective", collectives)):
            if len(given) > 1:
                text = getattr(where, name)
                raise InputError(f"--{name}: {text} given; allowed: one, or several with --compare")
    what = Work(model, work)
    for count in gpus:
        what.workload(count)
    progress = make_progress(result.as_json or len(gpus) * len(fabrics) * len(collectives) == 1)
    cases = compare(what.workload, gpus, fabrics, collectives, policy=where.policy, progress=progress)
    title = f"{what.title}, {where.policy} calls"
    if result.compare:
        _conclude_comparison(cases, title, result)
    else:
        _conclude_single(cases[0], title, what, result)


def _check_outputs(model: str, work: WorkOptions, result: ResultOptions) -> None:
    """Refuse files before anything is computed."""
    inputs = (model, work.strategy, work.device)
    if not result.compare:
        refuse({"output": result.output} if result.output else {}, "without --compare", "with --compare")
    else:
        own = {"save_strategy": result.save_strategy} if result.save_strategy else {}
        refuse(own, "with --compare", "with one simulation")
    check_target(result.output, result.force, PICTURES, inputs=inputs)
    check_target(result.save_strategy, result.force, (".json",), "--save-strategy", inputs)


def _conclude_comparison(cases: list[Case], title: str, result: ResultOptions) -> None:
    written = []
    if result.output is not None:
        written.append(draw_comparison(result.output, cases, title))
    found = {"work": title, "cases": [facts(case) for case in cases]}
    conclude(result.as_json, found, written, lambda: show_comparison(cases, title))


def _conclude_single(case: Case, title: str, what: Work, result: ResultOptions) -> None:
    written = []
    workload = what.workload(case.gpus)
    if result.save_strategy is not None:
        written.append(save_strategy(result.save_strategy, workload.model, workload.strategy, result.force))
    conclude(
        result.as_json,
        {"work": title, **facts(case)},
        written,
        lambda: show_case(case, title, what.memory),
    )
