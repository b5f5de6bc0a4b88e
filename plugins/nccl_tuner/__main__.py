"""`python -m plugins.nccl_tuner FOLDER` measures NCCL's choices and writes a plugin of the fastest."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

sys.path.append(str(Path(__file__).resolve().parents[2]))

from plugins.nccl_tuner.tuner import OPERATIONS, check_folder, tune_nccl, write_plugin
from wavefabric import cli
from wavefabric.cli.common.options import OutputOptions, argument, option, options, register
from wavefabric.cli.common.parse import FACTOR_HELP, optional_sizes
from wavefabric.cli.common.progress import make_progress
from wavefabric.cli.common.rank_session import MeasureOptions, start_ranks
from wavefabric.cli.common.show import conclude
from wavefabric.runtime.exchange.launch import environment

#: What ranks are started with, before the words of the command.
PROGRAM = (sys.executable, str(Path(__file__).resolve().parent))
_NAME = "nccl-tuner"


@options()
class NCCLTunerOptions(OutputOptions):
    """What is measured."""

    collective: list[str] | None = option(f"{', '.join(OPERATIONS)}; may be given again. [default: all]")
    sizes: list[str] | None = option(
        "Bytes of the whole array: least:most, or with commas between; may be given again. K, M, G: 2^10, … "
        "[default: 256 elements a rank to 1G]",
        "--sizes",
        "--size",
    )
    factor: int | None = option(FACTOR_HELP)
    dtype: str = option("{wavefabric.fabric.execution.timed_schedule:EXACT}.", default="float32")


@options()
class NCCLRankOptions(MeasureOptions):
    """Who measures, and how often."""

    transports: str = "nccl"


def command(
    options: NCCLTunerOptions,
    who: NCCLRankOptions,
    folder: Annotated[Path, argument("Folder for the plugin and its table.")],
) -> None:
    """Measure what NCCL can choose, and write a tuner plugin that makes it choose the fastest.

    After Ctrl-C the plugin is written for the sizes that are complete.

    Examples:

    python -m plugins.nccl_tuner --ranks 2 mine

    mpiexec -n 2 python -m plugins.nccl_tuner --collective all-reduce --sizes 64K:16M mine
    """
    folder = folder.absolute()
    if environment.rank() == 0:
        check_folder(folder, options.force)
    sizes = {size for text in options.sizes or [None] for size in optional_sizes(text, options.factor)}
    del who.invocation.words[:1]  # the command's name, which `main` puts before what ranks are started with
    ranks = start_ranks(who, options.as_json)
    how = options.dtype, who.repeats, make_progress(options.as_json)
    result = tune_nccl(ranks, options.collective or OPERATIONS, sorted(sizes), *how)
    if ranks.rank == 0:
        written = write_plugin(folder, result, options.force)
        facts = vars(result) | {"sizes": [size._asdict() for size in result.sizes]}
        conclude(options.as_json, facts, written, [result.report()])
    if not result.complete:
        raise KeyboardInterrupt


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command with the error messages and exit codes of `wavefabric`."""
    register(cli.app, _NAME, command, all_ranks=True, hidden=True)
    cli.main([_NAME, *(sys.argv[1:] if arguments is None else arguments)], PROGRAM)


if __name__ == "__main__":
    main()
