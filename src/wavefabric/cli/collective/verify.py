"""Implement `wavefabric collective verify`, which proves that schedules do their collective operations."""

from itertools import chain
from pathlib import Path
from typing import Any

from wavefabric.base.errors import InputError
from wavefabric.base.files.input import naming
from wavefabric.base.units import counted
from wavefabric.cli.collective import facts as about
from wavefabric.cli.collective.algorithm import read_proved
from wavefabric.cli.collective.circuit_file import load_circuits
from wavefabric.cli.common.options import argument, option, options
from wavefabric.cli.common.show import conclude
from wavefabric.collectives.conditions import kind
from wavefabric.fabric.photonic.check import check_plan


@options()
class VerifyOptions:
    """Options of the schedules, and of further checks."""

    files: list[Path] = argument("Schedules: JSON, MSCCL XML, MSCCL++ JSON.", "FILE...")
    circuits: Path | None = option("A circuit plan (JSON) that must carry the schedule.")
    expect: str | None = option(
        "What each must do, of {wavefabric.collectives.conditions:COLLECTIVES}; anything else is refused, "
        "with exit code 2.",
        metavar="COLLECTIVE",
    )
    as_json: bool = option("Print as JSON and nothing else.", "--json", default=False)


def command(options: VerifyOptions) -> None:
    """Prove schedules by replaying them; the first transfer that fails is named, with exit code 2.

    Example: wavefabric collective verify ring.json other.xml --expect all-reduce
    """
    if options.circuits is not None and len(options.files) > 1:
        raise InputError(f"--circuits: given with {len(options.files)} schedules; allowed: with one")
    verified = [verify_file(path, options.circuits, options.expect) for path in options.files]
    conclude(options.as_json, verified, shown=chain.from_iterable(map(_lines, verified)))


def _lines(facts: dict[str, Any]) -> list[str]:
    counts = ", ".join(counted(facts[f"{name}s"], name) for name in ("rank", "round", "transfer"))
    text = f"ok: {facts['file']}: {facts['schedule']}: {facts['collective']}, {counts}"
    if "msccl" in facts:
        text += f"; {about.msccl_text(facts['msccl'])}"
    plan = facts.get("circuits", {})
    if plan:
        text += f"; {plan['circuits']} circuits in {plan['rounds']} set-ups on {plan['fabric']}"
    return [text, *about.circuit_notes(plan, plan.get("laser_bandwidth", 0.0))]


def verify_file(path: Path, circuits: Path | None, expect: str | None = None) -> dict[str, Any]:
    """Verify one file and return its facts; errors name the file, and the transfer or circuit at fault."""
    schedule = read_proved(path)
    collective = kind(schedule)[0]
    if expect not in (None, collective):
        does = "no named collective" if collective == "custom" else collective
        raise InputError(f"--expect: {expect} given, but {path} does {does}; allowed: one that does {expect}")
    names = ("schedule", "collective", "ranks", "rounds", "transfers", "verified")
    known = about.schedule_facts(schedule)
    facts = {"file": str(path), **{name: known[name] for name in names}, **about.msccl_facts(schedule)}
    if circuits is not None:
        plan = load_circuits(circuits)
        with naming(circuits):
            check_plan(plan, schedule)
        facts["circuits"] = {
            "file": str(circuits),
            "fabric": plan.fabric.name,
            "rounds": len(plan.rounds),
            "circuits": sum(b.lasers for r in plan.rounds for b in r.bundles),
            "laser_bandwidth": plan.fabric.laser_bandwidth,
            **about.circuit_facts(plan),
        }
    return facts
