"""Run k-Wave input files for `wavefabric kwave` and `wavefabric run`, and print the summary of the latter."""

from pathlib import Path
from typing import Any

from wavefabric.acoustics.kwave.run_input import run_kwave_file
from wavefabric.acoustics.recording.sinks import PHASE_WORDS, Report
from wavefabric.base.files.output import check_output
from wavefabric.cli.common.decomposition import file_traffic
from wavefabric.cli.common.progress import make_progress, running
from wavefabric.cli.common.show import conclude
from wavefabric.cli.run_options import RunOptions, RunRankOptions
from wavefabric.runtime.exchange.launch import environment
from wavefabric.runtime.lifecycle.checkpoint.file import checkpoint_path
from wavefabric.runtime.lifecycle.checkpoint.run_checkpoint import Checkpoints


def run_on_ranks(input: Path, output: Path, ranks: RunRankOptions, quiet: bool, **options: Any) -> Report:
    """Run a k-Wave input file on the running ranks; if ranks must be started first, start them and exit.

    ``options`` are the arguments of `run_kwave_file` that the other parameters do not set.
    """
    shared, checkpoint, force = ranks.shared(), options["checkpoint"], options["force"]

    def schedule():
        return file_traffic(input, ranks.count, shared)

    def check():
        check_output(output, force, inputs=[input])
        schedule()

    saved, progress = checkpoint and checkpoint.path, options["progress"]
    with running(ranks, schedule, saved, check, quiet, progress) as (comm, _):
        options |= {"device": ranks.device or "auto", "threads": ranks.threads, "comm": comm}
        with ranks.recording(comm, force, progress):
            return run_kwave_file(input, output, **options, decomposition=shared)


def run_and_show(options: RunOptions, ranks: RunRankOptions) -> None:
    """Run a k-Wave input file and print the summary; ``ranks`` must have been checked."""
    target = options.output or options.file.with_name(options.file.stem + "_out.h5")
    report = run_on_ranks(
        options.file,
        target,
        ranks,
        options.silent,
        checkpoint=Checkpoints(checkpoint_path(target), resume=not options.no_resume),
        progress=make_progress(options.silent),
        force=options.force,
        names={"check_stability=False": ""},  # this command has no such option
    )
    if environment.rank() > 0:
        return
    facts = summary(target, report)
    if options.as_json or not options.quiet:
        conclude(options.as_json, facts, shown=show(facts))


def summary(output: Path, report: Report) -> dict[str, Any]:
    """Return the facts about a run that ``--json`` prints."""
    import h5py

    with h5py.File(output, "r") as file:
        field: Any = file["p_max_all"]
        # Plane by plane: a field may be larger than the free memory.
        peak = max(float(plane.max()) for plane in field)
        grid = [int(n) for n in field.shape[::-1]]
    facts = {"output": str(output)}
    facts |= {key: getattr(report, key) for key in ("device", "ranks", "transport", "decomposition", "notes")}
    return facts | {
        "grid": grid if grid[2] > 1 else grid[:2],
        "steps": report.total_steps,
        "ms_per_step": 1e3 * (report.step_seconds or report.seconds["simulation"] / report.total_steps),
        "compilation_seconds": report.seconds["compilation"],
        "phase_seconds": {PHASE_WORDS[name]: taken for name, taken in report.seconds.items()},
        "seconds": sum(report.seconds.values()),
        "peak_pressure_pa": peak,
        "steady_ms_per_step": 1e3 * report.step_seconds or None,
        "memory_bytes": report.peak_bytes,
        "gpu_memory_bytes": report.device_bytes or None,
        "resumed_at": report.resumed_at,
    }


def show(summary: dict[str, Any]) -> list[str]:
    """Return the lines printed after a run."""
    device = summary["device"]
    if summary["ranks"] > 1:
        device += f", {summary['ranks']} ranks through {summary['transport']}"
    compiled = summary["compilation_seconds"]
    compilation = f" ({compiled:.1f} s of it compilation)" if compiled > 0.05 else ""
    line = (
        f"{' x '.join(map(str, summary['grid']))} points, {summary['steps']} steps on {device}: "
        f"{summary['ms_per_step']:.3g} ms per step, {summary['seconds']:.1f} s{compilation}; "
        f"peak pressure {summary['peak_pressure_pa']:.4g} Pa"
    )
    phases = (f"{name} {taken:.2f} s" for name, taken in summary["phase_seconds"].items() if taken >= 0.005)
    return [
        line,
        f"of it {', '.join(phases)}",
        *(f"note: {note}" for note in summary["notes"]),
        f"wrote {summary['output']}",
    ]
