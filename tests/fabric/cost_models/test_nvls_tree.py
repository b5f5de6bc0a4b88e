"""NCCL's NVLSTree over nodes: a closed form, published bandwidths, and who refuses it."""

import pytest

from wavefabric.base.errors import InputError
from wavefabric.collectives.registry import build
from wavefabric.fabric import cost, load
from wavefabric.fabric.io.files import from_toml


def nodes(count, inside, adapter, latency="0 us"):
    """Nodes of eight GPUs on a switch that multicasts and reduces; ``inside`` and ``adapter`` in GB/s."""
    network = f'{{ bandwidth = "{adapter} GB/s", latency = "{latency}" }}'
    family = f'{{ kind = "nodes", grid = [{count}, 8], bandwidth = "{inside} GB/s", network = {network} }}'
    switches = [f"node{i}" for i in range(count)]
    alpha = "0.7 us" if latency != "0 us" else "0 us"
    return from_toml(f'name = "n"\nalpha = "{alpha}"\nmulticast_switches = {switches}\nfamily = {family}\n')


def test_an_nvls_tree_of_one_piece_reads_exchanges_and_writes():
    """All of a GPU's data go to the switch, a sixteenth up and down each of two trees, all data come back."""
    schedule = build("nvls-tree", "all-reduce", 16, 64, grid=(2, 8))
    seconds = cost(schedule, nodes(2, 400, 50), 64e9 / 64, "alpha-beta").seconds
    assert seconds == pytest.approx(64 / 400 + 2 * 64 / 16 / 50 + 64 / 400, rel=1e-9)


@pytest.mark.parametrize(
    ("one_node", "published"),
    [
        (480, 468),
        pytest.param(830, 713, marks=pytest.mark.slow),
    ],  # busbw of NCCL in GB/s, NVLS on one node and NVLSTree on two: H100, B200
)
def test_two_nodes_reach_what_nccl_reaches(one_node, published):
    """A GPU's link is what NVLS on one node fills: each GPU sends and receives 9/8 of the array there."""
    inside, nbytes = one_node * 8 / 14 * 9 / 8, 8 * 2**30
    schedule = build("nvls-tree", "all-reduce", 16, 16 * 64 * 2, pieces=64, grid=(2, 8))
    seconds = cost(schedule, nodes(2, inside, 48, "0.5 us"), nbytes / 2048, "alpha-beta").seconds
    assert 30 / 16 * nbytes / seconds / 1e9 == pytest.approx(published, rel=0.1)


def test_nodes_without_such_switches_are_refused_in_one_line():
    schedule = build("nvls-tree", "all-reduce", 32, 64, grid=(4, 8))
    with pytest.raises(InputError, match=r"nodes:4x8: no switch .* multicasts and reduces; allowed: .*none"):
        cost(schedule, load("nodes:4x8"), 1.0)
