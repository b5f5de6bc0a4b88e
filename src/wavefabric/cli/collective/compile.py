"""Implement `wavefabric collective compile`, which proves and shows the execution plan of a schedule."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wavefabric.base.errors import InputError
from wavefabric.cli.collective.algorithm import (
    RankedAlgorithmOptions,
    ScheduleOptions,
    schedule_from,
    whole_array,
)
from wavefabric.cli.common.files import load_fabric
from wavefabric.cli.common.options import changed, check_range, option, options, refuse
from wavefabric.cli.common.parse import parse_size
from wavefabric.cli.common.show import conclude, pairs_table, table
from wavefabric.collectives.plans.check import check_execution_plan
from wavefabric.collectives.plans.moves import STAGING, Address, Move, kind_of
from wavefabric.collectives.plans.order import Signal, Wait
from wavefabric.collectives.plans.plan import MOST_RANKS, ExecutionPlan, Instruction, compile_plan
from wavefabric.fabric import PhotonicFabric
from wavefabric.fabric.cost_models.cost import check_sizes
from wavefabric.fabric.draw.pictures import STILL, draw_timeline


@options()
class CompileOptions(ScheduleOptions):
    """Options of compiling a schedule, and of the output."""

    protocol: str = option("{wavefabric.collectives.plans.plan:PROTOCOLS}.", default="signals")
    slots: int | None = option(
        "Copies of each staging buffer, used by turns: 1 or 2. [default: 1 if nobody waits for it]", "--rooms"
    )
    rank: int = option("Rank whose instructions are shown; with --json all are.", default=0)
    fabric: str | None = option("Fabric of the picture: a name or a file.", "--fabric", "-f")
    bytes: str | None = option("Of the whole array, for the picture. [default: 1M]")
    output: Path | None = option("Picture of what kernels do through time.", "--output", "-o", endings=STILL)


def command(algorithm: RankedAlgorithmOptions, options: CompileOptions) -> None:
    """Compile a schedule into an execution plan, what one kernel a rank does, and prove it.

    Examples:

    wavefabric collective compile recursive all-reduce --ranks 4 --radix 4

    wavefabric collective compile best.json --protocol packets --rank 3

    wavefabric collective compile recursive all-reduce --fabric hgx-h200 --bytes 1M -o timeline.png
    """
    if options.output is None:
        refuse(changed(options, "bytes", "force"), "without --output", "with one")
    elif options.fabric is None:
        raise InputError("--fabric: none given with --output; allowed: one, such as hgx-h200")
    array_bytes = parse_size("1M" if options.bytes is None else options.bytes)
    fabric = None if options.fabric is None else load_fabric(options.fabric)
    if isinstance(fabric, PhotonicFabric):
        raise InputError(f"--fabric: {options.fabric} is photonic; allowed: electrical")
    count = algorithm.ranks or (fabric.ranks if fabric else 0)
    if len(options.words or ()) == 2:
        check_range("--ranks", count or None, 1, MOST_RANKS, f"1 to {MOST_RANKS} for an execution plan")
    schedule = schedule_from(options.words, algorithm, fabric)
    check_range("--rank", options.rank, 0, schedule.ranks - 1, f"0 to {schedule.ranks - 1}")
    plan = compile_plan(schedule, options.protocol, options.slots)
    check_execution_plan(plan)
    facts, written = plan_facts(plan), []
    if fabric is not None and options.output is not None:
        element_bytes = array_bytes / whole_array(schedule)
        check_sizes(schedule, fabric, element_bytes)
        written.append(draw_timeline(plan, fabric, element_bytes, options.output, force=options.force))
    code = [[instruction_facts(each, schedule.buffers) for each in own] for own in plan.instructions]
    kept = "once" if plan.slots == 1 else "twice, for one call after another"
    lines = [
        ("schedule", f"{schedule.name}, {schedule.ranks} ranks"),
        ("protocol", plan.protocol),
        ("moves", f"{facts['moves']} of the busiest rank, {schedule.rounds} rounds before"),
        ("signals", f"{facts['signals']} of the busiest rank"),
        ("staging", f"{facts['arrivals']} elements of a rank, {kept}"),
        ("proved", "no deadlock, no race, whatever the timing; calls may follow one another"),
    ]
    shown = zip(plan.instructions[options.rank], code[options.rank], strict=True)
    rows = [(str(number), *_cells(each, known)) for number, (each, known) in enumerate(shown)]
    columns = ("#", "|instruction", "elements", "<from", "<to")
    tables = pairs_table(lines), table(columns, rows, title=f"rank {options.rank}")
    conclude(options.as_json, {**facts, "instructions": code}, written, tables)


def plan_facts(plan: ExecutionPlan) -> dict[str, Any]:
    """Return the facts about a checked plan, for JSON; counts are those of the busiest rank."""
    ranks = range(plan.schedule.ranks)
    moves = [sum(isinstance(each, Move) for each in code) for code in plan.instructions]
    return {
        "schedule": plan.schedule.name,
        "ranks": plan.schedule.ranks,
        "protocol": plan.protocol,
        "rooms": plan.slots,
        "moves": max(moves),
        "signals": max(sum(n for (src, _), n in plan.signals.items() if src == rank) for rank in ranks),
        "arrivals": max(sum(a.size for a in plan.staging if a.rank == rank) for rank in ranks),
        "proved": True,
    }


def instruction_facts(each: Instruction, buffers: Sequence[str]) -> dict[str, Any]:
    """Return an instruction as plain values for JSON."""
    facts: dict[str, Any] = {"instruction": type(each).__name__.lower()}
    if isinstance(each, Move):
        ends = {"sources": each.sources, "targets": each.targets}
        facts["elements"] = each.size
        facts |= {end: [_address_facts(p, buffers) for p in own] for end, own in ends.items()}
        facts |= {"summed": each.summed, "multicast": each.multicast} if each.switched else {}
    elif isinstance(each, Signal):
        facts["ranks"] = each.to
    elif isinstance(each, Wait):
        facts["signals"] = [{"rank": rank, "number": n} for rank, n in each.signals]
    return facts


def _address_facts(address: Address, buffers: Sequence[str]) -> dict[str, Any]:
    if address.buffer == STAGING:
        return {"rank": address.rank, "arrival": -1 - address.key}
    return {"rank": address.rank, "buffer": buffers[address.buffer], "first": address.first}


def _cells(each: Instruction, known: dict[str, Any]) -> tuple[str, str, str, str]:
    """Return the table cells of an instruction: its kind, elements, sources and targets."""
    kind = known["instruction"]
    if isinstance(each, Move):
        texts = []
        for end, switched, words, between in (
            ("sources", each.summed, "sum by the switch: ", " + "),
            ("targets", each.multicast, "to all by the switch: ", "\n"),
        ):
            shown = known[end]
            # As a rule the address is the same on all ranks: show it once.
            if switched and len({(p.get("buffer"), p.get("first")) for p in shown}) == 1:
                shown = [{**shown[0], "rank": each.rank}]
            texts.append(words * switched + between.join(_address_text(p, each) for p in shown))
        return kind_of([each]), str(each.size), *texts
    if isinstance(each, Signal):
        return kind, "", "", ", ".join(f"rank {rank}" for rank in each.to)
    signals = each.signals if isinstance(each, Wait) else ()
    return kind, "", ", ".join(f"rank {rank} ({n})" for rank, n in signals), ""


def _address_text(address: dict[str, Any], move: Move) -> str:
    where = "" if address["rank"] == move.rank else f"rank {address['rank']}: "
    if "arrival" in address:
        return f"{where}staging {address['arrival']}"
    return f"{where}{address['buffer']}[{address['first']}:{address['first'] + move.size}]"
