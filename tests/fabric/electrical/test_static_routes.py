"""Static routes: fewest links, all of them over switches; dimension by dimension on grids."""

from dataclasses import replace
from itertools import chain, pairwise, permutations

import networkx as nx
import numpy as np
import pytest
from electrical_routes import nodes, uses
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.base.errors import InputError
from wavefabric.fabric.electrical.fabric import Fabric, Link
from wavefabric.fabric.electrical.static_routes import hop_counts, resource_use, static_routes
from wavefabric.fabric.io.files import load
from wavefabric.fabric.rank_order import reordered


@st.composite
def fabrics(draw):
    """GPUs and switches in a ring with chords, so that there are several ways."""
    gpus, switches = draw(st.integers(2, 6)), draw(st.integers(0, 4))
    names = [*(f"g{i}" for i in range(gpus)), *(f"s{i}" for i in range(switches))]
    order = draw(st.permutations(names))
    widths = st.sampled_from([1.0, 2.0, 3.0])
    links = [Link(a, b, draw(widths)) for a, b in zip(order, order[1:] + order[:1], strict=True)]
    node, kinds = st.sampled_from(names), st.sampled_from(["wire", "pcie"])
    for a, b in draw(st.lists(st.tuples(node, node), max_size=20)):
        if a != b:
            links.append(Link(a, b, draw(widths), draw(st.sampled_from([0.0, 1e-6])), draw(kinds)))
    forwards = draw(st.booleans())
    return Fabric("x", tuple(names[:gpus]), tuple(names[gpus:]), tuple(links), 0.0, forwards=forwards)


def _parallel(fabric, src, dst):
    """By recursion: how data may leave each node on a shortest way, as neighbours with their rates."""
    g = nx.DiGraph()
    g.add_nodes_from((*fabric.gpus, *fabric.switches))
    for link in sorted(fabric.links, key=lambda link: link.bandwidth):
        width = g.get_edge_data(link.source, link.target, {"width": 0})["width"]
        g.add_edge(link.source, link.target, width=width + link.bandwidth, kind=link.kind)
    if not fabric.forwards:
        g.remove_nodes_from(set(fabric.gpus) - {src, dst})
    far = nx.single_source_shortest_path_length(g.reverse(), dst)

    def rate(node):
        return np.inf if node == dst else max(sum(rates.values()) for rates in leave(node))

    def leave(node):
        groups = {}
        for near in g[node]:
            if far.get(near, np.inf) == far[node] - 1:
                edge = g.edges[node, near]
                name = edge["kind"] if near in fabric.switches else near
                groups.setdefault((near in fabric.switches, name), {})[near] = min(edge["width"], rate(near))
        return list(groups.values())

    return leave if src in far else None


@settings(max_examples=50)
@given(fabrics())
def test_bytes_take_all_shortest_routes_over_switches_in_proportion_to_their_rates(fabric):
    for src, dst in permutations(range(fabric.ranks), 2):
        leave = _parallel(fabric, fabric.gpus[src], fabric.gpus[dst])
        if leave is None:
            with pytest.raises(InputError, match=f"no way from g{src} to g{dst}.*; allowed: pairs with one"):
                uses(fabric, src, dst)
            continue
        out, into = {}, {fabric.gpus[src]: 1.0}
        for (a, b), fraction in uses(fabric, src, dst).items():
            out.setdefault(a, {})[b] = fraction
            into[b] = into.get(b, 0.0) + fraction
        assert into.pop(fabric.gpus[dst]) == pytest.approx(1)
        assert out.keys() == into.keys()
        for node, fractions in out.items():
            groups = leave(node)
            (rates,) = [rates for rates in groups if rates.keys() == fractions.keys()]
            assert sum(rates.values()) == pytest.approx(max(sum(each.values()) for each in groups))
            expected = {near: into[node] * rate / sum(rates.values()) for near, rate in rates.items()}
            assert fractions == pytest.approx(expected)


def planes(gpus, rates, kinds=(), latencies=()):
    """GPUs that are joined by several switches, each with a rate, a kind, and a latency."""
    names = tuple(f"GPU{i}" for i in range(gpus))
    links = [
        Link(*pair, rate, (*latencies, *[0.0] * 9)[i], (*kinds, *["wire"] * 9)[i])
        for i, rate in enumerate(rates)
        for gpu in names
        for pair in ((gpu, f"plane{i}"), (f"plane{i}", gpu))
    ]
    switches = tuple(f"plane{i}" for i in range(len(rates)))
    return Fabric("planes", names, switches, tuple(links), 0.0)


def test_planes_spines_and_rails_carry_what_one_of_their_total_carries():
    assert uses(planes(2, [3.0, 1.0]), 0, 1) == {
        **{("GPU0", "plane0"): 0.75, ("GPU0", "plane1"): 0.25},
        **{("plane0", "GPU1"): 0.75, ("plane1", "GPU1"): 0.25},
    }
    # NVLink and PCIe are both two links away: machines do not use the second beside the first.
    assert uses(planes(2, [3.0, 1.0], ["nvlink", "pcie"]), 0, 1).keys() == {
        ("GPU0", "plane0"),
        ("plane0", "GPU1"),
    }
    late = resource_use(planes(2, [1.0, 1.0], latencies=[1e-6, 3e-6]), np.array([0]), np.array([1])).latency
    assert late.tolist() == [6e-6]
    # Two leaves below three spines, and two rails, each with spines of its own.
    ends = [("a", "l0", 9.0), ("b", "l1", 9.0)] + [(f"l{i}", f"s{j}", 3.0) for i in (0, 1) for j in range(3)]
    links = tuple(Link(*pair, rate) for a, b, rate in ends for pair in ((a, b), (b, a)))
    spines = Fabric("spines", ("a", "b"), ("l0", "l1", "s0", "s1", "s2"), links, 0.0)
    use = resource_use(spines, np.array([0]), np.array([1]))
    assert use.seconds(np.array([9.0])).max() == pytest.approx(1)
    rails = replace(
        spines,
        switches=(*spines.switches, *(f"{name}x" for name in spines.switches)),
        links=links
        + tuple(
            Link(*(n if n in "ab" else f"{n}x" for n in (k.source, k.target)), k.bandwidth) for k in links
        ),
    )
    use = resource_use(rails, np.array([0]), np.array([1]))
    assert use.seconds(np.array([18.0])).max() == pytest.approx(1)


def test_many_layers_of_many_switches_are_routed_at_once():
    """Routes are 8⁸, and are not followed one by one."""
    layers = [["GPU0"], *([f"s{i}.{j}" for j in range(8)] for i in range(8)), ["GPU1"]]
    pairs = [(a, b) for near, far in pairwise(layers) for a in near for b in far]
    links = tuple(Link(*pair, 1.0) for a, b in pairs for pair in ((a, b), (b, a)))
    fabric = Fabric("layers", ("GPU0", "GPU1"), tuple(chain(*layers[1:-1])), links, 0.0)
    assert set(uses(fabric, 0, 1).values()) == {1 / 8, 1 / 64}


@settings(max_examples=30)
@given(fabrics())
def test_hops_count_through_anything(fabric):
    g = nx.DiGraph((link.source, link.target) for link in fabric.links)
    apart, bandwidth = hop_counts(fabric)
    for src, dst in permutations(range(fabric.ranks), 2):
        assert apart[src, dst] == nx.shortest_path_length(g, fabric.gpus[src], fabric.gpus[dst])
    assert bandwidth == pytest.approx(sum(link.bandwidth for link in fabric.links))


@pytest.mark.parametrize("sizes", [(3, 5), (4, 4), (2, 3, 4), (2, 2, 2)])
@pytest.mark.parametrize("kind", ["mesh", "torus"])
def test_grids_are_crossed_one_dimension_after_the_other(kind, sizes):
    fabric = load(f"{kind}:{'x'.join(map(str, sizes))}")
    for src, dst in permutations(range(fabric.ranks), 2):
        route = [int(node[3:]) for node in nodes(fabric, src, dst)]
        positions = np.array(np.unravel_index(route, sizes)).T
        steps = [np.flatnonzero(a != b).tolist() for a, b in pairwise(positions)]
        axes = [axis for step in steps for axis in step]
        assert len(axes) == len(steps)
        assert axes == sorted(axes, reverse=True)


def test_cubes_are_crossed_from_the_lowest_dimension():
    fabric = load("hypercube:4")
    for src, dst in permutations(range(16), 2):
        route = [int(node[3:]) for node in nodes(fabric, src, dst)]
        turned = [a ^ b for a, b in pairwise(route)]
        assert turned == [1 << d for d in range(4) if (src ^ dst) >> d & 1]


@pytest.mark.parametrize("name", ["ring:8", "torus:4x8", "torus:5x5", "hypercube:4"])
def test_all_to_all_loads_all_links_of_a_regular_fabric_alike(name):
    fabric = load(name)
    src, dst = np.array(list(permutations(range(fabric.ranks), 2))).T
    used = resource_use(fabric, src, dst)
    load_of = np.bincount(used.resource, minlength=used.capacity.size)
    for axis in np.unique(
        wire_axes := np.abs(static_routes(fabric).wires.source - static_routes(fabric).wires.target)
    ):
        assert np.ptp(load_of[wire_axes == axis]) <= 1e-12 * load_of.max()
    assert load_of.sum() == hop_counts(fabric)[0].sum()


def test_parallel_links_add_up_and_latencies_along_the_way():
    links = (
        Link("a", "s", 1.0, 1e-6),
        Link("a", "s", 2.0, 2e-6),
        Link("s", "b", 4.0, 5e-6),
        Link("b", "a", 1.0),
    )
    fabric = Fabric("x", ("a", "b"), ("s",), links, 0.0, copy_bandwidth=2.5)
    used = resource_use(fabric, np.array([0, 1]), np.array([1, 0]))
    assert used.latency.tolist() == pytest.approx([7e-6, 0])
    names = [(p, used.name(r), used.capacity[r]) for p, r in zip(used.pair, used.resource, strict=True)]
    assert names == [
        (0, "link a -> s", 3.0),
        (0, "link s -> b", 4.0),
        (0, "a sends", 2.5),
        (0, "b receives", 2.5),
        (1, "link b -> a", 1.0),
        (1, "b sends", 2.5),
        (1, "a receives", 2.5),
    ]


def test_gpus_that_do_not_forward_say_so():
    links = tuple(Link(a, b, 1.0) for a, b in ("ab", "ba", "bc", "cb"))
    line = Fabric("line", ("a", "b", "c"), (), links, 0.0)
    with pytest.raises(InputError) as error:
        nodes(line, 0, 2)
    assert str(error.value) == (
        "fabric line: no way from a to c (GPUs of this fabric do not forward); allowed: pairs with one"
    )
    assert nodes(replace(line, forwards=True), 0, 2) == ["a", "b", "c"]


def test_ecmp_takes_one_of_the_parallel_routes_whatever_the_order_of_ranks():
    fabric = replace(planes(32, [1.0] * 4), multipath="ecmp")
    src, dst = np.divmod(np.arange(32 * 32), 32)
    src, dst = src[src != dst], dst[src != dst]
    use = resource_use(fabric, src, dst)
    assert (use.fraction == 1).all()
    assert (np.bincount(use.pair) == 2).all()
    switch = use.wires.target[use.resource[::2]] - 32
    assert np.ptp(np.bincount(switch, minlength=4)) < src.size / 10
    order = np.random.default_rng(1).permutation(32)
    moved = resource_use(reordered(fabric, order.tolist()), np.argsort(order)[src], np.argsort(order)[dst])
    assert (moved.wires.target[moved.resource[::2]] - 32 == switch).all()
