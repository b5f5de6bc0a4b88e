"""Routes of circuits: what they are, how few share an edge, and that the bounds are bounds."""

import time
from collections import Counter
from itertools import pairwise, product

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.base.errors import InputError
from wavefabric.fabric.photonic.budget import budget
from wavefabric.fabric.photonic.fabric import PhotonicFabric
from wavefabric.fabric.photonic.link_budget import LinkBudget
from wavefabric.fabric.photonic.routing.cuts import overlap_bound, parts_bound
from wavefabric.fabric.photonic.routing.k_shortest import k_shortest
from wavefabric.fabric.photonic.routing.minimum_overlap import minimum_overlap
from wavefabric.fabric.photonic.routing.routes import METHODS, random_routes, route, xy

#: The paper's grids.
GRIDS = {4: (2, 2), 8: (2, 4), 16: (4, 4), 32: (4, 8), 64: (8, 8), 128: (8, 16), 256: (16, 16)}
#: Most routes on an edge, over all rounds: half of the paper's figure 5, which counts both directions.
LEAST = {
    2: {4: 1, 8: 2, 16: 2, 32: 4, 64: 4, 128: 8, 256: 8},
    4: {4: 2, 8: 4, 16: 4, 32: 8, 64: 8, 128: 16, 256: 16},
}


def wafer(rows, columns, **changes):
    numbers = {"lasers": 16, "serdes_ports": None, "laser_bandwidth": 20e9, "waveguides": 64, "fibres": 64}
    numbers |= {"wafer_rows": rows, "wafer_columns": columns, "alpha": 1e-6, "reconfiguration": 4e-6}
    return PhotonicFabric("wafer", rows, columns, **numbers | changes)


def recursive_rounds(ranks, radix):
    """Pairs of each round of recursive multiplying, the last factor smaller where it has to be."""
    stride, left = 1, ranks
    while left > 1:
        factor = min(radix, left)
        digit = [(r // stride) % factor for r in range(ranks)]
        yield [
            (r, r + ((digit[r] + k) % factor - digit[r]) * stride)
            for r in range(ranks)
            for k in range(1, factor)
        ]
        stride, left = stride * factor, left // factor


def load_of(routes):
    return max(Counter(e for r in routes for e in pairwise(r)).values(), default=0)


def assert_routes(fabric, pairs, routes):
    edges = set(fabric.edges())
    assert [(r[0], r[-1]) for r in routes] == list(pairs)
    for r in routes:
        assert len(set(r)) == len(r)
        assert edges.issuperset(pairwise(r))


@pytest.mark.parametrize("ranks", GRIDS)
@pytest.mark.parametrize("radix", [2, 4])
def test_recursive_rounds_are_routed_with_the_least_overlap_proved(ranks, radix):
    fabric = wafer(*GRIDS[ranks])
    worst = 0
    for pairs in recursive_rounds(ranks, radix):
        begin = time.process_time()
        result = route(fabric, pairs)
        assert time.process_time() - begin < 5
        assert result.certified
        assert result.overlap == result.bound
        assert result.method.startswith("xy")
        assert_routes(fabric, pairs, result.routes)
        assert result.overlap == load_of(result.routes)
        worst = max(worst, result.overlap)
    if (ranks, radix) == (8, 4):
        # The paper's grid is 4 x 2 here: each row of 2 x 4 is one group of four.
        assert worst == LEAST[4][8]
        turned = [route(wafer(4, 2), p).overlap for p in recursive_rounds(8, 4)]
        assert max(turned) == 2
    else:
        assert worst == LEAST[radix][ranks]


@pytest.mark.parametrize("seed", range(3))
def test_a_permutation_of_256_tiles_is_routed_better_than_by_rows_and_columns(seed):
    fabric = wafer(16, 16, waveguides=1)
    target = np.random.default_rng(seed).permutation(256).tolist()
    pairs = [(s, d) for s, d in enumerate(target) if s != d]
    begin = time.process_time()
    result = route(fabric, pairs, seed=seed)
    assert time.process_time() - begin < 2
    straight = route(fabric, pairs, "xy")
    assert_routes(fabric, pairs, result.routes)
    assert load_of(result.routes) == result.overlap < straight.overlap
    assert result.bound <= result.overlap <= result.bound + 1
    assert result.bound >= 4


def test_the_same_seed_gives_the_same_routes():
    fabric = wafer(8, 8)
    target = np.random.default_rng(5).permutation(64).tolist()
    pairs = [(s, d) for s, d in enumerate(target) if s != d]
    for method in ("ripup", "random"):
        first, again = (route(fabric, pairs, method, seed=3, k=8) for _ in range(2))
        assert first.routes == again.routes
    assert route(fabric, pairs, "random", seed=4, k=8).routes != again.routes


def test_random_takes_each_of_the_k_shortest():
    fabric = wafer(3, 3)
    paths = set(k_shortest(fabric, 0, 4, 5))
    taken = {random_routes(fabric, [(0, 4)], 5, seed)[0] for seed in range(60)}
    assert taken == paths
    assert len(paths) == 5


@settings(max_examples=25)
@given(st.integers(1, 4), st.integers(2, 4), st.data())
def test_k_shortest_are_those_of_networkx(rows, columns, data):
    fabric = wafer(rows, columns)
    src, dst = data.draw(st.permutations(range(rows * columns)))[:2]
    k = data.draw(st.integers(1, 12))
    result = k_shortest(fabric, src, dst, k)
    graph = nx.grid_2d_graph(rows, columns)
    every = nx.shortest_simple_paths(graph, divmod(src, columns), divmod(dst, columns))
    lengths = [len(path) for _, path in zip(range(k), every, strict=False)]
    assert [len(path) for path in result] == lengths
    assert len(set(result)) == len(result)
    assert_routes(fabric, [(src, dst)] * len(result), result)


@settings(max_examples=25)
@given(st.integers(1, 5), st.integers(2, 5), st.data())
def test_xy_goes_straight(rows, columns, data):
    fabric = wafer(rows, columns)
    tiles = range(rows * columns)
    every = [p for p in product(tiles, tiles) if p[0] != p[1]]
    pairs = data.draw(st.lists(st.sampled_from(every), min_size=1, max_size=20, unique=True))
    for column_first in (False, True):
        routes = [xy(fabric, s, d, column_first) for s, d in pairs]
        assert_routes(fabric, pairs, routes)
        for (s, d), path in zip(pairs, routes, strict=True):
            (r0, c0), (r1, c1) = divmod(s, columns), divmod(d, columns)
            assert len(path) - 1 == abs(r0 - r1) + abs(c0 - c1)
            corner = r1 * columns + c0 if column_first else r0 * columns + c1
            assert corner in path


def brute_bound(fabric, pairs, weights, capacity):
    """The cut bound by counting, over every rectangle."""
    best = 0
    for r0, r1 in product(range(fabric.rows), range(1, fabric.rows + 1)):
        for c0, c1 in product(range(fabric.columns), range(1, fabric.columns + 1)):
            inside = {r * fabric.columns + c for r in range(r0, r1) for c in range(c0, c1)}
            rim = sum(capacity(a, b) for a, b in fabric.edges() if a in inside and b not in inside)
            out = sum(w for (s, d), w in zip(pairs, weights, strict=True) if s in inside and d not in inside)
            into = sum(w for (s, d), w in zip(pairs, weights, strict=True) if d in inside and s not in inside)
            if max(out, into):
                best = max(best, -(-max(out, into) // rim))
    return best


@settings(max_examples=25)
@given(st.integers(1, 4), st.integers(2, 4), st.data())
def test_cut_bounds_by_prefix_sums_are_those_by_counting(rows, columns, data):
    fabric = wafer(rows, columns, wafer_columns=2, wafer_rows=2, waveguides=3, fibres=2, lasers=4)
    tiles = range(rows * columns)
    every = [p for p in product(tiles, tiles) if p[0] != p[1]]
    pairs = data.draw(st.lists(st.sampled_from(every), min_size=1, max_size=25, unique=True))
    weights = data.draw(st.lists(st.integers(1, 4), min_size=len(pairs), max_size=len(pairs)))
    assert overlap_bound(fabric, pairs) == brute_bound(fabric, pairs, [1] * len(pairs), lambda a, b: 1)
    capacity = lambda a, b: 4 * fabric.capacity(a, b)  # noqa: E731
    assert parts_bound(fabric, pairs, weights) == brute_bound(fabric, pairs, weights, capacity)
    alike = [data.draw(st.integers(1, 60))] * len(pairs)
    assert parts_bound(fabric, np.array(pairs), alike) == brute_bound(fabric, pairs, alike, capacity)


@pytest.mark.parametrize(("rows", "columns"), [(33, 32), (2, 513), (520, 2)])
@pytest.mark.parametrize("seed", range(2))
def test_cut_bounds_of_large_grids_are_those_of_bands_and_tiles_by_counting(rows, columns, seed):
    fabric = wafer(rows, columns, wafer_rows=2, wafer_columns=2, waveguides=5, fibres=3, lasers=2)
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, fabric.ranks, (2, 3000)) if seed else rng.integers(0, 60, (2, 500))
    pairs = np.unique(np.stack((src, dst), axis=1)[src != dst], axis=0)
    weights = rng.integers(1, 9, len(pairs))
    each, capacity = np.array(fabric.edges()), np.array([fabric.capacity(*edge) for edge in fabric.edges()])
    tiles = np.arange(fabric.ranks)
    sets = [tiles == tile for tile in tiles]
    for line, n in ((tiles // columns, rows), (tiles % columns, columns)):
        starts = range(n) if n < 40 else (0, 1, n // 2, n - 2)
        sets += [(first <= line) & (line < last) for first in starts for last in range(first + 1, n + 1)]
    least, parts = 0, 0
    for inside in sets:
        rim = inside[each[:, 0]] & ~inside[each[:, 1]]
        for a, b in ((0, 1), (1, 0)):
            across = inside[pairs[:, a]] & ~inside[pairs[:, b]]
            if rim.any():
                least = max(least, -(-across.sum() // rim.sum()))
                parts = max(parts, -(-weights[across].sum() // (2 * capacity[rim].sum())))
    assert (overlap_bound(fabric, pairs), parts_bound(fabric, pairs, weights)) == (least, parts)


def test_cut_bounds_of_large_grids_see_halves_and_single_tiles():
    fabric = wafer(40, 40)
    across = [(r * 40 + c, r * 40 + c + 20) for r in range(40) for c in range(20)]
    assert overlap_bound(fabric, across) == 20
    down = [(r * 40 + c, (r + 20) * 40 + c) for r in range(20) for c in range(40)]
    assert overlap_bound(fabric, down) == 20
    assert overlap_bound(fabric, [(t, 820) for t in range(13)]) == 4
    assert overlap_bound(fabric, []) == 0


def least_overlap_by_enumeration(fabric, pairs):
    """Over all simple paths of all pairs."""
    graph = nx.DiGraph(fabric.edges())
    choices = [[tuple(pairwise(p)) for p in nx.all_simple_paths(graph, s, d)] for s, d in pairs]
    return min(max(Counter(e for p in path for e in p).values()) for path in product(*choices))


@pytest.mark.parametrize("seed", range(4))
def test_exact_is_the_least_overlap_of_all_choices(seed):
    fabric = wafer(2, 3)
    rng = np.random.default_rng(seed)
    every = [(s, d) for s in range(6) for d in range(6) if s != d]
    pairs = [every[i] for i in rng.choice(len(every), 6, replace=False)]
    least = least_overlap_by_enumeration(fabric, pairs)
    # From the longest ways and no bound at all, so that the solver has something to do.
    start = [max(k_shortest(fabric, s, d, 50), key=len) for s, d in pairs]
    routes, bound = minimum_overlap(fabric, pairs, start, 1, 20.0)
    assert_routes(fabric, pairs, routes)
    assert load_of(routes) == bound == least
    result = route(fabric, pairs, "exact")
    assert (result.overlap, result.bound, result.certified) == (least, least, True)
    assert overlap_bound(fabric, pairs) <= least


def test_exact_proves_routes_optimal_that_no_rectangle_certifies():
    fabric = wafer(3, 3, waveguides=1)
    pairs = [(7, 6), (7, 4), (5, 6), (6, 2), (4, 2), (5, 3)]
    assert overlap_bound(fabric, pairs) == 1
    result = route(fabric, pairs)
    assert (result.overlap, result.bound, result.certified) == (2, 2, True)
    assert route(fabric, pairs, "exact").method == "exact"
    assert not route(fabric, pairs, "ripup").certified


def test_auto_takes_shortest_routes_where_all_fit():
    """Two routes along a row share its edges; the way around is too long for a fast wavelength."""
    fabric = wafer(8, 8, laser_bandwidth=28e9, waveguides=2)
    pairs = [(0, 7), (1, 6)]
    apart, result = route(fabric, pairs, "ripup"), route(fabric, pairs, budget=LinkBudget())
    rates = [min(budget(fabric, r).best_rate for r in each.routes) for each in (apart, result)]
    assert (apart.overlap, result.overlap, rates) == (1, 2, [28e9, 224e9])
    assert (result.method, result.certified, result.set_ups) == ("xy", False, 1)
    # With one waveguide two set-ups at 224 Gbit/s still take less time than one at 28.
    narrow = wafer(8, 8, laser_bandwidth=28e9, waveguides=1)
    result = route(narrow, pairs, budget=LinkBudget())
    assert (result.overlap, result.set_ups, result.bound) == (2, 2, 1)
    # Where circuits carry the same over any route, the fewest set-ups are best.
    assert route(narrow, pairs).overlap == 1


@settings(max_examples=40)
@given(st.sets(st.tuples(st.integers(0, 11), st.integers(0, 11)), min_size=1, max_size=8), st.integers(1, 3),
       st.sampled_from([0.0, 4.0, 6.0]))  # fmt: skip
def test_no_method_takes_less_time_than_auto(chosen, waveguides, switch_loss):
    fabric = wafer(3, 4, waveguides=waveguides, fibres=1, wafer_columns=2, laser_bandwidth=28e9)
    pairs = sorted((s, d) for s, d in chosen if s != d)
    light = LinkBudget(switch_loss=switch_loss, launch_power=20.0)

    def seconds(result):
        loads = Counter(e for r in result.routes for e in pairwise(r))
        parts = max((-(-n // fabric.capacity(*e)) for e, n in loads.items()), default=1)
        assert result.set_ups == parts
        slowest = min((budget(fabric, r, light).best_rate for r in result.routes), default=1.0)
        return parts / slowest if slowest else float("inf")

    result = route(fabric, pairs, budget=light)
    assert result.bound <= result.overlap
    for method in ("xy", "ripup", "exact"):
        assert seconds(result) <= seconds(route(fabric, pairs, method)) * (1 + 1e-12)


@pytest.mark.slow
def test_the_time_limit_of_exact_is_kept_and_its_bound_holds():
    fabric = wafer(8, 8)
    rng = np.random.default_rng(1)
    pairs = sorted({(int(s), int(d)) for s, d in rng.integers(0, 64, (400, 2)) if s != d})
    start = [xy(fabric, s, d) for s, d in pairs]
    begin = time.process_time()
    routes, bound = minimum_overlap(fabric, pairs, start, 1, 0.5)
    assert time.process_time() - begin < 30  # of this process: other load does not count
    assert_routes(fabric, pairs, routes)
    assert 1 <= bound <= load_of(routes) <= load_of(start)


def test_all_methods_answer_and_none_is_below_the_bound():
    fabric = wafer(3, 4)
    pairs = [(0, 11), (11, 0), (3, 8), (8, 3), (1, 10), (5, 6), (0, 10)]
    for method in METHODS:
        result = route(fabric, pairs, method, k=6)
        assert_routes(fabric, pairs, result.routes)
        assert result.overlap == load_of(result.routes) >= result.bound >= 1
        assert result.seconds > 0
    assert route(fabric, []).overlap == 0


def test_columns_first_is_taken_where_it_is_better():
    fabric = wafer(4, 4)
    # All sources in one row: along it first they would meet, along their columns they do not.
    pairs = [(0, 7), (1, 11), (2, 15)]
    rows_first, columns_first = ([xy(fabric, s, d, turned) for s, d in pairs] for turned in (False, True))
    assert load_of(rows_first) > load_of(columns_first)
    assert route(fabric, pairs, "xy").method == "xy, column first"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda f: route(f, [(0, 1)], "best"), "routing: 'best' given; allowed: auto, xy"),
        (lambda f: route(f, [(0, 0)]), "pairs: 0 -> 0 given; allowed: two different tiles"),
        (lambda f: route(f, [(0, 4)]), "pairs: destination: 4; allowed: whole numbers from 0 to 3"),
        (lambda f: route(f, [(0, 1), (0, 1)]), "pairs: 0 -> 1 given twice"),
        (lambda f: route(f, [(0, 1)], k=0), "k: 0; allowed: whole numbers from 1"),
        (lambda f: route(f, [(0, 1)], time_limit=0), "time_limit: 0 given; allowed: more than 0 s"),
        (lambda f: k_shortest(f, 1, 1, 3), "pairs: 1 -> 1 given"),
        (lambda f: route(wafer(2, 2, wafer_rows=1, fibres=0), [(0, 1)]), "fibres: 0 given; allowed: from 1"),
        (lambda f: route(wafer(2, 2, waveguides=0), [(0, 1)]), "waveguides: 0; allowed"),
    ],
)
def test_bad_input_is_refused_in_one_line(call, words):
    with pytest.raises(InputError) as error:
        call(wafer(2, 2))
    assert words in str(error.value)
    assert "\n" not in str(error.value)
