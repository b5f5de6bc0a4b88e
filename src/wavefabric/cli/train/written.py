"""Files that `wavefabric train` writes: refused before anything is simulated, written at the end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wavefabric.cli.common.files import PICTURES, check_target
from wavefabric.cli.common.options import OutputOptions, option, options, refuse
from wavefabric.errors import InputError
from wavefabric.training.compare import Case
from wavefabric.training.strategies.strategy_file import save_strategy

#: Of one simulation alone.
_SINGLE = ("trace", "chakra", "save_strategy")


@options()
class ResultOptions(OutputOptions):
    """What is compared and written."""

    compare: bool = option("Compare all of --gpus, --fabric and --collective, lists.", default=False)
    output: Path | None = option(
        "Picture: the timeline; with --compare throughput over GPUs.", "--output", "-o"
    )
    trace: Path | None = option("Chrome trace (JSON), for Perfetto.")
    chakra: Path | None = option("Chakra trace: files NAME.RANK.et.")
    save_strategy: Path | None = option("Strategy (JSON), which --strategy reads.")

    @property
    def pictured(self) -> bool:
        """Whether something shows every layer."""
        return not self.compare and any((self.output, self.trace, self.chakra))


def check_files(result: ResultOptions, inputs: Sequence[str | Path], gpus: int, with_strategy: bool) -> None:
    """Refuse files that cannot or must not be written."""
    values: dict[str, Any] = {name: path for name in _SINGLE if (path := getattr(result, name)) is not None}
    if result.compare:
        refuse(values, "with --compare", "with one simulation")
    if not with_strategy:
        refuse({k: v for k, v in values.items() if k == "save_strategy"}, "without a model", "with a model")
    check_target(result.output, result.force, PICTURES, inputs=inputs)
    check_target(result.trace, result.force, (".json",), "--trace", inputs)
    check_target(result.save_strategy, result.force, (".json",), "--save-strategy", inputs)
    if result.trace is not None and result.trace == result.save_strategy:
        raise InputError(f"--trace: {result.trace} given, and --save-strategy; allowed: another name")
    if result.chakra is not None:
        from wavefabric.training.traces.chakra.messages import schema

        schema()
        if result.chakra.name in ("", ".."):  # Path("") is Path(".")
            shown = f"{result.chakra} or nothing" if str(result.chakra) == "." else result.chakra
            raise InputError(f"--chakra: {shown} given; allowed: NAME of the files NAME.RANK.et")
        for rank in range(gpus):
            check_target(Path(f"{result.chakra}.{rank}.et"), result.force, (".et",), "--chakra", inputs)


def write_files(case: Case, result: ResultOptions, name: str) -> list[Path]:
    """Write what was asked for of one simulation of something so called; gives the files."""
    written: list[Path] = []
    workload = case.iteration.workload
    if result.output is not None:
        from wavefabric.training.traces.timeline import draw_timeline

        words = f"{name} on {case.gpus} GPUs of {case.fabric.name}, {case.collective}"
        written.append(draw_timeline(result.output, case.iteration, title=words, force=result.force))
    if result.trace is not None:
        from wavefabric.training.traces.perfetto import write_perfetto

        written.append(write_perfetto(result.trace, case.iteration, result.force))
    if result.chakra is not None:
        from wavefabric.training.traces.chakra import write_chakra

        written += write_chakra(result.chakra, case.iteration, force=result.force)
    if result.save_strategy is not None and workload is not None:
        written.append(save_strategy(result.save_strategy, workload.model, workload.strategy, result.force))
    return written
