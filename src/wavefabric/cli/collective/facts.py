"""Present facts about a schedule and its costs: as plain values, in words and in tables."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table

from wavefabric.base.units import counted, time_words
from wavefabric.cli.collective.setting import ORDER_NOTE, order_text
from wavefabric.cli.common.files import write_all
from wavefabric.cli.common.options import OutputOptions, argument, option, options
from wavefabric.cli.common.show import conclude, pairs_table, rate_text, table
from wavefabric.collectives import Schedule, to_json
from wavefabric.collectives.candidates import Choice
from wavefabric.collectives.conditions import kind, whole_elements
from wavefabric.collectives.structure import sent_and_received
from wavefabric.fabric import Cost
from wavefabric.fabric.cost_models.bus_bandwidth import bandwidths
from wavefabric.fabric.execution.report import size_words
from wavefabric.fabric.io.nccl_tests import NcclTestsTime
from wavefabric.fabric.photonic.budget import slowest_circuit
from wavefabric.fabric.photonic.check import needs_wavelength_switches
from wavefabric.fabric.photonic.circuit_plan import CircuitPlan

#: Properties of an MSCCL file that no cost model includes.
MSCCL_NOT_COUNTED = ("protocol", "channels")


def schedule_facts(schedule: Schedule) -> dict[str, Any]:
    """Return the facts about a verified schedule, for JSON."""
    sent, received = sent_and_received(schedule)
    collective, root = kind(schedule)
    facts = {
        "schedule": schedule.name,
        "collective": collective,
        "ranks": schedule.ranks,
        "elements": whole_elements(schedule),
        "rounds": schedule.communication_rounds,
        "local_rounds": schedule.rounds - schedule.communication_rounds,
        "transfers": schedule.transfers.size,
        "sent_elements": int(sent.max(initial=0)),
        "received_elements": int(received.max(initial=0)),
        "verified": True,
    }
    return facts if root is None else {**facts, "root": root}


@options()
class MakeOptions(OutputOptions):
    """Options of the algorithm and collective, the output file, and listing all algorithms."""

    algorithm: str | None = argument("See --list.", "ALGORITHM", default=None)
    collective: str | None = argument("Such as all-reduce.", "COLLECTIVE", default=None)
    list_all: bool = option("Show all algorithms.", "--list", default=False)
    output: Path | None = option("Schedule (JSON).", "--output", "-o", endings=(".json",))


def show_made(
    schedule: Schedule,
    options: MakeOptions,
    *,
    more_lines: Sequence[tuple[str, str]] = (),
    more_facts: dict[str, Any] | None = None,
    more_files: dict[Path, str] | None = None,
) -> None:
    """Write a verified schedule and ``more_files`` (texts by path); print the facts about the schedule."""
    texts = {} if options.output is None else {options.output: to_json(schedule)}
    written = write_all(texts | (more_files or {}), options.force)
    facts = schedule_facts(schedule)
    local = f", and {facts['local_rounds']} that add or copy within ranks" if facts["local_rounds"] else ""
    lines = [
        ("schedule", facts["schedule"]),
        ("ranks", str(facts["ranks"])),
        ("rounds", f"{facts['rounds']}{local}"),
        ("transfers", str(facts["transfers"])),
        ("a rank sends", _fraction_text(facts, "sent_elements")),
        ("and receives", _fraction_text(facts, "received_elements")),
        ("proof", "verified: replayed, every rank ends with what it must hold"),
    ]
    conclude(options.as_json, facts | (more_facts or {}), written, [pairs_table([*lines, *more_lines])])


def _fraction_text(facts: dict[str, Any], key: str) -> str:
    """Return the fact ``key``, elements, in words; if not custom, also as multiple of the whole array."""
    text = f"at most {counted(facts[key], 'element')}"
    if facts["collective"] == "custom" or not facts["elements"]:
        return text
    return f"{text}, {facts[key] / facts['elements']:.4g} times the array ({facts['elements']})"


def msccl_facts(schedule: Schedule) -> dict[str, Any]:
    """Return the further facts in the MSCCL file that a schedule was read from; {} for other schedules."""
    return {} if schedule.msccl is None else {"msccl": vars(schedule.msccl)}


def _protocol(msccl: dict[str, Any]) -> str:
    return f"{msccl['protocol']}, {counted(msccl['channels'], 'channel')}"


def msccl_text(msccl: dict[str, Any]) -> str:
    """Return the MSCCL facts in words: ``MSCCL: LL, 1 channel, arrays up to 4 MiB``."""
    most = msccl["most_bytes"]
    return (
        f"MSCCL: {_protocol(msccl)}, arrays {'of any size' if most is None else f'up to {size_words(most)}'}"
    )


def msccl_notes(schedule: Schedule, sizes: Sequence[int]) -> list[str]:
    """Return lines on what costs neglect of the schedule's MSCCL file, and on sizes at which it hangs."""
    if schedule.msccl is None:
        return []
    slower = "with LL or few channels it may take many times as long"
    lines = [f"not counted: {_protocol(vars(schedule.msccl))} of the MSCCL file; {slower}"]
    most = schedule.msccl.most_bytes
    if most is not None and max(sizes) > most:
        lines.append(f"the MSCCL file hangs above {size_words(most)}: its buffers are full then")
    return lines


def circuit_facts(plan: CircuitPlan) -> dict[str, Any]:
    """Return the requirements of a plan on its fabric that the costs assume to be met.

    ``slowest_circuit``: the circuit of smallest rate per wavelength (B/s) by the link budget, None if all
    reach ``laser_bandwidth``. ``wavelength_switches``: whether wavelengths that arrive in one waveguide must
    continue in different ones, which needs wavelength-selective switches.
    """
    rate, bundle = slowest_circuit(plan)
    least = None
    if bundle is not None and rate < plan.fabric.laser_bandwidth:
        least = {"src": bundle.src, "dst": bundle.dst, "edges": len(bundle.route) - 1, "bandwidth": rate}
    return {"slowest_circuit": least, "wavelength_switches": needs_wavelength_switches(plan)}


def circuit_notes(facts: dict[str, Any], bandwidth: float) -> list[str]:
    """Return lines on unmet assumptions in `circuit_facts`; costs assume ``bandwidth`` (B/s) per laser."""
    notes = []
    if slow := facts.get("slowest_circuit"):
        rate = rate_text(slow["bandwidth"]) if slow["bandwidth"] else "nothing"
        which = (
            f"a wavelength of circuit {slow['src']} -> {slow['dst']} over {counted(slow['edges'], 'edge')}"
        )
        notes.append(f"link budget: {which} carries {rate}, not {rate_text(bandwidth)}")
    if facts.get("wavelength_switches"):
        part = "wavelengths of a waveguide part, so they need switches for single wavelengths"
        notes.append(f"switches: {part}")
    return notes


#: Parts of a schedule's time, and their headings.
_PARTS = {"latency": "latency", "reconfiguration": "set-up", "transfer": "transfer"}


@dataclass(frozen=True)
class Costed:
    """A verified schedule with its costs.

    ``grid`` is the grid of the fabric, if the algorithm uses it; ``order`` lists the GPU of each rank, None
    if rank r is GPU r; ``costs`` has one `Cost` per size; ``circuits`` are `circuit_facts`; ``choice`` is the
    candidate of ``--algorithms all`` or ``auto``, None if the user named the schedule; ``methods`` tells per
    size what made the schedule of ``--algorithms optimal``, of which ``schedule`` is the largest size's;
    ``measured`` holds times of nccl-tests by bytes of the array.
    """

    schedule: Schedule
    label: str
    grid: tuple[int, ...] | None = None
    order: tuple[int, ...] | None = None
    costs: tuple[Cost, ...] = ()
    circuits: dict[str, Any] = field(default_factory=dict)
    choice: Choice | None = None
    methods: tuple[str, ...] = ()
    measured: dict[int, NcclTestsTime] = field(default_factory=dict)


def in_order(costed: Iterable[Costed], size: int) -> list[Costed]:
    """Sort schedules by their time for the array size with index ``size``, the fastest first.

    Schedules whose times are equal up to round-off keep the order given.
    """
    return sorted(costed, key=lambda each: float(f"{each.costs[size].seconds:.9g}"))


def rows_of(costed: dict[str, Costed], sizes: list[int], rounds: bool) -> dict[str, Any]:
    """Return the facts that ``--json`` prints: one row of costs per schedule and size."""
    rows = []
    for name, each in costed.items():
        for k, (size, cost) in enumerate(zip(sizes, each.costs, strict=True)):
            fastest = in_order(costed.values(), k)[0].costs[k]
            # In models without rounds the parts overlap.
            parts = {p: sum(getattr(r, p) for r in cost.rounds) if cost.rounds else None for p in _PARTS}
            row = {
                "algorithm": name,
                "schedule": cost.schedule,
                "bytes": size,
                "seconds": cost.seconds,
                **dict(zip(("algbw", "busbw"), _bandwidths(each, size, cost), strict=True)),
                **parts,
                "bound": vars(cost.bound),
                "ratio": cost.ratio(cost.bound),
                "bound_without_switches": cost.unaided and vars(cost.unaided),
                "ratio_without_switches": cost.unaided and cost.ratio(cost.unaided),
                "order": each.order,
                "grid": each.grid,
                "busiest": cost.busiest,
                **each.circuits,
                **msccl_facts(each.schedule),
                "best": cost is fastest,
            } | ({"method": each.methods[k]} if each.methods else {})
            if size in each.measured:
                measured = each.measured[size]
                row["measured"] = measured._asdict() | {"ratio": cost.seconds / measured.seconds}
            if "msccl" in row:
                row["not_counted"] = MSCCL_NOT_COUNTED
            if rounds:
                row["rounds"] = [vars(r) for r in cost.rounds]
            if plan := cost.reconfiguration:
                row["choice"] = {k: v for k, v in plan._asdict().items() if isinstance(v, float | str)}
                row["circuits"] = [vars(b) | {"from": up, "to": down} for b, up, down in plan.circuits]
            rows.append(row)
    any_cost = next(iter(costed.values())).costs[0]
    return {"fabric": any_cost.fabric, "model": any_cost.model, "costs": rows}


def show_costs(
    costed: dict[str, Costed], sizes: list[int], rounds: bool, may_reorder: bool, bandwidth: float
) -> Iterator[Any]:
    """Yield the printed output: a table by size and time; grids, orders, notes on circuits, and advice.

    ``bandwidth`` is the rate per wavelength (B/s) that the costs assume.
    """
    many = len(costed) > 1
    largest = next(iter(costed.values())).costs[-1]
    yield _costs_table(costed, sizes)
    size = f" of {size_words(sizes[-1])}" if len(sizes) > 1 else ""
    aid = "; no switches: the bound without their multicasts and sums" if largest.unaided else ""
    yield f"bound{size}: {largest.bound.why}{aid}" + ("; *: the fastest" if many else "")
    for name, each in costed.items():
        which = f" of {name}" if many else ""
        if each.grid is not None:
            yield f"grid{which}: {'x'.join(map(str, each.grid))}, that of {largest.fabric}"
        if each.order is not None:
            yield f"order{which}: rank 0, 1, … is GPU {order_text(each.order)}"
        lines = [*circuit_notes(each.circuits, bandwidth), *msccl_notes(each.schedule, sizes)]
        for line in [*lines, *_chosen(each.costs[-1])]:
            yield f"{name}: {line}" if many else line
        for number, method in zip(sizes, each.methods, strict=False):
            yield f"{name}: {size_words(number)} by {method}"
    if may_reorder and all(each.order is None for each in costed.values()):
        yield ORDER_NOTE
    for each in costed.values() if rounds else ():
        order = "" if each.order is None else f", order {order_text(each.order)}"
        for size, cost in zip(sizes, each.costs, strict=True):
            yield _rounds_table(cost, f"{each.label}, {size_words(size)}{order}")


def _chosen(cost: Cost) -> Iterator[str]:
    """Yield a line on how often circuits stay or change, and the times of the alternatives."""
    if plan := cost.reconfiguration:
        choices = Counter(step.choice for _, _, step, *_ in plan.rounds)
        made = "; ".join(f"{choice} {count}" for choice, count in choices.items())
        others = [
            f"{name} {time_words(getattr(plan, name))}" for name in ("always", "never", "least", "bound")
        ]
        yield f"circuits: {made}; {', '.join(others)}; never: {plan.static}"


def _costs_table(costed: dict[str, Costed], sizes: Sequence[int]) -> Table:
    from rich.text import Text

    many = len(costed) > 1
    any_cost = next(iter(costed.values())).costs[0]
    name = "compared" if many else next(iter(costed))
    measured = next(iter(costed.values())).measured
    parts = _parts(any_cost) if any_cost.rounds and not measured else {}
    aided = any_cost.unaided is not None
    more = (*parts.values(), "bound", "ratio", *("no switches", "ratio") * aided, "<busiest")
    if measured:  # in place of the parts, bounds and bottlenecks: a table of both would be too wide
        more = ("measured", "algbw GB/s", "busbw GB/s", "time/measured")
    columns = ("size", *["|algorithm"] * many, "time", "busbw GB/s", *more)
    made = table(columns, title=f"{name} on {any_cost.fabric}, {any_cost.model} model")
    for k, size in enumerate(sizes):
        ranking = in_order(costed.values(), k)
        for each in ranking:
            cost, best = each.costs[k], each is ranking[0]
            cells = [size_words(size) if best else ""]
            if many:
                cells.append(f"{each.label} *" if best else each.label)
            cells += [time_words(cost.seconds), f"{_bandwidths(each, size, cost)[1] * 1e-9:.3g}"]
            cells += [time_words(sum(getattr(r, part) for r in cost.rounds)) for part in parts]
            for least in () if measured else (cost.bound, cost.unaided):
                if least is not None:
                    ratio = cost.ratio(least)
                    cells += [time_words(least.seconds), "-" if ratio is None else f"{ratio:.2f}"]
            if (row := each.measured.get(size)) is not None:
                rates = (f"{rate * 1e-9:.3g}" for rate in (row.algbw, row.busbw))
                cells += [time_words(row.seconds), *rates, f"{cost.seconds / row.seconds:.2f}"]
            else:
                cells += ["-" for _ in more] if measured else [cost.busiest]
            style = "bold" if many and best else ""
            made.add_row(*(Text(c, style=style) for c in cells), end_section=many and each is ranking[-1])
    return made


def _bandwidths(costed: Costed, size: int, cost: Cost) -> tuple[float, float]:
    """Return algorithm and bus bandwidth, B/s, as nccl-tests define them; 0 for a schedule without time."""
    if not cost.seconds:
        return 0.0, 0.0
    return bandwidths(costed.schedule, size / whole_elements(costed.schedule), cost.seconds)


def _parts(cost: Cost) -> dict[str, str]:
    """Return the parts of a time that the cost's model has, and their headings."""
    without = () if cost.model == "photonic" else ("reconfiguration",)
    return {part: heading for part, heading in _PARTS.items() if part not in without}


def _rounds_table(cost: Cost, title: str) -> Table | str:
    """Return a table of all rounds of one cost, or a line if its model has no rounds."""
    if not cost.rounds:
        return f"{title}: the {cost.model} model has no rounds: they overlap"
    numbers = ("parts",) if cost.model == "photonic" else ()
    parts = _parts(cost)
    made = table(("round", *numbers, "time", *parts.values(), "<limit"), title=title)
    for each in cost.rounds:
        counts = (str(getattr(each, name)) for name in ("round", *numbers))
        times = (time_words(getattr(each, part)) for part in ("seconds", *parts))
        made.add_row(*counts, *times, each.limit)
    return made
