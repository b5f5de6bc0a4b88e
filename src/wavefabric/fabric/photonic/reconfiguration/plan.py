"""Plans circuits that stay up for several rounds: when each is set up, and which circuits the data take."""

from dataclasses import replace
from functools import lru_cache
from itertools import combinations, groupby, pairwise
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from wavefabric.base.errors import ensure
from wavefabric.collectives.builders.messages import point_to_point
from wavefabric.collectives.schedule import Schedule
from wavefabric.collectives.structure import transfer_elements
from wavefabric.fabric.photonic.circuit_plan import Bundle
from wavefabric.fabric.photonic.edge_colouring import degrees
from wavefabric.fabric.photonic.fabric import PhotonicFabric
from wavefabric.fabric.photonic.planning import plan_circuits
from wavefabric.fabric.photonic.reconfiguration.search import CircuitProblem, RoundDemand, Topology, shortest

#: Numbers of planes (equal sets of wavelengths, switched separately) that are tried.
PLANES = (1, 2, 4)
_ends = attrgetter("src", "dst")


class ReconfigurationPlan(NamedTuple):
    """Lists what each round does to the circuits, the circuits with their times, and total times (s)."""

    fabric: PhotonicFabric
    #: Round, part, `search.CircuitStep`, name of the topology, and tiles on the route of each of its pairs.
    rounds: list[tuple]
    circuits: list[tuple[Bundle, float, float]]  # circuit, begin of its set-up, time of its removal (s)
    seconds: float
    least: float  # lower bound for these topologies, routes, planes: `seconds` after a full search
    bound: float  # lower bound for any topologies
    always: float  # time with a set-up before every round
    never: float  # time with the best single topology
    static: str  # name of the best single topology


def plan_reconfiguration(
    schedule: Schedule, fabric: PhotonicFabric, element_bytes: float, best: bool = True, **planning: Any
) -> ReconfigurationPlan:
    """Choose when to set up circuits so that set-ups and transfers take the least time in total.

    A topology is a set of circuits that are up together. If not ``best``, the fastest single one is used
    throughout. These topologies are tried, each only if ports and waveguides suffice for it: the circuits of
    each round, and of several successive rounds together; a ring one way, and both ways; the grid of tiles;
    and circuits from each rank r to r + 2^k for all k. All wavelengths are switched together, or in `PLANES`
    that are switched separately. A set-up takes `reconfiguration` and `synchronisation`, each hop of the data
    `alpha`. For ``planning`` see `plan_circuits`.
    """
    problems = []
    for problem, numbers, plane in _problems(schedule, fabric, tuple(sorted(planning.items()))):
        demands = tuple(d._replace(scale=d.scale * element_bytes) for d in problem.demands)
        problems.append((replace(problem, demands=demands), numbers, plane))
    first, *others = problems[0]
    fixed = [replace(first, topologies=(topology,), known={}) for topology in first.topologies]
    static = min(fixed, key=lambda p: sum(p.time(r, 0) for r in range(len(p.demands))))
    choice, (problem, numbers, plane) = shortest(static), (static, *others)
    least = never = choice[0]
    own = [next(t for t in range(len(fixed)) if first.topologies[t].ends is d.pairs) for d in first.demands]
    for each in problems if best else ():
        result = shortest(each[0], choice[0])
        least = min(least, result[2])
        if result[0] < np.inf:
            choice, (problem, numbers, plane) = result, each
    ensure(choice[0] != np.inf, "reconfigure", "never given", f"best, no one topology fits {fabric.name}")
    rounds = []
    for number, step in enumerate(choice[1]):
        topology, (routes, *_) = problem.topologies[step.topology], problem.carried(number, step.topology)
        paths = [(*topology.ends[route, 0].tolist(), topology.ends[route[-1], 1]) for route in routes]
        rounds.append((*numbers[number], step, topology.name, paths))
    circuits = list(_circuits(problem, choice[1], fabric, plane))
    always = sum(first.set_up + first.time(r, t) for r, t in enumerate(own))
    results = choice[0], least, first.lower_bound(), always, never, static.topologies[0].name
    return ReconfigurationPlan(fabric, rounds, circuits, *results)


@lru_cache(maxsize=4)
def _problems(schedule: Schedule, fabric: PhotonicFabric, planning: tuple) -> list[tuple]:
    """Return a search problem for each number of planes, equal sets of wavelengths switched separately.

    Each is (problem for elements of one byte, (round, part) of each of its rounds, fabric of a single plane).
    """
    t, problems, limits = schedule.transfers, [], ("lasers", "ports", "waveguides", "fibres")
    key = t["src"].astype(np.int64) * fabric.ranks + t["dst"]
    for planes in (each for each in PLANES if each <= max(1, min(getattr(fabric, n) for n in limits))):
        lasers, ports, waveguides, fibres = (getattr(fabric, name) // planes for name in limits)
        plane = replace(fabric, lasers=lasers, serdes_ports=ports, waveguides=waveguides, fibres=fibres)
        parts = plan_circuits(schedule, plane, **dict(planning)).rounds
        if problems and len(parts) > len(problems[0][1]):
            break
        own, demands = {}, []
        for part in parts:
            topology = own.setdefault(id(part.bundles), _topology(f"round {part.round}", part.bundles, plane))
            elements = transfer_elements(schedule) * (t["round"] == part.round)
            amount = np.bincount(key, elements, fabric.ranks**2)[topology.ends @ (fabric.ranks, 1)]
            demands.append(RoundDemand(topology.ends, amount / (amount.max() or 1.0), amount.max()))
        topologies = (*own.values(), *_more(schedule.ranks, plane, list(own.values()), dict(planning)))
        speeds = fabric.bandwidth, fabric.reconfiguration + fabric.synchronisation, fabric.alpha
        problem = CircuitProblem(topologies, tuple(demands), *speeds, planes)
        problems.append((problem, [(part.round, part.part) for part in parts], plane))
    return problems


def _topology(name: str, bundles: tuple[Bundle, ...], plane: PhotonicFabric) -> Topology:
    links = [tuple(of) for _, of in groupby(sorted(bundles, key=_ends), _ends)]
    speed = np.array([sum(b.lasers for b in of) for of in links]) * plane.laser_bandwidth
    return Topology(name, plane.ranks, np.array([_ends(of[0]) for of in links]), speed, tuple(links))


def _more(ranks: int, plane: PhotonicFabric, own: list[Topology], planning: dict[str, Any]) -> list[Topology]:
    """Return topologies (sets of circuits) to try besides the rounds' own, ``own``: all that fit at once."""
    pairs, ring = {}, [(i, (i + 1) % ranks) for i in range(ranks)]
    for i, j in combinations(range(len(own)), 2):
        if len(own) <= 8 or j - i == len(own) - 1:  # with many rounds, only all of them together
            pairs[f"{own[i].name} to {own[j].name}"] = [e for o in own[i : j + 1] for e in o.ends.tolist()]
    pairs |= {"ring": ring, "ring both ways": ring + [(b, a) for a, b in ring]}
    steps = [1 << k for k in range((ranks - 1).bit_length())]
    pairs["powers of two"] = [(i, (i + step) % ranks) for i in range(ranks) for step in steps]
    pairs["grid"] = [e for e in plane.edges() if max(e) < ranks] or ring
    made = []
    for name, ends in pairs.items():
        if degrees(ends := np.unique(ends, axis=0), plane.ranks).max() <= plane.ports:
            messages = point_to_point(name, ranks, [(a, b, 1) for a, b in ends.tolist()])
            parts = plan_circuits(messages, plane, **planning).rounds
            made += [_topology(name, parts[0].bundles, plane)] if len(parts) == 1 else []
    return made


def _circuits(problem: CircuitProblem, steps: tuple, fabric: PhotonicFabric, plane: PhotonicFabric):
    """Yield (circuit, time at which its set-up begins, time of its removal), in s.

    ``plane``: fabric of one plane, whose wavelengths and waveguides get their numbers in all of ``fabric``.
    """
    for j in range(problem.planes):
        up, end = {}, 0.0
        for step in [*(step for step in steps if j in step.planes), None]:
            at = step.planes.index(j) if step else 0
            ready = step.ready[at] if step else steps[-1].end + problem.set_up
            circuits = problem.topologies[step.topology].circuits if step else ()
            wanted, start = {b for link in circuits for b in link}, max(end, ready - problem.set_up)
            for b in up.keys() - wanted:
                edges = zip(b.waveguides, pairwise(b.route), strict=True)
                guides = tuple(guide + j * plane.capacity(*edge) for guide, edge in edges)
                whole = replace(b, wavelengths=b.wavelengths << j * plane.lasers, waveguides=guides)
                yield whole, up[b], start
            up, end = {b: up.get(b, start) for b in wanted}, step.free[at] if step else end
