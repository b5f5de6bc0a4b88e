"""NCCL's topology files as fabrics."""

import math
import re
from pathlib import Path

import pytest
from electrical_routes import route
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.base.errors import InputError
from wavefabric.collectives import ring_all_gather
from wavefabric.fabric import cost
from wavefabric.fabric.io.files import from_toml, to_toml
from wavefabric.fabric.io.importers import bandwidths
from wavefabric.fabric.io.importers.nccl_xml import LACKING, read_nccl_xml

DATA = Path(__file__).parents[3] / "data" / "fabric"
FILES = sorted(DATA.glob("nccl-*.xml"))


def test_links_of_a_gpu_to_itself_join_nothing():
    fabric = read_nccl_xml(DATA / "nccl-to-itself.xml")
    assert route(fabric, 0, 1) == (["CPU0"], [12.0, 12.0])
    assert fabric.description.endswith(LACKING[0])
    joined = read_nccl_xml(DATA / "nccl-to-itself.xml", nvlinks=12)
    assert route(joined, 0, 1) == (["NVSwitch"], [240.0, 240.0])


def test_nvswitches_are_one_node():
    fabric = read_nccl_xml(DATA / "nccl-nvswitch.xml")
    assert fabric.gpus == tuple(f"GPU{n}" for n in range(8))
    assert fabric.switches.count("NVSwitch") == 1
    for a in range(8):
        for b in range(8):
            if a != b:  # 12 links of 20 GB/s
                assert route(fabric, a, b) == (["NVSwitch"], [240.0, 240.0])
    assert fabric.alpha == pytest.approx(0.7e-6)
    # PCIe stays: two GPUs at a switch, four NUMA nodes joined all to all; adapters of one host lead nowhere.
    assert {f"CPU{n}" for n in (1, 3, 5, 7)} <= set(fabric.switches)
    assert len(fabric.switches) == 1 + 4 + 4
    qpi = [link for link in fabric.links if link.kind == "qpi"]
    assert len(qpi) == 12
    assert {link.bandwidth for link in qpi} == {16e9}
    assert {link.bandwidth for link in fabric.links if link.kind == "pcie"} == {24e9}


def test_links_between_gpus():
    fabric = read_nccl_xml(DATA / "nccl-cube-mesh.xml", name="cube", alpha=2e-6)
    assert (fabric.name, fabric.alpha) == ("cube", 2e-6)
    direct = [link for link in fabric.links if link.kind == "nvlink"]
    assert len(direct) == 2 * 16
    for n in range(8):
        assert sum(link.bandwidth for link in direct if link.source == f"GPU{n}") == pytest.approx(6 * 20e9)
    assert route(fabric, 0, 1) == ([], [40.0])
    assert route(fabric, 0, 2) == ([], [20.0])
    far = ["PCI 0000:04:00.0", "CPU0", "CPU1", "PCI 0000:88:00.0"]
    assert route(fabric, 0, 7) == (far, [12.0, 12.0, 6.0, 12.0, 12.0])  # Broadwell


def test_a_file_for_virtual_machines():
    fabric = read_nccl_xml(DATA / "nccl-virtual-machine.xml")
    assert fabric.ranks == 8
    assert {link.kind for link in fabric.links} == {"pcie", "qpi"}
    assert route(fabric, 0, 1) == (["PCI ffff:ff:01.0"], [12.0, 12.0])
    assert route(fabric, 0, 2)[0] == ["PCI ffff:ff:01.0", "CPU0", "PCI ffff:ff:02.0"]
    assert route(fabric, 0, 7)[1] == [12.0, 12.0, 10.0, 12.0, 12.0]  # Skylake
    assert fabric.alpha == pytest.approx(10e-6)


def test_nvlinks_that_the_file_lacks_are_named_and_may_be_assumed():
    path = DATA / "nccl-virtual-machine.xml"
    fabric = read_nccl_xml(path)
    assert fabric.description == "8 GPUs, from an NCCL topology file that names no NVLinks to others"
    assert fabric.description.endswith(LACKING[0])
    assumed_ = read_nccl_xml(path, nvlinks=12, sm=80)
    assert assumed_.description == "8 GPUs, from an NCCL topology file"
    assert "12 NVLinks per GPU to NVSwitches are assumed" in assumed_.source
    assert all(
        route(assumed_, a, b) == (["NVSwitch"], [240.0, 240.0]) for a in range(8) for b in range(8) if a != b
    )
    assert route(read_nccl_xml(path, nvlinks=18, sm=90), 0, 7)[1] == [pytest.approx(18 * 20.6)] * 2
    assert assumed_.alpha == pytest.approx(0.7e-6)
    # Files that name GPUs say their generation, and one of several hosts has switches of its own.
    named = read_nccl_xml(pair(attributes='sm="70"'), nvlinks=6)
    assert route(named, 0, 1) == (["NVSwitch"], [120.0, 120.0])
    hosts = read_nccl_xml(DATA / "nccl-two-hosts.xml", nvlinks=4, sm=80)
    assert [route(hosts, a, a + 1)[0] for a in (0, 2)] == [["NVSwitch"], ["NVSwitch of host 1"]]
    assert "network" in route(hosts, 1, 2)[0]


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        (
            "nccl-cube-mesh.xml",
            {"nvlinks": 6},
            "nvlinks: 6 given; allowed: with a file that names no NVLinks",
        ),
        ("nccl-xgmi.xml", {"nvlinks": 6}, "nvlinks: 6 given; allowed: with a file that names no xGMI links"),
        ("nccl-virtual-machine.xml", {"nvlinks": 0}, "nvlinks: 0 given; allowed: 1 to 1024"),
        ("nccl-virtual-machine.xml", {"sm": 80}, "sm: 80 given without nvlinks; allowed: with a number of"),
    ],
)
def test_what_is_not_assumed(path, options, message):
    with pytest.raises(InputError) as caught:
        read_nccl_xml(DATA / path, **options)
    assert str(caught.value).startswith(message)


def test_links_of_amd():
    """Four MI300X, each linked to each; RCCL counts 48 GB/s a link of theirs. `sm` counts compute units."""
    fabric = read_nccl_xml(DATA / "nccl-xgmi.xml")
    assert fabric.gpus == ("GPU0", "GPU1", "GPU2", "GPU3")
    assert fabric.description == "4 GPUs, from an RCCL topology file"
    for a in range(4):
        for b in range(4):
            if a != b:
                assert route(fabric, a, b) == ([], [96.0 if {a, b} == {0, 1} else 48.0])
    assert {link.kind for link in fabric.links} == {"xgmi", "pcie", "qpi"}
    assert fabric.alpha == pytest.approx(0.7e-6)
    text = re.sub("<xgmi[^>]*>", "", (DATA / "nccl-xgmi.xml").read_text())
    alone = read_nccl_xml(text)
    assert alone.description.endswith(LACKING[1])
    with pytest.raises(InputError, match="names no GPUs of AMD"):
        read_nccl_xml(text, nvlinks=12)


@pytest.mark.parametrize(
    ("gcn", "each"),
    [
        ("906", 24),
        ("908", 24),
        ("910", 36),
        ("gfx90a", 36),
        ("940", 48),
        ("gfx942", 48),
        ("gfx950", 48),
        ("", 24),
    ],
)
def test_xgmi_speeds(gcn, each):
    text = (DATA / "nccl-xgmi.xml").read_text().replace("gfx942", gcn)
    assert route(read_nccl_xml(text), 0, 2) == ([], [each])


def test_attributes_that_may_be_missing():
    """Without a class, what is inside a device tells; without a target's class, whether it is a GPU."""
    for name in ("nccl-cube-mesh.xml", "nccl-nvswitch.xml", "nccl-xgmi.xml", "nccl-two-hosts.xml"):
        text = (DATA / name).read_text()
        bare = re.sub(r' (?:t?class|affinity)="[^"]*"', "", text)
        assert "class" not in bare
        assert read_nccl_xml(bare) == read_nccl_xml(text)
    without = re.sub(r' class="0x060400"', "", (DATA / "nccl-virtual-machine.xml").read_text())
    assert read_nccl_xml(without) == read_nccl_xml(DATA / "nccl-virtual-machine.xml")


def test_two_hosts_meet_in_the_network():
    fabric = read_nccl_xml(DATA / "nccl-two-hosts.xml")
    assert fabric.ranks == 4
    inside, speeds = route(fabric, 0, 1)
    assert inside == ["PCI 0000:3a:00.0", "CPU0", "CPU1", "PCI 0000:ba:00.0"]
    assert speeds == [48.0, 48.0, 22.0, 48.0, 48.0]  # Sapphire Rapids
    between, speeds = route(fabric, 1, 2)
    here = ["PCI 0000:ba:00.0", "NIC 0000:bc:00.0", "net 1"]
    there = ["net 0 of host 1", "NIC 0000:3c:00.0 of host 1", "PCI 0000:3a:00.0 of host 1"]
    assert between == [*here, "network", *there]
    assert speeds == [48.0, 48.0, 50.0, 50.0, 50.0, 50.0, 48.0, 48.0]
    slow = [link.bandwidth for link in fabric.links if link.source == "net 2"]
    assert set(slow) == {1.25e9}  # speed -1


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_a_fabric_like_any_other(path):
    fabric = read_nccl_xml(path)
    assert from_toml(to_toml(fabric)) == fabric
    result = cost(ring_all_gather([1000] * fabric.ranks), fabric, 4.0)
    assert 0 < result.seconds < 1
    assert result.bound.seconds <= result.seconds * (1 + 1e-9)
    assert read_nccl_xml(path.read_text()) == read_nccl_xml(str(path)) == fabric


def system(*cpus):
    return f'<system version="1">{"".join(cpus)}</system>'


def cpu(body, numa=0, more='arch="x86_64" vendor="AuthenticAMD" familyid="25" modelid="1"'):
    return f'<cpu numaid="{numa}" {more}>{body}</cpu>'


def pci(bus, kind, body="", link='link_speed="16.0 GT/s PCIe" link_width="16"'):
    return f'<pci busid="{bus}" class="{kind}" {link}>{body}</pci>'


def gpu(bus, body="", attributes='sm="90"', link='link_speed="16.0 GT/s PCIe" link_width="16"'):
    return pci(bus, "0x030200", f"<gpu {attributes}>{body}</gpu>", link)


def pair(body="", **more):
    """Two GPUs of a CPU; what is inside the first one's element is given."""
    return system(cpu(gpu("0000:01:00.0", body, **more) + gpu("0000:02:00.0", **more)))


def test_ranks_order_the_gpus():
    nvlink = '<nvlink target="0000:02:00.0" count="3" tclass="0x030200"/>'
    text = system(
        cpu(gpu("0000:01:00.0", nvlink, 'sm="80" rank="5"') + gpu("0000:02:00.0", "", 'sm="80" rank="4"'))
    )
    fabric = read_nccl_xml(text)
    assert route(fabric, 1, 0) == ([], [60.0])
    assert route(fabric, 0, 1)[0] == ["CPU0"]  # the other direction is not in the file
    assert read_nccl_xml(
        text.replace("0000:01", "0000:09").replace(' rank="5"', "").replace(' rank="4"', "")
    ).gpus


@pytest.mark.parametrize(
    ("speed", "width", "wanted"),
    [
        ("2.5 GT/s", 1, 0.1875),
        ("5 GT/s", 8, 3.0),
        ("8.0 GT/s PCIe", 16, 12.0),
        ("16 GT/s", 16, 24.0),
        ("32.0 GT/s PCIe", 8, 24.0),
        ("64.0 GT/s PCIe", 16, 96.0),
        ("Unknown", 0, 12.0),
        ("", 4, 3.0),
    ],
)
def test_pcie_speeds(speed, width, wanted):
    text = pair(link=f'link_speed="{speed}" link_width="{width}"')
    assert route(read_nccl_xml(text), 0, 1)[1] == [pytest.approx(wanted, abs=1e-3)] * 2


@pytest.mark.parametrize(
    ("about", "wanted"),
    [
        ('arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="79"', 6),
        ('arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85"', 10),
        ('arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143"', 22),
        ('arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="207"', 40),
        ('arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="173"', 40),
        ('arch="x86_64" vendor="AuthenticAMD" familyid="23" modelid="49"', 16),
        ('arch="arm64"', 6),
        ('arch="ppc64"', 32),
        ('arch="x86_64" vendor="CentaurHauls" familyid="7" modelid="91"', 9),
        ("", 6),
    ],
)
def test_between_cpus(about, wanted):
    text = system(cpu(gpu("0000:01:00.0"), 0, about), cpu(gpu("0000:81:00.0"), 1, about))
    assert route(read_nccl_xml(text), 0, 1) == (["CPU0", "CPU1"], [24.0, wanted, 24.0])


@pytest.mark.parametrize(
    ("sm", "each"), [(60, 18), (70, 20), (80, 20), (86, 12), (89, 20), (90, 20.6), (103, 40.1)]
)
def test_nvlink_speeds(sm, each):
    body = '<nvlink target="fffffff:ff:ff.0" count="5" tclass="0x068000"/>'
    text = system(cpu("".join(gpu(f"0000:0{n}:00.0", body, f'sm="{sm}"') for n in (1, 2))))
    assert route(read_nccl_xml(text), 0, 1) == (["NVSwitch"], [5 * each] * 2)
    assert bandwidths.nvlink(sm) == pytest.approx(each * 1e9)


def test_links_to_a_cpu():
    c2c = '<c2c bw="44712" count="10"/>'
    text = system(cpu("".join(gpu(f"0000:0{n}:00.0", c2c) for n in (1, 2)), 0, 'arch="arm64"'))
    assert route(read_nccl_xml(text), 0, 1) == (["CPU0"], [447.12 + 24] * 2)  # beside PCIe
    power = '<nvlink target="0004:00:00.0" count="3" tclass="0x068001"/>'
    text = system(cpu("".join(gpu(f"0000:0{n}:00.0", power, 'sm="70"') for n in (1, 2)), 0, 'arch="ppc64"'))
    assert route(read_nccl_xml(text), 0, 1) == (["CPU0"], [60 + 24] * 2)


def test_several_ranks_of_a_device_share_its_links():
    two = "".join(
        f'<gpu dev="0" sm="107" mlopart="{n}" rank="{n}"><c2c bw="1000" count="5"/></gpu>' for n in (0, 1)
    )
    text = system(cpu(pci("0002:81:00.0", "0x030200", two) + gpu("0000:01:00.0", "", 'sm="90" rank="2"')))
    fabric = read_nccl_xml(text)
    assert fabric.ranks == 3
    assert route(fabric, 0, 1)[1] == [5000.0, 5000.0]
    assert route(fabric, 0, 2)[1] == [5000.0, 29.0, 24.0]


def test_second_paths_between_bridges():
    link = '<pcilink target="0000:20:00.0"/>'
    bridges = "".join(
        pci(f"0000:{n}0:00.0", "0x060400", gpu(f"0000:{n}1:00.0") + (link if n == 1 else "")) for n in (1, 2)
    )
    fabric = read_nccl_xml(system(cpu(bridges)))
    assert route(fabric, 0, 1) == (["PCI 0000:10:00.0", "PCI 0000:20:00.0"], [24.0, 5000.0, 24.0])
    assert route(fabric, 1, 0)[0] == ["PCI 0000:20:00.0", "CPU0", "PCI 0000:10:00.0"]


def test_one_switch_a_host_unless_it_is_virtual():
    def hosts(target):
        body = f'<nvlink target="{target}" count="18" tclass="0x068000"/>'
        nic = '<nic><net name="eth0" dev="0" speed="100000"/></nic>'
        return system(
            *(
                cpu(gpu("0000:01:00.0", body) + gpu("0000:02:00.0", body) + nic, 0, f'host_hash="0x{h}"')
                for h in (7, 8)
            )
        )

    virtual = read_nccl_xml(hosts("fffffff:ff:ff.0"))
    assert route(virtual, 0, 3)[0] == ["NVSwitch"]
    apart = read_nccl_xml(hosts("0000:c0:00.0"))
    assert route(apart, 2, 3)[0] == ["NVSwitch of host 1"]
    assert "network" in route(apart, 0, 3)[0]


def test_a_socket_listed_under_both_cpus():
    nic = '<nic><net name="eth0" dev="0" speed="10000"/></nic>'
    both = [cpu(gpu(f"0000:{n}1:00.0") + nic, n, f'host_hash="0x{h}"') for h in (1, 2) for n in (0, 1)]
    fabric = read_nccl_xml(system(*both))
    assert fabric.ranks == 4
    here = ["CPU0", "NIC 1 on CPU0", "net 0"]
    assert route(fabric, 0, 2)[0] == [*here, "network", *(f"{node} of host 1" for node in here[::-1])]


def test_nvlinks_to_the_gpu_itself_are_none():
    """As some hypervisors show them: each GPU's links lead to its own bus id."""
    gpus = "".join(
        gpu(f"000{n}:00:00.0", f'<nvlink target="000{n}:00:00.0" count="12" tclass="0x030200"/>', 'sm="80"')
        for n in (1, 2)
    )
    fabric = read_nccl_xml(system(cpu(gpus)))
    assert fabric.description.endswith(LACKING[0])
    assert {link.kind for link in fabric.links} == {"pcie"}
    assert route(read_nccl_xml(system(cpu(gpus)), nvlinks=12), 0, 1) == (["NVSwitch"], [240.0, 240.0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<system/>", "system: no attribute version"),
        ('<system version="3"/>', 'system version: "3"; allowed: 1, 2'),
        ('<system version="1"/>', "nccl topology: no GPU given; allowed: elements gpu"),
        ("<graphs/>", "nccl topology: root element 'graphs'; allowed: system"),
        ("", "nccl topology: not XML (no element found"),
        ('<!DOCTYPE system [<!ENTITY a "b">]><system/>', "nccl topology: a document type (DOCTYPE) given"),
        (system("<cpu/>"), "cpu: no attribute numaid"),
        (system('<cpu numaid="one"/>'), 'cpu numaid: "one"; allowed: whole numbers'),
        (system(cpu(""), cpu("")), "nccl topology: CPU0 given twice"),
        (system(cpu('<pci busid="x" class="0x030200"/>')), 'pci busid: "x"; allowed: a bus id such as'),
        (system(cpu('<pci busid="1:2:3.0"/>')), "nccl topology: no GPU given; allowed: elements gpu, or pci"),
        (system(cpu(gpu("0:1:0.0") * 2)), "pci busid: 0:1:0.0 given twice"),
        (pair(link='link_width="99"'), "pci 0000:01:00.0 link_width: 99; allowed: 0 to 64"),
        (pair('<nvlink target="0:1:0.0" tclass="0x03"/>'), "nvlink: no attribute count"),
        (pair('<nvlink target="0:1:0.0" count="0" tclass="0x03"/>'), "nvlink count: 0; allowed: 1 to 1024"),
        (pair('<nvlink target="0:1:0.0" count="1" tclass="0x03"/>', attributes=""), "gpu: no attribute sm"),
        (pair('<c2c count="1" bw="0"/>'), "c2c bw: 0 of 1 links; allowed: from 1"),
        (
            system(*(cpu(gpu("0000:01:00.0"), 0, f'host_hash="{h}"') for h in (1, 2))),
            "links: no way from GPU0 to GPU1",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(text, message):
    with pytest.raises(InputError) as caught:
        read_nccl_xml(text)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match=r"nccl topology: .*none\.xml \(No such file or directory\)"):
        read_nccl_xml(tmp_path / "none.xml")
    (tmp_path / "bytes.xml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"bytes\.xml is not UTF-8 text"):
        read_nccl_xml(str(tmp_path / "bytes.xml"))
    with pytest.raises(InputError, match=r"alpha: -1\.0 given; allowed: a positive number"):
        read_nccl_xml(FILES[0], alpha=-1)


@settings(max_examples=60)
@given(st.data())
def test_damaged_files_never_raise_anything_else(data):
    text = data.draw(st.sampled_from(FILES)).read_text()
    if data.draw(st.booleans()):
        numbers = list(re.finditer(r'"[^"]*"', text))
        for _ in range(data.draw(st.integers(1, 4))):
            at = data.draw(st.sampled_from(numbers))
            value = data.draw(
                st.sampled_from(["", "0", "-1", "9" * 40, "1e9", "0x", "nan", "0000:07:00.0", "0x068000"])
            )
            text = text[: at.start()] + f'"{value}"'.ljust(at.end() - at.start()) + text[at.end() :]
    else:
        at = data.draw(st.integers(0, len(text)))
        upto = data.draw(st.integers(at, min(len(text), at + 200)) | st.just(len(text)))
        text = text[:at] + data.draw(st.text(max_size=3)) + text[upto:]
    if "<" not in text:
        return
    try:
        fabric = read_nccl_xml(text)
    except InputError as error:
        message = str(error)
        assert "\n" not in message
        return
    assert all(0 < link.bandwidth < math.inf for link in fabric.links)
