"""`python benchmarks`: the command `wavefabric` with the benchmarks behind the project's tables."""

import sys
from functools import partial
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.ultrasound_breakdown import parse_blocks, parse_overlaps
from wavefabric import cli
from wavefabric.base.units import quantity
from wavefabric.cli.bench.app import (
    MEDIA_HELP,
    PLAIN,
    SAMPLES,
    Local,
    keyword,
    parse_media,
    parse_points,
    parse_precisions,
)
from wavefabric.cli.bench.app import benchmark as add_benchmark
from wavefabric.cli.common.parse import parse_list, parse_shape
from wavefabric.cli.common.rank_session import RankedOptions
from wavefabric.optics.propagation.integrators import INTEGRATORS

#: What ranks are started with, before the words of the command.
PROGRAM = (sys.executable, str(Path(__file__).resolve().parent))


def benchmark(name: str, base: type, help: str, least: int = 2, /, **arguments: Any) -> None:
    """Add the command of a module of this folder; `least`: ranks that it needs."""
    add_benchmark(name, base, help, least, "benchmarks", **arguments)


def _case(text: str) -> tuple[int, ...]:
    """Rows and log2 of samples: ``30x21``, ``30x2^21``."""
    return parse_shape(text.replace("2^", ""), "--case", "rows x log2 of samples, such as 30x21", (2,))


def _plane(text: str) -> tuple[int, ...]:
    """Points of a 2-D grid: ``256x256``."""
    return parse_shape(text, "--size", "NXxNY, such as 256x256", (2,))


def _integrators(text: str) -> list[str]:
    return list(INTEGRATORS) if text == "all" else parse_list(text)


_Text, _Texts = str | None, list[str] | None
_MEDIA = keyword(str, MEDIA_HELP, "homogeneous", parse_media, "--medium")
_PRECISION = keyword(str, "single or double.", "single")
_SAMPLED = {"precision": _PRECISION, "repeats": keyword(int, SAMPLES, 5)}
_CUT = {
    "overlap": keyword(int, "Points on each side of a block.", 16),
    "grid": keyword(_Text, "Blocks along x, y and z, such as 1x2x2.", None, parse_blocks),
}
_SIZE = "Points of the whole grid, N or NXxNYxNZ"
_SIZES = keyword(_Texts, f"{_SIZE}; may be repeated.", None, parse_points, "--size")
_SHAPE = keyword(_Text, f"{_SIZE}. [default: by device]", None, parse_points, "--size")
_GRIDS = "Blocks along x, y and z; may be repeated. [default: all along z, and even]"
_ORDERS = "identity, reversed, round-robin, such as 0-2-1-3, comma between; or all."
_WEAK = "Weak: a rank owns so many points cubed. [default: 48, GPU 512]"
_STRONG = "Strong: so many points cubed together. [default: 64, GPU 1024]"
_FROM = "JSON of a run on other ranks, shown with this one; may be repeated."

_CASES = (
    "Rows x log2 of samples, e.g. 30x21; may be repeated. [default: 2x17 and 30x15 on a CPU, 30x21 on a GPU]"
)

benchmark(
    "fibre-step",
    Local,
    "Cost of one step: time, FFT share, passes over the data, memory; against bare FFTs and plain RK4IP.",
    cases=keyword(_Texts, _CASES, None, _case, "--case"),
    precisions=keyword(str, "double, single, or both.", "both", parse_precisions, "--precision"),
    integrators=keyword(str, "Names, comma between, or all.", "rk4ip,strang", _integrators),
    step=keyword(
        str, "Step; changes the error, not the time.", "100 m", partial(quantity, unit="m", key="--step")
    ),
    repeats=keyword(int, SAMPLES, 15),
    error_steps=keyword(int, "Steps after which complex64 is compared; 0: not.", 100),
    plain=keyword(bool, "Time a plain NumPy/CuPy RK4IP too (ten fields).", True, name=PLAIN),
)
benchmark(
    "fibre-scaling",
    RankedOptions,
    "Time of a step when the modes are split over ranks, over that of a step on one.",
    modes_per_rank=keyword(int, "Spatial modes of a rank.", 15),
    log2_n=keyword(int | None, "log2 of the samples a row. [default: CPU 12, GPU 21]", name="--log2n"),
    steps=keyword(int, "Steps in a sample.", 150),
    exchanges=keyword(
        str, "What travels: dense, factored, comma between.", "dense,factored", parse_list, "--exchange"
    ),
    step=keyword(str, "Step; does not change the time.", "100 m", partial(quantity, unit="m", key="--step")),
    repeats=keyword(int, SAMPLES, 3),
)
benchmark(
    "ultrasound-scaling",
    RankedOptions,
    "Owned points a second and rank, of grids that grow with the ranks and of one that does not.",
    1,
    block=keyword(int | None, _WEAK, limits=(8,)),
    total=keyword(int | None, _STRONG, limits=(8,)),
    kinds=keyword(str, "weak, strong, comma between.", "weak,strong", parse_list),
    forms=keyword(str, "local, global, comma between.", "local,global", parse_list),
    media=_MEDIA,
    **_CUT,
    **_SAMPLED,
    earlier=keyword(list[Path] | None, _FROM, name="--from"),
)
benchmark(
    "local-vs-global",
    RankedOptions,
    "A step of the global decomposition over one of the local, by size and transport.",
    sizes=_SIZES,
    media=_MEDIA,
    **_CUT,
    **_SAMPLED,
)
benchmark(
    "ultrasound-cuts",
    RankedOptions,
    "A step of one grid in every cut into blocks, and with the blocks on other devices.",
    shape=_SHAPE,
    placements=keyword(str, _ORDERS, "identity,round-robin", parse_list),
    medium=keyword(str, "homogeneous, heterogeneous or tissues.", "homogeneous"),
    overlap=_CUT["overlap"],
    **_SAMPLED,
)
benchmark(
    "ultrasound-breakdown",
    RankedOptions,
    "Where a step of the local decomposition spends its time: compute, pack, exchange, idle; by overlap.",
    shape=_SHAPE,
    overlaps=keyword(str, "Points, comma between.", "2,4,8,16,32", parse_overlaps),
    grids=keyword(_Texts, _GRIDS, None, parse_blocks, "--grid"),
    media=_MEDIA,
    **_SAMPLED,
)
benchmark(
    "ultrasound-adjoint",
    Local,
    "Cost of an adjoint time step beside a forward one, and of a whole gradient in forward runs.",
    sizes=_SIZES,
    media=keyword(str, MEDIA_HELP, "both", parse_media, "--medium"),
    precision=_PRECISION,
    repeats=keyword(int, "Rounds; medians count.", 7),
)
benchmark(
    "many-sources",
    Local,
    "Simulations and gradients of many 2-D sources, one by one and together.",
    sizes=keyword(_Texts, "Points of a grid, NXxNY; may be repeated.", None, _plane, "--size"),
    sources=keyword(int, "Number of sources.", 16, limits=(2,)),
    steps=keyword(int, "Time steps of each.", 500, limits=(1,)),
    precision=_PRECISION,
    repeats=keyword(int, "Rounds; medians count.", 3),
)

if __name__ == "__main__":
    cli.main(program=PROGRAM)
