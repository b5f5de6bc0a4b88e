"""The parts of the suite: commands of `wavefabric`, the most valuable first."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from wavefabric.errors import InputError

#: Numbers of ranks that are measured, up to what is there; the papers' rows end at eight.
COUNTS = (1, 2, 4, 6, 8)
#: In arguments: the folder that a part writes to, the folder of all parts, and the run file of the link.
HERE, PARTS, LINK = "{here}", "{parts}", "{link}"
FABRIC = "fabric.toml"
#: Transports between GPUs that need no MPI, the fastest first.
_FAST = ("p2p", "nccl")


@dataclass(frozen=True)
class Part:
    """A command of `wavefabric` and what it is expected to take, in s."""

    name: str
    ranks: int
    arguments: tuple[str, ...]
    seconds: float
    #: Arguments added once the fabric between these ranks has been measured.
    on_fabric: tuple[str, ...] = ()
    #: File that gets what the command prints (JSON); else that goes to the log.
    prints: str = ""
    #: Why it cannot be run on this machine, if so.
    left_out: str = ""
    #: Variables of the environment, NAME=value.
    settings: tuple[str, ...] = ()

    def words(self, parts: Path) -> tuple[str, ...]:
        """Arguments as they are now, with the fabric if its file is there (and has kernels, if need be)."""
        if not self.on_fabric:
            return self.arguments
        try:
            text = (parts / f"fabric-{self.ranks}" / FABRIC).read_text("utf-8")
        except OSError:
            return self.arguments
        fits = "kernel" not in self.on_fabric or "[kernels" in text
        return self.arguments + (self.on_fabric if fits else ())


def filled(words: Sequence[str], here: Path, parts: Path, small: bool) -> list[str]:
    """Arguments with the names of folders and of the run file."""
    link = Path(__file__).with_name("link-small.toml" if small else "link.toml")
    names = {HERE: str(here), PARTS: str(parts), LINK: str(link)}
    return [_replaced(word, names) for word in words]


def _replaced(word: str, names: dict[str, str]) -> str:
    start = next((key for key in names if word.startswith(key)), "")
    return names[start] + word[len(start) :] if start else word


def command_line(part: Part, parts: Path, small: bool, complete: bool = False) -> str:
    """What to type to run a part by hand; `complete`: with the fabric that will have been measured."""
    words = part.arguments + part.on_fabric if complete else part.words(parts)
    line = shlex.join(["wavefabric", *filled(words, parts / part.name, parts, small)])
    # A name and its sign stand before quotes, or a shell would take it all for a command.
    settings = [each.split("=", 1) for each in part.settings]
    line = " ".join([*(f"{name}={shlex.quote(value)}" for name, value in settings), line])
    if not part.prints:
        return line
    folder = parts / part.name
    return f"mkdir -p {shlex.quote(str(folder))} && {line} > {shlex.quote(str(folder / part.prints))}"


class _Kind(NamedTuple):
    """A part for each number of ranks: sizes of a GPU and small ones, and how soon it comes."""

    name: str
    words: str
    full: str
    small: str
    seconds: float
    #: For the most ranks, and for fewer.
    tiers: tuple[int, int]
    #: What it needs: transports of `_FAST` or MPI ("any"), or one by name.
    needs: str = "any"
    on_fabric: str = ""
    prints: str = ""


_FIBRE = "bench fibre-scaling --ranks {K} --modes-per-rank {modes} --log2n {log2n} -o {here}"
_SCALING = "bench ultrasound-scaling --ranks {K} --block {block} --total {total} -o {here}"
_EXCHANGE = "bench exchange --ranks {K} -o {here}"
_RUN = "collective run {algorithm} {collective} --ranks {K} -o {here}"
_ON_FABRIC = "--fabric {parts}/fabric-{K}/fabric.toml"
_ALGORITHMS = {"ring": "ring", "recursive": "recursive", "radix-4": "recursive", "direct": "direct"}
#: Axes that are cut.
_DIMENSIONS = {"ultrasound-2d": 2, "ultrasound-3d": 3}
_FEW = "--overlap 4 --repeats 1"
#: Kernels of the solvers that store in the memory of other GPUs.
_STORING = "WAVEFABRIC_PROTOCOL=signals"


def _collectives(collective: str, tiers: tuple[int, int], kernels: bool, *names: str) -> list[_Kind]:
    """Parts of the algorithms of these names (all) for one collective operation, by copies or by kernels."""
    kinds = []
    for name in names or _ALGORITHMS:
        algorithm = _ALGORITHMS.get(name, name)
        words = _RUN.replace("{algorithm}", algorithm).replace("{collective}", collective)
        words += " --radix 4" if name == "radix-4" else ""
        if kernels:
            words += " --transports p2p --protocols signals,packets --graph {nccl}"
            more = "kernels", "p2p", f"{_ON_FABRIC} --model kernel"
        else:
            words += " --transports {fast} {nccl}"
            more = "", "any", _ON_FABRIC
        title = "-".join(filter(None, (collective, name, more[0])))
        sizes = "--sizes 4K:1G", "--sizes 4K:256K --repeats 1"
        kinds.append(_Kind(title, words, *sizes, 60 if kernels else 45, tiers, *more[1:]))
    return kinds


#: Within a tier parts run in this order, most ranks first.
_KINDS = [
    _Kind("fibre", f"{_FIBRE} --transports {{fast}}", "--steps 50", "--steps 2 --repeats 1", 150, (0, 1)),
    _Kind("ultrasound-1d", f"{_SCALING} --grid 1x1x{{K}} --transports {{fast}}", "", _FEW, 120, (0, 1)),
    _Kind(
        "fibre-kernels",
        f"{_STORING} {_FIBRE} --transports p2p",
        "--steps 50",
        "--steps 2 --repeats 1",
        100,
        (0, 1),
        "p2p",
    ),
    _Kind(
        "ultrasound-kernels",
        f"{_STORING} {_SCALING} --grid 1x1x{{K}} --transports p2p",
        "",
        _FEW,
        80,
        (0, 1),
        "p2p",
    ),
    _Kind(
        "fabric",
        f"fabric measure --ranks {{K}} --transport {{one}} --name measured-{{K}} -o {{here}}/{FABRIC} --json",
        "",
        "--sizes 16K,4M --repeats 3 --residual 1000",
        60,
        (0, 4),
        prints="fabric.json",
    ),
    *_collectives("all-reduce", (0, 4), kernels=False),
    _Kind("link", "run {link} --ranks {K} -o {here}/link.h5 --json", "", "", 180, (0, 4), prints="link.json"),
    _Kind(
        "cuts",
        "bench ultrasound-cuts --ranks {K} --transports {fast} -o {here}",
        "--size 512x512x1024 --placements {placements}",
        f"--size 32 {_FEW}",
        240,
        (2, 4),
    ),
    _Kind(
        "large",
        "bench local-vs-global --ranks {K} --grid 1x1x{K} --transports {one} -o {here}",
        "--size 1536x1024x2048 --repeats 3",
        f"--size 24x16x64 {_FEW}",
        120,
        (2, 4),
    ),
    _Kind(
        "local-vs-global",
        "bench local-vs-global --ranks {K} --transports {fast} -o {here}",
        "--size 256 --size 512 --size 512x512x1024 --size 1024",
        f"--size 32 {_FEW}",
        120,
        (2, 4),
    ),
    _Kind(
        "local-vs-global-kernels",
        f"{_STORING} bench local-vs-global --ranks {{K}} --transports p2p -o {{here}}",
        "--size 256 --size 512 --size 512x512x1024 --size 1024",
        f"--size 32 {_FEW}",
        90,
        (2, 4),
        "p2p",
    ),
    _Kind(
        "exchange",
        f"{_EXCHANGE} --transports {{fast}}",
        "--sizes 64K:1G --repeats 3",
        "--sizes 4K:256K --repeats 1",
        120,
        (2, 4),
    ),
    _Kind(
        "ultrasound-2d",
        f"{_SCALING} --grid {{two}} --forms local --transports {{fast}}",
        "",
        _FEW,
        80,
        (2, 4),
    ),
    _Kind(
        "ultrasound-3d",
        f"{_SCALING} --grid {{three}} --forms local --transports {{fast}}",
        "",
        _FEW,
        80,
        (2, 4),
    ),
    *_collectives("all-reduce", (2, 4), kernels=True),
    *_collectives("all-gather", (3, 5), kernels=False),
    *_collectives("all-gather", (3, 5), True, "ring", "direct"),
    *_collectives("all-to-all", (3, 5), True, "direct"),
    *_collectives("broadcast", (3, 5), True, "tree", "direct"),
    _Kind(
        "ultrasound-heterogeneous",
        f"{_SCALING} --grid 1x1x{{K}} --medium heterogeneous --kinds weak --transports {{fast}}",
        "",
        _FEW,
        100,
        (3, 5),
    ),
    _Kind(
        "tune",
        "collective tune --ranks {K} --transports {one} -o {here}/tuning.json --json",
        "--sizes 4K:1G --plot {here}/tuning.png",
        "--plot {here}/tuning.png --collective all-reduce --sizes 4K,256K --repeats 1",
        240,
        (3, 5),
        on_fabric=_ON_FABRIC,
        prints="candidates.json",
    ),
    *(
        _Kind(f"{name}-{transport}", f"{words} --transports {transport}", *sizes, seconds, (3, 5), transport)
        for transport, steps, sizes_of, factor in (
            ("mpi-cuda", "--steps 50", "--sizes 64K:1G --repeats 3", 1),
            ("mpi", "--steps 2 --repeats 1", "--sizes 64K:256M --repeats 3", 2),
        )
        for name, words, sizes, seconds in (
            ("fibre", _FIBRE, (steps, "--steps 2 --repeats 1"), 120 * factor),
            ("ultrasound", f"{_SCALING} --grid 1x1x{{K}} --kinds weak", ("", _FEW), 80 * factor),
            ("exchange", _EXCHANGE, (sizes_of, "--sizes 4K:256K --repeats 1"), 100 * factor),
        )
    ),
]
_ALONE = [
    _Kind(
        "fibre-step",
        "bench fibre-step -o {here}",
        "--case 30x21 --repeats 5",
        "--case 6x10 --precision double --no-plain --repeats 2",
        60,
        (2, 2),
    ),
    _Kind(
        "ultrasound-step",
        "bench ultrasound-step -o {here}",
        "--size 256 --size 512 --repeats 5",
        "--size 32 --medium homogeneous --no-plain --repeats 2",
        90,
        (2, 2),
    ),
    _Kind("ultrasound", _SCALING, "", _FEW, 60, (2, 2)),
    _Kind("link", "run {link} -o {here}/link.h5 --json", "", "", 420, (5, 5), prints="link.json"),
]


def counts(most: int) -> list[int]:
    """Numbers of ranks up to the most, which is one of them."""
    return sorted({*(count for count in COUNTS if count < most), most})


def make_parts(most: int, available: Collection[str], why_not: dict[str, str], small: bool) -> list[Part]:
    """All parts for up to `most` ranks in the order in which they run.

    ``available`` are the transports of this machine, ``why_not`` says why others are none.
    """
    found = []
    for ranks in counts(most):
        for place, kind in enumerate(_ALONE if ranks == 1 else _KINDS):
            if kind.needs == "mpi" and not set(_FAST) & set(available):
                continue  # the other parts use it already
            if ranks > 1 and 1 in _even(ranks, _DIMENSIONS.get(kind.name, 1)):
                continue  # it cannot be cut so
            tier = kind.tiers[ranks != most]
            found.append(((tier, -ranks, place), _part(kind, ranks, available, why_not, small)))
    return [part for _, part in sorted(found, key=lambda pair: pair[0])]


def _part(kind: _Kind, ranks: int, available: Collection[str], why_not: dict[str, str], small: bool) -> Part:
    fast = [name for name in _FAST if name in available] or ["mpi"]
    two, three = _even(ranks, 2), _even(ranks, 3)
    values: dict[str, Any] = {
        **{key: f"{{{key}}}" for key in ("here", "parts", "link")},
        "K": ranks,
        "fast": ",".join(fast),
        "one": fast[0],
        "nccl": "--nccl" if "nccl" in available else "",
        "two": "1x{}x{}".format(*two),
        "three": "{}x{}x{}".format(*three),
        "placements": "all" if ranks < 4 else "identity,reversed,round-robin",
    }
    values |= (
        {"modes": 3, "log2n": 9, "block": 24, "total": 64}
        if small
        else {"modes": 15, "log2n": 21, "block": 480, "total": 1024}
    )
    needs = "mpi" if kind.needs == "any" else kind.needs
    left_out = ""
    if ranks > 1 and needs not in available:
        left_out = f"{needs}: {why_not.get(needs, 'not available')}"
    words = shlex.split(f"{kind.words} {kind.small if small else kind.full}".format(**values))
    settings = tuple(itertools.takewhile(lambda word: "=" in word, words))
    words = words[len(settings) :]
    if words[:2] == ["collective", "run"]:
        left_out = left_out or _why_refused(words, ranks)
    return Part(
        f"{kind.name}-{ranks}",
        ranks,
        tuple(words),
        4 + 1.3 * ranks if small else kind.seconds,
        tuple(shlex.split(kind.on_fabric.format(**values))),
        kind.prints,
        left_out,
        settings,
    )


def _why_refused(words: list[str], ranks: int) -> str:
    """Why an algorithm has no schedule for so many ranks; "" if it has one."""
    from wavefabric.collectives.registry import why_refused

    return why_refused(words[2], words[3], ranks, radix=4 if "--radix" in words else None) or ""


def _even(ranks: int, dimensions: int) -> tuple[int, ...]:
    """Blocks along so many axes, as nearly alike as can be, rising."""
    if dimensions == 1:
        return (ranks,)
    cuts = [(first, *_even(ranks // first, dimensions - 1)) for first in _divisors(ranks)]
    return min((tuple(sorted(cut)) for cut in cuts), key=lambda cut: (cut[-1] / cut[0], cut))


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]


def choose(parts: Sequence[Part], only: Sequence[str], skip: Sequence[str]) -> list[Part]:
    """Parts whose names match one of `only` (or all) and none of `skip`.

    Raises
    ------
    InputError
        If a pattern matches no part.
    """
    for key, patterns in (("--only", only), ("--skip", skip)):
        for pattern in patterns:
            if not any(fnmatchcase(part.name, pattern) for part in parts):
                allowed = "a name of --list, or a pattern such as 'fibre-*'"
                raise InputError(f"{key}: {pattern} given, which is no part; allowed: {allowed}")
    return [
        part
        for part in parts
        if (not only or any(fnmatchcase(part.name, pattern) for pattern in only))
        and not any(fnmatchcase(part.name, pattern) for pattern in skip)
    ]
