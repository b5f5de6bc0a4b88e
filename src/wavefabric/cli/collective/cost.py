"""`wavefabric collective cost`: what schedules take on a fabric, and how far that is from the bound."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from wavefabric.cli.collective.algorithm import (
    AlgorithmOptions,
    Fabric,
    RankedAlgorithmOptions,
    Words,
    grid_of,
    schedule_from,
    whole_array,
)
from wavefabric.cli.collective.compare import compared
from wavefabric.cli.collective.cost_table import Costed, rows_of, show
from wavefabric.cli.collective.facts import circuit_facts
from wavefabric.cli.collective.setting import AllCircuitOptions, FabricSetting, Order, make_setting
from wavefabric.cli.common.files import PICTURES, check_target
from wavefabric.cli.common.options import OutputOptions, changed, grouped, option, options, refuse
from wavefabric.cli.common.parse import FACTOR_HELP, parse_sizes
from wavefabric.cli.common.ranks import rank_zero_only
from wavefabric.cli.common.show import print_json, print_written
from wavefabric.collectives import Schedule
from wavefabric.errors import InputError
from wavefabric.fabric import AnyFabric, Cost, PhotonicFabric
from wavefabric.fabric.cost_models.cost import check_sizes, cost
from wavefabric.fabric.draw.pictures import draw_costs
from wavefabric.fabric.photonic.budget import LinkBudget


@options()
class CostOptions(OutputOptions):
    """What is costed, and how."""

    bytes: str = option("Of the whole array: 64M, or 64K,1M, or 64K:1G. K, M, G: 2^10, …", default="64M")
    factor: int | None = option(FACTOR_HELP)
    algorithms: str | None = option(
        "Compare these, such as ring,recursive:4,double-tree:8 (radix, or pieces), or all."
    )
    model: str = option(
        "auto, {wavefabric.fabric.cost_models.cost:COST_MODELS}.", default="auto", also=("auto",)
    )
    engines: int | None = option("flow: transfers that a GPU sends at once. \\[default: any]")
    rounds: bool = option("Show every round.", default=False)
    output: Path | None = option("Picture: time over size.", "--output", "-o")


@grouped
@rank_zero_only
def command(
    algorithm: RankedAlgorithmOptions,
    circuit: AllCircuitOptions,
    asked: CostOptions,
    words: Words = None,
    fabric: Fabric = None,
    order: Order = None,
) -> None:
    """Time of a schedule on a fabric under a model, and of the least that any schedule needs.

    Examples:

    wavefabric collective cost recursive all-reduce --radix 4 --fabric lightpath:8x8 --bytes 64K:1G

    wavefabric collective cost all-reduce --algorithms ring,recursive:4 --fabric dgx-a100 -o compare.png

    wavefabric collective cost all-reduce --algorithms all,recursive:4 --fabric lightpath:4x8

    wavefabric collective cost ring all-reduce --fabric dgx-1 --order auto
    """
    if fabric is None and circuit.circuits is None:
        raise InputError("--fabric: none given; allowed: a name such as lightpath:4x8 or switch:8, or a file")
    if asked.engines is not None and (asked.model != "flow" or asked.engines < 1):
        allowed = "1 or more" if asked.model == "flow" else "with --model flow"
        raise InputError(f"--engines: {asked.engines} given; allowed: {allowed}")
    check_target(asked.output, asked.force, PICTURES)
    bytes_each = parse_sizes(asked.bytes, "--bytes", asked.factor)
    setting = make_setting(fabric, circuit, order)
    left_out: dict[str, str] = {}
    if asked.algorithms is None:
        chosen = _only(words, algorithm, setting.fabric)
    else:
        refuse(changed(circuit, "circuits"), "with --algorithms", "with one schedule")
        chosen = compared(asked.algorithms, words, algorithm, setting.fabric, left_out.__setitem__)
    costed = {name: _costed(each, setting, bytes_each, asked) for name, each in chosen.items()}
    written = []
    if asked.output is not None:
        costs = {name: list(each.costs) for name, each in costed.items()}
        written.append(draw_costs(asked.output, bytes_each, costs, setting.fabric.name))
    if asked.as_json:
        rows = rows_of(costed, bytes_each, asked.rounds) | {"written": written}
        print_json(rows | ({"left_out": left_out} if left_out else {}))
        return
    reorder = setting.order_may_matter([each.schedule for each in costed.values()])
    show(costed, bytes_each, asked.rounds, reorder, getattr(setting.fabric, "laser_bandwidth", 0.0))
    for name, why in left_out.items():
        typer.echo(f"left out: {name} ({why})")
    print_written(written)


def _only(words: list[str] | None, algorithm: AlgorithmOptions, fabric: AnyFabric) -> dict[str, Costed]:
    """The one schedule of the command line, not costed yet."""
    schedule = schedule_from(words, algorithm, fabric)
    grid = grid_of(words[0], schedule.ranks, fabric) if words and algorithm.grid is None else None
    return {schedule.name: Costed(schedule, schedule.name, grid)}


def _costed(each: Costed, setting: FabricSetting, sizes: list[int], asked: CostOptions) -> Costed:
    """With its costs of all sizes, under one order and one plan of circuits."""
    # The order is that of the largest size, where links count most.
    fabric, order = setting.in_order(each.schedule, max(sizes) / whole_array(each.schedule), asked.model)
    options, facts = _planned(each.schedule, setting)
    if asked.engines is not None and not setting.photonic:
        options["engines"] = asked.engines
    costs = tuple(cost_at(each.schedule, fabric, size, asked.model, options) for size in sizes)
    return replace(each, order=order, costs=costs, circuits=facts)


def _planned(schedule: Schedule, setting: FabricSetting) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of the photonic model with one plan for all sizes, and facts about it; none for electrical."""
    if not isinstance(setting.fabric, PhotonicFabric):
        return {}, {}
    check_sizes(schedule, setting.fabric, 1.0)
    plan = setting.plan_circuits(schedule)
    options = {"plan": plan, "incremental": setting.options.incremental}
    if setting.options.budget:
        options["budget"] = setting.fabric.budget or LinkBudget()
    return options, circuit_facts(plan)


def cost_at(schedule: Schedule, fabric: AnyFabric, size: float, model: str, options: dict[str, Any]) -> Cost:
    """Cost of one size in bytes of the whole array."""
    return cost(schedule, fabric, size / whole_array(schedule), model, **options)
