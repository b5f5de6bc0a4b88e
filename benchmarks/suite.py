"""All measurements of one machine, one after the other, and their report."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

from click.exceptions import Exit

sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks import report, runner
from benchmarks.parts import COUNTS, Part, choose, make_parts
from papers.common import run
from wavefabric.base.errors import InputError
from wavefabric.base.results.lock import locked
from wavefabric.base.system.deferred_interrupt import exit_code
from wavefabric.base.system.progress import warn
from wavefabric.base.units import quantity
from wavefabric.cli.common.failure import FAILED, describe
from wavefabric.cli.common.options import changed, option, options, refuse
from wavefabric.cli.common.show import print_written, status_line
from wavefabric.runtime.exchange.launch import environment


@options()
class SuiteOptions:
    """What is measured, how long it may take, and where results go."""

    output: Path = option("Folder of results.", "--output", "-o", default=Path("results"))
    ranks: int | None = option(f"Most ranks, to {COUNTS[-1]}. [default: a GPU each; on CPUs 2]")
    small: bool = option("Sizes that CPUs do in a minute or two.", "--small", default=False)
    only: list[str] | None = option("Name of a part, or a pattern such as 'fibre-*'; may be repeated.")
    skip: list[str] | None = option("Parts to leave out, likewise.")
    time_limit: str = option("Of a part.", default="10 min")
    budget: str | None = option("Of all parts, such as '28 min'; what would not end in it is not begun.")
    list_parts: bool = option("Show parts and their commands, and run none.", "--list", default=False)
    report_only: bool = option("Write the report, and run nothing.", "--report-only", default=False)
    force: bool = option("Measure again what another version or command has.", "--force", default=False)


def suite(options: SuiteOptions) -> None:
    """Run all measurements of this machine, over 1, 2, 4, 6 and 8 ranks, and write a report.

    Parts that are done are not run again: the same command goes on after Ctrl-C, a kill or a failure.
    """
    if environment.ranks() > 1:
        raise InputError("suite: started under mpiexec; allowed: alone, it starts the ranks itself")
    settings, root = _read_settings(options.output), options.output
    if options.report_only:
        own = "ranks", "small", "only", "skip", "time_limit", "budget", "list_parts", "force"
        refuse(changed(options, *own), "with --report-only", "without")
        if not settings:
            raise InputError(f"--output: {root} holds no results of a suite; allowed: a folder that does")
        print_written(_report(root, settings))
        return
    limit, budget = _seconds(options.time_limit, "--time-limit"), float("inf")
    if options.budget is not None:
        budget = _seconds(options.budget, "--budget")
    machine = runner.describe_machine()
    ranks = _ranks(options, machine)
    if settings and settings["small"] != options.small:
        inputs = f"{root} holds results {'with' if settings['small'] else 'without'} --small"
        raise InputError(f"--output: {inputs}; allowed: the same, or another folder")
    parts = choose(
        make_parts(ranks, machine["transports"], options.small), options.only or (), options.skip or ()
    )
    work = runner.Runner(root / "parts", machine, limit, budget, options.force)
    if options.list_parts:
        _list(parts, work)
        return
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--output: {root} cannot be made ({error.strerror})") from None
    settings = {"ranks": max(ranks, settings.get("ranks", 1)), "small": options.small, "machine": machine}
    with locked(root / "suite.json", "--output"):
        runner.write_json(root / "suite.json", settings)
        failed = _run(parts, work, root, settings)
        print_written(_report(root, settings))
    if failed:
        raise Exit(FAILED)


def _seconds(text: str, key: str) -> float:
    seconds = quantity(text, "s", key)
    if not 0 < seconds < float("inf"):
        raise InputError(f"{key}: {text} given; allowed: a time above 0, such as '10 min'")
    return seconds


def _ranks(options: SuiteOptions, machine: dict[str, Any]) -> int:
    """The most ranks; refused where the machine has not as many GPUs."""
    gpus, mpi = len(machine["gpus"]), machine["transports"]["mpi"]
    if not gpus and not options.small:
        raise InputError("suite: no GPU here, which its sizes need; allowed: with --small")
    if not mpi["available"] and options.ranks != 1:
        raise InputError(f"suite: no ranks here ({mpi['detail']}); allowed: with MPI, or --ranks 1")
    most = min(gpus or COUNTS[-1], COUNTS[-1])
    if options.ranks is not None and not 1 <= options.ranks <= most:
        raise InputError(f"--ranks: {options.ranks} given; allowed: 1 to {most}")
    return options.ranks or min(gpus or 2, most)


def _read_settings(root: Path) -> dict[str, Any]:
    """What the suite in a folder was started with; nothing for a new or empty folder, others are refused."""
    path = root / "suite.json"
    result = runner.read_json(path)
    if {"ranks", "small", "machine"} <= result.keys() and "transports" in result["machine"]:
        return result
    if not root.exists() or (root.is_dir() and all(each.suffix == ".lock" for each in root.iterdir())):
        return {}
    inputs = f"{path} cannot be read" if path.exists() else f"{root} holds no results of a suite"
    raise InputError(f"--output: {inputs}; allowed: a new or empty folder, or that of a suite")


def _run(parts: list[Part], work: runner.Runner, root: Path, settings: dict[str, Any]) -> bool:
    """Run the parts, a line and a report each; gives whether one failed."""
    words: dict[str, str] = {}
    try:
        with status_line(quiet=False) as say:
            for name, word, seconds, why in work.run(parts, say):
                words[name] = word
                took = "" if seconds is None else f"{seconds:.1f} s"
                print(f"{name:32} {word:12} {took:>9}  {why}".rstrip(), flush=True)
                if word in (runner.DONE, runner.FAILED):
                    try:
                        _report(root, settings, pictures=False)
                    except Exception as error:  # no reason to stop measuring; in the end it is raised
                        warn(f"report: {describe(error)}")
    except KeyboardInterrupt:
        print("wavefabric: interrupted; the same command goes on", file=sys.stderr)
        _report(root, settings)
        raise Exit(exit_code()) from None
    print(", ".join(f"{n} {word}" for word, n in Counter(words.values()).items()) or "no part")
    for word in (runner.FAILED, "not begun"):
        if names := [name for name in words if words[name] == word]:
            print(f"{word}: {', '.join(names)}")
    return runner.FAILED in words.values()


def _report(root: Path, settings: dict[str, Any], pictures: bool = True) -> list[Path]:
    machine, small = settings["machine"], settings["small"]
    parts = make_parts(settings["ranks"], machine["transports"], small)
    return report.write_report(report.Results(root, parts, machine, small, pictures))


def _list(parts: list[Part], work: runner.Runner) -> None:
    """Names, expected times and commands."""
    for part in parts:
        about = f"left out: {part.left_out}" if part.left_out else f"about {work.expected(part):.0f} s"
        print(f"{part.name} ({about})\n  {part.line(work.folder, complete=True)}")
    total = sum(work.expected(part) for part in parts if not part.left_out)
    print(f"{len(parts)} parts, about {total / 60:.0f} min")


if __name__ == "__main__":
    run(suite)
