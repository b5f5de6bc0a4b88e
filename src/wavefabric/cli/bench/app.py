"""The commands of `wavefabric bench`: for each argument of a benchmark its option, and how that is read."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import make_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import typer

from wavefabric.cli.common.measure import RankedOptions, RankSession, show_measurement
from wavefabric.cli.common.options import check_choice, check_range, option, options, register
from wavefabric.cli.common.parse import parse_list, parse_sizes
from wavefabric.cli.common.show import StatusLine
from wavefabric.errors import InputError

app = typer.Typer()


@options()
class Shown:
    """What every benchmark prints and writes."""

    as_json: bool = option("Print all numbers as JSON and nothing else.", "--json", default=False)
    output: Path | None = option(
        "Folder for the picture and the numbers (JSON). \\[default: .]", "--output", "-o"
    )
    plot: bool | None = option(
        "Draw the picture. \\[default: yes; with --json if --output is given]", "--plot/--no-plot"
    )


@options()
class Local:
    """Options of every benchmark of one process."""

    device: str = option("auto, cpu, cuda or cuda:K.", default="auto")
    threads: int | None = option("CPU threads. \\[default: all]")


class Argument(NamedTuple):
    """Of ``run``: its type and option on the command line, and how what is given there is read."""

    type: Any
    field: Any
    read: Callable[[Any], Any] | None

    def value(self, given: Any) -> Any:
        """For ``run``; an option that may be repeated gives a list."""
        if isinstance(given, list):
            return [self.read(each) if self.read else each for each in given]
        return given if given is None or self.read is None else self.read(given)


def _argument(type: Any, help: str, *names: str, default: Any = None, read: Any = None) -> Argument:
    return Argument(type, option(help, *names, default=default), read)


def _benchmark(name: str, base: type, help: str, *, least: int = 2, **arguments: Argument) -> None:
    """Add the command of `wavefabric.bench.NAME`; `least`: ranks that it needs."""
    fields = [(key, each.type, copy.copy(each.field)) for key, each in arguments.items()]
    group = make_dataclass(name, fields, bases=(Shown, base), frozen=True, kw_only=True)

    def command(asked) -> None:
        given = {key: each.value(getattr(asked, key)) for key, each in arguments.items()}
        if "factor" in given:
            given["sizes"] = _sizes(given["sizes"], given.pop("factor"))
        given = {key: value for key, value in given.items() if value is not None}
        module = import_module(f"wavefabric.bench.{name.replace('-', '_')}")
        if base is Local:
            with StatusLine(asked.as_json) as say:
                result = module.run(**given, device=asked.device, threads=asked.threads, progress=say)
            show_measurement(module, result, asked.as_json, asked.output, asked.plot)
            return
        with RankSession(asked, asked.as_json, least) as session:
            result = module.run(session.ranks, **given, progress=session.say)
            session.show(module, result, asked.output, asked.plot)

    command.__doc__, command.__annotations__ = help, {"asked": group}
    register(app, name, command)


def _numbers(text: str) -> list[int]:
    """Whole numbers with ``x`` between, none if it is something else."""
    words = text.lower().replace(" ", "").split("x")
    return [int(word) for word in words] if all(word.isdecimal() for word in words) else []


def parse_case(text: str) -> list[int]:
    """Rows and log2 of samples: ``30x21``, ``30x2^21``."""
    numbers = _numbers(text.replace("2^", ""))
    if len(numbers) != 2:
        raise InputError(f"--case: {text!r} given; allowed: rows x log2 of samples, such as 30x21")
    return numbers


def parse_points(text: str) -> tuple[int, ...]:
    """Points along x, y and z: ``N`` or ``NXxNYxNZ``."""
    numbers = _numbers(text)
    if len(numbers) not in (1, 3):
        raise InputError(f"--size: {text!r} given; allowed: N or NXxNYxNZ, such as 128 or 256x128x128")
    return tuple(numbers * (3 // len(numbers)))


def parse_blocks(text: str) -> tuple[int, ...]:
    """Blocks along x, y and z: ``1x2x2``."""
    numbers = _numbers(text)
    if len(numbers) != 3 or not all(numbers):
        raise InputError(f"--grid: {text!r} given; allowed: blocks along x, y and z, such as 1x2x2")
    return tuple(numbers)


def parse_overlaps(text: str) -> list[int]:
    """Whole numbers from 1 with commas between."""
    words = parse_list(text)
    if not words or not all(word.isdecimal() and int(word) for word in words):
        raise InputError(f"--overlaps: {text!r} given; allowed: whole numbers from 1, comma between")
    return [int(word) for word in words]


def parse_media(text: str) -> list[str]:
    """One medium, or both."""
    from wavefabric.bench.ultrasound_cases import MEDIA

    check_choice("--medium", text, (*MEDIA, "both"))
    return list(MEDIA) if text == "both" else [text]


def _integrators(text: str) -> list[str]:
    from wavefabric.optics.propagation.integrators import INTEGRATORS

    return list(INTEGRATORS) if text == "all" else parse_list(text)


def _length(text: str) -> float:
    from wavefabric.units import quantity

    return quantity(text, "m", "--step")


def _sizes(text: str | None, factor: int) -> list[int] | None:
    return None if text is None else parse_sizes(text, "--sizes", factor if ":" in text else None)


def _eight(key: str) -> Callable[[int], int]:
    def check(points: int) -> int:
        check_range(key, points, 8, float("inf"), "8 points or more")
        return points

    return check


_REPEATS = _argument(int, "Samples of each time; the median counts.", default=5)
_SIZE = _argument(
    str | None, "Points of the whole grid, N or NXxNYxNZ. \\[default: by device]", "--size", read=parse_points
)
_MEDIUM = "homogeneous, heterogeneous, or both."
_MEDIA = _argument(str, _MEDIUM, "--medium", default="homogeneous", read=parse_media)
_PRECISION = _argument(str, "single or double.", default="single")
_OVERLAP = _argument(int, "Points on each side of a block.", default=16)
_PLAIN = "--plain/--no-plain"

_benchmark(
    "fibre-step",
    Local,
    "Cost of one step: time, FFT share, passes over the data, memory; against bare FFTs and plain RK4IP.",
    cases=_argument(
        list[str] | None,
        "Rows x log2 of samples, e.g. 30x21; may be repeated. "
        "\\[default: 2x17 and 30x15 on a CPU, 30x21 on a GPU]",
        "--case",
        read=parse_case,
    ),
    precisions=_argument(
        str,
        "double, single, or both.",
        "--precision",
        default="both",
        read=lambda text: ["double", "single"] if text == "both" else [text],
    ),
    integrators=_argument(str, "Names, comma between, or all.", default="rk4ip,strang", read=_integrators),
    step=_argument(str, "Step; changes the error, not the time.", default="100 m", read=_length),
    repeats=_argument(int, "Samples of each time; the median counts.", default=15),
    error_steps=_argument(int, "Steps after which complex64 is compared; 0: not.", default=100),
    plain=_argument(bool, "Time a plain NumPy/CuPy RK4IP too (ten fields).", _PLAIN, default=True),
)
_benchmark(
    "fibre-scaling",
    RankedOptions,
    "Time of a step when the modes are split over ranks, over that of a step on one.",
    modes_per_rank=_argument(int, "Spatial modes of a rank.", default=15),
    log2_n=_argument(int | None, "log2 of the samples a row. \\[default: CPU 12, GPU 21]", "--log2n"),
    steps=_argument(int, "Steps in a sample.", default=150),
    exchanges=_argument(
        str,
        "What travels: dense, factored, comma between.",
        "--exchange",
        default="dense,factored",
        read=parse_list,
    ),
    step=_argument(str, "Step; does not change the time.", default="100 m", read=_length),
    repeats=_argument(int, "Samples of each time; the median counts.", default=3),
)
_benchmark(
    "exchange",
    RankedOptions,
    "Bandwidth, latency and correctness of every transport, in the manner of nccl-tests.",
    patterns=_argument(
        str,
        "ping, ring, halo, all-gather, all-to-all, comma between, or all.",
        default="all",
        read=lambda text: None if text == "all" else parse_list(text),
    ),
    sizes=_argument(
        str | None,
        "Bytes from rank to rank: least:most, or with commas between; K, M, G are powers of 1024. "
        "\\[default: 64K:4M on CPUs, 64K:1G on GPUs]",
    ),
    factor=_argument(int, "From one size to the next of least:most.", default=4),
    repeats=_REPEATS,
    peaks=_argument(bool, "Give shares of bandwidths measured on H200.", default=False),
)
_benchmark(
    "ultrasound-step",
    Local,
    "Cost of one ultrasound time step: time against bare 3-D transforms, passes over the data, memory.",
    sizes=_argument(
        list[str] | None,
        "Points, N or NXxNYxNZ; may be repeated. \\[default: 128 on a CPU, 256 and 512 on a GPU]",
        "--size",
        read=parse_points,
    ),
    media=_argument(str, _MEDIUM, "--medium", default="both", read=parse_media),
    precision=_PRECISION,
    repeats=_argument(int, "Rounds; medians count.", default=15),
    plain=_argument(bool, "Time stages of whole-array transforms too.", _PLAIN, default=True),
    peer=_argument(Path | None, "kspaceFirstOrder-OMP or -CUDA, to be run on the same problems."),
)
_benchmark(
    "ultrasound-breakdown",
    RankedOptions,
    "Where a step of the local decomposition spends its time: compute, pack, exchange, idle; by overlap.",
    shape=_SIZE,
    overlaps=_argument(str, "Points, comma between.", default="2,4,8,16,32", read=parse_overlaps),
    grids=_argument(
        list[str] | None,
        "Blocks along x, y and z; may be repeated. \\[default: all along z, and even]",
        "--grid",
        read=parse_blocks,
    ),
    media=_MEDIA,
    precision=_PRECISION,
    repeats=_REPEATS,
)
_benchmark(
    "ultrasound-scaling",
    RankedOptions,
    "Owned points a second and rank, of grids that grow with the ranks and of one that does not.",
    least=1,
    block=_argument(
        int | None,
        "Weak: a rank owns so many points cubed. \\[default: 48, GPU 512]",
        read=_eight("--block"),
    ),
    total=_argument(
        int | None, "Strong: so many points cubed together. \\[default: 64, GPU 1024]", read=_eight("--total")
    ),
    kinds=_argument(str, "weak, strong, comma between.", default="weak,strong", read=parse_list),
    forms=_argument(str, "local, global, comma between.", default="local,global", read=parse_list),
    media=_MEDIA,
    overlap=_OVERLAP,
    precision=_PRECISION,
    repeats=_REPEATS,
    earlier=_argument(
        list[Path] | None, "JSON of a run on other ranks, shown with this one; may be repeated.", "--from"
    ),
)
_benchmark(
    "ultrasound-cuts",
    RankedOptions,
    "A step of one grid in every cut into blocks, and with the blocks on other devices.",
    shape=_SIZE,
    placements=_argument(
        str,
        "identity, reversed, round-robin, such as 0-2-1-3, comma between; or all.",
        default="identity,round-robin",
        read=parse_list,
    ),
    medium=_argument(str, _MEDIUM, default="homogeneous"),
    overlap=_OVERLAP,
    precision=_PRECISION,
    repeats=_REPEATS,
)
_benchmark(
    "local-vs-global",
    RankedOptions,
    "A step of the global decomposition over one of the local, by size and transport.",
    sizes=_argument(
        list[str] | None,
        "Points of the whole grid, N or NXxNYxNZ; may be repeated.",
        "--size",
        read=parse_points,
    ),
    media=_MEDIA,
    overlap=_OVERLAP,
    grid=_argument(str | None, "Blocks along x, y and z, such as 1x2x2.", read=parse_blocks),
    precision=_PRECISION,
    repeats=_REPEATS,
)
