"""What a page says, before it is HTML."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from wavefabric.units import binary_bytes, time_words

GOOD, WARNED, BAD = "good", "warned", "bad"


@dataclass(frozen=True)
class Tile:
    """A number of the first screen in words: its name, its value, what is said below, and the prediction."""

    name: str
    value: str
    note: str = ""
    predicted: str = ""


@dataclass
class Content:
    """Everything on a page; ``state`` is one of `GOOD`, `WARNED` and `BAD`, and the verdict says why."""

    kind: str
    title: str
    verdict: str = ""
    state: str = GOOD
    tiles: list[Tile] = field(default_factory=list)
    #: Where the time went, s, or another whole and its parts: their heading, and how values are written.
    parts: Mapping[str, float] = field(default_factory=dict)
    parts_title: str = "Where the time went"
    parts_words: Callable[[float], str] = time_words
    warnings: list[str] = field(default_factory=list)
    #: Headings, and the figures below each.
    sections: dict[str, list[Markup]] = field(default_factory=dict)
    #: Numbers behind the figures, by the name that canvases call them by.
    arrays: dict[str, dict[str, Any]] = field(default_factory=dict)
    thumbnail: Markup = field(default_factory=Markup)

    def add(self, title: str, *figures: Markup) -> None:
        """A section; none without a figure."""
        if shown := [each for each in figures if each]:
            self.sections.setdefault(title, []).extend(shown)

    def facts(self) -> dict[str, Any]:
        """The first screen as values for JSON."""
        keys = "kind", "title", "verdict", "state", "warnings", "parts"
        return {key: getattr(self, key) for key in keys} | {"figures": [vars(tile) for tile in self.tiles]}


def run_tiles(
    plan: Mapping[str, float], seconds: tuple[float, float], steps: int, nbytes: float, where: str
) -> list[Tile]:
    """How fast a run was, s a step and in all, and the memory of the rank with most, B, 0 if unknown.

    ``plan`` has ``step`` and ``bytes`` where they are what was measured: a step without compilation, and the
    memory of a GPU.
    """
    note = f"{time_words(seconds[1])} in all, {steps} steps"
    step, memory = time_words(seconds[0]), binary_bytes(nbytes) if nbytes > 0 else "not recorded"
    return [
        Tile("Time a step", step, note, _beside(seconds[0], plan.get("step", 0.0), time_words)),
        Tile("Memory", memory, where, _beside(nbytes, plan.get("bytes", 0.0), binary_bytes)),
    ]


def _beside(measured: float, expected: float, words: Callable[[float], str]) -> str:
    """A prediction, and by how much what was measured differs from it."""
    if not expected > 0 or not measured > 0:
        return words(expected) if expected > 0 else ""
    more = measured / expected - 1
    much = f"{abs(more):.0%} {'more' if more > 0 else 'less'}" if abs(more) >= 0.005 else "the same"
    return f"{words(expected)} (measured {much})"


def where_words(attributes: Mapping[str, Any], ranks: int, how: Any) -> str:
    """Whose memory it is: of the device, or of the rank with most of several, and how these exchange."""
    device = attributes.get("device") or "cpu"
    words = f"on {attributes.get('cpu', device) if device == 'cpu' else device}"
    return f"the most of {ranks} ranks {words}, {how}" if ranks > 1 else words


def plan_of(attributes: Mapping[str, Any]) -> dict[str, float]:
    """Seconds of the step that a result's plan predicts, by part, and its bytes; of no or a bad plan none."""
    try:
        plan = json.loads(str(attributes.get("plan") or "{}"))
        known = {**plan.get("seconds", {}), "bytes": plan.get("bytes", 0)}
        numbers = {str(key): float(value) for key, value in known.items()}
        return numbers if all(map(math.isfinite, numbers.values())) else {}
    except (ValueError, TypeError, AttributeError, RecursionError):
        return {}


def pairs(values: Mapping[str, Any], leave: tuple[str, ...] = ("plan", "format_version")) -> list[Any]:
    """Names and values as text, numbers short, without those that are empty."""
    shown = {k: v.tolist() if hasattr(v, "tolist") else v for k, v in values.items() if k not in leave}
    texts = {k: f"{v:.6g}" if isinstance(v, float) else str(v) for k, v in shown.items()}
    return [(key, text) for key, text in texts.items() if text not in ("", "nan")]
