"""Plans circuits for every round of a schedule: routes, wavelengths, waveguides, and parts if not all fit."""

from dataclasses import dataclass, replace

import numpy as np

from wavefabric.base.errors import ensure
from wavefabric.collectives.schedule import Schedule
from wavefabric.collectives.structure import batches, refuse_switches
from wavefabric.fabric.photonic import wavelengths
from wavefabric.fabric.photonic.circuit_plan import CircuitPlan, CircuitRound
from wavefabric.fabric.photonic.edge_colouring import degrees, split_by_degree
from wavefabric.fabric.photonic.fabric import PhotonicFabric
from wavefabric.fabric.photonic.routing.cuts import overlap_bound, parts_bound
from wavefabric.fabric.photonic.routing.routes import METHODS, Routing, route
from wavefabric.fabric.photonic.splitting import circuit_orders, in_layers, negotiate
from wavefabric.fabric.photonic.tile_grid import Route, tile_grid

#: Treatments of circuits for which an edge has too few waveguides.
OVERSUBSCRIBED = ("split", "thin")

#: Largest number of circuits for which fewer parts than by first fit are searched; numbers of parts tried.
_MANY = 1024
_TRIES = 3


@dataclass(frozen=True)
class _Options:
    fabric: PhotonicFabric
    routing: str
    sharing: str
    oversubscribed: str
    seed: int

    def wavelengths(self, pairs: np.ndarray) -> np.ndarray:
        """Return the number of wavelengths of each pair if all are up together, shape (pairs,)."""
        return wavelengths.fewest_wavelengths(self.fabric, self.sharing, pairs)

    def thinnest(self, pairs: np.ndarray) -> int:
        """Return the smallest number of wavelengths that a pair may get."""
        return 1 if self.oversubscribed == "thin" else int(self.wavelengths(pairs).min())


def plan_circuits(
    schedule: Schedule,
    fabric: PhotonicFabric,
    *,
    routing: str = "auto",
    sharing: str = "even",
    oversubscribed: str = "split",
    seed: int = 0,
) -> CircuitPlan:
    """Plan circuits for every round with transfers between ranks; rank r is tile r, tiles may be unused.

    ``routing`` is the method of `routes.route`. ``sharing`` sets the wavelengths of a pair, the fewer of what
    its two tiles allow: ``"even"`` divides all ports of a tile among its peers, ``"paper"`` gives each of
    several peers ⌊ports / (peers + 1)⌋.

    ``oversubscribed`` tells what to do if edges have too few waveguides after other routes were tried.
    ``"split"``: the round is divided into parts, whose circuits are up one after the other. ``"thin"``:
    circuits get fewer wavelengths, so that all are up together. The transfers take as long, but circuits are
    set up only once. The round is divided only if even one wavelength per circuit is too much.

    Rounds with the same pairs have the same circuits. Each `CircuitRound` gives a lower bound on the number
    of parts of its round (`parts_bound`), and for the busiest edge the number of routes and a lower bound on
    it (`overlap`, `overlap_bound`). A tile with more peers than ports (``"paper"``: than ports − 1) is served
    in the smallest possible number of parts, ⌈peers / ports⌉. Raises `InputError` for more ranks than tiles,
    or an unknown option.
    """
    refuse_switches(schedule, "photonic fabrics")
    for key, value, allowed in (
        ("routing", routing, METHODS),
        ("sharing", sharing, wavelengths.SHARING),
        ("oversubscribed", oversubscribed, OVERSUBSCRIBED),
    ):
        ensure(value in allowed, key, f"{value!r} given", ", ".join(allowed))
    allowed = f"1 to {fabric.ranks}, the tiles of {fabric.name}"
    ensure(schedule.ranks <= fabric.ranks, "ranks", f"{schedule.ranks} given", allowed)
    tile_grid(fabric)
    options = _Options(fabric, routing, sharing, oversubscribed, seed)
    known: dict[bytes, list[CircuitRound]] = {}
    rounds: list[CircuitRound] = []
    for number, pairs in round_pairs(schedule):
        key = pairs.tobytes()
        if key not in known:
            known[key] = _plan_round(options, pairs)
        rounds += [replace(part, round=number) for part in known[key]]
    return CircuitPlan(schedule.name, fabric, tuple(rounds))


def round_pairs(schedule: Schedule) -> list[tuple[int, np.ndarray]]:
    """Return (number, pairs) of each round with transfers between ranks; pairs are sorted rows (src, dst)."""
    t = schedule.transfers
    t = t[t["src"] != t["dst"]]
    rounds = []
    for first, last in batches(t["round"]):
        key = np.unique(t["src"][first:last].astype(np.int64) * schedule.ranks + t["dst"][first:last])
        rounds.append((int(t["round"][first]), np.stack(np.divmod(key, schedule.ranks), axis=1)))
    return rounds


def _plan_round(options: _Options, pairs: np.ndarray) -> list[CircuitRound]:
    """Return the parts, numbered from 0, that serve all pairs of a round; their round number is 0."""
    fabric = options.fabric
    limit = wavelengths.most_peers(fabric, options.sharing)
    bound = wavelengths.least_parts(fabric, pairs, options.sharing, options.thinnest(pairs))
    parts, too_many = [], []
    routes: list[Route] = []
    for group in split_by_degree(pairs, fabric.ranks, limit):
        chosen = pairs[group]
        routing = route(fabric, chosen.tolist(), options.routing, seed=options.seed)
        part = _at_once(options, chosen, routing)
        if part is None and options.routing == "auto" and not routing.method.startswith("xy"):
            # Regular routes are easier to colour than routes with the smallest overlap.
            part = _at_once(options, chosen, route(fabric, chosen.tolist(), "xy"))
        if part is not None:
            parts.append(part)
        else:
            too_many.append(group)
            routes += routing.routes
    if too_many:
        parts += _split(options, pairs[np.concatenate(too_many)], routes)
    return [replace(p, part=i, parts_bound=bound) for i, p in enumerate(parts)]


def _at_once(options: _Options, pairs: np.ndarray, routing: Routing) -> CircuitRound | None:
    """Return a part of a round with all circuits, over routes of ``routing``; None if they do not fit."""
    fabric = options.fabric
    wanted = options.wavelengths(pairs)
    least = 1 if options.oversubscribed == "thin" else int(wanted.max())
    for most in range(int(wanted.max()), least - 1, -1):
        masks = wavelengths.assign_wavelengths(fabric, pairs, routing.routes, np.minimum(wanted, most))
        if masks is not None:
            return wavelengths.circuit_round(fabric, pairs, routing.routes, masks, routing.bound)
    return None


def _split(options: _Options, pairs: np.ndarray, routes: list[Route]) -> list[CircuitRound]:
    """Divide the circuits of a round into parts that fit, as few as are found; return the parts."""
    fabric = options.fabric
    size = options.thinnest(pairs)
    peers = int(degrees(pairs, fabric.ranks).max())
    # Number of wavelength sets; with few peers, ports do not limit it.
    colours = (fabric.lasers if peers * size <= fabric.ports else fabric.ports) // size
    layer = min((in_layers(fabric, routes, o) for o in circuit_orders(fabric, routes)), key=np.max)
    parts = -(-(int(layer.max()) + 1) // colours)
    least = max(parts_bound(fabric, pairs, np.full(len(pairs), size)), -(-peers // colours))
    if len(pairs) <= _MANY:
        for fewer in range(least, min(parts, least + _TRIES)):
            # If the user chose a fixed rule, circuits keep their first routes.
            reroute = options.routing in ("auto", "ripup", "exact")
            assignment = negotiate(fabric, routes, fewer * colours, reroute, options.seed)
            if assignment is not None:
                layer, routes = assignment
                break
    masks = ((1 << size) - 1 << layer % colours * size).tolist()
    rounds = []
    for p in np.unique(layer // colours):
        which = np.flatnonzero(layer // colours == p).tolist()
        some, over, mine = pairs[which], [routes[i] for i in which], [masks[i] for i in which]
        # Give all circuits more wavelengths, if ports suffice in this part and the assignment fits.
        more = int(options.wavelengths(some).min())
        if more > size:
            mine = wavelengths.assign_wavelengths(fabric, some, over, np.full(len(some), more)) or mine
        rounds.append(wavelengths.circuit_round(fabric, some, over, mine, overlap_bound(fabric, some)))
    return rounds
