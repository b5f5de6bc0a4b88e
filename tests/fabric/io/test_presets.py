"""The fabrics that come with the package."""

import sys
from itertools import permutations
from subprocess import run

import numpy as np
import pytest
from electrical_routes import nodes

from wavefabric.fabric import Fabric, load, presets
from wavefabric.fabric.bounds.cuts import bottleneck
from wavefabric.fabric.electrical.families import FAMILIES
from wavefabric.fabric.electrical.static_routes import check_connected, wires
from wavefabric.fabric.io.files import from_toml, to_toml

GIB = 2.0**30
# NVLinks between pairs of a DGX-1, from SCCL (Cai et al. 2021, doi:10.1145/3437801.3441620).
DGX_1 = [
    [0, 2, 1, 1, 2, 0, 0, 0],
    [2, 0, 1, 2, 0, 1, 0, 0],
    [1, 1, 0, 2, 0, 0, 2, 0],
    [1, 2, 2, 0, 0, 0, 0, 1],
    [2, 0, 0, 0, 0, 2, 1, 1],
    [0, 1, 0, 0, 2, 0, 1, 2],
    [0, 0, 2, 0, 1, 1, 0, 2],
    [0, 0, 0, 1, 1, 2, 2, 0],
]


@pytest.mark.parametrize("name", presets())
def test_each_can_be_used(name):
    fabric = load(name)
    assert fabric.name == name
    assert fabric.description == presets()[name]
    assert len(fabric.source) > 100
    assert from_toml(to_toml(fabric)) == fabric
    if isinstance(fabric, Fabric):
        check_connected(fabric)
        for src, dst in permutations(range(fabric.ranks), 2):
            assert nodes(fabric, src, dst)


def test_all_families_are_presets():
    assert FAMILIES.keys() <= presets().keys()


def test_families_have_the_numbers_of_the_paper():
    for kind in ("switch", "ring", "mesh", "torus", "hypercube"):
        fabric = load(kind)
        assert {link.bandwidth for link in fabric.links} == {300 * GIB}
        assert fabric.alpha == pytest.approx(0.7e-6)
    for name, tiles, wafers in (("lightpath", 32, 1), ("lightpath-256", 256, 8), ("lightpath:8x8", 64, 2)):
        fabric = load(name)
        assert (fabric.ranks, fabric.lasers, fabric.ports) == (tiles, 16, 16)
        assert fabric.bandwidth == 300 * GIB
        assert fabric.reconfiguration == pytest.approx(3.7e-6)
        assert len({fabric.wafer(t) for t in range(tiles)}) == wafers


def test_a_dgx_1_is_a_hybrid_cube_mesh():
    fabric = load("dgx-1")
    result = np.zeros((8, 8), int)
    for link in fabric.links:
        if link.kind == "nvlink":
            assert link.bandwidth == 25e9
            result[int(link.source[3:]), int(link.target[3:])] += 1
    np.testing.assert_array_equal(result, DGX_1)
    for src, dst in permutations(range(8), 2):
        route = nodes(fabric, src, dst)
        assert not any(node.startswith("GPU") for node in route[1:-1])
        assert (len(route) == 2) == (DGX_1[src][dst] > 0)
    assert nodes(fabric, 0, 7) == ["GPU0", "PLX0", "CPU0", "CPU1", "PLX3", "GPU7"]


@pytest.mark.parametrize(
    ("name", "into_each", "hops"),
    [
        ("dgx-1", 150e9 + 15.75e9, 5),
        ("dgx-2", 150e9, 2),
        ("dgx-a100", 300e9, 2),
        ("hgx-h200", 450e9, 2),
        ("p2.8xlarge", 15.75e9, 4),
        ("pny-p40", 15.75e9, 5),
    ],
)
def test_servers(name, into_each, hops):
    fabric = load(name)
    w = wires(fabric)
    count = fabric.ranks + len(fabric.switches)
    np.testing.assert_allclose(np.bincount(w.target, w.bandwidth, count)[: fabric.ranks], into_each)
    longest = max(len(nodes(fabric, *pair)) - 1 for pair in permutations(range(fabric.ranks), 2))
    assert longest == hops


def test_on_the_p40_server_quads_share_one_qpi():
    fabric = load("pny-p40")
    crossing = [
        p for p in permutations(range(8), 2) if "CPU1" in (route := nodes(fabric, *p)) and "CPU0" in route
    ]
    assert sorted(crossing) == sorted(p for p in permutations(range(8), 2) if (p[0] < 4) != (p[1] < 4))


def test_a_dgx_a100_gathers_as_fast_as_forestcoll_says():
    # Zhao et al., arXiv:2402.06787: 8 A100s, 342.86 GB/s.
    cut = bottleneck(load("dgx-a100"))
    assert 8 / len(cut.gpus) * cut.capacity / 1e9 == pytest.approx(342.86, abs=0.005)


def test_the_package_is_imported_without_what_is_slow():
    code = (
        "import sys, wavefabric.fabric as f; f.presets(); f.cost; f.presets\n"
        "assert not {'pydantic', 'scipy', 'networkx', 'pint', 'numpy'} & sys.modules.keys()\n"
        "import wavefabric.fabric.cost_models.cost, wavefabric.fabric.io.presets\n"
        "assert callable(f.cost) and callable(f.presets) and f.load('ring').ranks == 8\n"
        "assert f.AnyFabric == f.Fabric | f.PhotonicFabric\n"
        "assert not hasattr(f, 'nothing')"
    )
    done = run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
