"""Computes the geometry of a circuit plan: tiles, and circuits as lines in the streets between them.

Every row and column of tiles has a street on either side. Circuits keep to the right, as cars do: eastward
below a row, westward above it. A street has lanes, and in each lane wavelengths lie side by side, so that no
two lines of a round coincide. Lanes stand for waveguides, but a waveguide on two edges of a street may take
two lanes. The unit of length is the pitch of tiles; y points down.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from wavefabric.base.units import counted, time_words
from wavefabric.collectives.conditions import whole_elements
from wavefabric.collectives.schedule import Schedule
from wavefabric.collectives.structure import transfer_elements
from wavefabric.fabric.cost_models.cost import Cost
from wavefabric.fabric.draw.replay import replay
from wavefabric.fabric.draw.style import evenly
from wavefabric.fabric.photonic.circuit_plan import Bundle, CircuitPlan, CircuitRound
from wavefabric.fabric.photonic.fabric import PhotonicFabric

#: Half a tile, its distance from the first waveguide, the width of a street, the gap between wafers.
HALF, MARGIN, STREET, GAP = 0.27, 0.035, 0.175, 0.42
#: Largest width of a lane; length cut off at corners of lines; width of arrows between ranks.
_LANE, _CORNER = 0.075, 0.06
_ARROW = 0.02
#: Largest number of rounds in a scene, which bounds the size of a page.
MOST_FRAMES = 600
#: Largest number of lines for the wavelengths of one circuit.
_STRANDS = 4


@dataclass(frozen=True, eq=False)
class DrawnWavelengths:
    """A line in a picture that stands for neighbouring wavelengths of a circuit."""

    points: np.ndarray  # corners of the line, from source to destination: shape (n, 2)
    wavelength: float  # mean position in the spectrum, 0 to 1
    width: float


@dataclass(frozen=True, eq=False)
class DrawnCircuit:
    """A circuit drawn as lines side by side (strands, for its wavelengths), with a description."""

    src: int
    dst: int
    strands: tuple[DrawnWavelengths, ...]
    words: str

    @property
    def width(self) -> float:
        """Return the total width of the lines."""
        return sum(s.width for s in self.strands)

    @property
    def middle(self) -> np.ndarray:
        """Return the line half-way between the outermost lines."""
        return (self.strands[0].points + self.strands[-1].points) / 2


@dataclass(frozen=True, eq=False)
class Frame:
    """Describes what to draw for one round of a schedule, or for a part of a round."""

    title: str
    note: str
    circuits: tuple[DrawnCircuit, ...]
    before: np.ndarray  # fraction of its result that each rank has at the begin; NaN without a postcondition
    after: np.ndarray  # the same at the end
    begin: float  # s; NaN without a cost
    end: float


@dataclass(frozen=True)
class RoundsScene:
    """Describes how to draw the rounds of a schedule, with ranks as tiles."""

    title: str
    subtitle: str
    tiles: np.ndarray  # centres, shape (ranks, 2)
    wafers: np.ndarray  # left, top, right, bottom of each
    frames: tuple[Frame, ...]

    @property
    def box(self) -> tuple[float, float, float, float]:
        """Return left, top, right and bottom of the rectangle around all wafers."""
        return (*self.wafers[:, :2].min(axis=0).tolist(), *self.wafers[:, 2:].max(axis=0).tolist())


@dataclass(frozen=True)
class Scene(RoundsScene):
    """Describes how to draw the circuits of a photonic fabric."""

    fabric: PhotonicFabric


def scene(schedule: Schedule, plan: CircuitPlan, cost: Cost | None = None, most: int = MOST_FRAMES) -> Scene:
    """Compute the picture of a circuit plan: tiles, and circuits of up to ``most`` rounds, evenly selected.

    ``cost`` gives the times of the rounds; without it the picture shows none.
    """
    fabric, sent = plan.fabric, fractions(schedule)
    tiles, wafers = lay_out_tiles(fabric)
    known: dict[tuple, tuple[DrawnCircuit, ...]] = {}  # rounds often repeat their circuits

    def draw(step: int) -> tuple[DrawnCircuit, ...]:
        now = plan.rounds[step]
        carried = tuple(sent.get((now.round, b.src, b.dst)) for b in now.bundles)
        if (now.bundles, carried) not in known:
            known[now.bundles, carried] = _draw_round(fabric, tiles, now, carried)
        return known[now.bundles, carried]

    steps = [(now.round, now.part) for now in plan.rounds]
    frames = _frames(schedule, steps, draw, cost, most, fabric.ranks)
    rounds = counted(len(dict(steps)), "round")
    subtitle = f"{fabric.name}, {fabric.ports} wavelengths per tile, {rounds}"
    if cost is not None:
        subtitle += f", {time_words(cost.seconds)}"
    return Scene(schedule.name, subtitle, tiles, wafers, frames, fabric)


def ring_scene(schedule: Schedule, cost: Cost | None = None, most: int = MOST_FRAMES) -> RoundsScene:
    """Compute the layout of a schedule without a fabric: ranks on a circle, with arrows between them."""
    ranks = schedule.ranks
    # The distance of neighbours is at least 1.3 tiles.
    radius = max(1.2, 1.3 * HALF / np.sin(np.pi / max(ranks, 2)))
    angle = 2 * np.pi * np.arange(ranks) / ranks - np.pi / 2
    tiles = radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    sends: dict[int, list[DrawnCircuit]] = defaultdict(list)
    for (now, src, dst), part in fractions(schedule).items():
        if src != dst:
            # From rim to rim, left of the direct line, so that both directions are visible.
            along = (tiles[dst] - tiles[src]) / max(float(np.hypot(*(tiles[dst] - tiles[src]))), 1e-9)
            rims = np.array([tiles[src] + along * (HALF + 0.04), tiles[dst] - along * (HALF + 0.07)])
            strand = DrawnWavelengths(rims - 0.1 * right_of(along), src / ranks, _ARROW)
            words = f"{src} to {dst}, {100 * part:.3g} % of the array"
            sends[now].append(DrawnCircuit(src, dst, (strand,), words))
    order = sorted(sends)
    steps = [(number, 0) for number in order]
    most = min(most, MOST_FRAMES)
    frames = _frames(schedule, steps, lambda step: tuple(sends[order[step]]), cost, most, ranks)
    words = f"{counted(ranks, 'rank')}, {counted(len(order), 'round')}"
    words += f", {time_words(cost.seconds)} on {cost.fabric}" if cost is not None else ""
    edge = radius + HALF + 0.12
    return RoundsScene(schedule.name, words, tiles, np.array([[-edge, -edge, edge, edge]]), frames)


def _frames(
    schedule: Schedule,
    steps: Sequence[tuple[int, int]],
    draw: Callable[[int], tuple[DrawnCircuit, ...]],
    cost: Cost | None,
    most: int,
    tiles: int,
) -> tuple[Frame, ...]:
    """Return up to ``most`` frames, evenly selected from the rounds of a schedule and their parts.

    ``steps``: (round, part) of each possible frame; ``draw``: function from the index of a step to its
    circuits as lines; ``tiles``: number of tiles, at least the number of ranks.
    """
    progress, parts = replay(schedule), Counter(number for number, _ in steps)
    order = sorted(parts)
    # Levels of ranks at the begin of rounds (local rounds belong to the round before them), and at the end.
    held = np.stack([progress.levels[0], *map(progress.before, order[1:]), progress.levels[-1]])
    held = np.pad(held, ((0, 0), (0, tiles - schedule.ranks)), constant_values=np.nan)
    rounds = cost.rounds if cost is not None else ()
    begins = itertools.accumulate((r.seconds for r in rounds), initial=0.0)
    times = {each.round: (begin, each.seconds) for each, begin in zip(rounds, begins, strict=False)}
    frames = []
    for step in evenly(len(steps), most):
        number, part = steps[step]
        at, count = order.index(number), parts[number]
        title = f"round {at + 1} of {len(order)}"
        title += f", part {part + 1} of {count}" if count > 1 else ""
        begin, seconds = times.get(number, (0.0, 0.0)) if times else (np.nan, np.nan)
        done = part, part + 1
        levels = [held[at] + (held[at + 1] - held[at]) * k / count for k in done]
        ends = [begin + seconds * k / count for k in done]
        frames.append(Frame(title, progress.phase(number), draw(step), *levels, *ends))
    return tuple(frames)


def fractions(schedule: Schedule) -> dict[tuple[int, int, int], float]:
    """Return a dictionary from (round, source, destination) to the fraction of the array that is sent."""
    whole = whole_elements(schedule) or 1
    keys = schedule.transfers[["round", "src", "dst"]].tolist()
    sums: dict[tuple[int, int, int], float] = defaultdict(float)
    for key, elements in zip(keys, transfer_elements(schedule).tolist(), strict=True):
        sums[key] += elements / whole
    return sums


def lay_out_tiles(fabric: PhotonicFabric) -> tuple[np.ndarray, np.ndarray]:
    """Return centres of tiles, shape (tiles, 2); left, top, right, bottom of wafers, shape (wafers, 4)."""
    row, column = np.divmod(np.arange(fabric.ranks), fabric.columns)
    x = column + GAP * (column // fabric.wafer_columns)
    y = row + GAP * (row // fabric.wafer_rows)
    tiles = np.stack([x, y], axis=1).astype(float)
    edge = HALF + MARGIN + STREET + 0.06
    wafer = np.array([fabric.wafer(tile) for tile in range(fabric.ranks)])
    members = [tiles[(wafer == each).all(axis=1)] for each in np.unique(wafer, axis=0)]
    return tiles, np.array([[*(m.min(axis=0) - edge), *(m.max(axis=0) + edge)] for m in members])


def _draw_round(
    fabric: PhotonicFabric, tiles: np.ndarray, now: CircuitRound, carried: Sequence[float | None]
) -> tuple[DrawnCircuit, ...]:
    """Return the circuits of a round as lines; ``carried``: fraction of the array sent over each circuit."""
    lanes = _lanes(tiles, now.bundles)
    spacing = min(_LANE, STREET / (1 + max((lane for each in lanes for lane in each), default=0)))
    circuits = []
    for bundle, lane, fraction in zip(now.bundles, lanes, carried, strict=True):
        strands, mask = [], bundle.wavelengths
        every = np.flatnonzero([(mask >> w) & 1 for w in range(mask.bit_length())])
        for members in np.array_split(every, min(_STRANDS, every.size)):
            across = (float(np.mean(members)) + 0.5) / fabric.lasers
            offsets = [MARGIN + spacing * (each + 0.1 + 0.8 * across) for each in lane]
            points = _line(tiles, bundle.route, offsets)
            wavelength = float(np.mean(members)) / max(fabric.lasers - 1, 1)
            strands.append(DrawnWavelengths(points, wavelength, 0.8 * spacing * len(members) / fabric.lasers))
        circuits.append(DrawnCircuit(bundle.src, bundle.dst, tuple(strands), _words(bundle, fraction)))
    return tuple(circuits)


def _lanes(tiles: np.ndarray, bundles: Sequence[Bundle]) -> list[list[int]]:
    """Return for each circuit the number of its lane on each edge of its route; lane 0 is next to the tiles.

    Circuits share a lane if their wavelengths differ, as they share a waveguide. A straight part of a route
    stays in one lane, whichever waveguides it has: the first lane that is free along the whole run.
    """
    taken: dict[tuple, list[tuple[float, float, int]]] = defaultdict(list)  # by street and lane
    lane_of: list[list[int]] = [[0] * (len(b.route) - 1) for b in bundles]
    runs = [(n, *run) for n, bundle in enumerate(bundles) for run in _runs(tiles, bundle.route)]
    # Place short runs next to the tiles, as they leave their street first.
    runs.sort(key=lambda run: round(run[5] - run[4], 6))
    for number, first, last, street, low, high in runs:
        mask = bundles[number].wavelengths
        lane = 0
        while any(a < high and low < b and mask & other for a, b, other in taken[street, lane]):
            lane += 1
        taken[street, lane].append((low, high, mask))
        lane_of[number][first:last] = [lane] * (last - first)
    return lane_of


def _runs(tiles: np.ndarray, route: Sequence[int]) -> list[tuple[int, int, tuple, float, float]]:
    """Return the straight parts of a route: (first edge, last edge + 1, street, begin and end along it)."""
    at = tiles[list(route)]
    step = np.sign(np.diff(at, axis=0))
    turns = [0, *(np.flatnonzero((step[1:] != step[:-1]).any(axis=1)) + 1).tolist(), len(step)]
    near, far = HALF + MARGIN, HALF + MARGIN + STREET
    runs = []
    for first, last in itertools.pairwise(turns):
        ahead = step[first]
        axis = int(ahead[1] != 0)
        begin, end = float(at[first] @ ahead), float(at[last] @ ahead)
        # At a turn to the left a line passes the tile before it turns, and starts before the tile after it.
        if first:
            begin += near if right_of(step[first - 1]) @ ahead > 0 else -far
        if last < len(step):
            end += -near if right_of(ahead) @ step[last] > 0 else far
        low, high = sorted((begin * ahead[axis], end * ahead[axis]))
        runs.append((first, last, (axis, *ahead.tolist(), round(float(at[first][1 - axis]), 6)), low, high))
    return runs


def right_of(along: np.ndarray) -> np.ndarray:
    """Return vectors of shape (…, 2) turned to the right; y points down: east → south, south → west."""
    return np.stack([-along[..., 1], along[..., 0]], axis=-1)


def _line(tiles: np.ndarray, route: Sequence[int], offsets: Sequence[float]) -> np.ndarray:
    """Return the corners of a line along a route; ``offsets``: distance from the tiles on each edge."""
    at = tiles[list(route)]
    step = np.sign(np.diff(at, axis=0))  # unit vectors: right, left, down, up
    side = right_of(step)
    shift = side * (HALF + np.asarray(offsets)[:, None])
    # A line leaves a tile through the front half of its side, and enters the next through the back half.
    port = 0.05 + 0.9 * np.asarray(offsets)
    points = [at[0] + side[0] * HALF + step[0] * port[0], at[0] + shift[0] + step[0] * port[0]]
    for k in range(1, len(step)):
        if (step[k] != step[k - 1]).any():
            points.append(at[k] + shift[k - 1] + shift[k])
    points += [at[-1] + shift[-1] - step[-1] * port[-1], at[-1] + side[-1] * HALF - step[-1] * port[-1]]
    return np.array(points)


def rounded(points: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """Return a line with rounded corners as SVG commands with points: M and L with one, Q with two."""
    path: list[tuple[str, np.ndarray]] = [("M", points[:1])]
    for before, here, after in zip(points[:-2], points[1:-1], points[2:], strict=True):
        a, b = before - here, after - here
        near, far = float(np.hypot(*a)), float(np.hypot(*b))
        cut = min(_CORNER, near / 2, far / 2)
        if cut < 1e-6:
            continue
        path.append(("L", (here + a / near * cut)[None]))
        path.append(("Q", np.stack([here, here + b / far * cut])))
    path.append(("L", points[-1:]))
    return path


def flat(points: np.ndarray) -> np.ndarray:
    """Return a line with rounded corners as many short straight lines: shape (n, 2)."""
    parts: list[np.ndarray] = []
    for verb, data in rounded(points):
        if verb == "Q":
            t = np.linspace(0, 1, 6)[1:, None]
            parts.append((1 - t) ** 2 * parts[-1][-1] + 2 * t * (1 - t) * data[0] + t**2 * data[1])
        else:
            parts.append(data)
    return np.concatenate(parts)


def _words(bundle: Bundle, fraction: float | None) -> str:
    """Return the description of a circuit, for a tooltip."""
    what = f", {100 * fraction:.3g} % of the array" if fraction is not None else ""
    waves, distance = counted(bundle.lasers, "wavelength"), counted(len(bundle.route) - 1, "tile")
    return f"{bundle.src} to {bundle.dst}: {waves}, {distance} away{what}"
