"""Fabrics as TOML files: they round-trip, and faults are told in one line."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.base.errors import InputError
from wavefabric.base.units import quantity
from wavefabric.fabric.candidates import node_grid
from wavefabric.fabric.electrical import families
from wavefabric.fabric.electrical.fabric import Fabric, Link, TransportTimes
from wavefabric.fabric.electrical.static_routes import check_connected, resource_use
from wavefabric.fabric.io import writing as file_text
from wavefabric.fabric.io.files import from_toml, load, save, to_toml
from wavefabric.fabric.io.importers.nccl_xml import read_nccl_xml
from wavefabric.fabric.io.importers.nvidia_smi import read_topo
from wavefabric.fabric.photonic.budget import budget
from wavefabric.fabric.photonic.fabric import PhotonicFabric
from wavefabric.fabric.photonic.link_budget import LinkBudget

NAMES = st.text(st.characters(categories=("L", "N", "P", "S", "Zs")), min_size=1, max_size=6).filter(
    str.isprintable
)
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
BANDWIDTHS = st.floats(1, 1e17) | st.integers(1, 10**12).map(float)
SECONDS = st.floats(0, 1e5) | st.integers(0, 10**6).map(lambda n: n * 1e-7)


TRANSPORTS = st.builds(
    TransportTimes,
    st.sampled_from(["p2p", "nccl", "mpi-cuda", "mpi"]),
    *[st.none() | SECONDS, st.none() | BANDWIDTHS, st.none() | BANDWIDTHS],
    SECONDS,
    st.booleans(),
)


@st.composite
def fabrics(draw):
    names = draw(st.lists(NAMES, min_size=2, max_size=7, unique=True))
    gpus = draw(st.integers(1, len(names)))
    around = [Link(a, b, 1e9) for a, b in zip(names, names[1:] + names[:1], strict=True)]
    pairs = st.tuples(*[st.sampled_from(names)] * 2).filter(lambda p: p[0] != p[1])
    links = []
    for a, b in draw(st.lists(pairs, max_size=6)):
        link = Link(a, b, draw(BANDWIDTHS), draw(SECONDS), draw(NAMES))
        back = Link(b, a, link.bandwidth, link.latency, link.kind)
        links += [link] * draw(st.integers(1, 3)) + [back] * draw(st.integers(0, 3))
    maybe = st.none() | BANDWIDTHS
    return Fabric(
        name=draw(NAMES),
        gpus=tuple(names[:gpus]),
        switches=tuple(names[gpus:]),
        links=tuple(around + links),
        alpha=draw(SECONDS),
        copy_bandwidth=draw(maybe),
        flow_bandwidth=draw(maybe),
        forwards=draw(st.booleans()),
        description=draw(TEXTS),
        source=draw(TEXTS),
        reduce_bandwidth=draw(maybe),
        reduce_alpha=draw(SECONDS),
        round_overhead=draw(SECONDS),
        transports=tuple(draw(st.lists(TRANSPORTS, max_size=3))),
    )


@st.composite
def photonic_fabrics(draw):
    side, count = st.integers(1, 20), st.integers(1, 64)
    return PhotonicFabric(
        draw(NAMES),
        *(draw(side) for _ in range(4)),
        draw(count),
        draw(st.none() | count),
        draw(BANDWIDTHS),
        draw(count),
        draw(count),
        *(draw(SECONDS) for _ in range(3)),
        draw(st.floats(1e-6, 1)),
        draw(TEXTS),
        draw(TEXTS),
        draw(st.none() | st.builds(LinkBudget, st.floats(-40, 40), st.floats(0, 40))),
    )


@settings(max_examples=25)
@given(fabrics() | photonic_fabrics())
def test_text_makes_an_equal_fabric(fabric):
    text = to_toml(fabric)
    assert from_toml(text) == fabric
    assert to_toml(from_toml(text)) == text


def test_files_are_written_whole_and_not_overwritten(tmp_path):
    fabric, path = load("dgx-1"), tmp_path / "mine.toml"
    assert save(path, fabric) == path
    assert load(path) == load(str(path)) == fabric
    with pytest.raises(InputError, match=r"mine.toml exists; allowed: another name, or --force"):
        save(path, load("ring:4"))
    assert load(path) == fabric
    save(path, load("ring:4"), force=True)
    assert load(path).name == "ring:4"
    assert [p.name for p in tmp_path.iterdir()] == ["mine.toml"]
    with pytest.raises(InputError, match="is a folder"):
        save(tmp_path, fabric)
    with pytest.raises(InputError, match=r"cannot be written \(the folder .* does not exist\)"):
        save(tmp_path / "no" / "where.toml", fabric)


def test_links_stand_for_every_pair_of_their_ends():
    links = from_toml(
        """
        name = "x"
        alpha = "1 us"
        gpus = ["a", "b"]
        switches = 1
        links = [{ from = ["a", "b"], to = "SW0", bandwidth = "2 GB/s", latency = "0.5 s", count = 2 }]
        """
    ).links
    ends = [(link.source, link.target) for link in links]
    assert ends == [("a", "SW0")] * 2 + [("SW0", "a")] * 2 + [("b", "SW0")] * 2 + [("SW0", "b")] * 2
    assert {(link.bandwidth, link.latency, link.kind) for link in links} == {(2e9, 0.5, "wire")}


HEAD = 'name = "x"\nalpha = "1 us"\n'
PAIR = HEAD + "gpus = 2\n"
LINK = '[[links]]\nfrom = "GPU0"\nto = "GPU1"\n'
GOOD = PAIR + LINK + 'bandwidth = "1 GB/s"\n'
LIGHT = (
    'name = "l"\nkind = "photonic"\nrows = 2\ncolumns = 2\nlasers = 4\nlaser_bandwidth = "1 GB/s"\n'
    'waveguides = 2\nfibres = 2\nalpha = "1 us"\nreconfiguration = "3.7 us"\n'
)
FAMILY = HEAD + 'family = { kind = "ring", bandwidth = "1 GB/s", '
FAULTS = {
    "name": ("alpha = 1", "name: missing"),
    "long name": ('name = "a\\nb"\nalpha = "0 s"', 'name: "a\\nb" given; allowed: text of one line'),
    "kind": (HEAD + 'kind = "optical"', 'kind: "optical" given; allowed: "electrical" or "photonic"'),
    "list kind": (HEAD + "kind = [1]", 'kind: [1] given; allowed: "electrical" or "photonic"'),
    "gpus": (HEAD, "gpus: missing"),
    "no gpu": (HEAD + "gpus = 0", "gpus: none given; allowed: at least one"),
    "negative gpus": (HEAD + "gpus = -1", "gpus: -1 given; allowed: a number up to 4096"),
    "twice": (HEAD + 'gpus = ["a", "a"]', "gpus: a given twice"),
    "unknown": (HEAD + "gpu = 2", "gpu: unknown key (did you mean gpus?); allowed: name,"),
    "unknown in link": (GOOD + "speed = 1", "links[0].speed: unknown key; allowed: from, to, bandwidth"),
    "no unit": (PAIR + LINK + "bandwidth = 5", "links[0].bandwidth: 5 given; allowed: text with a unit"),
    "zero": (PAIR + LINK + 'bandwidth = "0 GB/s"', 'links[0].bandwidth: "0 GB/s" given; allowed: from 1 B/s'),
    "tiny": (PAIR + LINK + 'bandwidth = "1e-300 B/s"', 'bandwidth: "1e-300 B/s" given; allowed: from 1 B/s'),
    "endless": (
        PAIR.replace('"1 us"', '"1 us * (10**10**10)"') + LINK + 'bandwidth = "1 GB/s"',
        'alpha: "1 us * (10**10**10)" has the unit "us * (10**10**10)"',
    ),
    "huge": (PAIR + LINK + 'bandwidth = "1e30 GB/s"', 'links[0].bandwidth: "1e30 GB/s" given; allowed: up'),
    "metres": (PAIR + LINK + 'bandwidth = "1 m"', 'links[0].bandwidth: "1 m" has the unit "m"; allowed'),
    "no bandwidth": (PAIR + LINK, "links[0].bandwidth: missing"),
    "nowhere": (GOOD.replace('to = "GPU1"', 'to = "X"'), "links[0].to: X given; allowed: GPU0, GPU1"),
    "itself": (GOOD.replace('to = "GPU1"', 'to = "GPU0"'), "links[0].to: GPU0 given, from itself"),
    "no ends": (GOOD.replace('to = "GPU1"', "to = []"), "links[0].to: [] given; allowed: a name"),
    "alpha": (GOOD.replace('"1 us"', '"-1 us"'), 'alpha: "-1 us" given; allowed: from 0 s'),
    "nan": (GOOD.replace('"1 us"', '"nan s"'), 'alpha: "nan s" given, is not finite'),
    "apart": (PAIR, "links: no way from GPU0 to GPU1; allowed: links that join all GPUs"),
    "one way": (GOOD + "both = false", "links: no way from GPU1 to GPU0; allowed: links that join"),
    "count": (GOOD + "count = 0", "links[0].count: 0 given; allowed: from 1"),
    "both": (GOOD + "both = 1", "links[0].both: 1 given; allowed: true or false"),
    "too many": (GOOD + "count = 900000", "links: 1800000 given; allowed: up to 1000000"),
    "not a table": (PAIR + "links = [1]", "links[0]: 1 given; allowed: a table"),
    "transport": (
        PAIR + '[[transports]]\nname = "nccl"\nspeed = 2',
        "transports[0].speed: unknown key; allowed",
    ),
    "no transport": (PAIR + '[[transports]]\nalpha = "1 us"', "transports[0].name: missing"),
    "no time": (
        PAIR + '[[transports]]\nname = "nccl"\nalpha = "1 m"',
        'transports[0].alpha: "1 m" has the unit',
    ),
    "family": (HEAD + 'family = { kind = "star", bandwidth = "1 GB/s" }', 'family.kind: "star" given; allow'),
    "family size": (FAMILY + "grid = [2] }", "family.ranks: missing for ring; allowed: ranks alone"),
    "family sizes": (FAMILY + "ranks = 2, dimensions = 1 }", "family.dimensions: given for ring; allowed"),
    "family too large": (
        FAMILY.replace("ring", "torus") + "grid = [4096, 4096] }",
        "family: torus:4096x4096 given; allowed: 1 to 4096 GPUs in all",
    ),
    "nodes": (FAMILY.replace("ring", "nodes") + "grid = [2, 2] }", "family.network: missing for nodes; al"),
    "family and links": (FAMILY + "ranks = 3 }\ngpus = 3", "gpus: given beside family"),
    "lasers": (LIGHT.replace("lasers = 4", "lasers = 0"), "lasers: 0 given; allowed: from 1"),
    "rows": (LIGHT.replace("rows = 2", "rows = 2.5"), "rows: 2.5 given; allowed: a whole number"),
    "tiles": (LIGHT.replace("= 2\ncol", "= 4096\ncol"), "rows: 4096 rows of 2 given; allowed: up to 4096"),
    "links of light": (LIGHT + "links = []", "links: unknown key; allowed: name, kind"),
    "not TOML": ("name = ", "fabric: not TOML ("),
    "digits": ("alpha = " + "9" * 5000, "fabric: not TOML (Number with too many digits)"),
}


@pytest.mark.parametrize(("text", "message"), FAULTS.values(), ids=FAULTS)
def test_faults_of_a_file_are_told_in_one_line(text, message, tmp_path):
    path = tmp_path / "f.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(InputError, match=re.escape(message)) as error:
        load(path)
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ("nothing", 'fabric: "nothing" given; allowed: a file, dgx-1,'),
        ("", 'fabric: "" given; allowed: a file'),
        ("ring:", "fabric: ring: given; allowed: ring: and a number of GPUs"),
        ("ring:0", "fabric: ring:0 given; allowed: 1 to 4096 GPUs in all"),
        ("ring:4x4", "fabric: ring:4x4 given; allowed: ring: and a number of GPUs"),
        ("ring:٣", "fabric: ring:٣ given; allowed: ring: and a number of GPUs"),
        ("torus:4x", "fabric: torus:4x given; allowed: torus: and sizes such as 4x4"),
        ("switch:99999999999999", "allowed: switch: and a number of GPUs"),
        ("nodes:8", "fabric: nodes [8] given; allowed: nodes and GPUs of each, such as 4x8"),
        ("hypercube:13", "fabric: hypercube:13 given; allowed: 1 to 4096 GPUs in all"),
        ("lightpath:8", "fabric: lightpath:8 given; allowed: lightpath: and rows and columns such as 4x8"),
        (
            "missing.toml",
            "fabric: missing.toml (No such file or directory); allowed: a file that can be read",
        ),
        ("a\0b.toml", "not the name of a file"),
    ],
)
def test_names_that_are_no_fabric(inputs, message):
    with pytest.raises(InputError, match=re.escape(message)) as error:
        load(inputs)
    assert "\n" not in str(error.value)


def test_files_that_are_no_text(tmp_path):
    with pytest.raises(InputError, match=r"Is a directory"):
        load(tmp_path)
    path = tmp_path / "x.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"is not UTF-8 text; allowed: a text file"):
        load(path)


def test_families_have_the_links_of_their_textbooks():
    assert len(load("ring:5").links) == 10
    assert len(load("ring:2").links) == 2
    assert len(load("ring:1").links) == 0
    assert len(load("mesh:3x4").links) == 2 * (3 * 3 + 2 * 4)
    assert len(load("torus:3x4").links) == 4 * 12
    assert len(load("torus:2x2x3").links) == 12 * (1 + 1 + 2)
    assert len(load("hypercube:4").links) == 4 * 16
    assert len(load("switch:9").links) == 18
    for kind, sizes in (("mesh", (2, 3)), ("torus", (3, 3)), ("hypercube", (3,)), ("ring", (4,))):
        ends = {(link.source, link.target) for link in families.make_links(kind, sizes, 1.0, 0.0, "wire")}
        assert ends == {(b, a) for a, b in ends}


@pytest.mark.parametrize(("leaves", "uplink"), [("rails", 4 * 50e9 / 2), ("nodes", 3 * 50e9 / 2)])
def test_nodes_on_a_network(leaves, uplink):
    net = f'bandwidth = "50 GB/s", latency = "1 us", leaves = "{leaves}", oversubscription = 2'
    family = f'kind = "nodes", grid = [4, 3], bandwidth = "450 GB/s", network = {{ {net} }}'
    fabric = from_toml(f'name = "x"\nalpha = "1 us"\nfamily = {{ {family} }}')
    rates = {(link.source, link.target): link.bandwidth for link in fabric.links}
    assert (rates["GPU7", "node2"], rates["GPU7", "rail1" if leaves == "rails" else "leaf2"]) == (450e9, 50e9)
    assert {rate for (_, to), rate in rates.items() if to == "spine"} == {uplink}
    assert resource_use(fabric, [0, 0], [1, 3]).latency.tolist() == [0, 2e-6]


def test_nodes_share_adapters_and_several_spines():
    net = 'bandwidth = "25 GB/s", latency = "1 us", adapters = 2, spines = 4, oversubscription = 2'
    family = f'kind = "nodes", grid = [3, 4], bandwidth = "300 GB/s", network = {{ {net} }}'
    text = f'name = "x"\nalpha = "1 us"\nfamily = {{ {family} }}'
    fabric = from_toml(text)
    rates = {(link.source, link.target): link.bandwidth for link in fabric.links}
    assert rates["GPU6", "node1 nic1"] == rates["node1 nic1", "rail1"] == 25e9
    assert rates["rail0", "spine3"] == 3 * 25e9 / 2 / 4
    assert node_grid(fabric, range(12)) == (3, 4)
    use = resource_use(fabric, [0, 0, 0], [1, 5, 6])  # of one node, one rail, two rails
    assert use.latency.tolist() == [0, 2e-6, 2e-6]
    assert np.bincount(use.pair).tolist() == [2, 4, 3 + 2 * 4 + 1]
    refused = text.replace("adapters = 2", "adapters = 3")
    with pytest.raises(InputError, match="adapters: 3 given; allowed: a divisor of 4, the GPUs of a node"):
        from_toml(refused)


def test_connection_is_through_anything():
    # Between GPUs whose only way is through another GPU's memory, a ring algorithm still works.
    line = Fabric("line", ("a", "b", "c"), (), tuple(Link(*e, 1e9) for e in ("ab", "ba", "bc", "cb")), 0.0)
    check_connected(line)
    with pytest.raises(InputError, match="no way from c to a"):
        check_connected(Fabric("line", line.gpus, (), line.links[:3], 0.0))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (7e-7, '"0.7 us"'),
        (1.896e-6, '"1.896e-06 s"'),
        (2.5e-3, '"2.5 ms"'),
        (32410000000.0, '"32410 MB/s"'),
        (300e9, '"300 GB/s"'),
        (1 / 3, '"333.3333333333333 ms"'),
    ],
)
def test_quantities_have_a_unit_of_their_size(value, text):
    assert file_text._quantity(value, "B/s" if value > 1 else "s") == text
    assert quantity(text.strip('"'), "B/s" if value > 1 else "s") == value


def test_tiles_of_light_are_described_by_their_numbers():
    result = [load(f"lightpath:{size}").description.removeprefix("LIGHTPATH: ") for size in ("8x8", "4x4")]
    assert result == [
        "8 x 8 tiles on 2 wafers of 4 x 8 joined by fibres",
        "4 x 4 tiles on one wafer of 4 x 8",
    ]


def test_a_link_budget_is_part_of_a_photonic_file():
    text = to_toml(load("lightpath:2x2")) + '[budget]\nlaunch_power = "-1.5 dBm"\ncrossings = 2\n'
    wafer = from_toml(text)
    assert isinstance(wafer, PhotonicFabric)
    assert wafer.budget == LinkBudget(launch_power=-1.5, crossings=2.0)
    assert from_toml(to_toml(wafer)) == wafer
    less = budget(wafer, (0, 1)).received_dbm
    assert less == pytest.approx(budget(load("lightpath:2x2"), (0, 1)).received_dbm - 11.5)
    for wrong, message in (
        ('"-1.5 dBm"', '"3 dB"'),
        ("crossings = 2", "crossings = -2"),
        ("crossings = 2", 'responsivity = "0 A/W"'),
    ):
        with pytest.raises(InputError, match=r"^budget\.\w+: .* given; allowed: "):
            from_toml(text.replace(wrong, message))


@pytest.mark.parametrize("file", ["nccl-cube-mesh.xml", "smi-nvswitch.txt"])
def test_other_formats_are_recognised_by_content(file, tmp_path):
    source = Path(__file__).parents[2] / "data" / "fabric" / file
    path = tmp_path / "mine"
    path.write_text("\ufeff" + source.read_text("utf-8"), "utf-8")
    fabric = load(path)
    read = read_nccl_xml if file.endswith("xml") else read_topo
    assert fabric == read(source.read_text("utf-8"), name="mine")
