"""Which algorithm is fastest for which size: times of candidates by size, and a rule where there are none."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wavefabric.collectives.candidates import Choice, candidates, refused
from wavefabric.collectives.conditions import COLLECTIVES
from wavefabric.collectives.registry import why_refused
from wavefabric.errors import InputError, choice, require, show
from wavefabric.files.input import parsed
from wavefabric.files.output import json_rows, write_text

#: Bytes of the whole array up to which `default_choice` counts rounds, and above which bytes.
SMALL = 256 << 10

#: Times of a candidate, in a file too.
_TIMES = ("predicted_us", "measured_us")
_DOUBLING = ("recursive", "direct")
#: By collective operation: algorithms in the order of preference, of small arrays and of large ones.
_PREFERRED = {
    "all-reduce": (("recursive-exchange", "direct"), ("recursive", "ring")),
    "all-gather": (_DOUBLING, ("recursive", "ring")),
    "reduce-scatter": (_DOUBLING, ("recursive", "ring")),
    "all-to-all": (("direct",), ("direct", "pairwise")),
    "broadcast": (("binomial",), ("double-tree",)),
    "reduce": (("binomial",), ("double-tree",)),
    "gather": (("binomial",), ("direct",)),
    "scatter": (("binomial",), ("direct",)),
}


@dataclass(frozen=True)
class TimedChoice:
    """A candidate and its times in µs, None where it was not predicted or not measured."""

    choice: Choice
    predicted_us: float | None = None
    measured_us: float | None = None

    @property
    def us(self) -> float:
        """The time that decides: measured, else predicted, else infinite."""
        known = (time for time in (self.measured_us, self.predicted_us) if time is not None)
        return next(known, float("inf"))


@dataclass(frozen=True)
class TunedSize:
    """Bytes of the whole array and all candidates, at least one; the first is what is chosen."""

    bytes: int
    candidates: tuple[TimedChoice, ...]

    @property
    def best(self) -> TimedChoice:
        """What is chosen, with its times."""
        return self.candidates[0]


@dataclass(frozen=True)
class TunedCollective:
    """Sizes of a collective operation, rising; ``transport``: where it was measured, None if predicted."""

    collective: str
    sizes: tuple[TunedSize, ...]
    transport: str | None = None


@dataclass(frozen=True)
class Tuning:
    """Which algorithm is fastest for which size; made by `wavefabric collective tune`, a JSON file.

    `InputError` if sizes do not rise, `wavefabric.collectives.registry.build` refuses a choice, or its
    protocol is unknown or not for so many ranks.
    """

    ranks: int
    #: Each pair of collective operation and transport once.
    tables: tuple[TunedCollective, ...]
    #: What it was made with: element type and device of what was measured, fabric and cost model of what was
    #: predicted, version.
    dtype: str | None = None
    device: str | None = None
    fabric: str | None = None
    model: str | None = None
    wavefabric: str | None = None
    #: Algorithms that were not compared, and why.
    left_out: dict[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        pairs = [(table.collective, table.transport) for table in self.tables]
        for t, table in enumerate(self.tables):
            actual = " on ".join(filter(None, pairs[t]))
            require(pairs[t] not in pairs[:t], f"tables[{t}]", f"{actual} given twice", "once")
            choice(f"tables[{t}].collective", table.collective, COLLECTIVES)
            require(table.sizes, f"tables[{t}].sizes", "none given", "one or more")
            least = 0
            for s, size in enumerate(table.sizes):
                key = f"tables[{t}].sizes[{s}]"
                if size.bytes <= least:
                    raise InputError(f"{key}.bytes: {size.bytes} given; allowed: more than {least}, rising")
                least = size.bytes
                for c, each in enumerate(size.candidates):
                    if why := refused(each.choice, table.collective, self.ranks):
                        raise InputError(f"{key}.{f'candidates[{c - 1}]' if c else 'choice'}: {why}")

    def choose(
        self,
        collective: str,
        nbytes: int,
        transport: str | None = None,
        usable: Callable[[Choice], bool] = lambda choice: True,
    ) -> Choice:
        """What is fastest for so many bytes of the whole array (elements of `conditions.layout`, in bytes).

        The nearest tuned size counts, on a logarithmic scale; below the least and above the most the ends.
        Of several transports that were measured, the one named, else the first of the file. Of its candidates
        the fastest that is ``usable``; if none is, `default_choice`. `InputError` if the collective operation
        was not tuned.
        """
        tables = [table for table in self.tables if table.collective == collective]
        if not tables:
            tuned = ", ".join(dict.fromkeys(table.collective for table in self.tables)) or "none"
            raise InputError(f"collective: {show(collective)} given; allowed: {tuned} (what was tuned)")
        sizes = next((table for table in tables if table.transport == transport), tables[0]).sizes
        above = bisect_left(sizes, nbytes, key=lambda size: size.bytes)
        # Nearer to the size below if n/below < above/n.
        if above == len(sizes) or (above and nbytes * nbytes < sizes[above - 1].bytes * sizes[above].bytes):
            above -= 1
        choices = (each.choice for each in sizes[above].candidates if usable(each.choice))
        return next(choices, None) or default_choice(collective, self.ranks, nbytes)


def default_choice(collective: str, ranks: int, nbytes: int) -> Choice:
    """A choice without a file: up to 256 KiB of the whole array few rounds, above it few bytes.

    =================  =======================================  ===================================
    collective         up to 256 KiB                            above
    =================  =======================================  ===================================
    all-reduce         recursive-exchange, else direct          recursive, else ring
    all-gather         recursive, else direct                   recursive, else ring
    reduce-scatter     recursive, else direct                   recursive, else ring
    all-to-all         direct                                   direct
    broadcast, reduce  binomial                                 double-tree
    gather, scatter    binomial                                 direct
    =================  =======================================  ===================================

    *Else* where an algorithm refuses so many ranks: those of radix 2 take powers of two. Where these all do,
    any other that takes them. `InputError` for another collective operation, or where none does.
    """
    choice("collective", collective, _PREFERRED)
    preferred = _PREFERRED[collective][nbytes > SMALL]
    for name in preferred:
        if why_refused(name, collective, ranks) is None:
            return Choice(name)
    if others := candidates(collective, ranks, switches="not known").choices:
        return others[0]
    raise InputError(str(why_refused(preferred[0], collective, ranks)))


def load_tuning(path: str | Path) -> Tuning:
    """Read a tuning from a JSON file; `InputError`: the file, the key, what was given, what is allowed."""
    return parsed(path, "tuning", tuning_from_json)


def save_tuning(path: str | Path, tuning: Tuning, force: bool = False) -> Path:
    """Write a tuning to a JSON file, whole or not at all.

    `InputError` if it exists (without `force`), is a folder, or cannot be written.
    """
    return write_text(path, tuning_to_json(tuning), "tuning", force)


def tuning_to_json(tuning: Tuning) -> str:
    """A tuning as JSON text, one candidate a line."""
    from wavefabric.collectives.formats.tuning_file import FORMAT, VERSION  # late: Pydantic takes a while

    def size_row(size: TunedSize) -> dict[str, Any]:
        choices = [_written(each.choice) for each in size.candidates]
        times = [{key: getattr(each, key) for key in _TIMES} for each in size.candidates]
        candidates = [choice | own for choice, own in zip(choices, times, strict=True)]
        return {"bytes": size.bytes, "choice": choices[0], **times[0], "candidates": candidates}

    tables = [
        {"collective": t.collective, "transport": t.transport, "sizes": list(map(size_row, t.sizes))}
        for t in tuning.tables
    ]
    content = {"format": FORMAT, "version": VERSION, **vars(tuning)}
    del content["tables"]  # last
    return json_rows(content | {"tables": tables}, ("tables", "sizes", "candidates"))


def tuning_from_json(text: str) -> Tuning:
    """The tuning that JSON text describes; `InputError` as of `load_tuning`, without the file."""
    from wavefabric.collectives.formats import tuning_file

    content = tuning_file.from_text(text)
    tables = tuple(
        TunedCollective(table["collective"], tuple(map(_read_size, table["sizes"])), table["transport"])
        for table in content.pop("tables")
    )
    return Tuning(tables=tables, **content)


def _written(choice: Choice) -> dict[str, Any]:
    """A choice without what it has no use for."""
    defaults = vars(Choice(choice.algorithm))
    return {key: value for key, value in vars(choice).items() if key == "algorithm" or value != defaults[key]}


def _read_size(row: dict[str, Any]) -> TunedSize:
    """What a file says of a size: its choice first, with its times among the candidates if it is one."""

    def timed(choice: dict[str, Any], times: dict[str, Any]) -> TimedChoice:
        known = Choice(**{key: choice[key] for key in row["choice"]})
        return TimedChoice(known, **{key: times[key] for key in _TIMES})

    chosen, candidates = timed(row["choice"], row), [timed(each, each) for each in row["candidates"]]
    best = next((each for each in candidates if each.choice == chosen.choice), chosen)
    return TunedSize(row["bytes"], (best, *(each for each in candidates if each.choice != chosen.choice)))
