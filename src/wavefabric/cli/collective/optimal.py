"""Implement `collective make optimal`: proved fewest rounds over circuits, or steps and rounds over links."""

import math
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from click.exceptions import Exit

from wavefabric.base.errors import InputError
from wavefabric.base.files.output import check_output
from wavefabric.base.units import counted, time_words
from wavefabric.cli.collective.algorithm import (
    AlgorithmOptions,
    build_by_name,
    default_elements,
    read_schedule,
)
from wavefabric.cli.collective.circuit_file import circuits_text
from wavefabric.cli.collective.facts import MakeOptions, show_made
from wavefabric.cli.common.files import load_fabric
from wavefabric.cli.common.options import changed, option, options, refuse
from wavefabric.cli.common.parse import parse_size
from wavefabric.cli.common.show import conclude, status_line
from wavefabric.collectives import Schedule, synthesis
from wavefabric.collectives.conditions import CUT_BY_RANK, Layout, layout, whole_elements
from wavefabric.collectives.registry import ALGORITHMS, extent, rings_of, why_refused
from wavefabric.collectives.synthesis.deadline import OutOfTime
from wavefabric.collectives.synthesis.forest import forest_schedule, forests
from wavefabric.fabric import AnyFabric, Fabric, PhotonicFabric
from wavefabric.fabric.cost_models.cost import cost
from wavefabric.fabric.electrical.synthesis_problem import direct_links, routed_links
from wavefabric.fabric.execution.report import size_words
from wavefabric.fabric.photonic.synthesis_problem import circuit_plan, optical_network

#: Collectives with the whole array on one rank. With as many pieces as ranks, each rank has one piece to add
#: or forward; the arrays of other collectives are divided among the ranks anyway.
_WHOLE = ("all-reduce", "broadcast", "reduce")
Network = synthesis.OpticalNetwork | synthesis.Links
#: Relative difference from a bound below which a time counts as equal to the bound.
_EQUAL = 1e-9
#: Seconds reserved to plan and check one circuit, with a margin for a busy machine.
_PLAN = 1e-4
#: Largest number of chunks of all ranks together; with more, posing the problem takes too long.
_MOST_CHUNKS = 1 << 19


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
        if direct is None and collective is not None and solver.steps is None:
            best, lines, facts = _least_time(collective, algorithm, fabric, size, until, quiet)
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
    collective: str, algorithm: AlgorithmOptions, fabric: Fabric, size: int, until: float, quiet: bool
) -> tuple[Schedule, list[tuple[str, str]], dict[str, Any]]:
    """Return the fastest schedule found for ``size`` B on a fabric with switches, with lines and facts."""
    begun, best = time.monotonic(), None
    with status_line(quiet) as say:
        for schedule, method in _timed(collective, algorithm, fabric, size, until):
            with suppress(InputError):  # a pair has no route, or no switch multicasts
                text, price = _cost(schedule, fabric, size)
                if best is None or price["seconds"] < best[3]["seconds"] * (1 - 1e-9):
                    best = schedule, method, text, price
                    say(f"{time_words(price['seconds'])}: {method}")
            if (best and (best[3]["ratio"] or 1) <= 1 + 1e-9) or time.monotonic() > until:
                break
    if best is None:
        raise synthesis.Undecided(f"--fabric: {fabric.name} is too large; allowed: fewer GPUs, or more time")
    schedule, method, text, price = best
    gap = (price["ratio"] or 1.0) - 1
    most = ("gap", f"at most {100 * gap:.2f} % above the least time of any schedule")
    lines = [("method", method), *[most] * (gap > _EQUAL), ("time", text)]
    facts = {"fabric": fabric.name, "method": method, "optimal": gap <= _EQUAL, "gap": gap, "cost": price}
    return schedule, lines, facts | {"seconds": time.monotonic() - begun}


def _timed(
    collective: str, algorithm: AlgorithmOptions, fabric: Fabric, size: int, until: float
) -> Iterator[tuple[Schedule, str]]:
    """Yield candidate schedules with the method that made each: first registry algorithms, then trees."""
    n, rooted = fabric.ranks, collective in ("broadcast", "reduce")
    base = algorithm.pieces or (n if collective == "all-reduce" else 1)
    latency, most = fabric.alpha + 2 * max(link.latency for link in fabric.links), math.inf
    alone = size / max(link.bandwidth for link in fabric.links)
    for name in sorted(ALGORITHMS, key=lambda name: name != "direct"):
        # A switch reads one piece while it writes another: enough pieces keep both directions busy.
        pipelined = ALGORITHMS[name].switched and collective == "all-reduce" and algorithm.pieces is None
        fill = min(round((alone / (latency or 1e-9)) ** 0.5), _MOST_CHUNKS // (4 * n * n))
        for pieces in (algorithm.parts, *[fill] * pipelined):
            own = replace(algorithm, pieces=pieces) if pieces > 1 else algorithm
            arguments = own.registry(name, n, fabric)
            parts = own.parts * rings_of(name, arguments["grid"])
            refused = why_refused(name, collective, n, **arguments)
            if not refused and extent(name, collective, n, parts)[1] <= _MOST_CHUNKS:
                words = f"algorithm {name}" + (f", {pieces} pieces" if pieces > 1 else "")
                yield build_by_name(name, collective, own, fabric), words
    with suppress(OutOfTime, InputError):  # trees do not serve an all-to-all, a gather or a scatter
        for count in (n - 1, 1, 2, 3)[not rooted : 4 * (n * n <= _MOST_CHUNKS)]:
            links = routed_links(fabric, 1.0)
            made = forests(layout(collective, n, n * base, base, algorithm.root), links, count, until, most)
            if not made[0][0]:
                break
            most = float(made[0][1]) * 0.99  # further trees must be at least 1 % faster
            depth = max(depth for trees, _ in made for tree in trees for _, depth in tree.reached.values())
            # P chunks per tree take P + depth − 1 rounds, each of 1/P of the transfer.
            fitting = round(((depth - 1) * float(made[0][1]) * size / (latency or 1e-9)) ** 0.5)
            length = max(1, min(fitting, _MOST_CHUNKS // (count * n * (1 if rooted else n))))
            pieces = algorithm.pieces or base * count * length
            cut = layout(
                collective, n, algorithm.elements or default_elements(n, pieces), pieces, algorithm.root
            )
            yield forest_schedule(cut, made), f"trees: {count} of each root, {depth} deep, {pieces} pieces"


def _cost(schedule: Schedule, fabric: AnyFabric, size: int, **options: Any) -> tuple[str, dict[str, Any]]:
    """Return the time of ``size`` B of the whole array compared with the bound, in words and as facts."""
    price = cost(schedule, fabric, size / whole_elements(schedule), **options)
    ratio = price.seconds / price.bound.seconds if price.bound.seconds else None
    text = f"{size_words(size)} in {time_words(price.seconds)} on {price.fabric}, {price.model} model"
    if ratio is not None and ratio > 1 + _EQUAL:
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
        chunks = fabric.ranks * (fabric.ranks if collective in CUT_BY_RANK else 1)
        chunks *= 2 if collective == "all-to-all" else 1
        if pieces < 1 or chunks * pieces > _MOST_CHUNKS:
            most = _MOST_CHUNKS // chunks
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
    bytes: str | None = option("optimal: of the whole array, for the time that is shown. [default: 64M]")
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
