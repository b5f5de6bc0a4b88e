"""`wavefabric bench suite`: all benchmarks of one machine, one after the other, and their report."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from wavefabric.bench.suite.parts import COUNTS, Part, choose, command_line, make_parts
from wavefabric.cli.common.failure import FAILED, describe
from wavefabric.cli.common.options import OutputOptions, changed, option, options, refuse
from wavefabric.cli.common.progress import make_progress
from wavefabric.cli.common.ranks import on_ranks
from wavefabric.cli.common.show import conclude
from wavefabric.errors import InputError
from wavefabric.system.interrupt import exit_code
from wavefabric.system.progress import warn
from wavefabric.units import quantity

if TYPE_CHECKING:
    from wavefabric.bench.suite.run import Outcome, Suite


@options()
class SuiteOptions(OutputOptions):
    """What is measured, how long it may take, and where results go."""

    output: Path = option("Folder of results.", "--output", "-o", default=Path("results"))
    ranks: int | None = option(f"Most ranks, to {COUNTS[-1]}. \\[default: a GPU each; on CPUs 2]")
    small: bool = option("Sizes that CPUs do in a minute or two.", default=False)
    only: list[str] | None = option("Name of a part, or a pattern such as 'fibre-*'; may be repeated.")
    skip: list[str] | None = option("Parts to leave out, likewise.")
    time_limit: str = option("Of a part.", default="10 min")
    budget: str | None = option(
        "Of all parts together, such as '28 min'; what would not end in it is not begun."
    )
    list_parts: bool = option("Show parts and their commands, and run none.", "--list", default=False)
    report_only: bool = option("Write the report of what is there, and run nothing.", default=False)
    force: bool = option(
        "Measure again what another version, command or machine has measured.", default=False
    )


def command(asked: SuiteOptions) -> None:
    """Run all benchmarks of this machine, each over 1, 2, 4, 6 and 8 ranks, and write a report.

    Parts that are done are not run again, so the same command goes on after Ctrl-C, a kill or a failure.

    Examples:

    wavefabric bench suite -o results

    wavefabric bench suite -o results --budget "28 min" --skip "*-mpi-*"

    wavefabric bench suite -o trial --small --ranks 2
    """
    from wavefabric.bench.suite.record import read_settings, write_json
    from wavefabric.bench.suite.run import Suite, describe_machine
    from wavefabric.results.lock import locked

    if on_ranks():
        raise InputError("suite: started under mpiexec; allowed: alone, it starts the ranks itself")
    if asked.list_parts and asked.report_only:
        raise InputError("--report-only: given with --list; allowed: one of them")
    limit, budget = _seconds(asked.time_limit, "--time-limit"), float("inf")
    if asked.budget is not None:
        budget = _seconds(asked.budget, "--budget")
    settings = read_settings(asked.output)
    if asked.report_only:
        _report_only(asked, settings)
        return
    machine = describe_machine()
    ranks = _ranks(asked, machine)
    if settings is not None and settings["small"] != asked.small:
        given = f"{asked.output} holds results {'with' if settings['small'] else 'without'} --small"
        raise InputError(f"--output: {given}; allowed: the same, or another folder")
    chosen = choose(_parts(machine, ranks, asked.small), asked.only or (), asked.skip or ())
    suite = Suite(asked.output, machine, asked.small, limit, budget, asked.force)
    if asked.list_parts:
        _list(chosen, suite, asked.as_json)
        return
    try:
        asked.output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--output: {asked.output} cannot be made ({error.strerror})") from None
    settings = {
        "ranks": max(ranks, settings["ranks"] if settings else 1),
        "small": asked.small,
        "machine": machine,
    }
    path = asked.output / "suite.json"
    with locked(path, "--output"):
        write_json(path, settings)
        outcomes = _run(suite, chosen, settings, asked.as_json)
        written = _write_report(asked.output, settings)
    facts = {"parts": [_facts(outcome) for outcome in outcomes]}
    conclude(asked.as_json, facts, written, lambda: _summary(outcomes))
    if any(outcome.word == "failed" for outcome in outcomes):
        raise typer.Exit(FAILED)


def _run(suite: Suite, chosen: list[Part], settings: dict[str, Any], as_json: bool) -> list[Outcome]:
    """Run the parts, a line each; the report is written after each."""

    def report() -> None:
        try:
            _write_report(suite.root, settings)
        except Exception as error:  # no reason to stop measuring; at the end it is raised
            warn(f"report: {describe(error)}")

    try:
        return suite.run(chosen, make_progress(as_json), (lambda outcome: None) if as_json else _say, report)
    except KeyboardInterrupt:
        print("wavefabric: interrupted; the same command goes on", file=sys.stderr)
        raise typer.Exit(exit_code()) from None


def _seconds(text: str, key: str) -> float:
    seconds = quantity(text, "s", key)
    if not 0 < seconds < float("inf"):
        raise InputError(f"{key}: {text} given; allowed: a time above 0, such as '10 min'")
    return seconds


def _ranks(asked: SuiteOptions, machine: dict[str, Any]) -> int:
    """The most ranks; refused where the machine has not as many GPUs."""
    gpus = len(machine["gpus"])
    if not gpus and not asked.small:
        raise InputError("suite: no GPU here, which its sizes need; allowed: with --small")
    mpi = machine["transports"]["mpi"]
    if not mpi["available"] and asked.ranks != 1:
        raise InputError(f"suite: no ranks here ({mpi['detail']}); allowed: with MPI, or --ranks 1")
    if asked.ranks is None:
        return min(gpus or 2, COUNTS[-1])
    most = min(gpus or COUNTS[-1], COUNTS[-1])
    if not 1 <= asked.ranks <= most:
        raise InputError(f"--ranks: {asked.ranks} given; allowed: 1 to {most}")
    return asked.ranks


def _parts(machine: dict[str, Any], ranks: int, small: bool) -> list[Part]:
    offers = machine["transports"]
    available = {name for name, offer in offers.items() if offer["available"]}
    return make_parts(ranks, available, {name: offer["detail"] for name, offer in offers.items()}, small)


def _report_only(asked: SuiteOptions, settings: dict[str, Any] | None) -> None:
    own = changed(asked, "ranks", "small", "only", "skip", "time_limit", "budget", "force")
    refuse(own, "with --report-only", "without")
    if settings is None:
        raise InputError(f"--output: {asked.output} holds no results of a suite; allowed: a folder that does")
    conclude(asked.as_json, {}, _write_report(asked.output, settings))


def _write_report(root: Path, settings: dict[str, Any]) -> list[Path]:
    from wavefabric.bench.suite.found import FoundResults
    from wavefabric.bench.suite.report import write_report

    machine, small = settings["machine"], settings["small"]
    return write_report(FoundResults(root, _parts(machine, settings["ranks"], small), machine, small))


def _list(parts: list[Part], suite: Suite, as_json: bool) -> None:
    """Names, expected times and commands."""
    rows = [
        {
            "name": part.name,
            "seconds": suite.expected(part),
            "command": command_line(part, suite.parts_folder, suite.small, complete=True),
            "left_out": part.left_out or None,
        }
        for part in parts
    ]

    def show() -> None:
        for row in rows:
            about = f"left out: {row['left_out']}" if row["left_out"] else f"about {row['seconds']:.0f} s"
            typer.echo(f"{row['name']} ({about})\n  {row['command']}")
        total = sum(row["seconds"] for row in rows if not row["left_out"])
        typer.echo(f"{len(rows)} parts, about {total / 60:.0f} min")

    conclude(as_json, {"parts": rows}, [], show)


def _facts(outcome: Outcome) -> dict[str, Any]:
    return {
        "name": outcome.part.name,
        "outcome": outcome.word,
        "seconds": outcome.seconds,
        "why": outcome.why or None,
    }


def _say(outcome: Outcome) -> None:
    took = "" if outcome.seconds is None else f"{outcome.seconds:.1f} s"
    typer.echo(f"{outcome.part.name:32} {outcome.word:12} {took:>9}  {outcome.why}".rstrip())


def _summary(outcomes: list[Outcome]) -> None:
    counted = Counter(outcome.word for outcome in outcomes)
    typer.echo(", ".join(f"{count} {word}" for word, count in counted.items()) or "no part")
    for word in ("failed", "not begun"):
        if names := [outcome.part.name for outcome in outcomes if outcome.word == word]:
            typer.echo(f"{word}: {', '.join(names)}")
