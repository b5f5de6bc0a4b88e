"""The parts of the suite: commands of `wavefabric` and `benchmarks`, the most valuable first."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from wavefabric.base.errors import InputError
from wavefabric.collectives.registry import why_refused

#: Numbers of ranks that are measured, up to what is there; the papers' rows end at eight.
COUNTS = (1, 2, 4, 6, 8)
ROOT = Path(__file__).resolve().parents[1]
#: The benchmarks of this folder, which `python benchmarks` adds to `wavefabric bench`.
COMPARISONS = (
    "fibre-step",
    "fibre-scaling",
    "ultrasound-scaling",
    "local-vs-global",
    "ultrasound-cuts",
    "ultrasound-breakdown",
    "ultrasound-adjoint",
    "many-sources",
)
COLLECTIVES = ("all-reduce", "all-gather", "all-to-all", "broadcast")
#: Algorithms as parts are named by them, and as `wavefabric collective run` knows them.
ALGORITHMS = {name: name for name in ("ring", "recursive", "direct", "tree")} | {"radix-4": "recursive"}


class Kind(NamedTuple):
    """A part for each number of ranks: its command, what full and ``--small`` size add, and seconds expected.

    Commands may begin with NAME=value of the environment. ``{here}`` is the folder that a part writes to,
    ``{parts}`` that of all parts. Kinds of a low tier come first: for the most ranks, and for fewer.
    """

    name: str
    command: str
    full: str
    small: str
    seconds: float
    tiers: tuple[int, int]
    #: The transport without which it is left out.
    needs: str = "mpi"
    #: Added once the fabric between these ranks has been measured.
    on_fabric: str = ""
    #: File for the JSON that the command prints; else that goes to the log.
    prints: str = ""


_FIBRE = "bench fibre-scaling --ranks {K} --modes-per-rank {modes} --log2n {log2n} -o {here} --transports"
_SCALING = "bench ultrasound-scaling --ranks {K} --block {block} --total {total} -o {here}"
_ALONG_Z = f"{_SCALING} --grid 1x1x{{K}} --transports"
_LOCAL = f"{_SCALING} --forms local --transports"
_VERSUS = "bench local-vs-global --ranks {K} -o {here} --transports"
_EXCHANGE = "bench exchange --ranks {K} -o {here} --transports"
_MEASURE = "fabric measure --ranks {K} --transport {one} --name measured-{K} -o {here}/fabric.toml --json"
_TUNE = "collective tune --ranks {K} --transports {one} -o {here}/tuning.json --plot {here}/tuning.png --json"
_ON_FABRIC = "--fabric {parts}/fabric-{K}/fabric.toml"
_COPIES = "WAVEFABRIC_PROTOCOL=copies"
_GRIDS = "--size 256 --size 512 --size 512x512x1024 --size 1024"
_50, _2 = "--steps 50", "--steps 2 --repeats 1"
_FEW, _32 = "--overlap 4 --repeats 1", "--size 32 --overlap 4 --repeats 1"
_ROUGH = "--sizes 16K,4M --repeats 3 --residual 1000"
_1G, _256K = "--sizes 64K:1G --repeats 3", "--sizes 4K:256K --repeats 1"


def _collective(tiers: tuple[int, int], collective: str, names: str, kernels: bool = False) -> list[Kind]:
    """A kind for each algorithm, by copies or kernels."""
    more = "--transports p2p --protocols auto,signals,packets --graph" if kernels else "--transports {fast}"
    before = "" if kernels else f"{_COPIES} "
    end = ("p2p", f"{_ON_FABRIC} --model kernel") if kernels else ("mpi", _ON_FABRIC)
    result = []
    for name in names.split():
        radix = "--radix 4 " * (name == "radix-4")
        what = f"{ALGORITHMS[name]} {collective}"
        command = f"{before}collective run {what} --ranks {{K}} -o {{here}} {radix}{more} {{nccl}}"
        title = f"{collective}-{name}" + "-kernels" * kernels
        result.append(Kind(title, command, "--sizes 4K:1G", _256K, 60 if kernels else 45, tiers, *end))
    return result


# fmt: off
#: Over ranks; within a tier parts run in this order, most ranks first.
_KINDS = [
    Kind("fibre", f"{_FIBRE} {{fast}}", _50, _2, 150, (0, 1)),
    Kind("ultrasound-1d", f"{_ALONG_Z} {{fast}}", "", _FEW, 120, (0, 1)),
    Kind("fibre-copies", f"{_COPIES} {_FIBRE} p2p", _50, _2, 100, (0, 1), "p2p"),
    Kind("ultrasound-copies", f"{_COPIES} {_ALONG_Z} p2p", "", _FEW, 80, (0, 1), "p2p"),
    Kind("fabric", _MEASURE, "", _ROUGH, 60, (0, 4), prints="fabric.json"),
    *_collective((0, 4), "all-reduce", "ring recursive radix-4 direct"),
    Kind("link", "run {link} --ranks {K} -o {here}/link.h5 --json", "", "", 180, (0, 4), prints="link.json"),
    Kind("cuts", "bench ultrasound-cuts --ranks {K} --transports {fast} -o {here}",
         "--size 512x512x1024 --placements {placements}", _32, 240, (2, 4)),
    Kind("large", f"{_VERSUS} {{one}} --grid 1x1x{{K}}",
         "--size 1536x1024x2048 --repeats 3", f"--size 24x16x64 {_FEW}", 120, (2, 4)),
    Kind("local-vs-global", f"{_VERSUS} {{fast}}", _GRIDS, _32, 120, (2, 4)),
    Kind("local-vs-global-copies", f"{_COPIES} {_VERSUS} p2p", _GRIDS, _32, 90, (2, 4), "p2p"),
    Kind("exchange", f"{_EXCHANGE} {{fast}}", _1G, _256K, 120, (2, 4)),
    Kind("ultrasound-2d", f"{_LOCAL} {{fast}} --grid {{two}}", "", _FEW, 80, (2, 4)),
    Kind("ultrasound-3d", f"{_LOCAL} {{fast}} --grid {{three}}", "", _FEW, 80, (2, 4)),
    *_collective((2, 4), "all-reduce", "ring recursive radix-4 direct", kernels=True),
    *_collective((3, 5), "all-gather", "ring recursive radix-4 direct"),
    *_collective((3, 5), "all-gather", "ring direct", kernels=True),
    *_collective((3, 5), "all-to-all", "direct", kernels=True),
    *_collective((3, 5), "broadcast", "tree direct", kernels=True),
    Kind("ultrasound-heterogeneous", f"{_ALONG_Z} {{fast}} --medium heterogeneous --kinds weak",
         "", _FEW, 100, (3, 5)),
    Kind("tune", _TUNE, "--sizes 4K:1G", "--collective all-reduce --sizes 4K,256K --repeats 1", 240, (3, 5),
         on_fabric=_ON_FABRIC, prints="candidates.json"),
    Kind("fibre-mpi-cuda", f"{_FIBRE} mpi-cuda", _50, _2, 120, (3, 5), "mpi-cuda"),
    Kind("ultrasound-mpi-cuda", f"{_ALONG_Z} mpi-cuda --kinds weak", "", _FEW, 80, (3, 5), "mpi-cuda"),
    Kind("exchange-mpi-cuda", f"{_EXCHANGE} mpi-cuda", _1G, _256K, 100, (3, 5), "mpi-cuda"),
    Kind("fibre-mpi", f"{_FIBRE} mpi", _2, _2, 240, (3, 5)),
    Kind("ultrasound-mpi", f"{_ALONG_Z} mpi --kinds weak", "", _FEW, 160, (3, 5)),
    Kind("exchange-mpi", f"{_EXCHANGE} mpi", "--sizes 64K:256M --repeats 3", _256K, 200, (3, 5)),
]
#: On one device.
_ALONE = [
    Kind("fibre-step", "bench fibre-step -o {here}", "--case 30x21 --repeats 5",
         "--case 6x10 --precision double --no-plain --repeats 2", 60, (2, 2)),
    Kind("ultrasound-step", "bench ultrasound-step -o {here}", "--size 256 --size 512 --repeats 5",
         "--size 32 --medium homogeneous --no-plain --repeats 2", 90, (2, 2)),
    Kind("ultrasound", _SCALING, "", _FEW, 60, (2, 2)),
    Kind("link", "run {link} -o {here}/link.h5 --json", "", "", 420, (5, 5), prints="link.json"),
]
# fmt: on


@dataclass(frozen=True)
class Part:
    """A command of `wavefabric` and what it is expected to take, in s."""

    name: str
    ranks: int
    #: ``{here}``, ``{parts}`` and ``{root}`` are not filled in.
    words: tuple[str, ...]
    seconds: float
    on_fabric: tuple[str, ...] = ()
    prints: str = ""
    #: Why it cannot be run on this machine, if so.
    left_out: str = ""

    def now(self, parts: Path, complete: bool = False) -> tuple[str, ...]:
        """Words, with the fabric if it has been measured (with kernels if needed), or `complete`."""
        path = parts / f"fabric-{self.ranks}" / "fabric.toml"
        text = path.read_text("utf-8") if self.on_fabric and path.is_file() else ""
        fits = text and ("kernel" not in self.on_fabric or "[kernels" in text)
        return self.words + (self.on_fabric if fits or complete else ())

    def line(self, parts: Path, complete: bool = False) -> str:
        """What to type to run it by hand."""
        here = parts / self.name
        program = ["python", "benchmarks"] if set(COMPARISONS) & {*self.words} else ["wavefabric"]
        line = shlex.join(filled(self.now(parts, complete), here, parts, program))
        folder, file = shlex.quote(str(here)), shlex.quote(str(here / self.prints))
        return f"mkdir -p {folder} && {line} > {file}" if self.prints else line


def filled(words: Sequence[str], here: Path, parts: Path, program: Sequence[str]) -> list[str]:
    """The command of a part that writes to `here`, variables of the environment first."""
    for name, folder in {"{here}": here, "{parts}": parts, "{root}": ROOT}.items():
        words = [word.replace(name, str(folder)) if word.startswith(name) else word for word in words]
    count = _variables(words)
    return [*words[:count], *program, *words[count:]]


def _variables(words: Sequence[str]) -> int:
    """How many words set variables of the environment: the first ones."""
    return sum(word.startswith("WAVEFABRIC_") for word in words)


def make_parts(most: int, transports: dict[str, dict[str, Any]], small: bool) -> list[Part]:
    """All parts for up to `most` ranks in sequence; ``transports``: transports, as of `wavefabric info`."""
    result, there = [], {name for name, transport in transports.items() if transport["available"]}
    fast = [name for name in ("p2p", "nccl") if name in there]
    for ranks in sorted({*(count for count in COUNTS if count < most), most}):
        for position, kind in enumerate(_ALONE if ranks == 1 else _KINDS):
            dimensions = {"ultrasound-2d": 2, "ultrasound-3d": 3}.get(kind.name, 1)
            uncut = ranks > 1 and 1 in _even(ranks, dimensions)
            if not uncut and (fast or not kind.name.endswith("-mpi")):  # without others all parts use MPI
                part = _part(kind, ranks, fast or ["mpi"], transports, small)
                result.append(((kind.tiers[ranks != most], -ranks, position), part))
    return [part for _, part in sorted(result, key=lambda pair: pair[0])]


def _part(
    kind: Kind, ranks: int, fast: list[str], transports: dict[str, dict[str, Any]], small: bool
) -> Part:
    values: dict[str, Any] = {
        "here": "{here}",
        "parts": "{parts}",
        "K": ranks,
        "one": fast[0],
        "fast": ",".join(fast),
    }
    values["link"] = "{root}/benchmarks/link-small.toml" if small else "{root}/examples/mdm-120-modes.toml"
    values["nccl"] = "--nccl" if transports.get("nccl", {}).get("available") else ""
    values["two"] = "x".join(map(str, (1, *_even(ranks, 2))))
    values["three"] = "x".join(map(str, _even(ranks, 3)))
    values["placements"] = "all" if ranks < 4 else "identity,reversed,round-robin"
    sizes = (3, 9, 24, 64) if small else (15, 21, 480, 1024)
    values |= zip(("modes", "log2n", "block", "total"), sizes, strict=True)
    words = shlex.split(f"{kind.command} {kind.small if small else kind.full}".format(**values))
    transport, left_out = transports.get(kind.needs, {}), ""
    if ranks > 1 and not transport.get("available"):
        left_out = f"{kind.needs}: {transport.get('detail', 'not available')}"
    command = words[_variables(words) :]
    if not left_out and command[:2] == ["collective", "run"]:
        left_out = why_refused(command[2], command[3], ranks, radix=4 if "--radix" in words else None) or ""
    on_fabric = tuple(kind.on_fabric.format(**values).split())
    seconds = 4 + 1.3 * ranks if small else kind.seconds
    return Part(f"{kind.name}-{ranks}", ranks, tuple(words), seconds, on_fabric, kind.prints, left_out)


def _even(ranks: int, dimensions: int) -> tuple[int, ...]:
    """Blocks along so many axes, as nearly alike as can be, rising."""
    if dimensions == 1:
        return (ranks,)
    divisors = [n for n in range(1, ranks + 1) if ranks % n == 0]
    cuts = [tuple(sorted((n, *_even(ranks // n, dimensions - 1)))) for n in divisors]
    return min(cuts, key=lambda cut: (cut[-1] / cut[0], cut))


def choose(parts: Sequence[Part], only: Sequence[str], skip: Sequence[str]) -> list[Part]:
    """Parts whose names match one of `only` (or all) and none of `skip`; each pattern has to match."""

    def matching(key: str, patterns: Sequence[str]) -> set[str]:
        names = {
            pattern: {part.name for part in parts if fnmatchcase(part.name, pattern)} for pattern in patterns
        }
        for pattern, result in names.items():
            if not result:
                allowed = "a name of --list, or a pattern such as 'fibre-*'"
                raise InputError(f"{key}: {pattern} given, which is no part; allowed: {allowed}")
        return set().union(*names.values())

    kept, gone = matching("--only", only), matching("--skip", skip)
    return [part for part in parts if (not only or part.name in kept) and part.name not in gone]
