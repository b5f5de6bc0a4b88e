"""`wavefabric run` with a k-Wave input file: sensible outputs, a checkpoint, a short answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from wavefabric.cli.common.decomposition import DecompositionOptions
from wavefabric.cli.common.progress import make_progress
from wavefabric.cli.common.ranks import RankOptions
from wavefabric.cli.common.show import print_json
from wavefabric.cli.kwave_run import KWaveRun, size_text
from wavefabric.errors import InputError
from wavefabric.files.input import check_regular

if TYPE_CHECKING:
    from wavefabric.acoustics.kwave.output import KWaveOutput
    from wavefabric.acoustics.problem import Problem
    from wavefabric.acoustics.recording.sinks import Report
    from wavefabric.cli.run import RunOptions

_SIGNATURE = b"\x89HDF\r\n\x1a\n"


def is_hdf5(file: Path) -> bool:
    """Whether a file is HDF5 by its name, or by its content if its name does not say TOML."""
    suffix = file.suffix.lower()
    if suffix in (".h5", ".hdf5"):
        return True
    try:
        check_regular(file)
        with open(file, "rb") as handle:
            return suffix != ".toml" and handle.read(len(_SIGNATURE)) == _SIGNATURE
    except (OSError, ValueError):  # whoever reads it says why
        return False


def run_kwave_file(
    file: Path, asked: RunOptions, ranks: RankOptions, decomposition: DecompositionOptions
) -> None:
    """Run an input file and print what it cost; ``ranks`` are checked."""
    if ranks.threads is not None and ranks.threads < 1:
        raise InputError(f"--threads: {ranks.threads}; allowed: a whole number from 1")
    from wavefabric.acoustics.run import Checkpoints
    from wavefabric.results.checkpoint_file import checkpoint_path

    target = asked.output or file.with_name(file.stem + "_out.h5")
    done = KWaveRun(
        file,
        target,
        asked.force,
        ranks,
        decomposition,
        Checkpoints(checkpoint_path(target), resume=not asked.no_resume),
        make_progress(asked.silent),
        asked.silent,
    ).run()
    if done is None:
        return
    if asked.as_json:
        print_json(summary(*done))
    elif not asked.quiet:
        show(summary(*done), done[1])


def summary(sink: KWaveOutput, problem: Problem, report: Report) -> dict[str, Any]:
    """What ``--json`` prints."""
    import h5py

    with h5py.File(sink.path, "r") as file:
        field = file["p_max_all"]
        # Plane by plane: a field may be bigger than what is left of the memory.
        peak = max(float(plane.max()) for plane in field)  # type: ignore[union-attr]
    simulation = report.seconds.get("simulation", 0.0)
    return {
        "output": str(sink.path),
        "device": report.device,
        "ranks": report.ranks,
        "transport": report.transport,
        "decomposition": report.decomposition,
        "notes": report.notes,
        "grid": list(problem.shape[: problem.dimensions]),
        "steps": problem.steps,
        "ms_per_step": 1e3 * simulation / problem.steps,
        "seconds": sum(report.seconds.values()),
        "peak_pressure_pa": peak,
        "memory_bytes": report.peak_bytes,
        "resumed_at": report.resumed_at,
    }


def show(summary: dict[str, Any], problem: Problem) -> None:
    """Print the closing lines."""
    where = summary["device"]
    if summary["ranks"] > 1:
        where += f", {summary['ranks']} ranks through {summary['transport']}"
    print(
        f"{size_text(problem)} points, {summary['steps']} steps on {where}: "
        f"{summary['ms_per_step']:.3g} ms a step, {summary['seconds']:.1f} s; "
        f"peak pressure {summary['peak_pressure_pa']:.4g} Pa"
    )
    for note in summary["notes"]:
        print(f"note: {note}")
    print(f"wrote {summary['output']}")
