"""Proof that circuits can be up together and carry their schedule, from the plan alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise

import numpy as np

from wavefabric.collectives.schedule import Schedule
from wavefabric.errors import InputError
from wavefabric.fabric.photonic.edge_colouring import degrees
from wavefabric.fabric.photonic.fabric import PhotonicFabric
from wavefabric.fabric.photonic.plan import Bundle, CircuitPlan, CircuitRound
from wavefabric.fabric.photonic.routing.cuts import overlap_bound, parts_bound
from wavefabric.fabric.photonic.wavelengths import SHARING, fewest_wavelengths, most_peers

#: Seconds for a solver to prove a bound again that is above what cuts prove.
_PROOF = 20.0


class PlanError(InputError):
    """Circuits that cannot be up together or do not carry their schedule; names the first fault."""


def check_plan(plan: CircuitPlan, schedule: Schedule) -> None:
    """Refuse a plan whose circuits cannot be up together, or that do not carry the schedule.

    Parameters
    ----------
    plan : CircuitPlan
    schedule : Schedule
        With a structure that was checked.

    Raises
    ------
    PlanError
        In one line, naming round, part, tile, wavelength, edge or waveguide.

    Notes
    -----
    Checked for each part: routes begin and end at their tiles, step from neighbour to neighbour and pass no
    tile twice; waveguides are numbers that the edge has; on a tile every laser and every photodiode serves
    one circuit, and no more than the ports of its chip; no wavelength is twice in one waveguide of an edge in
    one direction; `overlap` is what it says; `overlap_bound` is at most what cuts prove, or else a solver
    proves it again. For each round: its parts are numbered from 0; every pair that has something to send has
    circuits, all in one part; no circuit is idle; `parts_bound` is at most what ports and cuts prove.

    Routes pass no tile twice, so light never leaves a tile's 1 × 3 switch on the side it came from. A
    Mach–Zehnder switch sends all wavelengths of a waveguide the same way; whether that does is
    `check_switches`. Which waveguides a switch can join with which, crossings inside a tile and the order of
    events while switches turn are not modelled.
    """
    _check_same(plan, schedule)
    # Rounds with the same pairs share their bundles: those are looked at once.
    busiest: dict[int, int] = {}
    for number, part in enumerate(plan.rounds):
        where = f"round {part.round}, part {part.part}"
        _check_order(plan.rounds, number, where)
        if id(part.bundles) not in busiest:
            _check_part(plan.fabric, part, where)
            busiest[id(part.bundles)] = _overlap(part)
        _check_overlap(part, busiest[id(part.bundles)], where)
    _check_carried(plan, schedule)
    _check_bounds(plan)


def check_switches(plan: CircuitPlan) -> None:
    """Refuse a plan that broadband switches could not do: wavelengths that share a waveguide and then part.

    A Mach–Zehnder switch turns all that a waveguide carries. So bundles that share a waveguide on an edge
    must end there together, or go on over the same edge in the same waveguide. `planning.plan_circuits` gives
    each bundle waveguides of its own wherever there are enough; where there are not, the parting needs
    switches that separate wavelengths (rings).

    Raises
    ------
    PlanError
        Naming the first waveguide whose wavelengths part.
    """
    for part in plan.rounds:
        onward: dict[tuple[int, int, int], object] = {}
        for b in part.bundles:
            for i, guide in enumerate(b.waveguides):
                last = i + 2 == len(b.route)
                goes_on = "stay" if last else (b.route[i + 2], b.waveguides[i + 1])
                a, c = b.route[i : i + 2]
                if onward.setdefault((a, c, guide), goes_on) != goes_on:
                    raise PlanError(
                        f"round {part.round}, part {part.part}: edge {a} -> {c}, waveguide {guide}:"
                        f" wavelengths part at tile {c}; allowed: one way on for all"
                    )


def needs_wavelength_switches(plan: CircuitPlan) -> bool:
    """Whether wavelengths that share a waveguide part, so that broadband switches do not do
    (`check_switches`)."""
    try:
        check_switches(plan)
    except PlanError:
        return True
    return False


def _check_same(plan: CircuitPlan, schedule: Schedule) -> None:
    f = plan.fabric
    if plan.schedule != schedule.name:
        raise PlanError(f"schedule: circuits for {plan.schedule!r} given; allowed: for {schedule.name!r}")
    if schedule.ranks > f.ranks:
        raise PlanError(f"ranks: {schedule.ranks} given; allowed: 1 to {f.ranks}, the tiles of {f.name}")


def _check_order(rounds: tuple[CircuitRound, ...], number: int, where: str) -> None:
    part = rounds[number]
    before = rounds[number - 1] if number else None
    follows = before is not None and part.round == before.round and part.part == before.part + 1
    begins = part.part == 0 and (before is None or part.round > before.round)
    if not (follows or begins):
        raise PlanError(f"{where}: out of order; allowed: rounds ascending, parts from 0 on")
    if not part.bundles:
        raise PlanError(f"{where}: no circuits; allowed: at least one")


def _check_part(fabric: PhotonicFabric, part: CircuitRound, where: str) -> None:
    capacity = {edge: fabric.capacity(*edge) for edge in fabric.edges()}
    rows = [_edges_and_guides(fabric, capacity, b, where) for b in part.bundles]
    lit = np.array([[b.wavelengths >> w & 1 for w in range(fabric.lasers)] for b in part.bundles], bool)
    for end, what in ((0, "laser"), (1, "photodiode")):
        tile = np.array([(b.src, b.dst)[end] for b in part.bundles])
        _check_tiles(fabric, tile, lit, what, where)
    owner = np.repeat(np.arange(len(rows)), [len(r) for r in rows])
    table = np.array([entry for row in rows for entry in row], np.int64)
    guide_key = (table[:, 0] * fabric.ranks + table[:, 1]) * (table[:, 2].max() + 1) + table[:, 2]
    for w in range(fabric.lasers):
        here = np.flatnonzero(lit[owner, w])
        _, first, count = np.unique(guide_key[here], return_index=True, return_counts=True)
        if (count > 1).any():
            a, c, guide = table[here[first[np.argmax(count > 1)]]]
            raise PlanError(
                f"{where}: edge {a} -> {c}, waveguide {guide}: wavelength {w} twice; allowed: once"
            )


def _edges_and_guides(
    fabric: PhotonicFabric, capacity: dict[tuple[int, int], int], b: Bundle, where: str
) -> list[tuple[int, int, int]]:
    """Edges and waveguides of one bundle; `capacity`: waveguides of each edge."""
    which = f"{where}: circuit {b.src} -> {b.dst}"
    for tile in (b.src, b.dst, *b.route):
        if not 0 <= tile < fabric.ranks:
            raise PlanError(f"{which}: tile {tile}; allowed: 0 to {fabric.ranks - 1}")
    if not 0 < b.wavelengths < 1 << fabric.lasers:
        raise PlanError(
            f"{which}: wavelengths {b.wavelengths:#x}; allowed: bits 0 to {fabric.lasers - 1}, one set"
        )
    if len(b.route) < 2 or (b.route[0], b.route[-1]) != (b.src, b.dst):
        raise PlanError(f"{which}: route {list(b.route)}; allowed: from {b.src} to {b.dst}")
    if len(set(b.route)) < len(b.route):
        twice = next(t for i, t in enumerate(b.route) if t in b.route[:i])
        raise PlanError(f"{which}: the route passes tile {twice} twice; allowed: once")
    if len(b.waveguides) != len(b.route) - 1:
        raise PlanError(f"{which}: {len(b.waveguides)} waveguides; allowed: {len(b.route) - 1}, one an edge")
    entries = list(zip(b.route[:-1], b.route[1:], b.waveguides, strict=True))
    for a, c, guide in entries:
        guides = capacity.get((a, c))
        if guides is None:
            raise PlanError(f"{which}: edge {a} -> {c}; allowed: edges between neighbours")
        if not 0 <= guide < guides:
            raise PlanError(f"{which}: edge {a} -> {c}, waveguide {guide}; allowed: 0 to {guides - 1}")
    return entries


def _check_tiles(fabric: PhotonicFabric, tile: np.ndarray, lit: np.ndarray, what: str, where: str) -> None:
    used = np.zeros((fabric.ranks, fabric.lasers), np.int64)
    np.add.at(used, tile, lit)
    if (used > 1).any():
        t, w = np.argwhere(used > 1)[0]
        raise PlanError(f"{where}: tile {t}: {what} of wavelength {w} used {used[t, w]} times; allowed: once")
    total = used.sum(axis=1)
    if (total > fabric.ports).any():
        t = int(np.argmax(total > fabric.ports))
        raise PlanError(f"{where}: tile {t}: {total[t]} {what}s used; allowed: {fabric.ports}, its ports")


def _overlap(part: CircuitRound) -> int:
    """Most circuits on one edge; bundles of a pair that take the same route count once."""
    routes = {(b.src, b.dst, b.route) for b in part.bundles}
    return max(Counter(edge for _, _, route in routes for edge in pairwise(route)).values())


def _check_overlap(part: CircuitRound, most: int, where: str) -> None:
    if part.overlap != most:
        raise PlanError(f"{where}: overlap {part.overlap}; allowed: {most}, as on the busiest edge")
    if not 1 <= part.overlap_bound <= part.overlap:
        raise PlanError(
            f"{where}: overlap bound {part.overlap_bound}; allowed: 1 to {part.overlap}, the overlap"
        )


def _check_bounds(plan: CircuitPlan) -> None:
    """Refuse lower bounds that cannot be proved again; 1 needs no proof."""
    proved: dict[int, int] = {}
    rounds: dict[int, list[CircuitRound]] = defaultdict(list)
    for part in plan.rounds:
        rounds[part.round].append(part)
        if part.overlap_bound > proved.get(id(part.bundles), 1):
            proved[id(part.bundles)] = _least_overlap(plan.fabric, part)
        if part.overlap_bound > proved.get(id(part.bundles), 1):
            raise PlanError(
                f"round {part.round}, part {part.part}: overlap bound {part.overlap_bound};"
                f" allowed: 1 to {proved[id(part.bundles)]}, as proved by cuts or a solver"
            )
    known: dict[tuple[int, ...], int] = {}
    for number, parts in rounds.items():
        claimed = {part.parts_bound for part in parts}
        if claimed == {1}:
            continue
        key = tuple(id(part.bundles) for part in parts)
        if key not in known:
            known[key] = min(len(parts), _least_parts(plan.fabric, parts))
        for claim in sorted(claimed, reverse=True):
            if not 1 <= claim <= known[key]:
                raise PlanError(
                    f"round {number}: parts bound {claim}; allowed: 1 to {known[key]}, by ports and cuts"
                )


def _least_overlap(fabric: PhotonicFabric, part: CircuitRound) -> int:
    """What cuts prove of the overlap, or, where more is claimed, a solver."""
    routes = {(b.src, b.dst): b.route for b in part.bundles}
    least = overlap_bound(fabric, list(routes))
    if part.overlap_bound <= least:
        return least
    from wavefabric.fabric.photonic.routing.minimum_overlap import minimum_overlap

    return minimum_overlap(fabric, list(routes), list(routes.values()), least, _PROOF)[1]


def _least_parts(fabric: PhotonicFabric, parts: list[CircuitRound]) -> int:
    """Parts that ports and cuts demand, with either way of sharing."""
    pairs = np.array(sorted({(b.src, b.dst) for part in parts for b in part.bundles}))
    peers = max(int(d.max()) for d in degrees(pairs[:, 0], pairs[:, 1], fabric.ranks))
    least = 1
    for sharing in SHARING:
        thinnest = np.full(len(pairs), fewest_wavelengths(fabric, sharing, pairs).min())
        by_ports = -(-peers // most_peers(fabric, sharing))
        least = max(least, by_ports, parts_bound(fabric, pairs.tolist(), thinnest))
    return least


def _check_carried(plan: CircuitPlan, schedule: Schedule) -> None:
    """Each pair of a round has circuits in one part, and each circuit something to carry."""
    t = schedule.transfers
    t = t[t["src"] != t["dst"]]
    wanted: dict[int, set[tuple[int, int]]] = defaultdict(set)
    for number, src, dst in t[["round", "src", "dst"]].tolist():
        wanted[number].add((src, dst))
    parts: dict[int, list[set[tuple[int, int]]]] = defaultdict(list)
    for part in plan.rounds:
        parts[part.round].append({(b.src, b.dst) for b in part.bundles})
    for number in sorted({*wanted, *parts}):
        carried: set[tuple[int, int]] = set()
        for index, pairs in enumerate(parts[number]):
            for src, dst in sorted(pairs & carried):
                raise PlanError(
                    f"round {number}, part {index}: circuits {src} -> {dst} in an earlier part; allowed: one"
                )
            carried |= pairs
        needed = wanted[number]
        for src, dst in sorted(needed - carried):
            raise PlanError(
                f"round {number}: no circuit from tile {src} to {dst}; allowed: circuits for all transfers"
            )
        for src, dst in sorted(carried - needed):
            raise PlanError(
                f"round {number}: circuit {src} -> {dst} carries nothing; allowed: circuits that are used"
            )
