"""Implement `wavefabric plan`, which predicts the time of each way to share a run among GPUs of a fabric."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wavefabric.base.errors import InputError
from wavefabric.base.units import binary_bytes, significant, time_words
from wavefabric.cli.common.files import PICTURES, load_fabric, write_all
from wavefabric.cli.common.options import OutputOptions, argument, changed, option, options, refuse
from wavefabric.cli.common.parse import parse_list
from wavefabric.cli.common.show import conclude, status_line, table
from wavefabric.fabric.planner import Candidate, RunPlan
from wavefabric.fabric.planner.picture import draw_plan
from wavefabric.fabric.planner.plan import error_words
from wavefabric.fabric.planner.plan_runs import RunPlanOptions, plan_file
from wavefabric.runtime.exchange.launch.environment import PROTOCOL

#: Number of candidates shown without ``--all``.
_SHOWN = 12
_PARTS = ("compute", "pack", "exposed", "exchange")


@options()
class PlanCommandOptions(OutputOptions):
    """Options of the run, the fabric and the candidates to plan for, and of the output."""

    file: Path = argument("Run file (TOML) of a fibre link, or k-Wave input file (HDF5).")
    fabric: str | None = option("Fabric between the GPUs: a preset, a family such as switch:8, or a file.")
    gpus: int | None = option("GPUs that share the run. [default: all of the fabric]")
    device_file: str = option(
        "How fast a GPU runs the solvers: {wavefabric.fabric.planner.rates:DEVICE_NAMES}, or a file of "
        "`wavefabric bench solver-rates`.",
        default="h200",
        checked=False,
    )
    overlaps: str = option("Ultrasound: overlaps of local decompositions, comma between.", default="8,16")
    bell: str = option(
        "Ultrasound: window on the overlaps, {wavefabric.acoustics.decomposition.window:WINDOWS}.",
        default="nested-sine",
    )
    transports: str | None = option(
        "What may carry the data, semicolon between: {wavefabric.fabric.planner.exchange_times:CARRIERS}. "
        "[default: all that the fabric has]",
        checked=False,
    )
    max_error: float = option(
        "Ultrasound: choose among local decompositions too whose error is up to this class, such as 1e-3. "
        "[default: 0, the answers of one GPU]",
        default=0.0,
    )
    precision: str = option("Ultrasound: {wavefabric.acoustics.run_settings:PRECISIONS}.", default="single")
    all: bool = option("Show every candidate.", default=False)
    output: Path | None = option(
        "JSON (for `run --plan` and `report`) or a picture.", "--output", "-o", endings=(".json", *PICTURES)
    )


def command(options: PlanCommandOptions) -> None:
    """Predict the time of a step, and the memory, of every way to share a run among GPUs; choose one.

    Computation comes from a device file, exchange from the schedules of the run itself on any fabric.

    Examples:

    wavefabric plan input.h5 --fabric hgx-h200 --gpus 4 --max-error 1e-3

    wavefabric plan examples/mdm-120-modes.toml --fabric hgx-h200 --gpus 8 -o plan.json
    """
    file, keywords = options.file, plan_options(options)
    if file.suffix.lower() == ".toml":
        inputs = changed(options, "overlaps", "bell", "max_error", "precision")
        refuse(inputs, "with a run file", "with k-Wave files")
    with status_line(options.as_json) as say:
        where = options.gpus, options.fabric, options.device_file
        plan = make_plan(file, *where, keywords | {"progress": say})
    written = []
    facts = plan.facts()
    if options.output is not None:
        if options.output.suffix == ".json":
            written += write_all({options.output: json.dumps(facts, indent=1) + "\n"}, options.force)
        else:
            written.append(draw_plan(plan, options.output, _SHOWN))
    conclude(options.as_json, facts, written, show(plan, file, options.all))


def plan_options(options: PlanCommandOptions) -> dict[str, Any]:
    """Return the keyword arguments of `RunPlanOptions`; `InputError` for malformed ``--overlaps``."""
    overlaps = parse_list(options.overlaps)
    if not overlaps or not all(word.isdecimal() and int(word) for word in overlaps):
        raise InputError(
            f"--overlaps: {options.overlaps!r} given; allowed: whole numbers from 1, comma between"
        )
    carriers = [word.strip() for word in (options.transports or "").split(";") if word.strip()]
    read = {"overlaps": [int(word) for word in overlaps], "transports": carriers or None}
    return read | {name: getattr(options, name) for name in ("bell", "max_error", "precision")}


def make_plan(
    file: Path, gpus: int | None, fabric: str | None, device_file: str, keywords: dict[str, Any]
) -> RunPlan:
    """Plan the run of a file on ``gpus`` GPUs (default: all) of ``fabric``, a name or file."""
    if fabric is None:
        raise InputError("--fabric: missing; allowed: a preset (wavefabric fabric show), or a file")
    between = load_fabric(fabric)
    return plan_file(
        file, between.ranks if gpus is None else gpus, between, device_file, RunPlanOptions(**keywords)
    )


def show(plan: RunPlan, file: Path, everything: bool) -> Iterator[Any]:
    """Yield the printed output: candidates, the choice and its reason, and the command that runs it."""
    chosen = plan.choice
    always = chosen, plan.alone
    candidates = [c for i, c in enumerate(plan.candidates) if everything or i < _SHOWN or c in always]
    columns = ("| ", "|shared how, carried by what", "ms per step", *_PARTS, "memory", "|error")
    rows = [_row(c, "*" if c is chosen else "", plan) for c in candidates]
    title = f"{plan.problem}; {plan.ranks} x {plan.device} on {plan.fabric}"
    yield table(columns, rows, title)
    if hidden := len(plan.candidates) - len(candidates):
        yield f"{hidden} more, slower: --all shows them"
    for line in plan.left_out if everything else ():
        yield f"left out: {line}"
    yield "step = compute + pack + exposed; exchange: on its way, hidden under work or exposed"
    yield f"chosen: {chosen.words}: {plan.reason}"
    if plan.steps and chosen.seconds.step * plan.steps > 0:
        total = time_words(chosen.seconds.step * plan.steps)
        one, faster = plan.alone, ""
        if one is not None and one is not chosen and plan.fits(one):
            faster = f", {one.seconds.step / chosen.seconds.step:.2f} times as fast as one GPU"
        yield f"{plan.steps} steps: {total}{faster}"
    if plan.ranks > 1:
        yield f"run it: {run_command(file, plan)}"


def _row(c: Candidate, mark: str, plan: RunPlan) -> tuple[str, ...]:
    parts = [significant(1e3 * getattr(c.seconds, key)) for key in _PARTS]
    memory = binary_bytes(c.bytes) + ("" if plan.fits(c) else " (too much)")
    return mark, c.words, significant(1e3 * c.seconds.step, 4), *parts, memory, error_words(c.error)


def run_command(file: Path, plan: RunPlan) -> str:
    """Return the command line that runs the choice of ``plan``."""
    chosen = plan.choice
    run = ["wavefabric", "run", shlex.quote(str(file))]
    if not chosen.carrier:
        return " ".join(run)
    run += ["--ranks", str(plan.ranks)]
    if chosen.order:
        return " ".join([*run, "--plan plan.json   (after -o plan.json: it has the order of the GPUs)"])
    # By default p2p uses kernels.
    words = [f"{PROTOCOL}=copies"] * (plan.protocol_of(chosen) == "copies") + run
    for key, value in chosen.options.items():
        words += [f"--{key}", str(value)]
    return " ".join([*words, "--transport", chosen.carrier.partition(", ")[0]])
