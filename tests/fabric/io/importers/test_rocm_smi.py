"""Tables of rocm-smi and amd-smi as fabrics; tests/data/fabric/README.md says whose they are."""

import re
from pathlib import Path

import pytest
from electrical_routes import route

from wavefabric.base.errors import InputError
from wavefabric.fabric import cost, load
from wavefabric.fabric.io.files import format_of, from_toml, to_toml
from wavefabric.fabric.io.importers.rocm_smi import read_rocm_topo

DATA = Path(__file__).parents[3] / "data" / "fabric"


def table(title, rows):
    """A table of rocm-smi."""
    names = [f"GPU{g}" for g in range(len(rows))]
    lines = [f"===== {title} between two GPUs =====", " ".join(names)]
    return "\n".join(
        [*lines, *(f"{n} {' '.join(map(str, row))}" for n, row in zip(names, rows, strict=True))]
    )


def test_two_gpus_of_a_user():
    fabric = load(DATA / "rocm-two.txt")
    assert (fabric.ranks, fabric.switches, fabric.forwards) == (2, (), False)
    assert route(fabric, 0, 1) == ([], [24.0])  # what RCCL takes for an xGMI link that it does not know
    assert "gfx908, inferred" in fabric.source
    known = read_rocm_topo((DATA / "rocm-two.txt").read_text(), gcn="gfx90a")
    assert route(known, 1, 0) == ([], [36.0])
    assert "gfx90a;" in known.source


def test_eight_gpus_of_amd_smi_have_the_rates_of_the_table():
    fabric = load(DATA / "amd-smi-mi300x.txt")
    assert (fabric.ranks, len(fabric.links), fabric.switches) == (8, 56, ())
    assert {link.bandwidth for link in fabric.links} == {50e9}
    assert "of the table" in fabric.source
    text = (DATA / "amd-smi-mi300x.txt").read_text().replace("50000-50000", "0-0")
    assert {link.bandwidth for link in read_rocm_topo(text).links} == {48e9}  # RCCL's, of MI300


def test_gpus_on_pcie_hang_on_their_numa_nodes():
    fabric = load(DATA / "rocm-pcie.txt")
    assert set(fabric.switches) == {"CPU1", "CPU3", "CPU7"}
    assert route(fabric, 2, 3) == (["CPU7"], [24.0, 24.0])
    assert route(fabric, 0, 1) == (["CPU3", "CPU1"], [24.0, 16.0, 24.0])
    assert fabric.alpha == 10e-6
    newer = read_rocm_topo((DATA / "rocm-pcie.txt").read_text(), gcn="gfx942")
    assert route(newer, 2, 3)[1] == [48.0, 48.0]


def test_without_numa_nodes_hops_tell_the_cpus():
    text = re.sub(r"=+ Numa Nodes[\s\S]*", "", (DATA / "rocm-pcie.txt").read_text())
    assert len(read_rocm_topo(text).switches) == 4  # 3 hops: each on another
    near = text.replace("GPU0   0            3 ", "GPU0   0            2 ").replace("GPU1   3 ", "GPU1   2 ")
    assert route(read_rocm_topo(near), 0, 1)[0] == ["CPU0"]


def test_pairs_of_larger_weight_pass_through_others():
    weights = [[0, 15, 30], [15, 0, 15], [30, 15, 0]]
    types = [["0" if a == b else "XGMI" for b in range(3)] for a in range(3)]
    fabric = read_rocm_topo(f"{table('Weight', weights)}\n\n{table('Link Type', types)}\n")
    assert fabric.forwards
    assert len(fabric.links) == 4
    assert route(fabric, 0, 2) == (["GPU1"], [36.0, 36.0])  # MI200


@pytest.mark.parametrize(
    "file", sorted(DATA.glob("rocm-*.txt")) + sorted(DATA.glob("amd-*.txt")), ids=lambda f: f.stem
)
def test_files_are_fabrics(file):
    text = file.read_text()
    assert format_of(text) == "rocm-smi"
    fabric = load(file)
    assert fabric.name == file.stem
    assert from_toml(to_toml(fabric)) == fabric
    from wavefabric.collectives import ring_all_gather

    assert cost(ring_all_gather([1] * fabric.ranks), fabric, 1e6).seconds > 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "==== ROCm System Management Interface ====",
            "no table of link types; allowed: the output of rocm-smi",
        ),
        (table("Link Type", [["0", "XGMI"], ["PCIE", "0"]]), '"XGMI" from GPU0 to GPU1, "PCIE" back'),
        (table("Link Type", [["0", "NVL"], ["NVL", "0"]]), '"NVL" from GPU0 to GPU1'),
        (table("Link Type", [["0", "XGMI"], ["XGMI"]]), "row .*GPU1 XGMI.* of link type; allowed: rows of 2"),
        (table("Link Type", [["0", "XGMI"], ["XGMI", "0"]]).rsplit("\n", 1)[0], "equal ones"),
        ("LINK TYPE TABLE:\n a b\n", "tables of .0. GPUs; allowed: equal ones of 1 to 512"),
        (table("Weight", [["0", "x"], ["15", "0"]]), "row .*GPU0 0 x.* of weight"),
        (table("Weight", [["0"]]) + "\n" + table("Link Type", [["0", "XGMI"], ["XGMI", "0"]]), "equal ones"),
    ],
)
def test_refusals(text, words):
    with pytest.raises(InputError, match=words) as error:
        read_rocm_topo(text)
    assert "\n" not in str(error.value)


def test_an_architecture_is_checked():
    with pytest.raises(InputError, match=r'gcn: "mi300" given; allowed: .* such as gfx942'):
        read_rocm_topo((DATA / "rocm-two.txt").read_text(), gcn="mi300")
