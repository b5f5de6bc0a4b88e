"""The report of a suite: tables and pictures of whatever is there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from wavefabric.bench.suite import collective_sections, sections
from wavefabric.bench.suite.found import FoundResults, Picture, Section
from wavefabric.bench.suite.goals import goals
from wavefabric.bench.suite.markdown import table
from wavefabric.bench.suite.parts import command_line
from wavefabric.bench.suite.record import DONE, devices, record_path
from wavefabric.files.output import replacing
from wavefabric.results.provenance import stamp

#: What comes of results in another form than expected.
_MISFITS = (KeyError, IndexError, TypeError, ValueError, AttributeError)
_SECTIONS = (
    sections.fibre,
    sections.ultrasound,
    sections.exchanges,
    collective_sections.collectives,
    sections.link,
    sections.steps,
)


def write_report(results: FoundResults) -> list[Path]:
    """Write ``report.md`` and its pictures; gives what was written.

    Pictures that are newer than the results they show stay. A section whose results are of another form, as
    those of another version may be, says so.
    """
    made = [_made(section, results) for section in _SECTIONS]
    written = []
    for picture in (picture for section in made for picture in section.pictures):
        if _is_old(results, picture):
            written += _draw(results.root, picture)
    path = results.root / "report.md"
    with replacing(path) as partial:
        partial.write_text(_text(results, made), encoding="utf-8")
    return [path, *written]


def _made(section: Callable[[FoundResults], Section], results: FoundResults) -> Section:
    try:
        return section(results)
    except _MISFITS as error:
        return Section(section.__name__.capitalize(), [f"Cannot be shown: {type(error).__name__}: {error}"])


def _is_old(results: FoundResults, picture: Picture) -> bool:
    path = results.root / picture.name
    if not path.exists():
        return True
    times = [record_path(results.folder, name).stat().st_mtime for name in picture.sources]
    return max(times) >= path.stat().st_mtime


def _draw(root: Path, picture: Picture) -> list[Path]:
    path = root / picture.name
    partial = root / f".partial-{picture.name}"
    try:
        picture.draw(partial)
        os.replace(partial, path)
    except _MISFITS:
        path.unlink(missing_ok=True)
        return []
    finally:
        partial.unlink(missing_ok=True)
    return [path]


def _text(results: FoundResults, made: list[Section]) -> str:
    lines = ["# Benchmark suite", _introduction(results)]
    if results.small:
        lines.append(
            "**Small sizes**: these numbers show that the commands work, not what the machine can do."
        )
    else:
        made = [_made(goals, results), *made]
    for section in made:
        lines.append(f"## {section.title}")
        lines += section.blocks or ["Missing: no part of it is done."]
        for picture in section.pictures:
            if (results.root / picture.name).exists():
                lines.append(f"![{picture.caption}]({picture.name})")
    lines += ["## Parts", *_parts(results)]
    return "\n\n".join(lines) + "\n"


def _introduction(results: FoundResults) -> str:
    machine = results.machine
    gpus = machine["gpus"]
    chips = f"{len(gpus)} x {', '.join(devices(machine))}" if gpus else devices(machine)[0]
    facts = [chips, machine["system"], f"Python {machine['python']}"]
    facts += [f"driver {machine['driver']}"] if machine.get("driver") else []
    facts += [f"{name}={text}" for name, text in machine.get("environment", {}).items()]
    facts += [f"{name} {version}" for name, version in machine["versions"].items()]
    offers = [
        f"- {name}: {'' if offer['available'] else 'not available: '}{offer['detail']}"
        for name, offer in machine["transports"].items()
    ]
    programs = sorted({record.program for record in results.records.values() if record.state == DONE})
    when = sorted(record.started_utc for record in results.records.values() if record.state == DONE)
    commit = f" (commit {machine['git_commit'][:12]})" if machine["git_commit"] else ""
    done = f"Measured from {when[0]} to {when[-1]}" if when else "Nothing measured yet"
    more = "; **by several versions of the program**" if len(programs) > 1 else ""
    head = (
        f"wavefabric {machine['wavefabric']}{commit} on {', '.join(facts)}. {done}{more}. Written {stamp()}."
    )
    return "\n\n".join([head, "Transports:\n\n" + "\n".join(offers)])


def _parts(results: FoundResults) -> list[str]:
    rows = []
    for part in results.parts:
        state, why = results.state(part)
        record = results.records.get(part.name)
        took = "" if record is None else f"{record.seconds:.1f}"
        line = command_line(part, results.folder, results.small) if record is None else record.command
        rows.append([part.name, state, took, f"`{line}`", why])
    count = sum(row[1] == DONE for row in rows)
    return [f"{count} of {len(rows)} done.", table(("<part", "<", "s", "<command", "<why"), rows)]
