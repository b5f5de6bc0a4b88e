"""Implement `collective make optimal`: proved fewest rounds over circuits, or steps and rounds over links."""

import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from click.exceptions import Exit

from wavefabric.base.errors import InputError
from wavefabric.base.files.output import check_output
from wavefabric.base.units import counted, time_words
from wavefabric.cli.collective.algorithm import AlgorithmOptions, read_schedule
from wavefabric.cli.collective.circuit_file import circuits_text
from wavefabric.cli.collective.facts import MakeOptions, show_made
from wavefabric.cli.common.files import load_fabric
from wavefabric.cli.common.options import changed, option, options, refuse
from wavefabric.cli.common.parse import parse_size
from wavefabric.cli.common.show import conclude, status_line
from wavefabric.collectives import Schedule, synthesis
from wavefabric.collectives.conditions import (
    Layout,
    default_elements,
    layout,
    whole_elements,
)
from wavefabric.collectives.synthesis.deadline import OutOfTime
from wavefabric.fabric import AnyFabric, Fabric, PhotonicFabric
from wavefabric.fabric.cost_models.cost import Cost, cost
from wavefabric.fabric.electrical.synthesis_problem import direct_links, routed_links
from wavefabric.fabric.execution.report import size_words
from wavefabric.fabric.fastest import EQUAL, fastest_schedule, most_pieces
from wavefabric.fabric.photonic.synthesis_problem import circuit_plan, optical_network

#: Collectives with the whole array on one rank. With as many pieces as ranks, each rank has one piece to add
#: or forward; the arrays of other collectives are divided among the ranks anyway.
_WHOLE = ("all-reduce", "broadcast", "reduce")
Network = synthesis.OpticalNetwork | synthesis.Links
#: Seconds reserved to plan and check one circuit, with a margin for a busy machine.
_PLAN = 1e-4


def optimal(
    collective: str | None, algorithm: AlgorithmOptions, solver: "SolverOptions", options: MakeOptions
) -> None:
    """Synthesise a schedule, print it, and write it and its circuits.

    Exit with code 1 if the solver proves that no schedule has the given steps and rounds.
    """
    begun, output = time.monotonic(), options.output
    solver.check(algorithm)
    size = parse_size("64M" if solver.bytes is None else solver.bytes)
    assert solver.fabric is not None
    fabric = load_fabric(solver.fabric, solver.lasers, solver.waveguides)
    if algorithm.ranks != fabric.ranks:
        refuse(changed(algorithm, "ranks"), f"with {fabric.name}", f"its {fabric.ranks} GPUs, or without")
    direct, until, quiet = None, begun + solver.seconds, options.as_json
    if isinstance(fabric, PhotonicFabric):
        refuse(changed(solver, "steps"), f"with photonic {fabric.name}", "with electrical ones")
    else:
        refuse(changed(solver, "routes"), f"with electrical {fabric.name}", "with photonic ones")
        direct = direct_links(fabric)
        # Over direct links the fewest rounds are found, unless a size asks for the least time.
        fewest = direct is not None and solver.bytes is None
        if collective is not None and solver.steps is None and not fewest:
            best, lines, facts = _least_time(collective, algorithm, fabric, size, solver.model, until, quiet)
            return show_made(best, options, more_lines=lines, more_facts=facts)
    if algorithm.pieces is None:
        algorithm = replace(algorithm, pieces=fabric.ranks if collective in _WHOLE else 1)
    try:
        if isinstance(fabric, PhotonicFabric):
            method, k = solver.parse_routes()
            connections = optical_network(fabric, k, method, until)
        else:
            connections = direct or routed_links(fabric)
    except OutOfTime:
        raise solver.too_short() from None
    wanted = _wanted(collective, algorithm, solver.conditions, fabric)
    circuits = None
    if isinstance(fabric, PhotonicFabric) and output is not None:
        circuits = output.with_name(output.name.removesuffix(".json") + ".circuits.json")
        check_output(circuits, options.force, "--output")
    answer = _solve(wanted, connections, solver, begun, quiet)
    if isinstance(answer, str):
        raise _impossible(answer, solver, fabric, quiet)
    pieces = None if solver.conditions is not None else algorithm.pieces
    lines, facts, files = _about(answer, fabric, size, pieces, circuits)
    show_made(answer.schedule, options, more_lines=lines, more_facts=facts, more_files=files)


def _least_time(
    collective: str,
    algorithm: AlgorithmOptions,
    fabric: Fabric,
    size: int,
    model: str,
    until: float,
    quiet: bool,
) -> tuple[Schedule, list[tuple[str, str]], dict[str, Any]]:
    """Return the fastest schedule found for ``size`` B on an electrical fabric, with lines and facts."""
    begun = time.monotonic()
    with status_line(quiet) as say:
        fastest = fastest_schedule(
            collective, fabric, size, algorithm.cut(collective), model=model, until=until, progress=say
        )
    text, price = _cost_words(fastest.cost, size)
    most = ("gap", f"at most {100 * fastest.gap:.2f} % above the least time of any schedule")
    proved = fastest.gap <= EQUAL
    lines = [("method", fastest.method), *[most] * (not proved), ("time", text)]
    facts = {
        "fabric": fabric.name,
        "method": fastest.method,
        "optimal": proved,
        "gap": fastest.gap,
        "cost": price,
    }
    tried = {attempt.method: attempt.why or attempt.seconds for attempt in fastest.attempts}
    return fastest.schedule, lines, facts | {"tried": tried, "seconds": time.monotonic() - begun}


def _cost(schedule: Schedule, fabric: AnyFabric, size: int, **options: Any) -> tuple[str, dict[str, Any]]:
    """Return the time of ``size`` B of the whole array compared with the bound, in words and as facts."""
    return _cost_words(cost(schedule, fabric, size / whole_elements(schedule), **options), size)


def _cost_words(price: Cost, size: int) -> tuple[str, dict[str, Any]]:
    """Return a cost of ``size`` B of the whole array compared with the bound, in words and as facts."""
    ratio = price.ratio(price.bound)
    text = f"{size_words(size)} in {time_words(price.seconds)} on {price.fabric}, {price.model} model"
    if ratio is not None and ratio > 1 + EQUAL:
        text += f"; {ratio:.2f} times the bound of {time_words(price.bound.seconds)} for any schedule"
    else:
        text += f"; optimal: no schedule takes less time ({price.bound.why})"
    return text, {"bytes": size, "seconds": price.seconds, "bound": vars(price.bound), "ratio": ratio}


def _wanted(
    collective: str | None, algorithm: AlgorithmOptions, conditions: Path | None, fabric: AnyFabric
) -> Layout:
    """Return the layout (contents of all ranks before and after) for which the solver finds a schedule."""
    if conditions is None:
        assert collective is not None
        pieces = algorithm.parts
        most = most_pieces(collective, fabric.ranks)
        if not 1 <= pieces <= most:
            allowed = f"whole numbers from 1 to {most}" if most else "fewer GPUs"
            raise InputError(f"--pieces: {pieces} given for {fabric.ranks} GPUs; allowed: {allowed}")
        elements = algorithm.elements or default_elements(fabric.ranks, pieces)
        return layout(collective, fabric.ranks, elements, pieces, algorithm.root)
    if collective is not None:
        raise InputError(f"--conditions: given with {collective}; allowed: one of the two")
    held = read_schedule(conditions)
    if count := held.transfers.size:
        raise InputError(f"--conditions: {conditions} has {count} transfers; allowed: a schedule without any")
    if held.ranks != fabric.ranks:
        allowed = f"the {fabric.ranks} of {fabric.name}"
        raise InputError(f"--conditions: {held.ranks} ranks given; allowed: {allowed}")
    return Layout(held.ranks, held.buffers, held.sizes, held.pre, held.post)


def _solve(
    wanted: Layout, connections: Network, solver: "SolverOptions", begun: float, quiet: bool
) -> synthesis.Synthesis | str:
    """Call the solver; a status line on a terminal shows what it tries.

    The time limit counts from ``begun``, and leaves time to plan the circuits.
    """
    left = solver.seconds - (time.monotonic() - begun)
    if left <= 0:
        raise solver.too_short()
    try:
        with status_line(quiet) as say:
            if not isinstance(connections, synthesis.Links):
                left -= min(left / 4, _PLAN * len(wanted.post))
                return synthesis.synthesise(wanted, connections, time_limit=left, progress=say)
            if solver.steps is None:
                return synthesis.least_steps(wanted, connections, time_limit=left, progress=say)
            return synthesis.decide_links(
                wanted, connections, solver.steps, rounds=solver.rounds, time_limit=left, progress=say
            )
    except synthesis.Undecided as error:
        limit = f"--time-limit: {solver.seconds:g} s"
        raise synthesis.Undecided(str(error).replace("time_limit:", limit, 1)) from None


def _impossible(why: str, solver: "SolverOptions", fabric: AnyFabric, as_json: bool) -> Exit:
    """Print that there is no schedule, and return the exit with code 1, to be raised."""
    rounds = solver.steps if solver.rounds is None else solver.rounds
    facts = {"fabric": fabric.name, "steps": solver.steps, "rounds": rounds, "feasible": False, "why": why}
    line = f"impossible in {solver.steps} steps and {rounds} rounds on {fabric.name}: proved by {why}"
    conclude(as_json, facts, shown=[line])
    return Exit(1)


def _about(
    answer: synthesis.Synthesis, fabric: AnyFabric, size: int, pieces: int | None, circuits: Path | None
) -> tuple[list[tuple[str, str]], dict[str, Any], dict[Path, str]]:
    """Return lines of the table, facts for JSON, and further files (texts by path), on a schedule found."""
    names = ("lower_bound", "optimal", "why", "status", "seconds")
    facts: dict[str, Any] = {"fabric": fabric.name, "pieces": pieces}
    facts |= {name: getattr(answer, name) for name in names}
    if answer.rounds_of_steps:
        facts["rounds_of_steps"] = answer.rounds_of_steps
    lines = [
        ("lower bound", counted(answer.lower_bound, "round")),
        ("fewest", _fewest_rounds(answer, fabric, pieces)),
    ]
    files, options, result = {}, {}, []
    if isinstance(fabric, PhotonicFabric):
        options["plan"] = plan = circuit_plan(answer, fabric)
        facts["circuits"] = sum(bundle.lasers for each in plan.rounds for bundle in each.bundles)
        result = [("circuits", f"{facts['circuits']} on {fabric.name}")]
        if circuits is not None:
            files[circuits] = circuits_text(plan)
    if whole_elements(answer.schedule):
        text, facts["cost"] = _cost(answer.schedule, fabric, size, **options)
        lines.append(("time", text))
    return [*lines, ("search took", f"{answer.seconds:.3g} s"), *result], facts, files


def _fewest_rounds(answer: synthesis.Synthesis, fabric: AnyFabric, pieces: int | None) -> str:
    """Return in words whether the rounds are proved to be the fewest, under which limits, and how."""
    best = "proved" if answer.optimal else "not proved"
    if isinstance(fabric, Fabric) and fabric.switches and direct_links(fabric):
        best += " over direct links"
    if answer.schedule.name.endswith(" all-reduce"):
        best += " in each half"
    steps = f"{counted(len(answer.rounds_of_steps), 'step')}, " if answer.rounds_of_steps else ""
    for_pieces = "" if pieces is None else f" for {counted(pieces, 'piece')}"
    return f"{best}: {steps}{counted(answer.rounds, 'round')}{for_pieces}; {answer.why}"


#: Largest number of shortest routes per pair, and the default.
_MOST_ROUTES, _ROUTES = 64, 4


@options("Of optimal and greedy")
class SolverOptions:
    """Options of ``optimal`` and ``greedy``, as given."""

    fabric: str | None = option("optimal: for this fabric.", "--fabric", "-f")
    lasers: int | None = option(
        "Wavelengths that a GPU sends at once. [default: optimal, the fabric's; greedy 1]"
    )
    waveguides: int | None = option("Between tiles, each way.")
    messages: Path | None = option("greedy: JSON list of [src, dst, elements].")
    routes: str | None = option(
        "optimal: of each pair, xy (row first, column first), or shortest:K (K shortest paths). [default: xy]"
    )
    steps: int | None = option(
        "optimal, electrical: exactly so many steps; exit code 1 if proved impossible.", limits=(1, 4096)
    )
    rounds: int | None = option("optimal: rounds of all steps together. [default: --steps]", limits=(1, 4096))
    bytes: str | None = option(
        "optimal: of the whole array, for the time; electrical: asks for the least time. [default: 64M]"
    )
    model: str = option(
        "optimal, with --bytes or switches: model of the time, auto, alpha-beta, flow, kernel.",
        default="auto",
    )
    conditions: Path | None = option(
        "optimal: what is held before and after, a schedule (JSON) without transfers."
    )
    time_limit: float | None = option(
        "optimal: seconds. [default: 60]", limits=(1e-9, 1e6), allowed="seconds above 0"
    )
    seed: int | None = option("greedy: order of equals. [default: 0]", limits=(0,))

    @property
    def seconds(self) -> float:
        """Return the time limit in s, 60 by default."""
        return 60.0 if self.time_limit is None else self.time_limit

    def too_short(self) -> InputError:
        """Return the error for a time limit that expired before the search began."""
        actual = f"{self.seconds:g} s over before the search began"
        return InputError(f"--time-limit: {actual}; allowed: more time")

    def check(self, algorithm: AlgorithmOptions) -> None:
        """Raise `InputError` for options that are invalid for ``optimal`` on any fabric."""
        if self.fabric is None:
            raise InputError("--fabric: none given with optimal; allowed: such as lightpath:2x4, or a file")
        refuse(changed(algorithm, "radix", "grid"), "with optimal", "without")
        if self.rounds is not None and (self.steps is None or self.rounds < self.steps):
            actual = f"{self.rounds} given with {'no' if self.steps is None else self.steps} --steps"
            raise InputError(f"--rounds: {actual}; allowed: with --steps, and as many or more")

    def parse_routes(self) -> tuple[str, int]:
        """Parse ``--routes`` (``xy``, ``shortest`` or ``shortest:K``); return method and number of routes."""
        text = self.routes or "xy"
        match = re.fullmatch(r"(xy|shortest)|shortest:0*([0-9]{1,3})", text)
        number = int(match[2] or _ROUTES) if match else 0
        if match is None or not 1 <= number <= _MOST_ROUTES:
            allowed = f"xy, shortest, or shortest:K with K from 1 to {_MOST_ROUTES}"
            raise InputError(f"--routes: {text[:60]} given; allowed: {allowed}")
        return match[1] or "shortest", number
