"""Network files of ASTRA-sim; tests/data/fabric/README.md says whose they are."""

from itertools import product
from pathlib import Path

import pytest
from electrical_routes import route

from wavefabric.base.errors import InputError
from wavefabric.collectives import ring_all_gather
from wavefabric.fabric import cost, load
from wavefabric.fabric.candidates import node_grid
from wavefabric.fabric.electrical.static_routes import check_connected
from wavefabric.fabric.io.files import format_of, from_toml, to_toml
from wavefabric.fabric.io.importers.astra_sim import read_astra_sim

DATA = Path(__file__).parents[3] / "data" / "fabric"
GIB = 2.0**30
KEYS = ("topology", "npus_count", "bandwidth", "latency")


def yaml(*values):
    return "\n".join(f"{key}: [ {value} ]  # note" for key, value in zip(KEYS, values, strict=True))


def test_three_dimensions():
    fabric = load(DATA / "astra-Ring_FullyConnected_Switch.yml")
    assert (fabric.ranks, len(fabric.switches), fabric.alpha, fabric.forwards) == (64, 16, 0.0, True)
    ends = {(link.source, link.target): link for link in fabric.links}
    # Ranks as MultiDimTopology::translate_address has them: 47 is at [1, 7, 2].
    assert (47 % 2, 47 // 2 % 8, 47 // 16) == (1, 7, 2)
    ring, full = ends["GPU46", "GPU47"], ends["GPU47", "GPU33"]
    assert (ring.bandwidth, ring.latency) == (200 * GIB, pytest.approx(50e-9))
    assert (full.bandwidth, full.latency) == (100 * GIB, pytest.approx(500e-9))
    (up,) = (link for (a, _), link in ends.items() if a == "GPU47" and link.kind == "network")
    assert (up.bandwidth, up.latency) == (50 * GIB, pytest.approx(2e-6))
    # The switch of GPU47 has all that differ from it in the last dimension alone.
    assert {a for (a, b) in ends if b == up.target} == {f"GPU{15 + 16 * k}" for k in range(4)}
    assert node_grid(fabric, range(64)) == (4, 16)
    check_connected(fabric)


@pytest.mark.parametrize("shape", ["Ring", "FullyConnected", "Switch"])
def test_one_dimension_takes_what_the_analytical_backend_does(shape):
    fabric = read_astra_sim(yaml(shape, 8, "50.0", 500))
    hops = 2 if shape == "Switch" else 1
    links = {"Ring": 16, "FullyConnected": 56, "Switch": 16}[shape]
    assert (len(fabric.links), fabric.forwards) == (links, shape == "Ring")
    # A ring all-gather: 7 rounds of hops · latency + bytes / bandwidth (BasicTopology.cpp).
    seconds = cost(ring_all_gather([1] * 8), fabric, 1e6).seconds
    assert seconds == pytest.approx(7 * (hops * 500e-9 + 1e6 / (50 * GIB)))


def test_what_they_validated_on_an_h100():
    fabric = load(DATA / "astra-hgx-h100.yml")
    assert route(fabric, 0, 7) == (["switch0.0"], [429.497] * 2)  # 400 · 2^30 B/s


def test_the_json_of_version_1():
    fabric = load(DATA / "astra-hierarchical.json")
    assert fabric.ranks == 32
    rates = {link.kind: link.bandwidth for link in fabric.links}
    # Both links of a GPU in a ring of two lead to the other one; 7 links to 7 others; one to a switch.
    assert rates == {"dimension 0": 500e9, "dimension 1": 25e9, "network": 12.5e9}
    text = (DATA / "astra-hierarchical.json").read_text().replace('"nic-latency": [0', '"nic-latency": [40')
    (late,) = {link.latency for link in read_astra_sim(text).links if link.kind == "dimension 0"}
    assert late == pytest.approx(540e-9)


@pytest.mark.parametrize("file", sorted(DATA.glob("astra-*")), ids=lambda file: file.stem)
def test_files_are_fabrics(file):
    assert format_of(file.read_text()) == "astra-sim"
    fabric = load(file)
    assert fabric.name == file.stem
    assert from_toml(to_toml(fabric)) == fabric


@pytest.mark.parametrize(("shape", "size"), product(["Ring", "FullyConnected", "Switch"], [2, 3, 5]))
def test_all_shapes_and_sizes_are_connected(shape, size):
    fabric = read_astra_sim(yaml(f"{shape}, Ring", f"{size}, 3", "1, 2", "0, 0"))
    check_connected(fabric)
    assert len({(x.source, x.target) for x in fabric.links}) == len(fabric.links)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (yaml("Mesh", 8, 50, 500), '"Mesh" given.*; allowed: Ring, FullyConnected, Switch'),
        (yaml("Ring", 8, "tbd", 500), 'bandwidth: "tbd" given; allowed: numbers from 1e-06'),
        (yaml("Ring", 8, 0, 500), 'bandwidth: "0" given'),
        (yaml("Ring", 1, 50, 500), 'npus_count: "1" given; allowed: whole numbers from 2 to 4096'),
        (yaml("Ring", "2.5", 50, 500), 'npus_count: "2.5" given'),
        (yaml("Ring", 8, 50, "-1"), 'latency: "-1" given; allowed: numbers from 0'),
        (
            yaml("Ring, Ring", "8, 8", "50", "1, 1"),
            "bandwidth: .*given; allowed: a list with a value for each",
        ),
        (yaml("Ring, Ring", "64, 128", "1, 1", "1, 1"), "4096 in all"),
        (yaml("FullyConnected", 4096, 1, 1), "16773120 links; allowed"),
        ("topology: [ Ring ]\nnpus_count: [ 8 ]\n", "bandwidth: .* given; allowed: a list"),
        ("topology: [ Ring ]\ntopology: [ Ring ]\n", "line 2: .*; allowed: once each topology, npus_count"),
        ("topology: Ring\n", 'line 1: "topology: Ring"; allowed'),
        ("topology: [ Ring ]\nspeed: [ 1 ]\n", "line 2"),
        ('{"topologies-per-dim": ["Ring"], "units-count": [8]}', "link-bandwidth: .*given; allowed: a list"),
        ('{"topologies-per-dim": ', "JSON"),
    ],
)
def test_refusals(text, words):
    with pytest.raises(InputError, match=words) as error:
        read_astra_sim(text)
    assert "\n" not in str(error.value)
