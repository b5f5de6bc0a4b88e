"""What is worth knowing about a schedule, as plain values and in words."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wavefabric.cli.common.files import write_all
from wavefabric.cli.common.options import OutputOptions
from wavefabric.cli.common.show import conclude, console, pairs_table, rate_text
from wavefabric.collectives import Schedule, to_json
from wavefabric.collectives.conditions import kind, whole_elements
from wavefabric.collectives.structure import sent_and_received
from wavefabric.execution.report import size_words
from wavefabric.fabric.photonic.budget import slowest_circuit
from wavefabric.fabric.photonic.check import needs_wavelength_switches
from wavefabric.fabric.photonic.circuit_plan import CircuitPlan
from wavefabric.units import counted

#: What of an MSCCL file no cost model counts.
MSCCL_NOT_COUNTED = ("protocol", "channels")


def schedule_facts(schedule: Schedule) -> dict[str, Any]:
    """Of a schedule that was verified."""
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


def show_made(
    schedule: Schedule,
    output: Path | None,
    options: OutputOptions,
    *,
    more_lines: Sequence[tuple[str, str]] = (),
    more_facts: dict[str, Any] | None = None,
    more_files: dict[Path, str] | None = None,
) -> None:
    """Write a schedule that was verified, and further files; print what was made."""
    texts = {} if output is None else {output: to_json(schedule)}
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
    table = pairs_table([*lines, *more_lines])
    conclude(options.as_json, {**facts, **(more_facts or {})}, written, lambda: console().print(table))


def _fraction_text(facts: dict[str, Any], key: str) -> str:
    """Elements in words, and as a multiple of the array if it is one of the named collectives."""
    text = f"at most {counted(facts[key], 'element')}"
    if facts["collective"] == "custom" or not facts["elements"]:
        return text
    return f"{text}, {facts[key] / facts['elements']:.4g} times the array ({facts['elements']})"


def msccl_facts(schedule: Schedule) -> dict[str, Any]:
    """What the MSCCL file that a schedule comes from says beyond transfers; nothing without one."""
    return {} if schedule.msccl is None else {"msccl": vars(schedule.msccl)}


def _protocol(msccl: dict[str, Any]) -> str:
    return f"{msccl['protocol']}, {counted(msccl['channels'], 'channel')}"


def msccl_text(msccl: dict[str, Any]) -> str:
    """The fact in words: ``MSCCL: LL, 1 channel, arrays up to 4 MiB``."""
    most = msccl["most_bytes"]
    return (
        f"MSCCL: {_protocol(msccl)}, arrays {'of any size' if most is None else f'up to {size_words(most)}'}"
    )


def msccl_notes(schedule: Schedule, sizes: Sequence[int]) -> list[str]:
    """What a cost of the schedule leaves out, a line each."""
    if schedule.msccl is None:
        return []
    slower = "with LL or few channels it may take many times as long"
    lines = [f"not counted: {_protocol(vars(schedule.msccl))} of the MSCCL file; {slower}"]
    most = schedule.msccl.most_bytes
    if most is not None and max(sizes) > most:
        lines.append(f"the MSCCL file hangs above {size_words(most)}: its buffers are full then")
    return lines


def circuit_facts(plan: CircuitPlan) -> dict[str, Any]:
    """What a plan asks of its fabric that costs take for granted.

    ``slowest_circuit``: of the wavelengths that carry least by the link budget (B/s), None if all carry the
    fabric's `laser_bandwidth`; ``wavelength_switches``: whether wavelengths of a waveguide part.
    """
    rate, bundle = slowest_circuit(plan)
    least = None
    if bundle is not None and rate < plan.fabric.laser_bandwidth:
        least = {"src": bundle.src, "dst": bundle.dst, "edges": len(bundle.route) - 1, "bandwidth": rate}
    return {"slowest_circuit": least, "wavelength_switches": needs_wavelength_switches(plan)}


def circuit_notes(facts: dict[str, Any], bandwidth: float) -> list[str]:
    """`circuit_facts` in words, if there is something to say; lasers are counted with ``bandwidth`` (B/s)."""
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
