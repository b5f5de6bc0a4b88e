"""`wavefabric fabric` on sound input."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from wavefabric.cli.common.show import rate_text
from wavefabric.fabric import load, presets
from wavefabric.fabric.electrical.families import EXAMPLES
from wavefabric.fabric.io.files import to_toml

DATA = Path(__file__).parents[2] / "data"
NCCL = """<!-- two GPUs on one switch -->
<system version="1">
  <cpu numaid="0" affinity="0000ffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">
    <pci busid="0000:10:00.0" class="0x060400" link_speed="16 GT/s" link_width="16">
      <pci busid="0000:11:00.0" class="0x030200" link_speed="16 GT/s" link_width="16">
        <gpu dev="0" sm="80" rank="0"><nvlink target="0000:12:00.0" count="4" tclass="0x030200"/></gpu>
      </pci>
      <pci busid="0000:12:00.0" class="0x030200" link_speed="16 GT/s" link_width="16">
        <gpu dev="1" sm="80" rank="1"><nvlink target="0000:11:00.0" count="4" tclass="0x030200"/></gpu>
      </pci>
    </pci>
  </cpu>
</system>
"""
SMI = """\
\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tNV4\t0-15\t0\t\tN/A
GPU1\tNV4\t X \t0-15\t0\t\tN/A

Legend:

  X    = Self
"""


def told(command, *words):
    """What a command prints with --json."""
    code, out, err = command("fabric", *words, "--json")
    assert (code, err) == (0, ""), err
    return json.loads(out)


def test_all_known_fabrics_are_listed(command):
    code, out, err = command("fabric", "show")
    assert (code, err) == (0, "")
    for name in (*presets(), *EXAMPLES.values()):
        assert name in out
    assert told(command, "show")["presets"] == presets()


@pytest.mark.parametrize("name", EXAMPLES.values())
def test_families_are_shown(command, name):
    code, out, err = command("fabric", "show", name)
    assert (code, err) == (0, "")
    for word in (name, "alpha", "all-gather", "what no schedule can beat"):
        assert word in out, out


def test_bounds_of_an_all_gather(command):
    # A rank receives (N - 1)/N of the array through its one link.
    result = told(command, "show", "switch:8")
    link = load("switch:8").links[0]
    bound = {each["collective"]: each for each in result["bounds"]}["all-gather"]
    assert bound["algbw"] == pytest.approx(link.bandwidth * 8 / 7)
    assert result["links"] == [
        {"kind": link.kind, "bandwidth": link.bandwidth, "latency": link.latency, "links": 16}
    ]
    light = told(command, "show", "lightpath:4x8")
    assert light["tile_bandwidth"] == load("lightpath:4x8").bandwidth
    assert (light["rows"], light["columns"], light["kind"]) == (4, 8, "photonic")


def test_transports_are_shown(command, tmp_path):
    code, out, err = command("fabric", "show", "hgx-h200")
    assert (code, err) == (0, "")
    lines = [line.split(maxsplit=1) for line in out.splitlines()]
    texts = {words[0]: words[1].strip() for words in lines if len(words) == 2}
    assert texts["nccl"] == "35 µs a round, 310 GB/s a transfer"
    assert texts["mpi"] == "31 µs a round, 12 GB/s through host memory, 40 µs a wait of the host"
    told_of = {each["name"]: each for each in told(command, "show", "hgx-h200")["transports"]}
    assert told_of["mpi-cuda"]["flow_bandwidth"] == 364e9
    text = to_toml(load("ring:4")) + '[[transports]]\nname = "nccl"\nring = true\n'
    (tmp_path / "mine.toml").write_text(text)
    out = command("fabric", "show", "mine.toml", "--save", "again.toml")[1]
    assert re.search(r"^nccl +all-gather in a ring", out, re.MULTILINE)
    assert load(tmp_path / "again.toml").transports == load(tmp_path / "mine.toml").transports


def test_a_single_gpu_has_no_bounds(command):
    code, out, err = command("fabric", "show", "switch:1")
    assert (code, err) == (0, "")
    assert "beat" not in out


def test_show_draws_and_saves(command, tmp_path):
    code, out, err = command("fabric", "show", "dgx-1", "-o", "d.png", "--save", "d.toml")
    assert (code, err) == (0, "")
    assert "wrote d.toml" in out
    assert "wrote d.png" in out
    assert (tmp_path / "d.png").read_bytes()[:4] == b"\x89PNG"
    saved, known = told(command, "show", "d.toml"), told(command, "show", "dgx-1")
    assert saved == known


@pytest.mark.parametrize("by", ["option", "content"])
@pytest.mark.parametrize("kind", ["nccl", "smi"])
def test_imports(command, tmp_path, kind, by):
    (tmp_path / "given").write_text({"nccl": NCCL, "smi": SMI}[kind])
    words = ["given"] if by == "content" else [f"--import-{kind}", "given"]
    result = told(command, "show", *words, "--save", "mine.toml")
    assert result["ranks"] == 2
    assert any(link["kind"] == "nvlink" for link in result["links"])
    assert load(tmp_path / "mine.toml").ranks == 2


def test_routes_of_recursive_doubling(command, tmp_path):
    result = told(command, "routes", "lightpath:4x4", "-o", "r.png")
    assert [row["pairs"] for row in result["routes"]] == [f"round {k}" for k in (1, 2, 3, 4)]
    # Distance 1 and 2 along rows, then along columns.
    assert [row["overlap"] for row in result["routes"]] == [1, 2, 1, 2]
    assert all(row["certified"] and row["overlap"] == row["bound"] for row in result["routes"])
    assert [len(row["longest"]) for row in result["routes"]] == [2, 3, 2, 3]
    budgets = [row["budget"] for row in result["routes"]]
    assert budgets[1]["loss_db"] > budgets[0]["loss_db"] > 0
    assert (tmp_path / "r.png").read_bytes()[:4] == b"\x89PNG"
    code, out, err = command("fabric", "routes", "lightpath:4x4", "--radix", 4)
    assert (code, err) == (0, "")
    assert re.search(r"round 1 +least +xy +48 .* 224 Gbit/s +PAM4 ", out)
    assert "Gbit/s" in out


def test_missing_nvlinks_are_named(command, tmp_path):
    """A file as for virtual machines, with PCI devices alone."""
    machine = re.sub(r"<gpu .*?</gpu>", "", NCCL, flags=re.S)
    (tmp_path / "vm.xml").write_text(machine)
    note = (
        "NVLinks: the file names none between GPUs, so these are joined by PCIe alone; if they have NVLinks"
    )
    for words in (["--import-nccl", "vm.xml"], ["vm.xml"]):
        code, out, err = command("fabric", "show", *words)
        assert (code, err) == (0, "")
        assert note in out
        assert told(command, "show", *words)["notes"][0].startswith(note)
    # The fabric that is saved says so too, and one with NVLinks does not.
    assert command("fabric", "show", "vm.xml", "--save", "vm.toml")[0] == 0
    assert note in command("fabric", "show", "vm.toml")[1]
    result = told(command, "show", "vm.xml", "--nvlinks", 12, "--sm", 80)
    assert result["notes"] == []
    assert {"kind": "nvlink", "bandwidth": 240e9, "latency": 0.0, "links": 4} in result["links"]
    (tmp_path / "given.xml").write_text(NCCL)
    assert told(command, "show", "given.xml")["notes"] == []
    code, _, err = command("fabric", "show", "given.xml", "--nvlinks", 12)
    assert (code, err) == (
        2,
        "wavefabric: error: given.xml: nvlinks: 12 given; allowed: with a file that names no NVLinks\n",
    )


def test_auto_routes_go_by_time(command, tmp_path):
    """Shortest routes at 224 Gbit/s where there are waveguides for them; the least overlap would be at 28."""
    (tmp_path / "p.json").write_text("[[0, 7], [1, 6]]")
    words = ["routes", "lightpath:8x8", "--pattern", "pairs", "--pairs", "p.json"]
    rows = {m: told(command, *words, "--method", m)["routes"][0] for m in ("auto", "ripup")}
    for method, overlap, rate in (("auto", 2, 224e9), ("ripup", 1, 28e9)):
        assert (rows[method]["overlap"], rows[method]["budget"]["best_rate"]) == (overlap, rate)
        assert rows[method]["set_ups"] == 1
    code, out, err = command("fabric", *words)
    assert (code, err) == (0, "")
    assert "fits" in out
    assert "fits: shortest routes, all up at once; less overlap would save no time" in out


def test_routes_of_pairs_and_permutations(command, tmp_path):
    (tmp_path / "p.json").write_text("[[0, 5], [5, 0], [2, 3]]")
    row = told(command, "routes", "lightpath:2x4", "--pattern", "pairs", "--pairs", "p.json")["routes"][0]
    assert (row["count"], row["overlap"]) == (3, 1)
    words = ["routes", "lightpath:4x4", "--pattern", "permutation", "--method", "random", "--paths", 4]
    one, other = (told(command, *words, "--seed", seed)["routes"][0] for seed in (1, 1))
    assert {**one, "seconds": 0} == {**other, "seconds": 0}
    assert one["method"] == "random"


def test_the_generation_sets_bandwidths(command, tmp_path):
    (tmp_path / "given").write_text(SMI)
    rates = []
    for words in (["--import-smi", "given"], ["given", "--sm", 70], ["--import-smi", "given", "--sm", 90]):
        links = told(command, "show", *words)["links"]
        rates.append(max(link["bandwidth"] for link in links if link["kind"] == "pcie"))
    assert rates == [24e9, 12e9, 48e9]


def test_words_fit_together(command):
    _, out, _ = command("fabric", "show", "dgx-a100")
    for text in ("for an array of 1 GiB", "GPU0 receives at least 896 MiB", "a round; in the flow model"):
        assert text in out


def test_speeds_in_words():
    assert [rate_text(v) for v in (1e9, 999.99e6, 1e12)] == ["1 GB/s", "1 GB/s", "1 TB/s"]
    assert [rate_text(v) for v in (2.5e12, 3e11, 1.5e6, 10)] == ["2.5 TB/s", "300 GB/s", "1.5 MB/s", "10 B/s"]


def test_a_fabric_that_does_not_fit_is_not_written(command, tmp_path, monkeypatch):
    case = {"misfits": ["an addition: residual of 99.7 %", "rank 0 to rank 1: residual of 80.0 %"]}
    result = {"fabric": to_toml(load("ring:2")), "cases": [case]}
    options = []

    def run(ranks, sizes, repeats, name, say, residual):
        options.append(residual)
        return result

    module = "wavefabric.cli.fabric.measure"
    monkeypatch.setattr(f"{module}.start_ranks", lambda *_: SimpleNamespace(rank=0))
    monkeypatch.setattr(f"{module}.show_measurement", lambda *_: None)
    monkeypatch.setattr("wavefabric.fabric.execution.measure_fabric.run", run)
    words = ("fabric", "measure", "--ranks", 2, "-o", "m.toml")
    code, _, err = command(*words)
    assert code == 2
    assert err == (
        "wavefabric: error: --output: m.toml not written: an addition: residual of 99.7 % (and 1 more); "
        "allowed: residuals to 75 % (--residual) of times that grow; measure again in quiet\n"
    )
    assert list(tmp_path.iterdir()) == []
    case["misfits"] = []
    assert command(*words, "--residual", 90)[0] == 0
    assert options == [0.75, 0.9]
    assert load("m.toml").name == "ring:2"
    code, _, err = command(*words, "--force", "--residual", 0)
    assert (code, err) == (2, "wavefabric: error: --residual: 0.0 given; allowed: percent above 0\n")


def test_tables_of_rocm_smi(command):
    file = str(DATA / "fabric" / "rocm-two.txt")
    assert told(command, "show", file)["links"][0]["bandwidth"] == 24e9
    assert told(command, "show", file, "--gcn", "gfx942")["links"][0]["bandwidth"] == 48e9
    code, _, err = command("fabric", "show", "dgx-1", "--gcn", "gfx942")
    assert (code, err.count("\n")) == (2, 1)
    assert "--gcn: gfx942 given with dgx-1; allowed: with a table of rocm-smi or amd-smi" in err


@pytest.mark.slow
def test_calibrate_as_the_page_says(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "all_reduce.txt").write_text((DATA / "nccl_tests" / "h100-azure.txt").read_text())
    page = (DATA.parents[1] / "docs" / "fabric.md").read_text("utf-8")
    blocks = re.findall(r"```\n(\$ wavefabric [^`]*--nccl-tests[^`]*)```", page)
    assert len(blocks) == 2
    for block in blocks:
        line, _, expected = block.partition("\n")
        code, out, err = command(*line.split()[2:])
        assert (code, err) == (0, "")
        lines = [each.split() for each in out.splitlines()]
        for each in expected.splitlines():
            assert each == "…" or each.split() in lines or set(each) <= {"─", " "}, each
    assert load(tmp_path / "h100.toml").kernels.bandwidth < load("hgx-h100").kernels.bandwidth


def test_calibrate_in_json(command, tmp_path):
    table = str(DATA / "nccl_tests" / "h100-azure.txt")
    file = tmp_path / "mine.toml"
    facts = told(
        command, "calibrate", "switch:8", "--nccl-tests", table, "--algorithms", "ring", "-o", str(file)
    )
    assert facts["fabric"] == load(file).name == "switch:8 calibrated"
    row = facts["compared"]["alpha-beta"][-1]
    assert (row["bytes"], row["algorithm"]) == (8 << 30, "ring")
    assert row["measured"]["busbw"] == 478.87e9
    assert row["ratio"] == pytest.approx(row["measured"]["busbw"] / row["predicted"]["busbw"], rel=1e-3)
    (kind,) = {link.kind for link in load(file).links}
    assert load(file).links[0].bandwidth == facts["numbers"][f"links.{kind}"]["after"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["switch:8"], "--nccl-tests: none given; allowed: what all_reduce_perf"),
        (["switch:4", "--nccl-tests", "{table}"], "ranks: 8 given; allowed: up to 4"),
        (["switch:8", "--nccl-tests", "{table}", "--collective", "sum"], "--collective: .*sum.* given"),
        (["switch:8", "--nccl-tests", "nothing.txt"], "nccl-tests: nothing.txt"),
        (["lightpath:4x4", "--nccl-tests", "{table}"], "photonic"),
    ],
)
def test_calibrate_refuses(command, words, message):
    table = str(DATA / "nccl_tests" / "h100-azure.txt")
    code, out, err = command("fabric", "calibrate", *(word.format(table=table) for word in words))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert re.search(message, err)
