"""NVLS within nodes and trees between them: proved, on rails, switches within nodes, and closed forms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.base.errors import InputError
from wavefabric.collectives import build, kind, verify
from wavefabric.collectives.structure import transfer_elements, units


@settings(max_examples=60)
@given(
    nodes=st.integers(1, 9), gpus=st.integers(1, 4), pieces=st.integers(1, 4), elements=st.integers(0, 200)
)
def test_all_reduces_are_proved_and_switches_serve_one_node(nodes, gpus, pieces, elements):
    schedule = build("nvls-tree", "all-reduce", nodes * gpus, elements, pieces=pieces, grid=(nodes, gpus))
    verify(schedule)
    if elements and nodes * gpus > 1:
        assert kind(schedule) == ("all-reduce", None)
    t, size, every = schedule.transfers, transfer_elements(schedule), units(schedule)
    aided = every.switched[every.of]
    away = t["src"] // gpus != t["dst"] // gpus
    assert not aided[away].any()
    assert aided[~away & (t["src"] != t["dst"])].all()
    assert (t["src"][away] % gpus == t["dst"][away] % gpus).all()
    # Every node but one sends, and receives, the whole array; each switch adds it up and multicasts it once.
    assert size[away].sum() == 2 * (nodes - 1) * elements
    assert size[aided].sum() == 2 * nodes * gpus * elements * (gpus > 1)


@pytest.mark.parametrize("nodes", [2, 4, 7])
def test_parts_of_rails_and_trees_are_equal(nodes):
    gpus, elements = 4, 2 * 4 * 3 * 5
    schedule = build("nvls-tree", "all-reduce", nodes * gpus, elements, pieces=3, grid=(nodes, gpus))
    t, size = schedule.transfers, transfer_elements(schedule)
    away = t["src"] // gpus != t["dst"] // gpus
    assert np.ptp(np.bincount(t["src"][away] % gpus, size[away], gpus)) == 0
    # No node is an inner node of both trees, so none sends more than the array twice.
    busiest = np.bincount(t["src"][away] // gpus, size[away], nodes).max() / elements
    assert busiest == (1 if nodes == 2 else 2)


@pytest.mark.parametrize(("nodes", "gpus", "pieces"), [(2, 8, 5), (4, 8, 16), (7, 2, 4)])
def test_a_round_before_the_trees_and_one_after_them(nodes, gpus, pieces):
    """The switch adds the first piece before the pipeline of the trees, and multicasts the last one after."""
    ranks = nodes * gpus
    schedule = build("nvls-tree", "all-reduce", ranks, 2 * ranks * pieces, pieces=pieces, grid=(nodes, gpus))
    between = build("double-tree", "all-reduce", nodes, 2 * nodes * pieces, pieces=pieces, grid=(nodes, 1))
    assert schedule.communication_rounds == between.communication_rounds + 2


@pytest.mark.parametrize("grid", [None, (8,), (2, 2, 2)])
def test_nodes_must_be_given(grid):
    with pytest.raises(InputError, match=r"grid: .* given; allowed: nodes and GPUs of each, such as 4x8"):
        build("nvls-tree", "all-reduce", 8, 64, grid=grid)
