"""Runs a schedule on real links: checks it, times it, and compares it with its prediction and with NCCL."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.base.errors import InputError, ensure
from wavefabric.base.results.figure_style import GREY, INK
from wavefabric.collectives import Schedule, levels
from wavefabric.collectives.candidates import VARIANTS
from wavefabric.collectives.conditions import whole_elements
from wavefabric.collectives.plans.plan import PROTOCOLS
from wavefabric.collectives.schedule import scaled
from wavefabric.collectives.structure import in_rounds
from wavefabric.fabric.electrical.fabric import Fabric
from wavefabric.fabric.execution import report, timed_schedule
from wavefabric.fabric.execution.timed_schedule import GRAPHED, SizedSchedule
from wavefabric.fabric.execution.timing import Ranks, check_options
from wavefabric.runtime.exchange.communicator import Communicator
from wavefabric.runtime.exchange.transports.plan_code import MOST_BLOCKS

#: Smallest and largest array in bytes, by kind of device.
SIZES = {"cpu": (1 << 16, 1 << 22), "cuda": (1 << 16, 1 << 30)}


@dataclass(frozen=True)
class ScheduleMeasurement:
    """Holds options of `run`: how it measures, and the fabric for predictions."""

    #: Element type, one of `wavefabric.fabric.execution.timed_schedule.EXACT`.
    dtype: str = "float32"
    #: Samples per time.
    repeats: int = 5
    #: Fabric for predicted times (or its name or file), and the cost model.
    fabric: Fabric | str | Path | None = None
    model: str = "auto"
    #: Whether NCCL's built-in operation is timed too.
    nccl: bool = False
    #: Protocols for `Communicator.bind`, one case each if a transport has it; blocks of their kernels.
    protocols: Sequence[str] = ("auto",)
    blocks: int | None = None
    #: Whether protocols with a kernel, and NCCL's operation, are also timed as `GRAPHED` calls in one CUDA
    #: graph (µs per call), if no barrier is needed between them.
    graph: bool = False


def run(
    ranks: Ranks,
    schedule_of: Callable[[int], Schedule] | Schedule,
    sizes: Sequence[int] = (),
    progress: Callable[[str], None] = lambda line: None,
    **options: Any,
) -> dict[str, Any]:
    """Run a schedule between all ranks on every transport: check it, time it, compare it with a prediction.

    ``schedule_of`` is a function that returns a schedule for a number of elements of the whole array, or a
    `Schedule` whose chunks are scaled by whole numbers. ``sizes`` are bytes of the whole array; by default
    the size of this `Schedule`, or those between the ends of `SIZES`. ``options`` are the fields of
    `ScheduleMeasurement`.

    For the check, chunks that the precondition ``pre`` names are filled with whole numbers whose sums are
    exact. All other elements are NaN or, in arrays of whole numbers, −2²⁰. After the run the chunks of the
    postcondition ``post`` are compared to the bit, on the device. Timed runs follow, on zeros. If ranks could
    run ahead of each other (key ``apart`` of the result), a barrier follows each run, and the barrier's own
    time is subtracted.

    algbw and busbw are defined as in nccl-tests (PERFORMANCE.md). For S bytes of the whole array, K ranks and
    the time t, algbw = S/t. busbw is algbw times 2(K − 1)/K for all-reduce, (K − 1)/K for all-gather,
    reduce-scatter, all-to-all, gather and scatter, 1 for broadcast and reduce. For other schedules busbw is
    the bytes of the busiest rank over t. ``ratio`` is predicted over measured time, ``over_own`` bandwidth
    over that of NCCL's own operation.
    """
    chosen = ScheduleMeasurement(**options)
    timed_schedule.values_of(chosen.dtype, ranks.size)  # raises if data cannot be checked
    width = np.dtype(chosen.dtype).itemsize
    check_protocols(chosen.protocols, chosen.blocks)
    ensure(ranks.on_gpu or not chosen.graph, "graph", "given for CPUs", "with GPUs")
    check_options(chosen.repeats, () if isinstance(schedule_of, Schedule) else sizes, width)
    sized = [SizedSchedule.of(schedule, width) for schedule in _schedules(ranks, schedule_of, sizes, width)]
    fabric = fabric_of_ranks(chosen.fabric, ranks.size)
    predict = _predictions(fabric, chosen.model, sized, width)
    timed_schedule.check_memory(ranks, sized, width, chosen.protocols)
    own, why = None, None
    if chosen.nccl:
        how = chosen.dtype, chosen.repeats, progress, chosen.graph
        own, why = timed_schedule.nccl_rows(ranks, sized, *how)
    cases = []
    for comm in ranks.each():
        largest = timed_schedule.largest_buffers(sized)
        if comm.one_sided and "auto" in chosen.protocols:  # `auto` runs by signals here
            timed_schedule.check_memory(ranks, sized, width, ["signals"])
        buffers = {name: comm.allocate((n,), chosen.dtype) for name, n in largest.items()}
        for protocol in chosen.protocols:
            if measured := _measure(ranks, comm, sized, buffers, protocol, chosen, progress):
                predicted = [predict(at, row["protocol"]) for at, row in enumerate(measured)]
                models = sorted({each.model for each in predicted if each is not None})
                pairs = zip(measured, predicted, strict=True)
                cases.append({
                    "transport": comm.transport, "protocol": protocol, "latency_us": measured[0]["us"],
                    "rows": [row | _compared(row, cost, own) for row, cost in pairs],
                    "model": ", ".join(models) or None, "facts": comm.describe(),
                })  # fmt: skip
        del buffers
    first = sized[0]
    return {
        "benchmark": "collective-run",
        "schedule": first.schedule.name,
        "collective": first.collective,
        "root": first.root,
        "ranks": ranks.size,
        "rounds": first.schedule.communication_rounds,
        "levels": int(levels(first.schedule).max(initial=-1)) + 1,
        "dtype": chosen.dtype,
        "repeats": chosen.repeats,
        "sizes": [each.bytes for each in sized],
        "apart": first.separate,
        "graphed": GRAPHED if chosen.graph else None,
        "fabric": fabric.name if fabric is not None else None,
        "own": own,
        "why_no_own": why,
        "cases": cases,
        "unavailable": ranks.unavailable,
        "machine": ranks.machine(),
    }


def _predictions(fabric: Any, model: str, sized: list[SizedSchedule], width: int):
    """Return a function from (index of a size, protocol) to a predicted `Cost`, or None if no model fits.

    Over p2p the model ``"kernel"`` only describes protocols with kernels, and the other models only describe
    copies.
    """
    if fabric is None:
        return lambda at, protocol: None
    from wavefabric.fabric.cost_models.cost import cost, model_for

    cost(as_run(sized[0].schedule), fabric, width, model)  # raise errors before anything is measured

    @cache
    def predicted(at: int, protocol: str):
        by_kernel, named = protocol in PROTOCOLS, model
        if model == "auto":
            named = model_for(fabric, sized[at].schedule.ranks, kernels=by_kernel)
        if protocol != "auto" and by_kernel != (named == "kernel"):
            named = ""
        options = {"protocol": protocol} if by_kernel else {}
        return cost(as_run(sized[at].schedule), fabric, width, named, **options) if named else None

    return predicted


def _measure(
    ranks: Ranks,
    comm: Communicator,
    sizes: list[SizedSchedule],
    buffers: dict[str, Any],
    protocol: str,
    chosen: ScheduleMeasurement,
    say: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Check and time all sizes by one protocol; return a row per size, none if the protocol fails."""
    label = comm.transport if protocol == "auto" else f"{comm.transport}, {protocol}"
    rows = []
    try:
        for each in sizes:
            say(f"{label}: {sizes[0].schedule.name}, {each.bytes} bytes")
            own = {name: buffers[name] for name in each.schedule.buffers}  # not every size needs scratch
            blocks = chosen.blocks if protocol in PROTOCOLS else None
            exchange = comm.bind(each.schedule, own, protocol, blocks)
            how = chosen.repeats, chosen.graph and exchange.protocol in PROTOCOLS
            timed = timed_schedule.check_and_time(ranks, comm, each, exchange.run, own, *how)
            rows.append(timed | {"protocol": exchange.protocol})
            exchange.check()
    except InputError as error:  # from binding, raised alike on all ranks
        if protocol == "auto":
            raise
        ranks.unavailable[label] = str(error)
        return []
    return rows


def check_protocols(protocols: Sequence[str], blocks: int | None) -> None:
    """Raise `InputError` for unknown or repeated protocols, and for blocks that no kernel can have."""
    ensure(protocols, "protocol", "none given", ", ".join(VARIANTS))
    for number, name in enumerate(protocols):
        ensure(name in VARIANTS, "protocol", f"{name!r} given", ", ".join(VARIANTS))
        ensure(name not in protocols[:number], "protocol", f"{name} given twice", "each once")
    if blocks is not None and not set(protocols) & set(PROTOCOLS):
        raise InputError(f"blocks: {blocks} given; allowed: with a protocol of {', '.join(PROTOCOLS)}")
    ensure(blocks is None or 1 <= blocks <= MOST_BLOCKS, "blocks", f"{blocks} given", f"1 to {MOST_BLOCKS}")


def sizes_between(least: int, most: int, factor: int = 4) -> list[int]:
    """Return the sizes ``least``, ``least * factor`` and so on up to ``most``."""
    return list(takewhile(lambda size: size <= most, (least * factor**k for k in count())))


def as_run(schedule: Schedule) -> Schedule:
    """Return the schedule as `runtime.exchange` runs it: each transfer in the first round its data allow."""
    return in_rounds(schedule, levels(schedule))


def _schedules(ranks: Ranks, schedule_of, sizes: Sequence[int], width: int) -> list[Schedule]:
    """Return a schedule for each size; the chunks of a given `Schedule` are scaled."""
    if isinstance(schedule_of, Schedule):
        least = whole_elements(schedule_of) * width
        ensure(least, "schedule", f"{schedule_of.name} has no elements", "one or more")
        small = next((size for size in sizes if size < least), None)
        ensure(small is None, "sizes", f"{small} bytes given", f"from {least} for {schedule_of.name}")
        factors = [size // least for size in sizes] or [1]
        schedules = [scaled(schedule_of, factor) for factor in factors]
    else:
        chosen = list(sizes) or sizes_between(*SIZES["cuda" if ranks.on_gpu else "cpu"])
        schedules = [schedule_of(size // width) for size in chosen]
    for schedule in schedules:
        if schedule.ranks != ranks.size:
            raise InputError(
                f"schedule: {schedule.name} is for {schedule.ranks} ranks; here are {ranks.size}"
            )
    return schedules


def fabric_of_ranks(fabric: Any, ranks: int) -> Any:
    """Return ``fabric``, loaded if given by name or file; `InputError` unless it has ``ranks`` GPUs."""
    if isinstance(fabric, str | Path):
        from wavefabric.fabric.io.files import load

        fabric = load(fabric)
    if fabric is not None and fabric.ranks != ranks:
        raise InputError(f"fabric: {fabric.name} has {fabric.ranks} GPUs; allowed here: {ranks}")
    return fabric


def _compared(row: dict[str, Any], cost: Any, own: list[dict[str, Any]] | None):
    """Return prediction and NCCL's time for the size of ``row``, and their ratios to the measured time."""
    predicted = None if cost is None else cost.seconds * 1e6
    other = next((o for o in own or () if o["bytes"] == row["bytes"]), {})
    same, graphed, own_graphed = other.get("us"), row.get("graph_us"), other.get("graph_us")
    return {
        "predicted_us": predicted,
        "ratio": None if predicted is None else predicted / row["us"],
        "own_us": same,
        "over_own": same / row["us"] if same else None,
        "own_graph_us": own_graphed,
        "over_own_graph": own_graphed / graphed if graphed and own_graphed else None,
    }


def table(result: dict[str, Any]) -> list:
    """Return a table of measured times for each transport, and notes."""
    lines = [_table(result, case) for case in result["cases"]]
    if own := result["own"]:
        wrong = sum(row["wrong"] for row in own)
        lines.append(f"x NCCL: bandwidth over that of NCCL's own {result['collective']} ({wrong} wrong)")
    elif result["why_no_own"]:
        lines.append(f"NCCL's own: not measured; {result['why_no_own']}")
    if result["apart"]:
        lines.append("a barrier on the device between runs; its own time is taken off")
    return lines + report.unavailable(result)


def _variant(case: dict[str, Any]) -> str:
    """Return the transport's name, with the protocol if it was set explicitly."""
    name = report.transport_name(case["transport"])
    return name if case["protocol"] == "auto" else f"{name}, {case['protocol']}"


def _table(result: dict[str, Any], case: dict[str, Any]) -> Any:
    columns: dict[str, Any] = {"size": ("bytes", report.size_words), "time us": ("us", "{:.1f}".format)}
    if {row["protocol"] for row in case["rows"]} != {case["protocol"]}:
        columns["by"] = "protocol", str
    columns |= {f"{key} GB/s": (key, "{:.3g}".format) for key in ("algbw", "busbw")}
    columns["#wrong"] = "wrong", str
    if result["graphed"]:
        columns["in a graph us"] = "graph_us", "{:.1f}".format
    caption = f"{result['rounds']} rounds, run as {result['levels']} levels; {result['dtype']}"
    if result["fabric"] is not None:
        columns["predicted us"] = "predicted_us", "{:.1f}".format
        columns["predicted/measured"] = "ratio", "{:.2f}".format
        caption += f"; predicted: {case['model']} on {result['fabric']}" if case["model"] else ""
    if result["own"]:
        columns |= {"NCCL's own us": ("own_us", "{:.1f}".format), "x NCCL": ("over_own", "{:.2f}".format)}
        if result["graphed"]:
            columns["NCCL in a graph us"] = "own_graph_us", "{:.1f}".format
            columns["x NCCL, graphs"] = "over_own_graph", "{:.2f}".format
    rows = [
        ["-" if row.get(key) is None else words(row[key]) for key, words in columns.values()]
        for row in case["rows"]
    ]
    title = f"{result['schedule']}, {_variant(case)}, {result['ranks']} ranks"
    return report.table(title, list(columns), rows, caption, plain=True)


def plot(result: dict[str, Any], path: str | Path) -> None:
    """Plot time over size: measured, predicted, and of NCCL's built-in operation."""
    with report.figure(path, (6.4, 4.6)) as figure:
        axes = figure.subplots()

        def line(rows: list[dict[str, Any]], key: str, **style: Any) -> None:
            axes.plot([row["bytes"] for row in rows], [row[key] for row in rows], markersize=5, **style)

        for number, case in enumerate(result["cases"]):
            line(case["rows"], "us", label=_variant(case), **report.look(number))
        if result["own"]:
            label = f"NCCL's own {result['collective']}"
            line(result["own"], "us", color=GREY, marker="x", linewidth=1.2, linestyle="--", label=label)
        if result["fabric"] is not None and result["cases"]:
            first = result["cases"][0]
            if first["model"]:
                label = f"predicted: {result['fabric']}, {first['model']}"
                line(first["rows"], "predicted_us", color=INK, linewidth=1.2, linestyle=":", label=label)
        axes.set_title(f"{result['schedule']}, {result['ranks']} ranks")
        report.log_axes(axes, "bytes of the whole array", "time (us)")
        axes.legend(fontsize=9)
