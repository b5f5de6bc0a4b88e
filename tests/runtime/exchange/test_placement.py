"""Placement of ranks on GPUs: nvidia-smi's tables, the least traffic over slow links, files."""

import itertools

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.base.system.gpu_topology import parse, query, speed
from wavefabric.collectives import all_to_all, point_to_point, ring_all_gather
from wavefabric.runtime.exchange.placement import best_placement, crossings, read_placement, traffic

LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""


def smi_table(link, gpus, adapters=0, underline=False):
    """What nvidia-smi prints; ``link(i, j)`` names the class of two different GPUs."""
    names = [f"GPU{i}" for i in range(gpus)] + [f"NIC{i}" for i in range(adapters)]
    header = [f"\x1b[4m{name}" if underline else name for name in names]
    ends = ["CPU Affinity", "NUMA Affinity", "GPU NUMA ID\x1b[0m" if underline else "GPU NUMA ID"]
    lines = ["\t" + "\t".join(header + ends)]
    for i, name in enumerate(names):
        cells = [" X " if i == j else (link(i, j) if max(i, j) < gpus else "NODE") for j in range(len(names))]
        if i < gpus:
            socket = 2 * i // gpus
            cells += [f"{32 * socket}-{32 * socket + 31},{64 + 32 * socket}-95", str(socket), "\tN/A"]
        lines.append("\t".join([name, *cells]))
    return "\n".join(lines) + "\n" + LEGEND


def two_sockets(i, j):
    """Pairs behind a switch, two pairs a host bridge each, two sockets."""
    if i // 2 == j // 2:
        return "PIX"
    return "NODE" if i // 4 == j // 4 else "SYS"


def interleaved(i, j):
    """The same with even GPUs on one socket."""
    return two_sockets(4 * (i % 2) + i // 2, 4 * (j % 2) + j // 2)


def ring_of_halos(ranks, size=100):
    """Each rank sends one overlap to each of its two neighbours."""
    return point_to_point("halo", ranks, [(r, (r + d) % ranks, size) for r in range(ranks) for d in (-1, 1)])


@pytest.mark.parametrize("adapters", [0, 3])
@pytest.mark.parametrize("underline", [False, True])
def test_parse_two_sockets(adapters, underline):
    result = parse(smi_table(two_sockets, 8, adapters, underline))
    assert result.gpus == 8
    for i, j in itertools.product(range(8), repeat=2):
        assert result.links[i][j] == ("X" if i == j else two_sockets(i, j))
    assert result.numa == (0, 0, 0, 0, 1, 1, 1, 1)
    assert result.classes == ("SYS", "NODE", "PIX")


def test_parse_nvlink_and_one_gpu():
    assert parse(smi_table(lambda *_: "NV18", 8)).classes == ("NV18",)
    assert parse(smi_table(lambda *_: "NV18", 1)).classes == ()


def test_order_of_classes():
    names = ["SYS", "NODE", "PHB", "PXB", "PIX", "NV1", "NV12", "NV18", "X"]
    assert sorted(reversed(names), key=speed) == names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("No devices were found\n", "no header"),
        (smi_table(lambda i, j: "WARP", 2), "WARP in the row of GPU0; allowed: X, SYS"),
        (smi_table(two_sockets, 4).replace("\nGPU3", "\nGPU"), "3 rows for 4 GPUs"),
    ],
)
def test_parse_refuses(text, message):
    with pytest.raises(InputError, match=message):
        parse(text)


def test_traffic_counts_what_moves():
    sizes = np.arange(1, 10).reshape(3, 3)
    schedule = all_to_all(sizes)
    expected = sizes * 8
    np.fill_diagonal(expected, 0)
    assert np.array_equal(8 * traffic(schedule), expected)
    assert np.array_equal(traffic(schedule, messages=True), 1 - np.eye(3, dtype=int))


def test_ring_over_two_sockets():
    """Of the 16 overlaps that 8 ranks send, 4 cross at best (two cuts, both ways), and all at worst."""
    result = best_placement(ring_of_halos(8), parse(smi_table(two_sockets, 8)))
    assert (result.slowest, result.crossing, result.worst) == ("SYS", 4, 16)
    assert result.gpus == list(range(8))
    assert str(result) == (
        "placement: 0 1 2 3 4 5 6 7; messages over the slowest links (SYS): 4 (worst case 16)"
    )


def test_ring_where_sockets_alternate():
    topology = parse(smi_table(interleaved, 8))
    schedule = ring_of_halos(8)
    counts = traffic(schedule, messages=True)
    assert crossings(counts, topology, list(range(8)))["SYS"] == 16
    result = best_placement(schedule, topology)
    assert (result.crossing, result.worst) == (4, 16)
    over = crossings(counts, topology, result.gpus)
    # Eight pairs of neighbours: four behind a switch, two across bridges, two across sockets.
    assert over == {"SYS": 4, "NODE": 4, "PIX": 8}


def test_exact_search_against_all_permutations():
    generator = np.random.default_rng(5)
    sizes = generator.integers(0, 50, (5, 5))
    schedule = all_to_all(sizes)
    topology = parse(smi_table(two_sockets, 6))
    moved = traffic(schedule)

    def cost(gpus):
        return tuple(crossings(moved, topology, list(gpus)).values())

    best = min(itertools.permutations(range(6), 5), key=cost)
    result = best_placement(schedule, topology)
    assert cost(result.gpus) == cost(best)
    assert result.gpus == list(best)


def test_few_ranks_stay_together():
    result = best_placement(ring_all_gather([10] * 2), parse(smi_table(two_sockets, 8)))
    assert result.gpus == [0, 1]
    assert result.crossing == 0


@pytest.mark.slow
def test_search_beyond_eight_finds_the_known_best():
    """A ring of 16 over two sockets of 8 that alternate: two cuts, both ways."""
    topology = parse(smi_table(lambda i, j: "PIX" if i % 2 == j % 2 else "SYS", 16))
    result = best_placement(ring_of_halos(16), topology)
    assert sorted(result.gpus) == list(range(16))
    assert (result.crossing, result.worst) == (4, 32)


def test_alike_links_keep_the_order():
    result = best_placement(ring_of_halos(8), parse(smi_table(lambda *_: "NV18", 8)))
    assert result.gpus == list(range(8))
    assert (result.slowest, result.crossing, result.worst) == ("NV18", 16, 16)


def test_too_few_gpus():
    with pytest.raises(InputError, match="8 ranks on 4 GPUs; allowed: a GPU for each rank"):
        best_placement(ring_of_halos(8), parse(smi_table(two_sockets, 4)))


def test_query_keeps_to_visible_gpus(tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{smi_table(two_sockets, 8)}END\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert query().gpus == 8
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7,0,6")
    assert query().links == (("X", "SYS", "PIX"), ("SYS", "X", "SYS"), ("PIX", "SYS", "X"))
    assert query().numa == (1, 0, 1)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-1234")
    assert query() is None
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert query() is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("p.txt", "# a remark\n3 1 # two of them\n\n0,2\n"),
        ("p.json", "[3, 1, 0, 2]"),
        ("p.json", '{"placement": [3, 1, 0, 2]}'),
        ("p.toml", "placement = [3, 1,\n 0, 2]"),
    ],
)
def test_files(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert read_placement(tmp_path / name, 4) == [3, 1, 0, 2]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("p.txt", "0\n1\ntwo\n", "p.txt, line 3: 'two' given; allowed: the number of a GPU, 0 to 4095"),
        ("p.txt", "0 1\n0 2\n", r"line 2: GPU 0 is given again \(first: line 1\); allowed: each once"),
        ("p.txt", "0 1 2", "3 GPUs given; allowed: one for each of 4 ranks"),
        ("p.txt", "0 -1 2 3", "line 1: '-1' given"),
        ("p.json", "[0, 1, true, 3]", "entry 3: True given"),
        ("p.json", "[0, 1,\n 2, 3", "line 2: .*allowed: JSON"),
        ("p.json", '{"gpus": [0]}', "gpus given; allowed: placement = "),
        ("p.json", "4", "placement: 4 given; allowed: a list"),
        ("p.toml", "placement = [0, 1,", "not TOML .*allowed: a TOML file"),
        ("p.toml", "placement = [0, 1, 2, 1.5]", "entry 4: 1.5 given"),
    ],
)
def test_bad_files(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        read_placement(tmp_path / name, 4)


def test_missing_file(tmp_path):
    with pytest.raises(InputError, match=r"--placement: .*cannot be read .*allowed: a file, or auto"):
        read_placement(tmp_path / "nothing.txt", 2)
