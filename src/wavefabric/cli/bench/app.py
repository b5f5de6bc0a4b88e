"""Define the commands of `wavefabric bench`: an option, with its parser, for each argument of a benchmark."""

from dataclasses import make_dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from wavefabric.base.errors import choice
from wavefabric.cli.bench import ultrasound_cases as cases
from wavefabric.cli.common.options import Group, argument, option, options, register
from wavefabric.cli.common.parse import parse_list, parse_shape, parse_sizes
from wavefabric.cli.common.rank_session import RankedOptions, show_measurement, start_ranks
from wavefabric.cli.common.show import status_line

app = Group()


@options()
class Shown:
    """Output options of every benchmark."""

    as_json: bool = option("Print all numbers as JSON and nothing else.", "--json", default=False)
    output: Path | None = option(
        "Folder for the picture and the numbers (JSON). [default: .]", "--output", "-o"
    )
    plot: bool | None = option(
        "Draw the picture. [default: yes; with --json if --output is given]", "--plot/--no-plot"
    )


@options()
class Local:
    """Options of every benchmark that runs in one process."""

    device: str = option("auto, cpu, cuda or cuda:K.", default="auto")
    threads: int | None = option("CPU threads. [default: all]", limits=(1,))


def keyword(kind: Any, help: str, default: Any = None, read: Any = None, name: str = "", **more: Any) -> Any:
    """Declare the command-line option of a benchmark's keyword argument; return its type and the option.

    ``read`` parses the option's text; ``name`` is the option's name, if not that of the keyword.
    """
    return kind, option(help, *[name] * bool(name), default=default, read=read, **more)


def benchmark(
    name: str,
    base: type,
    help: str,
    least: int = 2,
    package: str = "wavefabric.cli.bench",
    /,
    **keywords: tuple[Any, Any],
) -> None:
    """Add a command for the benchmark in module ``name`` of ``package``, which needs ``least`` ranks."""
    fields = [(key, *each) for key, each in keywords.items()]
    group = make_dataclass(name, fields, bases=(Shown, base), frozen=True, kw_only=True)

    def command(options: group) -> None:  # type: ignore[valid-type]
        inputs = {key: getattr(options, key) for key in keywords}
        if "factor" in inputs:
            inputs["sizes"] = _sizes(inputs["sizes"], inputs.pop("factor"))
        inputs = {key: value for key, value in inputs.items() if value is not None}
        module = import_module(f"{package}.{name.replace('-', '_')}")
        if base is Local:
            run, first = partial(module.run, device=options.device, threads=options.threads), True
        else:
            ranks = start_ranks(options, options.as_json, least)
            run, first = partial(module.run, ranks), ranks.rank == 0
        with status_line(options.as_json or not first) as say:
            result = run(**inputs, progress=say)
        if first:
            show_measurement(module, result, options.as_json, options.output, options.plot)

    register(app, name, command, all_ranks=True, help=help)


def parse_points(text: str, planes: bool = False) -> tuple[int, int, int]:
    """Return points along x, y, z from the text ``N``, ``NXxNYxNZ`` or, with ``planes``, ``NXxNY``."""
    allowed = f"N, {'NXxNY ' * planes}or NXxNYxNZ, such as 128 or 256x128x128"
    points = parse_shape(text, "--size", allowed, (1, 2, 3) if planes else (1, 3))
    nx, ny, nz = (*points, 1) if len(points) == 2 else points * (3 // len(points))
    return nx, ny, nz


def parse_media(text: str) -> list[str]:
    """Return the media that ``text`` selects: one by name, ``both``, or ``all``."""
    choice("--medium", text, (*cases.ALL_MEDIA, "both", "all"))
    return list({"both": cases.MEDIA, "all": cases.ALL_MEDIA}.get(text, [text]))


def parse_precisions(text: str) -> list[str]:
    return ["double", "single"] if text == "both" else [text]


def _patterns(text: str) -> list[str] | None:
    return None if text == "all" else parse_list(text)


def _sizes(text: str | None, factor: int) -> list[int] | None:
    return None if text is None else parse_sizes(text, "--sizes", factor if ":" in text else None)


_Text, _Texts = str | None, list[str] | None
MEDIA_HELP = "homogeneous, heterogeneous, tissues, both (the first two), or all."
SAMPLES = "Samples of each time; the median counts."
_BYTES = (
    "Bytes from rank to rank: least:most, or with commas between; K, M, G are powers of 1024. "
    "[default: 64K:4M on CPUs, 64K:1G on GPUs]"
)
POINTS = keyword(
    _Texts,
    "Points, N, NXxNY or NXxNYxNZ; may be repeated. [default: 128 on a CPU, 256 and 512 on a GPU]",
    None,
    partial(parse_points, planes=True),
    "--size",
)
PLAIN = "--plain/--no-plain"

benchmark(
    "solver-rates",
    Local,
    "How fast this device runs the parts of steps of both simulators: a device file for `wavefabric plan`.",
    media=keyword(str, MEDIA_HELP, "all", parse_media, "--medium"),
    precisions=keyword(str, "double, single, or both.", "both", parse_precisions, "--precision"),
    repeats=keyword(int, "Samples of each time; the least counts.", 3),
)
benchmark(
    "exchange",
    RankedOptions,
    "Bandwidth, latency and correctness of every transport, in the manner of nccl-tests.",
    patterns=keyword(
        str, "ping, ring, halo, all-gather, all-to-all, comma between, or all.", "all", _patterns
    ),
    sizes=keyword(_Text, _BYTES),
    factor=keyword(int, "From one size to the next of least:most.", 4),
    repeats=keyword(int, SAMPLES, 5),
    peaks=keyword(bool, "Give shares of bandwidths measured on H200.", False),
)
benchmark(
    "job",
    Local,
    "A whole command, from Enter to the file: its phases, the first time and again, beside k-Wave's program.",
    file=(Path, argument("k-Wave input file, or run file of a fibre.", "FILE")),
    repeats=keyword(int, "Runs of each; medians count.", 3),
    first=keyword(bool, "Run it with empty caches first.", True, name="--first/--no-first"),
    peer=keyword(Path | None, "kspaceFirstOrder-OMP or -CUDA, which runs the file in turn."),
)
benchmark(
    "ultrasound-step",
    Local,
    "Cost of one ultrasound time step: time against bare 3-D transforms, passes over the data, memory.",
    sizes=POINTS,
    media=keyword(str, MEDIA_HELP, "both", parse_media, "--medium"),
    precision=keyword(str, "single or double.", "single"),
    repeats=keyword(int, "Rounds; medians count.", 15),
    plain=keyword(bool, "Time stages of whole-array transforms too.", True, name=PLAIN),
    points=keyword(int, "Time each medium with sources and a sensor at so many points too.", 0),
    peer=keyword(Path | None, "kspaceFirstOrder-OMP or -CUDA, to be run on the same problems."),
)
