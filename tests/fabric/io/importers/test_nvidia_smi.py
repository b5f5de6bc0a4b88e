"""Tables of nvidia-smi topo -m as fabrics."""

from pathlib import Path

import pytest
from electrical_routes import route
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.base.errors import InputError
from wavefabric.base.system.gpu_topology import parse
from wavefabric.fabric.electrical.static_routes import check_connected
from wavefabric.fabric.io.files import from_toml, to_toml
from wavefabric.fabric.io.importers.nvidia_smi import read_topo

DATA = Path(__file__).parents[3] / "data" / "fabric"
FILES = sorted(DATA.glob("smi-*.txt"))


def table(links, numa=None):
    """What nvidia-smi prints for a matrix of classes."""
    names = [f"GPU{g}" for g in range(len(links))]
    numa = numa or [0] * len(links)
    lines = ["\t" + "\t".join([*names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])]
    for name, row, node in zip(names, links, numa, strict=True):
        lines.append("\t".join([name, *row, f"{node}-{node}", str(node), "N/A"]))
    return "\n".join(lines) + "\n"


def test_nvswitch_is_seen_from_the_number_of_links():
    text = (DATA / "smi-nvswitch.txt").read_text()
    assert "\x1b[4m" in text
    fabric = read_topo(text, sm=90)
    assert fabric.ranks == 8
    assert route(fabric, 0, 7) == (["NVSwitch0"], [370.8, 370.8])  # 18 links of 20.6 GB/s
    assert route(read_topo(text, sm=90, nvlink_bandwidth=25e9), 0, 7)[1] == [450.0, 450.0]
    assert {link.bandwidth for link in fabric.links if link.kind == "pcie"} == {48e9}
    assert route(read_topo(text, sm=90, nvswitch=False), 0, 7)[0] == []


def test_links_between_gpus():
    fabric = read_topo(DATA / "smi-cube-mesh.txt", sm=70)
    assert route(fabric, 0, 1) == ([], [40.0])
    assert route(fabric, 0, 3) == ([], [20.0])
    assert route(fabric, 0, 7) == (["CPU0", "CPU1"], [12.0, 16.0, 12.0])
    total = sum(link.bandwidth for link in fabric.links if link.kind == "nvlink" and link.source == "GPU0")
    assert total == pytest.approx(6 * 20e9)


@pytest.mark.parametrize(
    ("file", "pair", "nodes", "rates"),
    [
        ("smi-bridges.txt", (0, 1), [], [240.0]),  # 12 links of an A100 to one other, none to the rest
        ("smi-bridges.txt", (1, 2), ["CPU0"], [24.0, 24.0]),
        ("smi-bridges.txt", (3, 4), ["CPU0", "CPU1"], [24.0, 16.0, 24.0]),
        ("smi-four.txt", (0, 3), [], [123.6]),  # 3 x 6 links of an H100
        ("smi-grace.txt", (0, 3), ["NVSwitch0"], [370.8, 370.8]),
    ],
)
def test_machines_of_users(file, pair, nodes, rates):
    assert route(read_topo(DATA / file), *pair) == (nodes, rates)


def test_a_tree_of_switches():
    fabric = read_topo(
        DATA / "smi-pcie.txt", name="box", pcie_bandwidth=12e9, socket_bandwidth=20e9, alpha=5e-6
    )
    assert (fabric.name, fabric.alpha) == ("box", 5e-6)
    assert route(fabric, 2, 3) == (["PCIe switch 1"], [12.0, 12.0])
    assert route(fabric, 0, 2)[0] == ["PCIe switch 0", "CPU0", "PCIe switch 1"]
    assert route(fabric, 0, 7) == (
        ["PCIe switch 0", "CPU0", "CPU1", "PCIe switch 3"],
        [12.0, 12.0, 20.0, 12.0, 12.0],
    )


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_a_fabric_like_any_other(path):
    fabric = read_topo(path, sm=90)
    check_connected(fabric)
    assert from_toml(to_toml(fabric)) == fabric
    assert read_topo(path.read_text(), sm=90) == fabric


def class_of(fabric, src, dst):
    """The class of a way, from the nodes that it passes."""
    nodes = route(fabric, src, dst)[0]
    cpus = [n for n in nodes if n.startswith("CPU")]
    if len(cpus) == 2:
        return "SYS"
    if cpus:
        return "NODE"
    if any(n.startswith("bridge") for n in nodes):
        return "PHB"
    return "PXB" if any(n.startswith("PCIe tree") for n in nodes) else "PIX"


@pytest.mark.slow
@settings(max_examples=40)
@given(st.data())
def test_the_tree_has_the_classes_of_the_table(data):
    """GPUs at random places of a tree: each place is a socket, a bridge, a tree of switches and a switch."""
    gpus = data.draw(st.integers(1, 8))
    digit = st.integers(0, 1)
    positions = data.draw(st.lists(st.tuples(digit, digit, digit, digit), min_size=gpus, max_size=gpus))

    def link(a, b):
        if a == b:
            return "X"
        same = next((n for n in range(4) if positions[a][n] != positions[b][n]), 4)
        return ["SYS", "NODE", "PHB", "PXB", "PIX"][same]

    links = [[link(a, b) for b in range(gpus)] for a in range(gpus)]
    fabric = read_topo(table(links, [p[0] for p in positions]))
    for a in range(gpus):
        for b in range(gpus):
            if a != b:
                assert class_of(fabric, a, b) == links[a][b]


def all_to_all(gpus, link):
    return [["X" if a == b else link for b in range(gpus)] for a in range(gpus)]


@pytest.mark.parametrize(
    ("links", "sm", "switches", "rate"),
    [
        (all_to_all(8, "NV18"), 90, True, 18 * 20.6),  # HGX H100
        (all_to_all(4, "NV18"), 90, True, 18 * 20.6),  # four GPUs of one, or GH200
        (all_to_all(4, "NV6"), 90, False, 6 * 20.6),  # four H100, each joined to each
        (all_to_all(8, "NV12"), 80, True, 240.0),  # HGX A100
        (all_to_all(4, "NV4"), 80, False, 80.0),  # four A100
        (all_to_all(2, "NV12"), 80, False, 240.0),  # a bridge
        (all_to_all(16, "NV6"), 70, True, 120.0),  # DGX-2
        (all_to_all(4, "NV2"), 70, False, 40.0),  # four V100
        (all_to_all(2, "NV4"), 86, False, 48.0),  # two A40
    ],
)
def test_the_number_of_nvlinks_tells_the_generation(links, sm, switches, rate):
    fabric = read_topo(table(links, [0] * len(links)))
    assert f"compute capability {sm / 10:.1f}, inferred" in fabric.source
    assert any("NVSwitch" in name for name in fabric.switches) == switches
    rates = [link.bandwidth / 1e9 for link in fabric.links if link.kind == "nvlink"]
    assert rates == pytest.approx([rate] * len(rates))


def test_a_generation_that_nvlinks_do_not_tell_is_asked_for():
    square = table([["X", "NV5"], ["NV5", "X"]], [0, 0])
    with pytest.raises(InputError, match=r"sm: none given, and no GPU has 5 or 5 NVLinks .*allowed: .*--sm"):
        read_topo(square)
    assert read_topo(square, sm=80).ranks == 2
    with pytest.raises(InputError, match=r"sm: 80 given, 12 NVLinks, with NV18; allowed: .*90"):
        read_topo(table(all_to_all(4, "NV18"), [0] * 4), sm=80)


def test_numa_tells_what_nvlinks_hide():
    links = [
        ["X", "NV4", "SYS", "NV4"],
        ["NV4", "X", "NV4", "SYS"],
        ["SYS", "NV4", "X", "NV4"],
        ["NV4", "SYS", "NV4", "X"],
    ]
    fabric = read_topo(table(links, [0, 0, 1, 1]), sm=80)
    assert route(fabric, 0, 1) == ([], [80.0])
    assert route(fabric, 0, 2)[0] == ["CPU0", "CPU1"]
    assert {link.target for link in fabric.links if link.source == "GPU1" and link.kind == "pcie"} == {"CPU0"}


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ([["X", "PIX"], ["SYS", "X"]], "PIX from GPU0 to GPU1, SYS back; allowed: the same both ways"),
        ([["X", "X"], ["X", "X"]], "X between GPU0 and GPU1; allowed: SYS, NODE"),
        ([["PIX", "PIX"], ["PIX", "PIX"]], "PIX between GPU0 and GPU0; allowed: X"),
        ([["X", "NV0"], ["NV0", "X"]], "NV0 between GPU0 and GPU1; allowed: SYS, NODE"),
        (
            [["X", "PIX", "SYS"], ["PIX", "X", "PIX"], ["SYS", "PIX", "X"]],
            "SYS between GPU0 and GPU2, which are PIX through others; allowed: classes of a tree",
        ),
        ([["X", "ABC"], ["ABC", "X"]], "ABC in the row of GPU0; allowed: X, SYS"),
    ],
)
def test_contradictions(links, message):
    with pytest.raises(InputError) as caught:
        read_topo(table(links))
    assert str(caught.value).startswith(f"nvidia-smi topo -m: {message}")


def test_what_is_refused(tmp_path):
    text = FILES[0].read_text()
    for key in ("nvlink_bandwidth", "pcie_bandwidth", "socket_bandwidth", "alpha"):
        for value in (0, -1.0, float("nan"), float("inf")):
            with pytest.raises(InputError, match=f"{key}: .*; allowed: a positive number"):
                read_topo(text, **{key: value})
    with pytest.raises(InputError, match="no header with GPU0 given"):
        read_topo("")
    with pytest.raises(InputError, match=r"none\.txt \(No such file"):
        read_topo(tmp_path / "none.txt")


@settings(max_examples=60)
@given(st.data())
def test_damaged_tables_never_raise_anything_else(data):
    text = data.draw(st.sampled_from(FILES)).read_text()
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        upto = data.draw(st.integers(at, min(len(text), at + 40)) | st.just(len(text)))
        put = data.draw(
            st.sampled_from(
                ["", "NV", "NV99999999", "NV" + "9" * 5000, "X", "PIX", "\n", "GPU0", "²", "\x1b["]
            )
        )
        text = text[:at] + put + text[upto:]
    for read in (parse, read_topo):
        try:
            read(text)
        except InputError as error:
            message = str(error)
            assert "\n" not in message
