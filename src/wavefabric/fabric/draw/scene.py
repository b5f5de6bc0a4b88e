"""Geometry of a circuit plan: tiles, and circuits as lines in the streets between them.

Every row and column of tiles has a street on either side. Circuits keep to the right, as cars do: eastward
below a row, westward above it. A street has lanes and a lane its wavelengths, side by side, so that no two
lights of a round coincide. Lanes stand for waveguides, but one that serves two edges of a street may take
two lanes. The unit of length is the pitch of tiles; y points down.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wavefabric.collectives.conditions import whole_elements
from wavefabric.collectives.schedule import Schedule
from wavefabric.collectives.structure import transfer_elements
from wavefabric.fabric.cost.result import Cost
from wavefabric.fabric.draw.state import Story, story
from wavefabric.fabric.photonic.plan import Bundle, CircuitPlan, CircuitRound
from wavefabric.fabric.photonic.wafer import PhotonicFabric

#: Half a tile, its distance from the first waveguide, the width of a street, the gap between wafers.
HALF, MARGIN, STREET, GAP = 0.27, 0.035, 0.175, 0.42
#: Widest waveguide; corners of lines.
_LANE, _CORNER = 0.075, 0.06
#: Strands that a bundle is drawn as, at most.
_STRANDS = 4


@dataclass(frozen=True, eq=False)
class Strand:
    """One line: neighbouring wavelengths of a bundle.

    Parameters
    ----------
    points : ndarray, shape (n, 2)
        Corners of the line, from source to destination.
    hue : float
        Mean wavelength as a share of all, 0 to 1.
    width : float
    """

    points: np.ndarray
    hue: float
    width: float


@dataclass(frozen=True, eq=False)
class Circuit:
    """A bundle as lines, with what to say about it."""

    src: int
    dst: int
    strands: tuple[Strand, ...]
    words: str


@dataclass(frozen=True, eq=False)
class Frame:
    """One round, or a part of one, from its beginning to its end.

    Parameters
    ----------
    title, note : str
    circuits : tuple of Circuit
    before, after : ndarray, shape (ranks,)
        Share of the result that each rank holds; NaN where it is promised nothing.
    begin, end : float
        s; NaN without a cost.
    """

    title: str
    note: str
    circuits: tuple[Circuit, ...]
    before: np.ndarray
    after: np.ndarray
    begin: float
    end: float


@dataclass(frozen=True)
class Scene:
    """All there is to draw.

    Parameters
    ----------
    title, subtitle : str
    fabric : PhotonicFabric
    tiles : ndarray, shape (ranks, 2)
        Centres.
    wafers : tuple of (left, top, right, bottom)
    frames : tuple of Frame
    """

    title: str
    subtitle: str
    fabric: PhotonicFabric
    tiles: np.ndarray
    wafers: tuple[tuple[float, float, float, float], ...]
    frames: tuple[Frame, ...]

    @property
    def box(self) -> tuple[float, float, float, float]:
        """Left, top, right and bottom of all wafers."""
        w = np.array(self.wafers)
        return float(w[:, 0].min()), float(w[:, 1].min()), float(w[:, 2].max()), float(w[:, 3].max())


def scene(schedule: Schedule, plan: CircuitPlan, cost: Cost | None = None, most: int | None = None) -> Scene:
    """Lay a circuit plan out.

    Parameters
    ----------
    schedule : Schedule
        Verified; the plan's.
    plan : CircuitPlan
    cost : Cost, optional
        For times, of the same plan.
    most : int, optional
        Frames at most, evenly chosen among the rounds.
    """
    fabric, told = plan.fabric, story(schedule)
    empty = np.full(fabric.ranks - schedule.ranks, np.nan)  # tiles left over
    tiles, wafers = place_tiles(fabric)
    times = _times(plan, cost)
    chosen = range(len(plan.rounds)) if most is None else evenly(len(plan.rounds), most)
    parts = Counter(r.round for r in plan.rounds)
    order = sorted(parts)
    place = {number: at for at, number in enumerate(order)}
    sent = _bytes_words(schedule)
    known: dict[tuple, list[Circuit]] = {}  # rounds often repeat their circuits
    frames = []
    for number in chosen:
        now = plan.rounds[number]
        at = place[now.round]
        before, after = _levels(told, order, at, now, parts[now.round])
        title = f"round {at + 1} of {len(order)}"
        if parts[now.round] > 1:
            title += f", part {now.part + 1} of {parts[now.round]}"
        carried = tuple(sent.get((now.round, b.src, b.dst)) for b in now.bundles)
        circuits = known.get((now.bundles, carried))
        if circuits is None:
            circuits = known[now.bundles, carried] = draw_round(fabric, tiles, now, carried)
        before, after = np.append(before, empty), np.append(after, empty)
        frames.append(Frame(title, told.phase(now.round), tuple(circuits), before, after, *times[number]))
    count = f"{len(order)} round{'s' if len(order) != 1 else ''}"
    subtitle = f"{fabric.name}, {fabric.ports} wavelengths a tile, {count}"
    if cost is not None:
        subtitle += f", {time_words(cost.seconds)}"
    return Scene(schedule.name, subtitle, fabric, tiles, tuple(wafers), tuple(frames))


def evenly(count: int, most: int) -> list[int]:
    """At most so many of 0 … count − 1, first and last among them."""
    if count <= most:
        return list(range(count))
    return sorted({int(i) for i in np.linspace(0, count - 1, most).round()})


def time_words(seconds: float) -> str:
    """A time with a unit that suits."""
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size * 0.9995:  # that is rounded to 1
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def place_tiles(fabric: PhotonicFabric) -> tuple[np.ndarray, list[tuple[float, float, float, float]]]:
    """Centres of tiles, and the edges of wafers."""
    row, column = np.divmod(np.arange(fabric.ranks), fabric.columns)
    x = column + GAP * (column // fabric.wafer_columns)
    y = row + GAP * (row // fabric.wafer_rows)
    tiles = np.stack([x, y], axis=1).astype(float)
    corners: dict[tuple[int, int], list[int]] = {}
    for tile in range(fabric.ranks):
        corners.setdefault(fabric.wafer(tile), []).append(tile)
    edge = HALF + MARGIN + STREET + 0.06
    wafers = []
    for members in corners.values():
        low, high = tiles[members].min(axis=0) - edge, tiles[members].max(axis=0) + edge
        wafers.append((float(low[0]), float(low[1]), float(high[0]), float(high[1])))
    return tiles, wafers


def draw_round(
    fabric: PhotonicFabric, tiles: np.ndarray, now: CircuitRound, carried: Sequence[float | None]
) -> list[Circuit]:
    """The circuits of one round as lines; `carried` is the share of the array that each bundle carries."""
    lanes = _lanes(tiles, now.bundles)
    spacing = min(_LANE, STREET / (1 + max((lane for each in lanes for lane in each), default=0)))
    found = []
    for bundle, lane, share in zip(now.bundles, lanes, carried, strict=True):
        strands = []
        for members in _groups(bundle.wavelengths):
            across = (float(np.mean(members)) + 0.5) / fabric.lasers
            offsets = [MARGIN + spacing * (each + 0.1 + 0.8 * across) for each in lane]
            points = _line(tiles, bundle.route, offsets)
            hue = float(np.mean(members)) / max(fabric.lasers - 1, 1)
            strands.append(Strand(points, hue, 0.8 * spacing * len(members) / fabric.lasers))
        found.append(Circuit(bundle.src, bundle.dst, tuple(strands), _words(bundle, share)))
    return found


def _lanes(tiles: np.ndarray, bundles: Sequence[Bundle]) -> list[list[int]]:
    """The lane of each bundle on each edge of its route, from 0 next to the tiles.

    Bundles share a lane if their wavelengths differ, as they do a waveguide. A straight run keeps its lane,
    whichever waveguides it has; the first that is free along all of it.
    """
    taken: dict[tuple, list[list[tuple[float, float, int]]]] = {}
    found: list[list[int]] = [[0] * (len(b.route) - 1) for b in bundles]
    runs = []
    for number, bundle in enumerate(bundles):
        for first, last, street, low, high in _runs(tiles, bundle.route):
            runs.append((high - low, number, first, last, street, low, high))
    # Short runs next to the tiles: they leave their street first.
    for _, number, first, last, street, low, high in sorted(runs, key=lambda r: (round(r[0], 6), r[1], r[2])):
        mask = bundles[number].wavelengths
        lanes = taken.setdefault(street, [])
        free = (
            k
            for k, there in enumerate(lanes)
            if not any(a < high and low < b and mask & other for a, b, other in there)
        )
        lane = next(free, len(lanes))
        if lane == len(lanes):
            lanes.append([])
        lanes[lane].append((low, high, mask))
        found[number][first:last] = [lane] * (last - first)
    return found


def _runs(tiles: np.ndarray, route: Sequence[int]) -> list[tuple[int, int, tuple, float, float]]:
    """Straight runs of a route: first and last + 1 edge, the street, and from where to where it is used."""
    at = tiles[list(route)]
    step = np.sign(np.diff(at, axis=0))
    turns = [0, *(np.flatnonzero((step[1:] != step[:-1]).any(axis=1)) + 1).tolist(), len(step)]
    near, far = HALF + MARGIN, HALF + MARGIN + STREET
    found = []
    for first, last in itertools.pairwise(turns):
        way = step[first]
        axis = int(way[1] != 0)
        begin, end = float(at[first] @ way), float(at[last] @ way)  # along the way
        # Before a turn to the left a line passes the tile, and after one it comes from before it.
        if first:
            begin += near if _right(step[first - 1], way) else -far
        if last < len(step):
            end += -near if _right(way, step[last]) else far
        low, high = sorted((begin * way[axis], end * way[axis]))
        found.append((first, last, (axis, *way.tolist(), round(float(at[first][1 - axis]), 6)), low, high))
    return found


def _right(before: np.ndarray, after: np.ndarray) -> bool:
    """Whether a turn is to the right; y points down."""
    return bool(before[0] * after[1] - before[1] * after[0] > 0)


def _groups(mask: int) -> list[np.ndarray]:
    """Wavelengths of a bit mask in at most `_STRANDS` neighbouring groups."""
    members = np.flatnonzero([(mask >> w) & 1 for w in range(mask.bit_length())])
    return [g for g in np.array_split(members, min(_STRANDS, members.size)) if g.size]


def _line(tiles: np.ndarray, route: Sequence[int], offsets: Sequence[float]) -> np.ndarray:
    """Corners of a line along a route, so far (per edge) from the tiles it passes."""
    at = tiles[list(route)]
    step = np.sign(np.diff(at, axis=0))  # unit vectors: right, left, down, up
    # To the right of the direction of travel, with y down: east → south, south → west.
    side = np.stack([-step[:, 1], step[:, 0]], axis=1)
    shift = side * (HALF + np.asarray(offsets)[:, None])
    # A line leaves a tile through the front half of its side, and enters the next through the back half.
    port = 0.05 + 0.9 * np.asarray(offsets)
    points = [at[0] + side[0] * HALF + step[0] * port[0], at[0] + shift[0] + step[0] * port[0]]
    for k in range(1, len(step)):
        if (step[k] != step[k - 1]).any():
            points.append(at[k] + shift[k - 1] + shift[k])
    points += [at[-1] + shift[-1] - step[-1] * port[-1], at[-1] + side[-1] * HALF - step[-1] * port[-1]]
    return np.array(points)


def rounded(points: np.ndarray, corner: float = _CORNER) -> list[tuple[str, np.ndarray]]:
    """A line with its corners cut: ``("M", point)``, ``("L", point)``, ``("Q", control and point)``."""
    found: list[tuple[str, np.ndarray]] = [("M", points[:1])]
    for before, here, after in zip(points[:-2], points[1:-1], points[2:], strict=True):
        a, b = before - here, after - here
        near, far = float(np.hypot(*a)), float(np.hypot(*b))
        cut = min(corner, near / 2, far / 2)
        if cut < 1e-6:
            continue
        found.append(("L", (here + a / near * cut)[None]))
        found.append(("Q", np.stack([here, here + b / far * cut])))
    found.append(("L", points[-1:]))
    return found


def flat(points: np.ndarray, steps: int = 5) -> np.ndarray:
    """A line with rounded corners as many short straight ones: shape (n, 2)."""
    found: list[np.ndarray] = []
    for verb, data in rounded(points):
        if verb == "Q":
            t = np.linspace(0, 1, steps + 1)[1:, None]
            found.append((1 - t) ** 2 * found[-1][-1] + 2 * t * (1 - t) * data[0] + t**2 * data[1])
        else:
            found.append(data)
    return np.concatenate(found)


def _levels(
    told: Story, order: list[int], at: int, now: CircuitRound, parts: int
) -> tuple[np.ndarray, np.ndarray]:
    """Levels before and after a part of a round; local rounds that follow belong to it."""
    before = told.before(now.round) if at else told.levels[0]
    after = told.before(order[at + 1]) if at + 1 < len(order) else told.levels[-1]
    return before + (after - before) * now.part / parts, before + (after - before) * (now.part + 1) / parts


def _times(plan: CircuitPlan, cost: Cost | None) -> list[tuple[float, float]]:
    """When each part of a round begins and ends, s."""
    if cost is None or not cost.rounds:
        return [(float("nan"), float("nan"))] * len(plan.rounds)
    begun, now = {}, 0.0
    for each in cost.rounds:
        begun[each.round] = (now, each.seconds)
        now += each.seconds
    found, count = [], Counter(r.round for r in plan.rounds)
    for each in plan.rounds:
        parts = count[each.round]
        begin, seconds = begun.get(each.round, (0.0, 0.0))
        found.append((begin + seconds * each.part / parts, begin + seconds * (each.part + 1) / parts))
    return found


def _bytes_words(schedule: Schedule) -> dict[tuple[int, int, int], float]:
    """Share of the whole array that goes from rank to rank in a round."""
    whole = whole_elements(schedule) or 1
    away = schedule.transfers["src"] != schedule.transfers["dst"]
    keys = schedule.transfers[["round", "src", "dst"]][away].tolist()
    found: dict[tuple[int, int, int], float] = {}
    for key, elements in zip(keys, transfer_elements(schedule)[away].tolist(), strict=True):
        found[key] = found.get(key, 0.0) + elements / whole
    return found


def _words(bundle: Bundle, share: float | None) -> str:
    """A circuit in words, for a pointer that rests on it."""
    count = bundle.lasers
    what = f", {100 * share:.3g} % of the array" if share is not None else ""
    plural = "s" if count != 1 else ""
    way = f"{len(bundle.route) - 1} tile{'s' if len(bundle.route) != 2 else ''} away"
    return f"{bundle.src} to {bundle.dst}: {count} wavelength{plural}, {way}{what}"
