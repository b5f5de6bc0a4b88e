"""Fabrics to synthesise schedules for, and checks written from the definitions alone."""

from collections import Counter
from itertools import combinations, islice, pairwise, product

import networkx as nx

from wavefabric.collectives import verify
from wavefabric.collectives.synthesis import Links, OpticalNetwork


def grid_routes(rows, columns, k):
    """The k shortest simple paths between all tiles of a grid (Yen)."""
    grid = nx.convert_node_labels_to_integers(nx.grid_2d_graph(rows, columns), ordering="sorted")
    return {
        (s, d): tuple(tuple(p) for p in islice(nx.shortest_simple_paths(grid, s, d), k))
        for s in grid
        for d in grid
        if s != d
    }


def grid(rows, columns, lasers, waveguides, k=6, **more):
    """Tiles of a grid as `OpticalNetwork`."""
    ports = more.pop("ports", None)
    return OpticalNetwork(rows * columns, lasers, waveguides, ports, grid_routes(rows, columns, k), **more)


def check_circuits(result, network):
    """Assert all that a round of light must obey, and that the schedule does what it promises."""
    schedule = result.schedule
    verify(schedule)
    between = schedule.transfers[schedule.transfers["src"] != schedule.transfers["dst"]]
    assert schedule.communication_rounds == result.rounds
    assert (between["count"] == 1).all()
    assert [(t["round"], t["src"], t["dst"]) for t in between] == [
        (c.round, c.src, c.dst) for c in result.circuits
    ]
    used = Counter()
    for c in result.circuits:
        assert c.route in network.routes[c.src, c.dst]
        assert 0 <= c.wavelength < network.lasers
        used["laser", c.round, c.src, c.wavelength] += 1
        used["photodiode", c.round, c.dst, c.wavelength] += 1
        used["sends", c.round, c.src] += 1
        used["receives", c.round, c.dst] += 1
        for a, b in pairwise(c.route):
            edge = (min(a, b), max(a, b)) if network.shared else (a, b)
            used["edge", c.round, edge, c.wavelength] += 1
    for what, n in used.items():
        if what[0] in ("laser", "photodiode"):
            assert n <= 1, what
        elif what[0] == "edge":
            assert n <= (network.capacity or {}).get(what[2], network.waveguides), what
        else:
            assert n <= (network.ports or network.lasers), what
    check_receipts(schedule)


def check_receipts(schedule):
    """Assert of copies: a rank gets a chunk once, only what it needs, and sends only what it had before."""
    if not {o for _, o in schedule.post.values()} <= {o for _, o in schedule.pre.values()}:
        return  # sums
    at = {key: item for key, (item, _) in schedule.pre.items()}
    have = {(key[0], item): -1 for key, item in at.items()}
    wanted = {(key[0], item) for key, (item, _) in schedule.post.items()}
    for t in schedule.transfers:
        item = at[int(t["src"]), int(t["src_buffer"]), int(t["src_chunk"])]
        assert have[int(t["src"]), item] < t["round"]
        if t["src"] != t["dst"]:
            assert (int(t["dst"]), item) not in have
            assert (int(t["dst"]), item) in wanted
            have[int(t["dst"]), item] = int(t["round"])
        at[int(t["dst"]), int(t["dst_buffer"]), int(t["dst_chunk"])] = item


def check_links(result, links):
    """Assert that links carry no more than they can in the rounds of each step."""
    schedule = result.schedule
    verify(schedule)
    between = schedule.transfers[schedule.transfers["src"] != schedule.transfers["dst"]]
    assert (between["count"] == 1).all()
    steps = sorted(set(between["round"].tolist()))
    assert len(steps) <= len(result.rounds_of_steps)
    assert min(result.rounds_of_steps, default=1) >= 1
    assert sum(result.rounds_of_steps) == result.rounds
    for step, rounds in zip(steps, result.rounds_of_steps, strict=False):
        used = Counter((int(t["src"]), int(t["dst"])) for t in between[between["round"] == step])
        for link, n in used.items():
            assert n <= rounds * links.capacity[link], (step, link)
        for members, most in links.groups:
            assert sum(used[link] for link in members) <= rounds * most, (step, members)


def fewest_rounds(network, have, need, most):
    """By trying everything: the least rounds in which each rank gets what it needs, None above `most`.

    `have`, `need`: of each chunk the set of ranks.
    """
    states = {tuple(frozenset(h) for h in have)}
    for rounds in range(most + 1):
        if any(all(n <= h for n, h in zip(need, state, strict=True)) for state in states):
            return rounds
        states = {after for state in states for after in _rounds(network, state, need)}
    return None


def fewest_steps(links, have, need, most):
    """The same over electrical links, a round a step: every link may carry any chunks that its source has."""
    states = {tuple(frozenset(h) for h in have)}
    for steps in range(most + 1):
        if any(all(n <= h for n, h in zip(need, state, strict=True)) for state in states):
            return steps
        states = {after for state in states for after in _steps(links, state)}
    return None


def _steps(links, state):
    choices = []
    for (s, d), most in links.capacity.items():
        able = [c for c, h in enumerate(state) if s in h and d not in h]
        choices.append(
            [[(c, s, d) for c in chunks] for n in range(most + 1) for chunks in combinations(able, n)]
        )
    for chosen in product(*choices):
        sent = Counter((s, d) for option in chosen for _, s, d in option)
        if all(sum(sent[link] for link in members) <= most for members, most in links.groups):
            after = [set(h) for h in state]
            for c, _, d in (x for option in chosen for x in option):
                after[c].add(d)
            yield tuple(frozenset(h) for h in after)


def _rounds(network, state, need):
    """What can be held after one more round: each destination chooses what it receives and from whom."""
    limit = min(network.lasers, network.ports or network.lasers)
    choices = []
    for d in range(network.ranks):
        missing = [c for c, h in enumerate(state) if d in need[c] and d not in h]
        options = [()]
        for n in range(1, limit + 1):
            for chunks in combinations(missing, n):
                for sources in product(*([s for s in state[c] if (s, d) in network.routes] for c in chunks)):
                    options.append(tuple((c, s, d) for c, s in zip(chunks, sources, strict=True)))
        choices.append(options)
    for chosen in product(*choices):
        circuits = [x for option in chosen for x in option]
        if _lit(network, [(s, d) for _, s, d in circuits], Counter(), limit):
            after = [set(h) for h in state]
            for c, _, d in circuits:
                after[c].add(d)
            yield tuple(frozenset(h) for h in after)


def _lit(network, circuits, used, limit):
    """Whether circuits can be set up at once, by trying all wavelengths and routes."""
    if not circuits:
        return True
    (s, d), rest = circuits[0], circuits[1:]
    for wavelength, route in product(range(network.lasers), network.routes[s, d]):
        takes = [
            ("laser", s, wavelength, 1),
            ("photodiode", d, wavelength, 1),
            ("out", s, 0, limit),
            ("in", d, 0, limit),
        ]
        for a, b in pairwise(route):
            edge = (min(a, b), max(a, b)) if network.shared else (a, b)
            takes.append(("edge", edge, wavelength, (network.capacity or {}).get(edge, network.waveguides)))
        if all(used[t[:3]] < t[3] for t in takes):
            used.update(t[:3] for t in takes)
            if _lit(network, rest, used, limit):
                return True
            used.subtract(t[:3] for t in takes)
    return False


def both_directions(pairs):
    """Capacities of links of both directions."""
    return {link: n for (a, b), n in pairs.items() for link in ((a, b), (b, a))}


def ring(n):
    return Links(n, both_directions({(r, (r + 1) % n): 1 for r in range(n)}))


def line(n):
    return Links(n, both_directions({(r, r + 1): 1 for r in range(n - 1)}))


def everybody(n):
    return Links(n, {(a, b): 1 for a in range(n) for b in range(n) if a != b})


def hub(n):
    """Every rank sends one chunk a round to the hub and receives one, whoever else it talks to."""
    links = everybody(n).capacity
    groups = tuple((frozenset(x for x in links if x[end] == r), 1) for r in range(n) for end in (0, 1))
    return Links(n, links, groups)


def hypercube(k):
    return Links(1 << k, {(a, a ^ 1 << i): 1 for a in range(1 << k) for i in range(k)})


def wound_mesh(k):
    """TE-CCL's mesh: ranks i and i ± 1, i ± k are joined, so also a row's end and the next row's start."""
    n = k * k
    return Links(n, {(a, b): 1 for a in range(n) for b in range(n) if abs(a - b) in (1, k)})


def dgx1():
    """NVLinks of a DGX-1 of eight V100, six a GPU (Cai et al. 2021, figure 2)."""
    double = [(0, 3), (1, 2), (2, 3), (0, 4), (1, 5), (4, 7), (5, 6), (6, 7)]
    single = [(0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7)]
    return Links(8, both_directions(dict.fromkeys(double, 2) | dict.fromkeys(single, 1)))
