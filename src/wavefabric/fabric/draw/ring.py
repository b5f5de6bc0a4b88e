"""A schedule without a fabric: its ranks on a circle, and an arrow for all that goes from one to another."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from wavefabric.collectives.schedule import Schedule
from wavefabric.fabric.cost_models.cost import Cost
from wavefabric.fabric.draw.replay import replay
from wavefabric.fabric.draw.scene import (
    HALF,
    MOST_FRAMES,
    DrawnCircuit,
    DrawnWavelengths,
    Frame,
    RoundsScene,
    fractions,
    round_times,
)
from wavefabric.fabric.draw.style import evenly
from wavefabric.units import counted, time_words

_WIDTH = 0.02


def ring_scene(schedule: Schedule, cost: Cost | None = None, most: int = MOST_FRAMES) -> RoundsScene:
    """Lay a verified schedule out: `most` of its rounds, evenly chosen; times from a cost."""
    ranks, progress = schedule.ranks, replay(schedule)
    # Neighbours are 1.3 tiles apart or more.
    radius = max(1.2, 1.3 * 2 * HALF / (2 * np.sin(np.pi / max(ranks, 2))))
    angle = 2 * np.pi * np.arange(ranks) / ranks - np.pi / 2
    tiles = radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    sends: dict[int, dict[tuple[int, int], DrawnCircuit]] = defaultdict(dict)
    for (now, src, dst), part in fractions(schedule).items():
        if src != dst:
            words = f"{src} to {dst}, {100 * part:.3g} % of the array"
            strand = DrawnWavelengths(_line(tiles[src], tiles[dst]), src / ranks, _WIDTH)
            sends[now][src, dst] = DrawnCircuit(src, dst, (strand,), words)
    order, times, frames = sorted(sends), round_times(cost), []
    for k in evenly(len(order), min(most, MOST_FRAMES)):
        now = order[k]
        after = progress.before(order[k + 1]) if k + 1 < len(order) else progress.levels[-1]
        begin, seconds = times.get(now, (0.0, 0.0)) if times else (np.nan, np.nan)
        title, circuits = f"round {k + 1} of {len(order)}", tuple(sends[now].values())
        levels = progress.before(now), after
        frames.append(Frame(title, progress.phase(now), circuits, *levels, begin, begin + seconds))
    words = f"{counted(ranks, 'rank')}, {counted(len(order), 'round')}"
    if cost is not None:
        words += f", {time_words(cost.seconds)} on {cost.fabric}"
    edge = radius + HALF + 0.12
    return RoundsScene(schedule.name, words, tiles, np.array([[-edge, -edge, edge, edge]]), tuple(frames))


def _line(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """From rim to rim, bent to the left of its direction, so that both directions are seen."""
    along = (b - a) / max(float(np.hypot(*(b - a))), 1e-9)
    across = np.array([along[1], -along[0]]) * 0.1
    return np.array([a + along * (HALF + 0.04) + across, b - along * (HALF + 0.07) + across])
