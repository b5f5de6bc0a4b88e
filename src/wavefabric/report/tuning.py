"""The page of a tuning: which algorithm is fastest for which size."""

from __future__ import annotations

from collections import Counter
from itertools import groupby

from wavefabric.collectives.tuning import TunedCollective, Tuning
from wavefabric.report.content import Content, Tile, pairs
from wavefabric.report.figures import Axis, pairs_table, plot, table
from wavefabric.units import binary_bytes, counted, time_words

#: Lines of a figure.
_MOST_LINES = 8


def tuning_content(tuning: Tuning, name: str) -> Content:
    """What a tuning says."""
    first = tuning.tables[0]
    measured = [table.transport for table in tuning.tables if table.transport]
    where = tuning.device if measured else f"{tuning.fabric}, predicted"
    words = f"{_winners(first)} ({first.collective}, {tuning.ranks} ranks on {where})"
    content = Content("tuning", name, words)
    largest = first.sizes[-1]
    rate = largest.bytes / max(largest.best.us, 1e-9) / 1e3
    gains = [max(c.us for c in s.candidates if c.us < float("inf")) / s.best.us for s in first.sizes if 0 < s.best.us < 1e15]
    content.tiles = [
        Tile("Fastest at " + binary_bytes(largest.bytes), time_words(largest.best.us * 1e-6), f"{rate:.3g} GB/s of the array, {largest.best.choice}"),
        Tile("Gain", f"up to {max(gains, default=1):.3g} ×", "fastest over slowest candidate of a size"),
    ]
    wins = Counter(str(size.best.choice) for size in first.sizes for _ in (0,))
    content.parts = {choice: best for choice in wins for best in [sum(s.best.us * 1e-6 for s in first.sizes if str(s.best.choice) == choice)]}
    content.parts_title = f"Time of the fastest, all sizes of {first.collective}"
    figures = [_figure(each) for each in tuning.tables]
    content.thumbnail = figures[0]
    content.add("Figures", *figures)
    content.add("Numbers", *map(_table, tuning.tables))
    content.add("Provenance", pairs_table(pairs({k: v for k, v in vars(tuning).items() if v}, ("tables",))))
    return content


def _winners(each: TunedCollective) -> str:
    """Runs of sizes with the same choice, in words."""
    runs = [(choice, list(sizes)) for choice, sizes in groupby(each.sizes, key=lambda size: str(size.best.choice))]
    if len(runs) == 1:
        return f"{runs[0][0]} is fastest for all {counted(len(each.sizes), 'size')}"
    words = [f"{choice} to {binary_bytes(sizes[-1].bytes)}" for choice, sizes in runs[:3]]
    more = f", {len(runs) - 3} more changes" if len(runs) > 3 else ""
    return f"Fastest: {'; '.join(words)}{more}"


def _title(each: TunedCollective) -> str:
    return f"{each.collective}, {each.transport or 'predicted'}"


def _figure(each: TunedCollective):
    """Time over size: first what is fastest somewhere."""
    choices = dict.fromkeys(str(size.best.choice) for size in each.sizes)
    choices |= dict.fromkeys(str(one.choice) for size in each.sizes for one in size.candidates)
    key = "measured_us" if each.transport else "predicted_us"
    lines = {}
    for choice in list(choices)[:_MOST_LINES]:
        known = [(s.bytes, getattr(c, key)) for s in each.sizes for c in s.candidates if str(c.choice) == choice]
        points = [(n, us * 1e-6) for n, us in known if us]
        lines[choice] = tuple(zip(*points, strict=True)) if points else ((), ())
    note = f"{_MOST_LINES} of {len(choices)} candidates" if len(choices) > _MOST_LINES else ""
    x, y = Axis("bytes of the whole array", True, binary_bytes), Axis("time", True, time_words)
    return plot(_title(each), lines, x, y, note)


def _table(each: TunedCollective):
    heads = ("size", "fastest", "predicted", "measured", "second", "slower by")
    rows = []
    for size in each.sizes:
        second = size.candidates[1] if len(size.candidates) > 1 else None
        times = ("-" if us is None else time_words(us * 1e-6) for us in (size.best.predicted_us, size.best.measured_us))
        slower = f"{second.us / size.best.us - 1:.1%}" if second and 0 < size.best.us and second.us < 1e15 else "-"
        rows.append((binary_bytes(size.bytes), str(size.best.choice), *times, str(second.choice) if second else "-", slower))
    return table(heads, rows, _title(each))
