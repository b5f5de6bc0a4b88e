"""`wavefabric collective verify`: whether schedules do what they promise."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from wavefabric.cli.collective.circuits import notes
from wavefabric.cli.collective.msccl import facts as msccl_facts
from wavefabric.cli.collective.msccl import words as msccl_words
from wavefabric.cli.collective.source import Json, named, read, say_json
from wavefabric.cli.common.ranks import first
from wavefabric.errors import InputError


def command(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Schedules: JSON, or MSCCL XML.", show_default=False),
    ],
    circuits: Annotated[
        Path | None,
        typer.Option(
            "--circuits", help="A circuit plan (JSON) that must carry the schedule.", show_default=False
        ),
    ] = None,
    expect: Annotated[
        str | None,
        typer.Option(
            "--expect",
            metavar="COLLECTIVE",
            help="What each must do, such as all-reduce; anything else is refused, with exit code 2.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Prove schedules by replaying them; the first transfer that fails is named, with exit code 2.

    Example: wavefabric collective verify ring.json other.xml --expect all-reduce
    """
    from wavefabric.collectives.conditions import COLLECTIVES

    if not first():
        return
    if expect is not None and expect not in COLLECTIVES:
        raise InputError(f"--expect: {expect[:60]} given; allowed: {', '.join(COLLECTIVES)}")
    if circuits is not None and len(files) > 1:
        raise InputError(f"--circuits: given with {len(files)} schedules; allowed: with one")
    told = [check(path, circuits, expect) for path in files]
    if as_json:
        say_json(told)
        return
    for each in told:
        typer.echo(f"ok: {each['file']}: {each['schedule']}: {words(each)}")
        if "circuits" in each:
            for line in notes(each["circuits"], each["circuits"]["laser_bandwidth"]):
                typer.echo(line)


def check(path: Path, circuits: Path | None, expect: str | None = None) -> dict[str, Any]:
    """Verify one file; what it is.

    Raises
    ------
    InputError
        Naming the file, and the transfer or circuit at fault, or the collective that it is not.
    """
    from wavefabric.collectives import verify
    from wavefabric.collectives.conditions import kind

    schedule = read(path)
    with named(path):
        verify(schedule)
    collective = kind(schedule)[0]
    if expect not in (None, collective):
        does = "no named collective" if collective == "custom" else collective
        raise InputError(f"--expect: {expect} given, but {path} does {does}; allowed: one that does {expect}")
    found: dict[str, Any] = {
        "file": str(path),
        "schedule": schedule.name,
        "collective": collective,
        "ranks": schedule.ranks,
        "rounds": schedule.communication_rounds,
        "transfers": int(schedule.transfers.size),
        "verified": True,
        **msccl_facts(schedule),
    }
    if circuits is not None:
        from wavefabric.cli.collective.circuits import facts, load_circuits
        from wavefabric.fabric.photonic.check import check_plan

        plan = load_circuits(circuits)
        with named(circuits):
            check_plan(plan, schedule)
        found["circuits"] = {
            "file": str(circuits),
            "fabric": plan.fabric.name,
            "rounds": len(plan.rounds),
            "circuits": sum(b.lasers for r in plan.rounds for b in r.bundles),
            "laser_bandwidth": plan.fabric.laser_bandwidth,
            **facts(plan),
        }
    return found


def words(told: dict[str, Any]) -> str:
    """What was checked, in words."""
    text = (
        f"{told['collective']}, {told['ranks']} ranks, {told['rounds']} rounds, {told['transfers']} transfers"
    )
    if "msccl" in told:
        text += f"; {msccl_words(told)}"
    if "circuits" in told:
        found = told["circuits"]
        text += f"; {found['circuits']} circuits in {found['rounds']} set-ups on {found['fabric']}"
    return text
