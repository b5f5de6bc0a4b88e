"""What a suite's folder holds, as its report reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from wavefabric.bench.suite.parts import Part
from wavefabric.bench.suite.record import DONE, PartRecord, read_record, read_result


class FoundResult(NamedTuple):
    """The result of one part."""

    part: str
    ranks: int
    path: Path
    result: dict[str, Any]


@dataclass(frozen=True)
class FoundResults:
    """Results and records of a suite whose parts may be done or not."""

    root: Path
    parts: Sequence[Part]
    machine: dict[str, Any]
    small: bool

    @property
    def folder(self) -> Path:
        """Where the parts are."""
        return self.root / "parts"

    @cached_property
    def records(self) -> dict[str, PartRecord]:
        """Of all parts that were run, by name."""
        found = {part.name: read_record(self.folder, part.name) for part in self.parts}
        return {name: record for name, record in found.items() if record is not None}

    @property
    def most(self) -> int:
        """The largest number of ranks."""
        return max(part.ranks for part in self.parts)

    def of(self, *kinds: str, file: str) -> list[FoundResult]:
        """Results of these kinds of parts for all numbers of ranks that are done, in ascending ranks."""
        return sorted(self._of(kinds, file), key=lambda each: each.ranks)

    def _of(self, kinds: Sequence[str], file: str) -> Iterator[FoundResult]:
        for kind in kinds:
            for part in self.parts:
                if part.name == f"{kind}-{part.ranks}" and part.name in self.records:
                    result = read_result(self.folder, part.name, file)
                    if result is not None:
                        yield FoundResult(part.name, part.ranks, self.folder / part.name / file, result)

    def state(self, part: Part) -> tuple[str, str]:
        """Done, failed, interrupted, left out or missing; and why."""
        if part.left_out:
            return "left out", part.left_out
        record = self.records.get(part.name)
        if record is None:
            return "missing", "not run"
        return record.state, "" if record.state == DONE else ": ".join([record.why, *record.said[-1:]])


class Picture(NamedTuple):
    """A picture of the report: its file, what it shows, how it is drawn, and from which parts."""

    name: str
    caption: str
    draw: Any
    sources: list[str]


class Section(NamedTuple):
    """A section of the report."""

    title: str
    blocks: list[str]
    pictures: Sequence[Picture] = ()
