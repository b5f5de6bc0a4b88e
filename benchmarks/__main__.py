"""`python benchmarks`: the command `wavefabric` with the benchmarks behind the project's tables."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.parts import COMPARISONS
from benchmarks.ultrasound_breakdown import parse_overlaps
from wavefabric import cli
from wavefabric.cli.bench import app as bench
from wavefabric.cli.bench.app import benchmark
from wavefabric.cli.common.parse import parse_list
from wavefabric.cli.common.rank_session import RankedOptions

#: The program with its arguments left out, for ranks that it starts.
PROGRAM = (sys.executable, str(Path(__file__).resolve().parent))


def register() -> None:
    """Add the benchmarks of this folder to `wavefabric bench`."""
    texts = list[str] | None
    size = bench.argument(
        str | None,
        "Points of the whole grid, N or NXxNYxNZ. \\[default: by device]",
        None,
        bench.parse_points,
        "--size",
    )
    grids = "Blocks along x, y and z; may be repeated. \\[default: all along z, and even]"
    orders = "identity, reversed, round-robin, such as 0-2-1-3, comma between; or all."
    grid = "Points of the whole grid, N or NXxNYxNZ; may be repeated."
    adjoint, breakdown, cuts, versus = COMPARISONS
    benchmark(
        adjoint,
        bench.Local,
        "Cost of an adjoint time step beside a forward one, and of a whole gradient in forward runs.",
        2,
        "benchmarks",
        sizes=bench.POINTS,
        media=bench.argument(str, bench.MEDIA_HELP, "both", bench.parse_media, "--medium"),
        precision=bench.SAMPLED["precision"],
        repeats=bench.argument(int, "Rounds; medians count.", 7),
    )
    benchmark(
        breakdown,
        RankedOptions,
        "Where a step of the local decomposition spends its time: compute, pack, exchange, idle; by overlap.",
        2,
        "benchmarks",
        shape=size,
        overlaps=bench.argument(str, "Points, comma between.", "2,4,8,16,32", parse_overlaps),
        grids=bench.argument(texts, grids, None, bench.parse_blocks, "--grid"),
        media=bench.MEDIA,
        **bench.SAMPLED,
    )
    benchmark(
        cuts,
        RankedOptions,
        "A step of one grid in every cut into blocks, and with the blocks on other devices.",
        2,
        "benchmarks",
        shape=size,
        placements=bench.argument(str, orders, "identity,round-robin", parse_list),
        medium=bench.argument(str, "homogeneous, heterogeneous or tissues.", "homogeneous"),
        overlap=bench.CUT["overlap"],
        **bench.SAMPLED,
    )
    benchmark(
        versus,
        RankedOptions,
        "A step of the global decomposition over one of the local, by size and transport.",
        2,
        "benchmarks",
        sizes=bench.argument(texts, grid, None, bench.parse_points, "--size"),
        media=bench.MEDIA,
        **bench.CUT,
        **bench.SAMPLED,
    )


register()

if __name__ == "__main__":
    cli.main(program=PROGRAM)
