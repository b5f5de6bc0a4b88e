"""Choose the fastest algorithm by array size, from a table of timed candidates or by a default rule."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wavefabric.base.errors import InputError, choice, ensure, show
from wavefabric.base.files.input import parsed
from wavefabric.base.files.output import json_rows, write_text
from wavefabric.collectives.candidates import Choice, candidates, refused
from wavefabric.collectives.conditions import COLLECTIVES
from wavefabric.collectives.registry import why_refused

#: Bytes of the whole array up to which `default_choice` minimises rounds; above, it minimises bytes sent.
SMALL = 256 << 10

#: Names of the times of a candidate, as attributes and in files.
_TIMES = ("predicted_us", "measured_us")
_DOUBLING = ("recursive", "direct")
#: By collective operation: algorithms in order of preference, for small arrays and for large ones.
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
    """Holds a candidate and its times in µs; None if not predicted or not measured."""

    choice: Choice
    predicted_us: float | None = None
    measured_us: float | None = None

    @property
    def us(self) -> float:
        """Return the time used for comparison: measured, else predicted, else infinite."""
        known = (time for time in (self.measured_us, self.predicted_us) if time is not None)
        return next(known, float("inf"))


@dataclass(frozen=True)
class TunedSize:
    """Holds the candidates, at least one, for a whole array of ``bytes`` bytes; the first is the choice."""

    bytes: int
    candidates: tuple[TimedChoice, ...]

    @property
    def best(self) -> TimedChoice:
        """Return the candidate that is used at this size, with its times."""
        return self.candidates[0]


@dataclass(frozen=True)
class TunedCollective:
    """Holds a collective's tuned sizes, ascending, and the measured transport (None: only predicted)."""

    collective: str
    sizes: tuple[TunedSize, ...]
    transport: str | None = None


@dataclass(frozen=True)
class Tuning:
    """Holds the fastest algorithms by array size; `wavefabric collective tune` writes it as a JSON file.

    `InputError` if sizes do not increase, `wavefabric.collectives.registry.build` refuses a choice, or a
    choice has a protocol that is unknown or does not support that many ranks.
    """

    ranks: int
    #: One table per pair of collective operation and transport.
    tables: tuple[TunedCollective, ...]
    #: How the tuning was made: element type and device of measurements, fabric and cost model of predictions,
    #: version of Wavefabric.
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
            ensure(pairs[t] not in pairs[:t], f"tables[{t}]", f"{actual} given twice", "once")
            choice(f"tables[{t}].collective", table.collective, COLLECTIVES)
            ensure(table.sizes, f"tables[{t}].sizes", "none given", "one or more")
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
        """Return the fastest choice for ``nbytes`` of the whole array (``elements`` of `conditions.layout`).

        The choice is the first, hence fastest, candidate for which ``usable`` is true at the tuned size that
        is nearest on a logarithmic scale, or `default_choice` if there is none. If several transports were
        measured, ``transport`` selects one, else the first in the file is used. `InputError` if the
        collective operation was not tuned.
        """
        tables = [table for table in self.tables if table.collective == collective]
        if not tables:
            tuned = ", ".join(dict.fromkeys(table.collective for table in self.tables)) or "none"
            raise InputError(f"collective: {show(collective)} given; allowed: {tuned} (what was tuned)")
        sizes = next((table for table in tables if table.transport == transport), tables[0]).sizes
        above = bisect_left(sizes, nbytes, key=lambda size: size.bytes)
        # On a logarithmic scale n is nearer to the size below if n/below < above/n.
        if above == len(sizes) or (above and nbytes * nbytes < sizes[above - 1].bytes * sizes[above].bytes):
            above -= 1
        choices = (each.choice for each in sizes[above].candidates if usable(each.choice))
        return next(choices, None) or default_choice(collective, self.ranks, nbytes)


def default_choice(collective: str, ranks: int, nbytes: int) -> Choice:
    """Return a choice by fixed rules: few rounds for whole arrays up to 256 KiB, few bytes sent above.

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

    *Else* applies if an algorithm refuses the number of ranks: radix 2 requires powers of two. If all refuse,
    another algorithm is used. `InputError` for other collective operations, or if all algorithms refuse.
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
    """Read a tuning from a JSON file; `InputError` names the file, key, value and allowed values."""
    return parsed(path, "tuning", tuning_from_json)


def save_tuning(path: str | Path, tuning: Tuning, force: bool = False) -> Path:
    """Write a tuning to a JSON file atomically; `InputError` if it cannot, or exists without ``force``."""
    return write_text(path, tuning_to_json(tuning), "tuning", force)


def tuning_to_json(tuning: Tuning) -> str:
    """Return a tuning as JSON text, one candidate per line."""
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
    del content["tables"]  # added again below, so that they come last
    return json_rows(content | {"tables": tables}, ("tables", "sizes", "candidates"))


def tuning_from_json(text: str) -> Tuning:
    """Return the tuning that JSON text describes; `InputError` as for `load_tuning`, without the file."""
    from wavefabric.collectives.formats import tuning_file

    content = tuning_file.from_text(text)
    tables = tuple(
        TunedCollective(table["collective"], tuple(map(_read_size, table["sizes"])), table["transport"])
        for table in content.pop("tables")
    )
    return Tuning(tables=tables, **content)


def _written(choice: Choice) -> dict[str, Any]:
    """Return the algorithm and the options of a choice as a dictionary, without options at defaults."""
    defaults = vars(Choice(choice.algorithm))
    return {key: value for key, value in vars(choice).items() if key == "algorithm" or value != defaults[key]}


def _read_size(row: dict[str, Any]) -> TunedSize:
    """Return the row of a tuning file for one size as `TunedSize`, with the choice first.

    The choice has the times of the same candidate if it is listed, else those of the row.
    """

    def timed(choice: dict[str, Any], times: dict[str, Any]) -> TimedChoice:
        known = Choice(**{key: choice[key] for key in row["choice"]})
        return TimedChoice(known, **{key: times[key] for key in _TIMES})

    chosen, candidates = timed(row["choice"], row), [timed(each, each) for each in row["candidates"]]
    best = next((each for each in candidates if each.choice == chosen.choice), chosen)
    return TunedSize(row["bytes"], (best, *(each for each in candidates if each.choice != chosen.choice)))
