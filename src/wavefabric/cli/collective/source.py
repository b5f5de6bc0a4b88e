"""What the commands of `wavefabric collective` share: where a schedule comes from, sizes, output files."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wavefabric.errors import InputError
from wavefabric.files.input import MOST_SCHEDULE, MOST_TEXT
from wavefabric.files.output import check_output

if TYPE_CHECKING:
    from wavefabric.collectives import Schedule
    from wavefabric.fabric import AnyFabric

_SHAPE = "Of an algorithm"
Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="FILE | ALGORITHM COLLECTIVE", help="A schedule.", show_default=False),
]
Ranks = Annotated[int | None, typer.Option("--ranks", "-n", help="GPUs.", rich_help_panel=_SHAPE)]
Elements = Annotated[
    int | None,
    typer.Option(
        "--elements", help="Of the whole array. \\[default: as many as divide evenly]", rich_help_panel=_SHAPE
    ),
]
Pieces = Annotated[
    int, typer.Option("--pieces", help="Parts that follow each other in a pipeline.", rich_help_panel=_SHAPE)
]
Radix = Annotated[
    int | None,
    typer.Option("--radix", help="Ranks that meet in a round. \\[default: 2]", rich_help_panel=_SHAPE),
]
Root = Annotated[
    int, typer.Option("--root", help="Of broadcast, reduce, gather, scatter.", rich_help_panel=_SHAPE)
]
Grid = Annotated[
    str | None, typer.Option("--grid", help="Ranks as a grid, such as 4x8.", rich_help_panel=_SHAPE)
]
Fabric = Annotated[
    str | None,
    typer.Option(
        "--fabric", "-f", help="A name (see `wavefabric fabric show`), such as lightpath:4x8, or a file."
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]
Json = Annotated[bool, typer.Option("--json", help="Print as JSON and nothing else.")]

Factor = Annotated[
    int | None,
    typer.Option("--factor", help="From one size to the next of least:most. \\[default: 4]"),
]

_UNITS = {"": 0, "b": 0, "k": 10, "m": 20, "g": 30, "t": 40}


@dataclass(frozen=True)
class Shape:
    """Options of an algorithm, as given."""

    ranks: int | None = None
    elements: int | None = None
    pieces: int = 1
    radix: int | None = None
    root: int = 0
    grid: str | None = None

    def given(self) -> list[str]:
        """Names of the options that were given."""
        plain = Shape()
        return [f"--{name}" for name in vars(plain) if getattr(self, name) != getattr(plain, name)]

    def axes(self) -> tuple[int, ...] | None:
        """The grid as numbers."""
        if self.grid is None:
            return None
        parts = self.grid.lower().split("x")
        if not all(p.isascii() and p.isdigit() and 0 < len(p) <= 6 and int(p) for p in parts):
            raise InputError(
                f"--grid: {self.grid} given; allowed: numbers from 1 with x between, such as 4x8"
            )
        return tuple(int(p) for p in parts)


def schedule_from(words: Sequence[str] | None, shape: Shape, fabric: AnyFabric | None = None) -> Schedule:
    """The schedule that a command is about: read from a file, or built; proved.

    Parameters
    ----------
    words : list of str
        One file, or the names of an algorithm and a collective.
    shape : Shape
    fabric : optional
        Says how many ranks, if `shape` does not.

    Raises
    ------
    InputError
        As `read` and `build_by_name`; for other words; or if a file's schedule does not hold.
    """
    from wavefabric.collectives import verify

    if words and len(words) == 2:
        return build_by_name(words[0], words[1], shape, fabric)
    if words and len(words) == 1:
        from wavefabric.collectives.registry import ALGORITHMS

        if words[0] in ALGORITHMS and not Path(words[0]).exists():
            allowed = ", ".join(ALGORITHMS[words[0]].collectives)
            raise InputError(f"COLLECTIVE: none given after {words[0]}; allowed: {allowed}")
        if shape.given():
            name = shape.given()[0]
            raise InputError(f"{name}: given with the file {words[0]}; allowed: with ALGORITHM COLLECTIVE")
        path = Path(words[0])
        schedule = read(path)
        with named(path):
            verify(schedule)
        return schedule
    given = " ".join(words) if words else "nothing"
    raise InputError(f"schedule: {given} given; allowed: FILE, or ALGORITHM COLLECTIVE --ranks N")


def build_by_name(algorithm: str, collective: str, shape: Shape, fabric: AnyFabric | None = None) -> Schedule:
    """Build and prove a schedule of the registry.

    Raises
    ------
    InputError
        As `wavefabric.collectives.registry.build`; or without a number of ranks.
    """
    from wavefabric.collectives import verify
    from wavefabric.collectives.arguments import MOST_RANKS
    from wavefabric.collectives.registry import accepts, build

    ranks = shape.ranks if shape.ranks is not None else fabric.ranks if fabric else None
    if ranks is None:
        raise InputError("--ranks: none given; allowed: a whole number from 1")
    if ranks > MOST_RANKS:
        raise InputError(f"--ranks: {ranks} given; allowed: 1 to {MOST_RANKS}")
    options: dict[str, Any] = {
        "pieces": shape.pieces,
        "radix": shape.radix,
        "root": shape.root,
        "grid": shape.axes() or grid_of(algorithm, ranks, fabric),
    }
    why = accepts(algorithm, collective, ranks, **options)
    if why is not None:
        raise InputError(why)
    elements = shape.elements if shape.elements is not None else default_elements(ranks, shape.pieces)
    schedule = build(algorithm, collective, ranks, elements, **options)
    verify(schedule)
    return schedule


def grid_of(algorithm: str, ranks: int, fabric: AnyFabric | None) -> tuple[int, ...] | None:
    """The grid of a fabric, for an algorithm that takes one and all of its GPUs: tiles, a mesh or a torus."""
    from wavefabric.collectives.registry import ALGORITHMS, accepts
    from wavefabric.fabric import PhotonicFabric

    if fabric is None or algorithm not in ALGORITHMS or "grid" not in ALGORITHMS[algorithm].options:
        return None
    if isinstance(fabric, PhotonicFabric):
        grid = fabric.rows, fabric.columns
    else:
        family = re.fullmatch(r"(?:mesh|torus):(\d+(?:x\d+)*)", fabric.name)
        grid = tuple(map(int, family[1].split("x"))) if family else ()
    if not grid or math.prod(grid) != ranks or fabric.ranks != ranks:
        return None
    # Squares want two powers of two.
    fits = accepts(algorithm, ALGORITHMS[algorithm].collectives[0], ranks, grid=grid) is None
    return grid if fits else None


def default_elements(ranks: int, pieces: int) -> int:
    """Elements of an array that all algorithms cut evenly."""
    return 2 * ranks * pieces


def read(path: Path) -> Schedule:
    """A schedule from a file, by content: our JSON, or MSCCL's XML. Not proved: `verify` does that.

    Raises
    ------
    InputError
        The path in front.
    """
    text = read_text(path, "schedule", MOST_SCHEDULE)
    if text.lstrip().startswith("<"):
        from wavefabric.collectives.formats.msccl.read import from_msccl

        with named(path):
            return from_msccl(text)
    from wavefabric.collectives import from_json

    with named(path):
        return from_json(text)


def read_text(path: Path, what: str, most: int = MOST_TEXT) -> str:
    """Text of a file of at most so many bytes.

    Raises
    ------
    InputError
    """
    from wavefabric.files import text as text_files

    return text_files.read_text(path, what, most).removeprefix("\ufeff")


def read_json(path: Path, what: str) -> Any:
    """Content of a JSON file.

    Raises
    ------
    InputError
    """
    text = read_text(path, what)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        fault = f"line {error.lineno}" if isinstance(error, json.JSONDecodeError) else "too large"
        raise InputError(f"{what}: {path} is not JSON ({fault}); allowed: a JSON file") from None


class named:
    """Puts a file's name in front of what is wrong with it."""

    def __init__(self, path: Path):
        self._path = path

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if isinstance(error, InputError):
            raise type(error)(f"{self._path}: {error}") from None


def load_fabric(text: str, lasers: int | None = None, waveguides: int | None = None) -> AnyFabric:
    """A fabric by name or file, with other numbers of lasers and waveguides where given.

    Raises
    ------
    InputError
    """
    from wavefabric.fabric import PhotonicFabric, load

    path = Path(text)
    if path.is_file() and path.suffix != ".toml":
        first = read_text(path, "fabric").lstrip()[:400]
        if first.startswith("<") or re.match(r"(?:\x1b\[\d*m|\s)*GPU0\s", first):
            command = f"wavefabric fabric show {text} --save mine.toml"
            raise InputError(f"fabric: {text} is no TOML; allowed: what `{command}` writes")
    fabric = load(text)
    for name, value in (("--lasers", lasers), ("--waveguides", waveguides)):
        if value is None:
            continue
        if not isinstance(fabric, PhotonicFabric):
            raise InputError(
                f"{name}: {value} given with electrical {fabric.name}; allowed: with photonic ones"
            )
        if not 1 <= value <= 4096:
            raise InputError(f"{name}: {value} given; allowed: 1 to 4096")
    if isinstance(fabric, PhotonicFabric):
        if lasers is not None:
            name = f"{fabric.name}, {lasers} laser{'s' if lasers > 1 else ''}"
            fabric = replace(fabric, name=name, lasers=lasers, serdes_ports=None)
        if waveguides is not None:
            name = f"{fabric.name}, {waveguides} waveguide{'s' if waveguides > 1 else ''}"
            fabric = replace(fabric, name=name, waveguides=waveguides, fibres=min(fabric.fibres, waveguides))
    return fabric


def sizes_of(text: str, key: str = "--bytes", factor: int | None = None) -> list[int]:
    """Sizes in bytes: ``64M``, ``64K,1M``, or ``least:most``.

    Raises
    ------
    InputError
    """
    if factor is not None and factor < 2:
        raise InputError(f"--factor: {factor} given; allowed: 2 or more")
    parts = text.split(":")
    if factor is not None and len(parts) == 1:
        raise InputError(f"--factor: {factor} given with {key} {text}; allowed: with least:most")
    factor = 4 if factor is None else factor
    if len(parts) == 2:
        least, most = (_bytes(p, text, key) for p in parts)
        if least > most:
            raise InputError(f"{key}: {text} given; allowed: least:most, the least first")
        found = [least * factor**k for k in range(int(math.log(most / least, factor) + 1e-9) + 1)]
        return found if found[-1] == most else [*found, most]
    if len(parts) > 2:
        raise InputError(f"{key}: {text} given; allowed: least:most, or sizes with a comma between")
    return [_bytes(p, text, key) for p in text.split(",")]


def _bytes(word: str, text: str, key: str) -> int:
    word = word.strip().lower().removesuffix("ib") if word.strip().lower() != "b" else ""
    digits = word.rstrip("bkmgt")
    unit = word[len(digits) :].removesuffix("b") if len(word) - len(digits) > 1 else word[len(digits) :]
    good = digits.isascii() and digits.isdigit() and len(digits) <= 15 and unit in _UNITS
    if not good or not 0 < int(digits) << _UNITS[unit] < 1 << 60:
        raise InputError(
            f"{key}: {text} given; allowed: bytes such as 64M, 64K,1M or 64K:1G (K, M, G: 2^10, …)"
        )
    return int(digits) << _UNITS[unit]


def check_target(
    path: Path | None,
    force: bool,
    endings: Sequence[str],
    key: str = "--output",
    inputs: Sequence[str | Path | None] = (),
) -> None:
    """Refuse an output file before anything is computed; None is no output. See `check_output`.

    Raises
    ------
    InputError
    """
    if path is not None:
        check_output(path, force, key, endings=endings, inputs=inputs)


def array_elements(schedule: Schedule) -> int:
    """Elements of the whole array; see `wavefabric.collectives.conditions.whole_elements`."""
    from wavefabric.collectives.conditions import whole_elements

    return whole_elements(schedule)


def chosen_sizes(text: str | None, factor: int | None) -> list[int]:
    """What ``--sizes`` and ``--factor`` of a measurement say; empty: its own.

    Raises
    ------
    InputError
    """
    if text is not None:
        return sizes_of(text, "--sizes", factor)
    if factor is not None:
        raise InputError(f"--factor: {factor} given without --sizes; allowed: with --sizes least:most")
    return []


def check_seed(seed: int | None) -> None:
    """Refuse a negative seed.

    Raises
    ------
    InputError
    """
    if seed is not None and seed < 0:
        raise InputError(f"--seed: {seed} given; allowed: whole numbers from 0")


def say_json(told: Any) -> None:
    """Print as JSON that every reader takes: null for what is no finite number."""
    typer.echo(json.dumps(_finite(told), indent=2, allow_nan=False))


def _finite(told: Any) -> Any:
    if isinstance(told, dict):
        return {key: _finite(value) for key, value in told.items()}
    if isinstance(told, list | tuple):
        return [_finite(value) for value in told]
    return None if isinstance(told, float) and not math.isfinite(told) else told


def say_written(paths: Sequence[Path]) -> None:
    """Name the files that were written."""
    for path in paths:
        typer.echo(f"wrote {path}")
