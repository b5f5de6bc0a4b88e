"""What a page says, before it is HTML."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from wavefabric.units import binary_bytes, time_words

GOOD, WARNED, BAD = "good", "warned", "bad"


@dataclass(frozen=True)
class Tile:
    """A number of the first screen, in words: what it is, its value, what is said below, and the prediction."""

    name: str
    value: str
    note: str = ""
    predicted: str = ""


@dataclass(frozen=True)
class Section:
    """A heading and the blocks below it."""

    title: str
    blocks: tuple[Markup, ...]


@dataclass
class Content:
    """Everything on a page; ``state`` is one of `GOOD`, `WARNED` and `BAD`, and the verdict says why."""

    kind: str
    title: str
    verdict: str
    state: str = GOOD
    tiles: list[Tile] = field(default_factory=list)
    #: Where the time went: seconds, by what took them.
    parts: dict[str, float] = field(default_factory=dict)
    #: Of the parts: whether they were measured.
    parts_title: str = "Where the time went"
    warnings: list[str] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)
    #: Numbers behind the figures, by the name that canvases call them by.
    arrays: dict[str, dict[str, Any]] = field(default_factory=dict)
    thumbnail: Markup = Markup()

    def add(self, title: str, *blocks: Markup) -> None:
        """A section, unless it has no block."""
        if shown := tuple(filter(None, blocks)):
            self.sections.append(Section(title, shown))

    def facts(self) -> dict[str, Any]:
        """The first screen as values for JSON."""
        keys = "kind", "title", "verdict", "state", "warnings"
        tiles = {tile.name: vars(tile) for tile in self.tiles}
        return {key: getattr(self, key) for key in keys} | {"figures": tiles, "seconds": self.parts}


def step_tile(step: float, total: float, plan: Mapping[str, Any], steps: int = 0) -> Tile:
    """How fast a run was: s a step, s in all."""
    note = f"{time_words(total)} in all" + (f", {steps} steps" if steps else "")
    expected = _number(plan.get("seconds"), "step")
    return Tile("Time a step", time_words(step), note, beside(step, expected, time_words))


def memory_tile(nbytes: float, note: str, plan: Mapping[str, Any]) -> Tile:
    """The memory of the rank that needs most, B; 0 where it is not known."""
    value = binary_bytes(nbytes) if nbytes > 0 else "not recorded"
    return Tile("Memory", value, note, beside(nbytes, _number(plan, "bytes"), binary_bytes))


def beside(measured: float, expected: float | None, words: Any) -> str:
    """A prediction, and by how much what was measured differs from it."""
    if not expected:
        return ""
    if not measured > 0:
        return words(expected)
    more = measured / expected - 1
    differs = "as measured" if abs(more) < 0.005 else f"measured {abs(more):.0%} {'more' if more > 0 else 'less'}"
    return f"{words(expected)} ({differs})"


def plan_parts(plan: Mapping[str, Any]) -> dict[str, float]:
    """The parts of a predicted step, s."""
    seconds = plan.get("seconds")
    parts = {key: _number(seconds, key) for key in ("compute", "pack", "exposed")}
    return {f"{key} (predicted)": value for key, value in parts.items() if value is not None}


def _number(table: Any, key: str) -> float | None:
    value = table.get(key) if isinstance(table, Mapping) else None
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if known and value >= 0 else None


def pairs(values: Mapping[str, Any], leave: Iterable[str] = ()) -> list[tuple[str, str]]:
    """Names and values as text, numbers short."""
    left = set(leave)
    return [(key, _text(value)) for key, value in values.items() if key not in left and _text(value)]


def _text(value: Any) -> str:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, bool) or not isinstance(value, float):
        return str(value)
    return f"{value:.6g}" if math.isfinite(value) else ""
