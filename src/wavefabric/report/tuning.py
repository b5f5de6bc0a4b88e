"""Build the page of a tuning: which algorithm of a collective operation is the fastest for which size."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import Any

from wavefabric.base.units import binary_bytes, counted, time_words
from wavefabric.collectives.tuning import TunedCollective, Tuning
from wavefabric.report.content import Content, Tile, pairs
from wavefabric.report.figures import COLOURS, PlotAxis, plot, table


def tuning_content(tuning: Tuning, name: str) -> Content:
    """Return the content of a tuning's page; the top of the page shows the first collective operation."""
    first = tuning.tables[0]
    where = tuning.device if first.transport else f"{tuning.fabric}, predicted"
    runs = groupby(first.sizes, key=lambda size: str(size.best.choice))
    changes = [f"{choice} to {binary_bytes(list(sizes)[-1].bytes)}" for choice, sizes in runs]
    more = f"; {counted(len(changes) - 3, 'more change')}" if len(changes) > 3 else ""
    title = f"{first.collective}, {tuning.ranks} ranks on {where}"
    content = Content("tuning", name, f"Fastest: {'; '.join(changes[:3])}{more} ({title})")
    last = first.sizes[-1]
    times = [[c.us for c in size.candidates if 0 < c.us < 1e15] or [1.0] for size in first.sizes]
    rate = f"{last.bytes / max(last.best.us, 1e-9) / 1e3:.3g} GB/s of the array, {last.best.choice}"
    gain = max(max(each) / min(each) for each in times)
    content.tiles = [
        Tile(f"Fastest at {binary_bytes(last.bytes)}", time_words(last.best.us * 1e-6), rate),
        Tile("Gain", f"up to {gain:.3g} ×", "fastest over slowest candidate of a size"),
    ]
    content.parts = Counter(str(size.best.choice) for size in first.sizes)
    content.parts_title = f"What is fastest for how many sizes of {first.collective}"
    content.parts_words = lambda count: counted(int(count), "size")
    content.thumbnail = _figure(first)
    content.add("Figures", content.thumbnail, *map(_figure, tuning.tables[1:]))
    content.add("Numbers", *map(_table, tuning.tables))
    missing = table(("algorithm", "why"), list(tuning.left_out.items()), "Algorithms not compared")
    content.add("Left out", missing)
    about = {key: value for key, value in vars(tuning).items() if value is not None}
    content.add("Provenance", table([], pairs(about, ("tables", "left_out")), "Where it comes from"))
    return content


def _figure(each: TunedCollective) -> Any:
    """Plot the time of each candidate over size; candidates that are fastest at some size come first."""
    times: dict[str, list[tuple[int, float]]] = {str(size.best.choice): [] for size in each.sizes}
    for size in each.sizes:
        for one in size.candidates:
            if (us := one.measured_us if each.transport else one.predicted_us) is not None:
                times.setdefault(str(one.choice), []).append((size.bytes, us * 1e-6))
    lines: list[Any] = [(choice, [*zip(*points, strict=True)]) for choice, points in times.items() if points]
    note = f"{COLOURS} of {len(lines)} candidates" if len(lines) > COLOURS else ""
    axes = PlotAxis("bytes of the whole array", 2, binary_bytes), PlotAxis("time", 10, time_words)
    return plot(_title(each), dict(lines[:COLOURS]), *axes, note)


def _table(each: TunedCollective) -> Any:
    rows = []
    for size in each.sizes:
        best, *others = size.candidates
        known = (best.predicted_us, best.measured_us)
        cells = [binary_bytes(size.bytes), best.choice]
        cells += ["-" if us is None else time_words(us * 1e-6) for us in known]
        slower = f"{others[0].us / best.us:.3g} ×" if others and best.us > 0 and others[0].us < 1e15 else "-"
        rows.append((*cells, others[0].choice if others else "-", slower))
    return table(("size", "fastest", "predicted", "measured", "second", "its time"), rows, _title(each))


def _title(each: TunedCollective) -> str:
    return f"{each.collective}, {each.transport or 'predicted'}"
