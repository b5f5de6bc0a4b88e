"""Checks from a plan alone that its circuits can be up together and carry their schedule."""

from collections import Counter, defaultdict
from functools import lru_cache
from itertools import groupby, pairwise

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.collectives.schedule import Schedule
from wavefabric.collectives.structure import transfer_elements
from wavefabric.fabric.photonic.circuit_plan import Bundle, CircuitPlan, CircuitRound
from wavefabric.fabric.photonic.fabric import PhotonicFabric
from wavefabric.fabric.photonic.reconfiguration.plan import ReconfigurationPlan
from wavefabric.fabric.photonic.routing.cuts import overlap_bound
from wavefabric.fabric.photonic.routing.minimum_overlap import minimum_overlap
from wavefabric.fabric.photonic.wavelengths import SHARING, fewest_wavelengths, least_parts

#: Time limit in s for a solver to prove a bound that exceeds the bound from cuts.
_PROOF = 20.0


class PlanError(InputError):
    """Raised if circuits cannot be up together or do not carry their schedule; names the first fault."""


def _fault(where: str | CircuitRound, actual: str, allowed: str) -> PlanError:
    return PlanError(f"{where}: {actual}; allowed: {allowed}")


def check_plan(plan: CircuitPlan, schedule: Schedule) -> None:
    """Raise `PlanError` unless the circuits of a plan can be up together and carry the (verified) schedule.

    The one-line message names round, part, tile, wavelength, edge or waveguide. In each part of a round:

    - a route begins and ends at the tiles of its circuit, goes from neighbour to neighbour and passes no tile
      twice;
    - waveguide numbers exist on their edge;
    - each laser and each photodiode serves at most one circuit, and a tile uses at most as many as it has
      ports;
    - in one direction of an edge no wavelength occurs twice in one waveguide;
    - `overlap` is correct, and `overlap_bound` is at most the bound from cuts, or else a solver proves it
      again.

    In each round parts are numbered from 0; every pair with data to send has circuits, all in one part; no
    circuit is idle; and `parts_bound` is at most the bound from ports and cuts.

    Routes pass no tile twice, so light never leaves a tile's 1 × 3 switch on the side it came from. A
    Mach–Zehnder switch sends all wavelengths of a waveguide the same way; `needs_wavelength_switches` tells
    whether a plan needs other switches. Not modelled: which waveguides a switch can join, crossings inside a
    tile, and the order of events while switches turn.
    """
    fabric = plan.fabric
    if plan.schedule != schedule.name:
        raise _fault("schedule", f"circuits for {plan.schedule!r} given", f"for {schedule.name!r}")
    if schedule.ranks > fabric.ranks:
        raise _fault("ranks", f"{schedule.ranks} given", f"1 to {fabric.ranks}, the tiles of {fabric.name}")
    # Rounds with the same pairs share their bundles: check these once.
    busiest: dict[int, int] = {}
    last = (-1, -1)
    for part in plan.rounds:
        now = (part.round, part.part)
        if now != (last[0], last[1] + 1) and not (part.part == 0 and part.round > last[0]):
            raise _fault(part, "out of order", "rounds ascending, parts from 0 on")
        last = now
        if not part.bundles:
            raise _fault(part, "no circuits", "at least one")
        if id(part.bundles) not in busiest:
            _check_part(fabric, part)
            # Bundles of a pair that take the same route count once.
            routes = {(b.src, b.dst, b.route) for b in part.bundles}
            passed = Counter(edge for _, _, route in routes for edge in pairwise(route))
            busiest[id(part.bundles)] = max(passed.values())
        most = busiest[id(part.bundles)]
        if part.overlap != most:
            raise _fault(part, f"overlap {part.overlap}", f"{most}, as on the busiest edge")
        if not 1 <= part.overlap_bound <= most:
            raise _fault(part, f"overlap bound {part.overlap_bound}", f"1 to {most}, the overlap")
    _check_carried(plan, schedule)
    _check_bounds(plan)


def check_reconfiguration(plan: ReconfigurationPlan, schedule: Schedule, element_bytes: float) -> None:
    """Raise `PlanError` unless circuits that stay up between rounds fit together and carry the schedule.

    Whenever a set-up begins, all circuits that are up, or being set up, must pass the checks that
    `check_plan` makes for a part. Each round must begin after the one before. Every pair must have one route,
    on each hop of which the circuits can carry the round's data in time.
    """
    fabric, t, now = plan.fabric, schedule.transfers, 0.0
    set_up = fabric.reconfiguration + fabric.synchronisation
    for at in sorted({start for _, start, _ in plan.circuits}):
        up = tuple(bundle for bundle, start, end in plan.circuits if start <= at < end)
        _check_part(fabric, CircuitRound(sum(step.end <= at for _, _, step, *_ in plan.rounds), 0, up, 0, 0))
    amounts = defaultdict(float)  # bytes by round and pair
    for *pair, size in zip(t["round"], t["src"], t["dst"], transfer_elements(schedule), strict=True):
        amounts[tuple(pair)] += size * element_bytes * (pair[1] != pair[2])
    for number, part, step, _, paths in plan.rounds:
        load, fits, where = Counter(), defaultdict(float), f"round {number}, part {part}"
        for path in paths:
            load.update(dict.fromkeys(pairwise(path), amounts.pop((number, path[0], path[-1]), np.nan)))
        hops = fabric.alpha * (max(map(len, paths)) - 1)
        for b, start, end in plan.circuits:
            usable = min(step.end, end) - hops - max(start + set_up, step.begin)
            fits[b.src, b.dst] += b.lasers * fabric.laser_bandwidth * max(0.0, usable) * (1 + 1e-6)
        for hop, amount in load.items():
            if not amount <= fits[hop] or step.begin < now * (1 - 1e-9):
                raise _fault(where, f"{amount:.6g} B over {hop}", f"{fits[hop]:.6g} in time, each pair once")
        now = step.end
    for number, *pair in (key for key, size in amounts.items() if size):
        raise _fault(f"round {number}", f"no route for {tuple(pair)}", "routes for all transfers")


def needs_wavelength_switches(plan: CircuitPlan) -> bool:
    """Return whether a plan must separate wavelengths that share a waveguide.

    A Mach–Zehnder switch turns all wavelengths of a waveguide. Circuits that share a waveguide on an edge
    must therefore end there together, or continue over the same edge in the same waveguide.
    `planning.plan_circuits` gives each bundle separate waveguides if there are enough; if not, separation
    needs wavelength-selective switches (rings).
    """
    for part in plan.rounds:
        onward: dict[tuple[int, int, int], object] = {}
        for b in part.bundles:
            steps = list(zip(b.route[:-1], b.route[1:], b.waveguides, strict=True))
            for step, after in zip(steps, [*steps[1:], None], strict=True):
                if onward.setdefault(step, after) != after:
                    return True
    return False


def _check_part(fabric: PhotonicFabric, part: CircuitRound) -> None:
    capacity = _capacities(fabric)
    rows = [_edges_and_guides(fabric, capacity, b, part) for b in part.bundles]
    masks = {b.wavelengths for b in part.bundles}
    bits = {mask: [mask >> w & 1 for w in range(fabric.lasers)] for mask in masks}
    lit = np.array([bits[b.wavelengths] for b in part.bundles], bool)
    for end, what in (("src", "laser"), ("dst", "photodiode")):
        used = _counts(np.array([getattr(b, end) for b in part.bundles]), lit)
        for tile, w in np.argwhere(used > 1):
            actual = f"tile {tile}: {what} of wavelength {w} used {used[tile, w]} times"
            raise _fault(part, actual, "once")
        for tile in np.flatnonzero(used.sum(axis=1) > fabric.ports):
            actual = f"tile {tile}: {used[tile].sum()} {what}s used"
            raise _fault(part, actual, f"{fabric.ports}, its ports")
    owner = np.repeat(np.arange(len(rows)), [len(r) for r in rows])
    guides, guide = np.unique(np.concatenate(rows), axis=0, return_inverse=True)
    for number, w in np.argwhere(_counts(guide.ravel(), lit[owner]) > 1):
        a, c, name = guides[number]
        raise _fault(part, f"edge {a} -> {c}, waveguide {name}: wavelength {w} twice", "once")


@lru_cache(maxsize=8)
def _capacities(fabric: PhotonicFabric) -> dict[tuple[int, int], int]:
    """Return the number of waveguides (or fibres) on each edge, in each direction."""
    return {edge: fabric.capacity(*edge) for edge in fabric.edges()}


def _counts(number: np.ndarray, lit: np.ndarray) -> np.ndarray:
    """Return how often each wavelength is used by all rows of the same number: shape (numbers, wavelengths).

    ``lit``: wavelengths that rows use, shape (rows, wavelengths); ``number``: of each row, as of its tile.
    """
    cell = number[:, None] * lit.shape[1] + np.arange(lit.shape[1])
    return np.bincount(cell[lit], minlength=(number.max() + 1) * lit.shape[1]).reshape(-1, lit.shape[1])


def _edges_and_guides(
    fabric: PhotonicFabric, capacity: dict[tuple[int, int], int], b: Bundle, part: CircuitRound
) -> list[tuple[int, int, int]]:
    """Return (tile, next tile, waveguide) for each edge of a bundle's route; `PlanError` for a bad bundle."""
    which, tiles = f"{part}: circuit {b.src} -> {b.dst}", fabric.ranks
    for tile in (b.src, b.dst, *b.route):
        if not 0 <= tile < tiles:
            raise _fault(which, f"tile {tile}", f"0 to {tiles - 1}")
    if not 0 < b.wavelengths < 1 << fabric.lasers:
        raise _fault(which, f"wavelengths {b.wavelengths:#x}", f"bits 0 to {fabric.lasers - 1}, one set")
    if len(b.route) < 2 or (b.route[0], b.route[-1]) != (b.src, b.dst):
        raise _fault(which, f"route {list(b.route)}", f"from {b.src} to {b.dst}")
    if len(set(b.route)) < len(b.route):
        twice = next(t for i, t in enumerate(b.route) if t in b.route[:i])
        raise _fault(which, f"the route passes tile {twice} twice", "once")
    if len(b.waveguides) != len(b.route) - 1:
        raise _fault(which, f"{len(b.waveguides)} waveguides", f"{len(b.route) - 1}, one an edge")
    entries = list(zip(b.route[:-1], b.route[1:], b.waveguides, strict=True))
    for a, c, guide in entries:
        guides = capacity.get((a, c))
        if guides is None:
            raise _fault(which, f"edge {a} -> {c}", "edges between neighbours")
        if not 0 <= guide < guides:
            raise _fault(which, f"edge {a} -> {c}, waveguide {guide}", f"0 to {guides - 1}")
    return entries


def _check_carried(plan: CircuitPlan, schedule: Schedule) -> None:
    """Raise `PlanError` unless just the pairs with data have circuits, each in one part of its round."""
    t = schedule.transfers
    wanted, carried = defaultdict(set), defaultdict(set)  # pairs of each round
    for number, src, dst in t[t["src"] != t["dst"]][["round", "src", "dst"]].tolist():
        wanted[number].add((src, dst))
    for part in plan.rounds:
        pairs = {(b.src, b.dst) for b in part.bundles}
        for src, dst in sorted(pairs & carried[part.round]):
            raise _fault(part, f"circuits {src} -> {dst} in an earlier part", "one")
        carried[part.round] |= pairs
    for number in sorted({*wanted, *carried}):
        where = f"round {number}"
        for src, dst in sorted(wanted[number] - carried[number]):
            raise _fault(where, f"no circuit from tile {src} to {dst}", "circuits for all transfers")
        for src, dst in sorted(carried[number] - wanted[number]):
            raise _fault(where, f"circuit {src} -> {dst} carries nothing", "circuits that are used")


def _check_bounds(plan: CircuitPlan) -> None:
    """Raise `PlanError` for a lower bound that cannot be proved again; a bound of 1 needs no proof."""
    overlaps: dict[int, int] = {}
    for part in plan.rounds:
        if part.overlap_bound > overlaps.get(id(part.bundles), 1):
            routes = {(b.src, b.dst): b.route for b in part.bundles}
            least = overlap_bound(plan.fabric, list(routes))
            if part.overlap_bound > least:  # above the bound from cuts: use a solver
                chosen = list(routes.values())
                least = minimum_overlap(plan.fabric, list(routes), chosen, least, _PROOF)[1]
            overlaps[id(part.bundles)] = least
            if part.overlap_bound > least:
                allowed = f"1 to {least}, as proved by cuts or a solver"
                raise _fault(part, f"overlap bound {part.overlap_bound}", allowed)
    known: dict[tuple[int, ...], int] = {}
    for number, group in groupby(plan.rounds, key=lambda part: part.round):
        parts = list(group)
        claimed = {part.parts_bound for part in parts}
        if claimed == {1}:
            continue
        key = tuple(id(part.bundles) for part in parts)
        if key not in known:
            known[key] = min(len(parts), _least_parts(plan.fabric, parts))
        for claim in sorted(claimed, reverse=True):
            if not 1 <= claim <= known[key]:
                allowed = f"1 to {known[key]}, by ports and cuts"
                raise _fault(f"round {number}", f"parts bound {claim}", allowed)


def _least_parts(fabric: PhotonicFabric, parts: list[CircuitRound]) -> int:
    """Return the largest lower bound on a round's parts, by ports and cuts, over the rules of `SHARING`."""
    pairs = np.array(sorted({(b.src, b.dst) for part in parts for b in part.bundles}))
    thinnest = {sharing: fewest_wavelengths(fabric, sharing, pairs).min() for sharing in SHARING}
    return max(1, *(least_parts(fabric, pairs, sharing, size) for sharing, size in thinnest.items()))
