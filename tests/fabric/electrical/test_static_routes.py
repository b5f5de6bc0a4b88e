"""Static routes: fewest links, then the widest; dimension by dimension on grids."""

from dataclasses import replace
from itertools import pairwise, permutations

import networkx as nx
import numpy as np
import pytest
from electrical_routes import nodes
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.errors import InputError
from wavefabric.fabric.electrical.fabric import Fabric, Link
from wavefabric.fabric.electrical.static_routes import hop_counts, resource_use, static_routes
from wavefabric.fabric.io.files import load


@st.composite
def fabrics(draw):
    """GPUs and switches in a ring with chords, so that there are several ways."""
    gpus, switches = draw(st.integers(2, 6)), draw(st.integers(0, 4))
    names = [*(f"g{i}" for i in range(gpus)), *(f"s{i}" for i in range(switches))]
    order = draw(st.permutations(names))
    widths = st.sampled_from([1.0, 2.0, 3.0])
    links = [Link(a, b, draw(widths)) for a, b in zip(order, order[1:] + order[:1], strict=True)]
    node = st.sampled_from(names)
    for a, b in draw(st.lists(st.tuples(node, node), max_size=20)):
        if a != b:
            links.append(Link(a, b, draw(widths), draw(st.sampled_from([0.0, 1e-6]))))
    forwards = draw(st.booleans())
    return Fabric("x", tuple(names[:gpus]), tuple(names[gpus:]), tuple(links), 0.0, forwards=forwards)


def _allowed(fabric, src, dst):
    """All shortest ways by brute force, each with its narrowest bandwidth."""
    g = nx.DiGraph()
    g.add_nodes_from((*fabric.gpus, *fabric.switches))
    for link in fabric.links:
        width = g.get_edge_data(link.source, link.target, {"width": 0})["width"]
        g.add_edge(link.source, link.target, width=width + link.bandwidth)
    if not fabric.forwards:
        g.remove_nodes_from(set(fabric.gpus) - {src, dst})
    try:
        routes = list(nx.all_shortest_paths(g, src, dst))
    except nx.NetworkXNoPath:
        return []
    return [(route, min(g.edges[e]["width"] for e in pairwise(route))) for route in routes]


@settings(max_examples=35)
@given(fabrics())
def test_ways_are_the_shortest_and_of_these_the_widest(fabric):
    for src, dst in permutations(range(fabric.ranks), 2):
        allowed = _allowed(fabric, fabric.gpus[src], fabric.gpus[dst])
        if not allowed:
            with pytest.raises(InputError, match=f"no way from g{src} to g{dst}.*; allowed: pairs with one"):
                nodes(fabric, src, dst)
            continue
        widest = max(width for _, width in allowed)
        assert (nodes(fabric, src, dst), widest) in allowed


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
