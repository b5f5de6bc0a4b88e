"""Define the content of a report page, before templates turn it into HTML."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from wavefabric.base.units import binary_bytes, time_words

GOOD, WARNED, BAD = "good", "warned", "bad"


@dataclass(frozen=True)
class Tile:
    """A number at the top of a page as text: name, value, a note below, and the predicted value."""

    name: str
    value: str
    note: str = ""
    predicted: str = ""


@dataclass
class Content:
    """Holds everything on a page; ``state`` is `GOOD`, `WARNED` or `BAD`, and ``verdict`` says why."""

    kind: str
    title: str
    verdict: str = ""
    state: str = GOOD
    tiles: list[Tile] = field(default_factory=list)
    #: Time in s by part of the run, or parts of another total; their heading, and how values are formatted.
    parts: Mapping[str, float] = field(default_factory=dict)
    parts_title: str = "Where the time went"
    parts_words: Callable[[float], str] = time_words
    warnings: list[str] = field(default_factory=list)
    #: Figures by section heading.
    sections: dict[str, list[Markup]] = field(default_factory=dict)
    #: Arrays that canvases of the page draw, by name.
    arrays: dict[str, dict[str, Any]] = field(default_factory=dict)
    thumbnail: Markup = field(default_factory=Markup)

    def add(self, title: str, *figures: Markup) -> None:
        """Add ``figures`` that are not empty to the section ``title``, which is created if necessary."""
        if shown := [each for each in figures if each]:
            self.sections.setdefault(title, []).extend(shown)

    def facts(self) -> dict[str, Any]:
        """Return what the top of the page shows, such as verdict and tiles, as values for JSON."""
        keys = "kind", "title", "verdict", "state", "warnings", "parts"
        return {key: getattr(self, key) for key in keys} | {"figures": [vars(tile) for tile in self.tiles]}


def run_tiles(
    plan: Mapping[str, float], seconds: tuple[float, float], steps: int, nbytes: float, device: str
) -> list[Tile]:
    """Return the tiles that show a run's time per step and its memory, beside what the plan predicted.

    ``seconds``: time per step and in total. ``nbytes``: memory of the largest rank, 0 if unknown; ``device``:
    a note on it. ``plan`` has the predictions: ``step`` in s, which is left out if the measured steps include
    compilation, and ``bytes``, which is left out unless the memory is a GPU's.
    """
    note = f"{time_words(seconds[1])} in all, {steps} steps"
    step, memory = time_words(seconds[0]), binary_bytes(nbytes) if nbytes > 0 else "not recorded"
    return [
        Tile("Time per step", step, note, _prediction_text(seconds[0], plan.get("step", 0.0), time_words)),
        Tile("Memory", memory, device, _prediction_text(nbytes, plan.get("bytes", 0.0), binary_bytes)),
    ]


def _prediction_text(measured: float, expected: float, to_text: Callable[[float], str]) -> str:
    """Return a prediction as text, with how much more or less was measured, in per cent; "" without one."""
    if not expected > 0 or not measured > 0:
        return to_text(expected) if expected > 0 else ""
    more = measured / expected - 1
    much = f"{abs(more):.0%} {'more' if more > 0 else 'less'}" if abs(more) >= 0.005 else "the same"
    return f"{to_text(expected)} (measured {much})"


def where_words(attributes: Mapping[str, Any], ranks: int, suffix: Any) -> str:
    """Return a note on the memory in a tile: where it is, and with several ranks that it is the largest.

    ``suffix``: for several ranks, their transport or the decomposition of the grid, which ends the note.
    """
    device = attributes.get("device") or "cpu"
    words = f"on {attributes.get('cpu', device) if device == 'cpu' else device}"
    return f"the most of {ranks} ranks {words}, {suffix}" if ranks > 1 else words


def plan_of(attributes: Mapping[str, Any]) -> dict[str, float]:
    """Return what a plan predicted for a run: seconds per step by part, and ``bytes``; {} if not valid."""
    try:
        plan = json.loads(str(attributes.get("plan") or "{}"))
        known = {**plan.get("seconds", {}), "bytes": plan.get("bytes", 0)}
        numbers = {str(key): float(value) for key, value in known.items()}
        return numbers if all(map(math.isfinite, numbers.values())) else {}
    except (ValueError, TypeError, AttributeError, RecursionError):
        return {}


def pairs(values: Mapping[str, Any], leave: tuple[str, ...] = ("plan", "format_version")) -> list[Any]:
    """Return (name, text) of ``values``, numbers shortened; leave out empty values and names in ``leave``."""
    shown = {k: v.tolist() if hasattr(v, "tolist") else v for k, v in values.items() if k not in leave}
    texts = {k: f"{v:.6g}" if isinstance(v, float) else str(v) for k, v in shown.items()}
    return [(key, text) for key, text in texts.items() if text not in ("", "nan")]
