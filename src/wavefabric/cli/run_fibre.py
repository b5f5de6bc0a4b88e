"""Execute `wavefabric run` for a fibre link's run file: write result and figures, print a penalty table."""

import math
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from rich.table import Column, Table

from wavefabric.base.results import read_result
from wavefabric.cli.common.options import changed
from wavefabric.cli.common.progress import running
from wavefabric.cli.common.show import conclude, console, heading
from wavefabric.cli.common.show import table as plain_table
from wavefabric.cli.run_options import RunOptions, RunRankOptions
from wavefabric.collectives import direct_all_gather
from wavefabric.optics.link.build import check_start, result_writer
from wavefabric.optics.link.expected import left_out
from wavefabric.optics.link.figures import plot_result
from wavefabric.optics.link.result import channel_cells, channel_rows, group_rows
from wavefabric.optics.link.run import run_link
from wavefabric.optics.link.step_choice import StepCheck, choose_step, verify_step
from wavefabric.optics.propagation.resonance import metres
from wavefabric.optics.run_file.load import RunFile, load
from wavefabric.runtime.exchange.launch import environment
from wavefabric.runtime.lifecycle.checkpoint.file import checkpoint_path


def run_link_file(options: RunOptions, ranks: RunRankOptions) -> None:
    """Simulate the link of a run file, draw the figures and print the table."""
    settings = load(options.file).with_theory()
    if solver := changed(options, "device", "threads", "exchange"):
        settings = settings.with_solver(**solver)
    ranks = ranks.checked(settings.solver.device, settings.solver.threads)
    target = options.output or settings.output_path()
    checkpoint = checkpoint_path(target)
    # Exchange between the ranks: every rank sends its powers to all others.
    traffic = partial(direct_all_gather, [1] * ranks.count)
    check = partial(check_start, settings, ranks.count, target, options.force)
    go_on, step_check = "without --no-resume it" if options.no_resume else "the same command", None
    with running(ranks, traffic, checkpoint, check, options.silent, command=go_on) as (comm, progress):
        if options.verify_step:
            result_writer(settings, target, options.force)  # refuses what the run would refuse
            if settings.solver.step_penalty is not None:
                settings = choose_step(settings, comm, progress)
            step_check = verify_step(settings, comm, progress)
            progress.finish()
        how = {"output": target, "force": options.force, "resume": not options.no_resume}
        with ranks.recording(comm, options.force, progress):
            done = run_link(settings, **how, progress=progress, comm=comm)
    if environment.rank() == 0:
        _conclude(done.path, settings, step_check, options)


def _conclude(path: Path, settings: RunFile, check: StepCheck | None, options: RunOptions) -> None:
    """Draw the figures of a result and print its table."""
    figures = plot_result(path, brief=True) if settings.output.figures else []
    result = read_result(path)
    rows, channels = group_rows(result), channel_rows(result)
    solver = result.attrs("solver") if "solver" in result.groups() else {}
    content = {
        "output": path,
        "figures": figures,
        "solver": solver,
        "warnings": list(result.get("solver/warnings", [])),
        "step_change_db": check.change_db if check else None,
        "groups": rows,
    }
    content |= {"channels": channels} if channels else {}
    differing = [plain_table(*channel_cells(channels))] if channels else []
    lines = [f"wrote {each}" for each in (path, *figures)] + ([check.text] if check else [])
    if settings.output.theory and (key := left_out(settings)):
        lines.append(f"no theory beside it: it does not hold {key}")
    if options.as_json or not options.quiet:
        conclude(options.as_json, content, shown=chain(show(rows, solver, settings.title), differing, lines))


def show(rows: list[dict[str, Any]], solver: dict[str, Any], title: str) -> Iterator[Any]:
    """Yield the printed output: the penalty table, two distances side by side if they fit, and notes."""
    if rows:
        if title:
            yield heading(title)
        far = [name for name in rows[0]["received"] if name != "back_to_back"]
        beside = 1 + (console().width > 99)
        for first in range(0, max(len(far), 1), beside):
            yield _table(rows, far[first : first + beside])
        yield "Q² in dB over modes and channels; penalty: mean minus back to back"
        if line := rate_line(rows):
            yield line
        yield from ratio_lines(rows)
        if "back_to_back" in rows[0]["received"] and not _has_reference(rows):
            yield "back to back is free of noise (no receiver.osnr): no reference for a penalty"
    if "local_error" in solver:
        yield cost_line(solver)
    if line := step_line(solver):
        yield line


def _has_reference(rows: list[dict[str, Any]]) -> bool:
    return all(row["received"].get("back_to_back", {}).get("penalty_db") == 0 for row in rows)


def rate_line(rows: list[dict[str, Any]]) -> str:
    """Return a line on the generalised mutual information; "" for symbols without bits and older results."""
    texts = {}
    for name, first in rows[0]["received"].items():
        rates = [(row["received"][name]["gmi_mean"], row["modes"]) for row in rows]
        if all(rate is not None for rate, _ in rates):
            rate = sum(rate * modes for rate, modes in rates) / sum(modes for _, modes in rates)
            texts[name] = f"{rate:.3f} ({_at(name, first)})"
    line = _few(texts.values())
    return f"GMI in bits per symbol of each polarisation, mean: {line}" if line else ""


def ratio_lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a line on OSNR and one on GSNR of the worst signal; none where there is no noise."""
    for key, name in (("osnr_min_db", "OSNR"), ("gsnr_min_db", "GSNR, with interference,")):
        texts = {}
        for position, first in rows[0]["received"].items():
            levels = [row["received"][position].get(key) for row in rows]
            if levels := [level for level in levels if level is not None]:
                texts[position] = f"{min(levels):.2f} ({_at(position, first)})"
        if line := _few(texts.values()):
            yield f"{name} of the worst signal in 12.5 GHz, dB: {line}"


def _at(position: str, received: dict[str, Any]) -> str:
    return "back to back" if position == "back_to_back" else f"{received['distance_m'] / 1e3:g} km"


def _few(texts: Iterable[str]) -> str:
    shown = list(texts)
    return ", ".join(shown if len(shown) <= 4 else [*shown[:2], "…", shown[-1]])


def cost_line(solver: dict[str, Any]) -> str:
    """Return a line on the cost and the accuracy of the propagation."""
    local = solver["local_error"]
    error = "not measured" if math.isnan(local) else f"{local:.1e}"
    line = (
        "{integrator} on {device}: {steps} steps, {ffts} FFTs, {exchanges} exchanges in {seconds:.1f} s; "
        "local error {error}, energy drift {energy_drift:.1e}"
    )
    if (compilation := solver.get("compilation_seconds", 0.0)) > 0.05:  # older results have none
        line += f"; {compilation:.1f} s of compilation, this time alone"
    return line.format_map({**solver, "error": error})


def step_line(solver: dict[str, Any]) -> str:
    """Return a line on whether the step is above the resonance limit; "" for results without that limit.

    Above it phase-mismatched light acts as if it were phase-matched, an error of the integrator.
    """
    limit, step = solver.get("resonance_step_m", math.nan), solver.get("step", math.nan)
    if not (math.isfinite(limit) and math.isfinite(step)):
        return ""

    def limit_text(limit: float) -> str:
        return "above" if step > limit else "below"

    field = min(limit, solver["field_resonance_step_m"])
    channels = f"{limit_text(limit)} the resonance limit of {metres(limit)} for the channels"
    whole = f"{limit_text(field)} that of {metres(field)} for the whole field"
    return f"step {metres(step)}: {channels} ({solver['resonance_cause']}), {whole}"


def _table(rows: list[dict[str, Any]], names: list[str]) -> Table:
    reference = _has_reference(rows)
    expected = bool(names) and rows[0]["received"][names[0]]["q_squared_expected_db"] is not None

    def numbers(name: str, key: str, form: str = ".2f") -> list[str]:
        return [format(row["received"][name][key], form) for row in rows]

    columns = [(f"\n{key}", [str(row[key]) for row in rows]) for key in ("group", "modes")]
    if reference:
        columns.append(("back to\nback", numbers("back_to_back", "q_squared_mean_db")))
    for name in names:
        distance = rows[0]["received"][name]["distance_m"] / 1e3
        columns.append((f"{distance:g} km\nmean", numbers(name, "q_squared_mean_db")))
        if expected:
            columns.append(("\ntheory", numbers(name, "q_squared_expected_db")))
        columns.append(("\nmin", numbers(name, "q_squared_min_db")))
        if reference:
            columns.append(("\npenalty", numbers(name, "penalty_db", "+.3f")))
    styles = {"\npenalty": "bold"}
    heads = (Column(head, justify="right", no_wrap=True, style=styles.get(head, "")) for head, _ in columns)
    table = Table(*heads)
    for cells in zip(*(cells for _, cells in columns), strict=True):
        table.add_row(*cells)
    return table
