"""What `wavefabric collective cost` prints: tables, or JSON."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wavefabric.cli.collective.circuits import notes as in_words
from wavefabric.cli.collective.msccl import NOT_COUNTED, cost_notes, facts
from wavefabric.cli.collective.order import NOTE, words
from wavefabric.cli.common.show import console

if TYPE_CHECKING:
    from wavefabric.collectives import Schedule
    from wavefabric.fabric import AnyFabric, Cost


@dataclass(frozen=True)
class Chosen:
    """A schedule that is costed, and where.

    Parameters
    ----------
    schedule : Schedule
        Proved.
    label : str
        In tables.
    grid : tuple of int or None
        That of the fabric, if it was taken over.
    place : AnyFabric or None
        The fabric with its GPUs in the order of ranks; None until that is known.
    order : tuple of int or None
        GPUs of the ranks; None: as they are.
    """

    schedule: Schedule
    label: str
    grid: tuple[int, ...] | None = None
    place: AnyFabric | None = None
    order: tuple[int, ...] | None = None


def plain(
    chosen: dict[str, Chosen],
    costs: dict[str, list[Cost]],
    sizes: list[int],
    rounds: bool,
    written: list[Path],
    notes: dict[str, dict[str, Any]],
) -> dict[str, Any]:
    """What ``--json`` prints."""
    rows = []
    for name, found in costs.items():
        for size, each in zip(sizes, found, strict=True):
            row = {
                "algorithm": name,
                "schedule": each.schedule,
                "bytes": size,
                "seconds": each.seconds,
                "latency": sum(r.latency for r in each.rounds),
                "reconfiguration": sum(r.reconfiguration for r in each.rounds),
                "transfer": sum(r.transfer for r in each.rounds),
                "bound": vars(each.bound),
                "ratio": each.seconds / each.bound.seconds if each.bound.seconds else None,
                "order": chosen[name].order,
                "grid": chosen[name].grid,
                "busiest": each.busiest,
                **notes[name],
                **facts(chosen[name].schedule),
                "best": each is min((costs[n][sizes.index(size)] for n in costs), key=lambda c: c.seconds),
            }
            if not each.rounds:  # rounds overlap: no such parts
                row |= {"latency": None, "reconfiguration": None, "transfer": None}
            if "msccl" in row:
                row["not_counted"] = list(NOT_COUNTED)
            if rounds:
                row["rounds"] = [vars(r) for r in each.rounds]
            rows.append(row)
    any_cost = next(iter(costs.values()))[0]
    return {
        "fabric": any_cost.fabric,
        "model": any_cost.model,
        "costs": rows,
        "written": [str(path) for path in written],
    }


def show(
    chosen: dict[str, Chosen],
    costs: dict[str, list[Cost]],
    sizes: list[int],
    rounds: bool,
    may_reorder: bool,
    notes: dict[str, dict[str, Any]],
    bandwidth: float = 0.0,
) -> None:
    """Print a table, by size and by time, below it grids, orders, notes on circuits, what might be better.

    ``bandwidth``: B/s that a wavelength is counted with.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from wavefabric.execution.report import size_words
    from wavefabric.fabric.draw.scene import time_words

    several = len(costs) > 1
    any_cost = next(iter(costs.values()))[0]
    name = next(iter(costs)) if not several else "compared"
    table = Table(
        title=f"{name} on {any_cost.fabric}, {any_cost.model} model", box=box.SIMPLE_HEAD, pad_edge=False
    )
    table.add_column("size", justify="right", no_wrap=True)
    if several:
        table.add_column("algorithm", no_wrap=True)
    light = any_cost.model == "photonic"
    parts = ("latency", "reconfiguration", "transfer") if light else ("latency", "transfer")
    parts = parts if any_cost.rounds else ()
    headings = {"reconfiguration": "set-up"}
    for heading in ("time", *parts, "bound", "ratio"):
        table.add_column(headings.get(heading, heading), justify="right", no_wrap=True)
    table.add_column("busiest", overflow="fold")
    for k, size in enumerate(sizes):
        order = sorted(costs, key=lambda n: costs[n][k].seconds)
        for place, label in enumerate(order):
            each = costs[label][k]
            cells = [size_words(size) if not place else ""]
            if several:
                shown = chosen[label].label
                cells.append(f"{shown} *" if not place else shown)
            cells.append(time_words(each.seconds))
            cells += [time_words(sum(getattr(r, part) for r in each.rounds)) for part in parts]
            ratio = f"{each.seconds / each.bound.seconds:.2f}" if each.bound.seconds else "-"
            cells += [time_words(each.bound.seconds), ratio, each.busiest]
            best = several and not place
            table.add_row(
                *(Text(c, style="bold" if best else "") for c in cells),
                end_section=several and place + 1 == len(order),
            )
    out = console()
    out.print(table)
    largest = next(iter(costs.values()))[-1]
    size = f" of {size_words(sizes[-1])}" if len(sizes) > 1 else ""
    out.print(f"bound{size}: {largest.bound.why}" + ("; *: the fastest" if several else ""))
    for name, each in chosen.items():
        which = f" of {name}" if several else ""
        if each.grid is not None:
            out.print(f"grid{which}: {'x'.join(map(str, each.grid))}, that of {any_cost.fabric}")
        if each.order is not None:
            out.print(f"order{which}: rank 0, 1, … is GPU {words(each.order)}", soft_wrap=True)
        for line in [*in_words(notes[name], bandwidth), *cost_notes(each.schedule, sizes)]:
            out.print(f"{name}: {line}" if several else line, soft_wrap=True)
    if may_reorder and all(each.order is None for each in chosen.values()):
        out.print(NOTE)
    if rounds:
        for label, found in costs.items():
            for size, each in zip(sizes, found, strict=True):
                title = f"{chosen[label].label}, {size_words(size)}"
                if chosen[label].order is not None:
                    title += f", order {words(chosen[label].order or ())}"
                out.print(rounds_table(each, title))


def rounds_table(cost: Cost, title: str):
    """Every round of one cost."""
    from rich import box
    from rich.table import Table

    from wavefabric.fabric.draw.scene import time_words

    if not cost.rounds:
        return f"{title}: the {cost.model} model has no rounds: they overlap"
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False)
    light = cost.model == "photonic"
    for heading in (
        "round",
        *(("parts",) if light else ()),
        "time",
        "latency",
        *(("set-up",) if light else ()),
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("transfer", justify="right", no_wrap=True)
    table.add_column("limit", overflow="fold")
    for each in cost.rounds:
        cells = [str(each.round), *((str(each.parts),) if light else ()), time_words(each.seconds)]
        cells += [time_words(each.latency), *((time_words(each.reconfiguration),) if light else ())]
        table.add_row(*cells, time_words(each.transfer), each.limit)
    return table
