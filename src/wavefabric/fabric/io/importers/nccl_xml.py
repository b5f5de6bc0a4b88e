"""Imports topology files of NCCL and RCCL (NCCL_TOPO_DUMP_FILE, NCCL_TOPO_FILE) as fabrics."""

import re
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path
from typing import NamedTuple
from xml.etree.ElementTree import Element

from wavefabric.base.errors import InputError, ensure
from wavefabric.base.files.xml import one_of, parse_xml, text_of
from wavefabric.base.units import show
from wavefabric.fabric.electrical.fabric import Fabric, Link
from wavefabric.fabric.electrical.static_routes import check_connected
from wavefabric.fabric.io.importers import bandwidths

#: Largest numbers of GPUs and of XML elements in a plausible file.
_GPUS, _NODES = 4096, 100_000
_NUMBER = re.compile(r"[+-]?[0-9]{1,12}|0[xX][0-9a-fA-F]{1,16}")
_BUSID = re.compile(r"[0-9a-fA-F]{1,8}(?:[:.][0-9a-fA-F]{1,4}){0,3}")
#: PCI classes: displays, and processing accelerators, which newer GPUs of AMD are; adapters; NVLink of a CPU.
_GPU_CLASS, _NIC_CLASS, _CPU_CLASS = ("0x03", "0x12"), "0x02", "0x068001"
#: Format versions: 1 of NCCL, 2 of RCCL.
_VERSIONS = ("1", "2")
#: Elements that link GPUs directly, and what they are called.
_DIRECT = {"nvlink": "NVLinks", "xgmi": "xGMI links"}
#: Bus id that stands for NVSwitches invisible to the host: one switch fabric, which hosts may share.
_VIRTUAL = re.compile(r"[fF:]+(\.0)?")


def read_nccl_xml(
    source: str | Path,
    *,
    name: str = "nccl",
    alpha: float | None = None,
    nvlinks: int | None = None,
    sm: int | None = None,
) -> Fabric:
    """Read a topology file of NCCL or RCCL as a fabric.

    ``source`` is a path, or the text of a file, which contains a ``<``. ``alpha`` in s is not in the file; by
    default it is 0.7 us with NVLinks or xGMI links, else 10 us. For a file without NVLinks, ``nvlinks`` is
    the number from each GPU to NVSwitches. Then ``sm``, the compute capability of the GPUs times ten, sets
    the bandwidth of an NVLink; by default it is that in the file, or 80.

    Rank r is the GPU of NCCL's rank r. In a file without ranks GPUs are sorted by host and bus id. Switches
    of the fabric are CPUs (one per NUMA node), PCIe bridges and NVSwitches. The NVSwitches of a host are one
    node, as are those of all hosts if they are not seen as PCI devices, as with NVLink between hosts. With
    several hosts, network adapters and one ``network`` that joins them all are switches too. Links that lead
    to no GPU are left out.

    Bandwidths are derived as in NCCL and RCCL (see `importers.bandwidths`). The description tells if the file
    names no direct links between GPUs; files for virtual machines may name only PCI devices. Raises
    `InputError` with a one-line message: element and attribute, value given, allowed values.
    """
    if isinstance(source, str) and source.strip() and "<" not in source:
        source = Path(source)
    root = parse_xml(bandwidths.source_text(source, "nccl topology"), "nccl topology")
    ensure(root.tag == "system", "nccl topology", f"root element {root.tag[:60]!r}", "system")
    one_of(root, "system", "version", _VERSIONS)
    ensure(sum(1 for _ in root.iter()) <= _NODES, "nccl topology", f"more than {_NODES} elements", "fewer")
    reader = _Reader(named=next(root.iter("gpu"), None) is not None)
    for cpu in root.iterfind("cpu"):
        reader.cpu(cpu)
    ensure(reader.gpus, "nccl topology", "no GPU given", "elements gpu, or pci of class 0x03 or 0x12")
    reader.join_directly()
    if nvlinks is not None:
        reader.assume(nvlinks, sm)
    elif sm is not None:
        raise InputError(f"sm: {sm} given without nvlinks; allowed: with a number of NVLinks")
    reader.join()
    direct = any(kind in _DIRECT for _, _, _, kind in reader.links)
    default = bandwidths.NVLINK_ALPHA if direct else bandwidths.PCIE_ALPHA
    return reader.fabric(name, bandwidths.or_default("alpha", alpha, default), nvlinks)


#: End of the description of a fabric whose file names no direct links between GPUs: NCCL's, RCCL's.
LACKING = (" that names no NVLinks to others", " that names no xGMI links to others")


class _Gpu(NamedTuple):
    node: str  # name until ranks are known
    host: int
    bus: int  # bus id
    rank: int | None
    sm: int


@dataclass
class _Reader:
    """Collects nodes and links of a topology file; nodes have unique names."""

    named: bool  # whether the file has gpu elements
    hosts: dict[int, int] = field(default_factory=dict)
    gpus: list[_Gpu] = field(default_factory=list)
    nodes: dict[str, None] = field(default_factory=dict)
    links: list[tuple[str, str, float, str]] = field(default_factory=list)
    cpus: dict[tuple[int, int], tuple[str, float]] = field(default_factory=dict)
    ports: dict[str, float] = field(default_factory=dict)
    #: (host, bus id) → node that stands for the PCI device.
    devices: dict[tuple[int, int], str] = field(default_factory=dict)
    #: Elements of direct links, with node, CPU, host and B/s per link; tags of the links that were added.
    elements: list[tuple[Element, str, str, int, float]] = field(default_factory=list)
    direct: list[str] = field(default_factory=list)
    amd: bool = False
    pcilinks: list[tuple[int, int, Element]] = field(default_factory=list)

    def node(self, name: str, host: int) -> str:
        """Add a switch and return its name, made unique among hosts."""
        name = name if host == 0 else f"{name} of host {host}"
        if name in self.nodes:
            raise InputError(f"nccl topology: {name} given twice; allowed: each bus id and NUMA node once")
        self.nodes[name] = None
        return name

    def both(self, a: str, b: str, bandwidth: float, kind: str) -> None:
        self.links += [(a, b, bandwidth, kind), (b, a, bandwidth, kind)]

    def cpu(self, element: Element) -> None:
        host = self.hosts.setdefault(_number(element, "cpu", "host_hash", 0), len(self.hosts))
        numa = _number(element, "cpu", "numaid", limits=(-1, 65535))
        cpu = self.node(f"CPU{numa}", host)
        arch, vendor = element.get("arch", "x86_64"), element.get("vendor", "")
        numbers = (_number(element, f"cpu {numa}", key, 0) for key in ("familyid", "modelid"))
        self.cpus[host, numa] = cpu, bandwidths.sockets(arch, vendor, *numbers)
        for position, child in enumerate(element):
            if child.tag == "pci":
                self.pci(child, cpu, cpu, host)
            elif child.tag == "nic":  # without a bus id
                self.nic(child, cpu, f"NIC {position} on CPU{numa}", host, bandwidths.LOCAL)

    def pci(self, element: Element, parent: str, cpu: str, host: int) -> None:
        bus, name = _bus(element, "pci", "busid"), element.get("busid")
        ensure((host, bus) not in self.devices, "pci busid", f"{name} given twice", "each once")
        kind = element.get("class", "")  # if empty, the children of the element decide
        rate = re.match(r"\s*([0-9]{1,3}(?:\.[0-9])?)\s*GT/s", element.get("link_speed", ""))
        lanes = _number(element, f"pci {name}", "link_width", 0, (0, 64))
        bandwidth = bandwidths.pcie(float(rate[1]) if rate else None, lanes)
        gpus, nic = element.findall("gpu"), element.find("nic")
        if gpus or (not self.named and kind.startswith(_GPU_CLASS)):
            self.device(gpus, parent, cpu, host, bus, bandwidth)
        elif nic is not None:
            self.nic(nic, parent, f"NIC {name}", host, bandwidth)
        # Unused GPUs and network adapters are no bridges.
        elif not kind.startswith((*_GPU_CLASS, _NIC_CLASS)):
            bridge = self.devices[host, bus] = self.node(f"PCI {name}", host)
            self.both(bridge, parent, bandwidth, "pcie")
            for child in element:
                if child.tag == "pci":
                    self.pci(child, bridge, cpu, host)
                elif child.tag == "pcilink":
                    self.pcilinks.append((host, bus, child))

    def device(
        self, gpus: list[Element], parent: str, cpu: str, host: int, bus: int, bandwidth: float
    ) -> None:
        """Add one GPU, or several (MPS, partitions) that share the links of a device."""
        taking = [g for g in gpus if "rank" in g.attrib] or gpus or [Element("gpu")]
        name = f"GPU {bus:x} of host {host}"
        shared = self.node(f"GPU {bus:012x}", host) if len(taking) > 1 else None
        for number, gpu in enumerate(taking):
            rank = _number(gpu, name, "rank") if "rank" in gpu.attrib else None
            ensure(len(self.gpus) < _GPUS, "nccl topology", f"more than {_GPUS} GPUs", "fewer")
            node = f"{name} part {number}"
            self.gpus.append(_Gpu(node, host, bus, rank, _number(gpu, name, "sm", 0)))
            if shared:
                self.both(node, shared, bandwidths.LOCAL, "wire")
        at = self.devices[host, bus] = shared or self.gpus[-1].node
        self.both(at, parent, bandwidth, "pcie")
        self.amd = self.amd or "gcn" in taking[0].attrib
        for child in taking[0]:
            if child.tag == "nvlink":
                each = bandwidths.nvlink(_number(taking[0], "gpu", "sm"))
                self.elements.append((child, at, cpu, host, each))
            elif child.tag == "xgmi":
                self.elements.append((child, at, cpu, host, bandwidths.xgmi(taking[0].get("gcn", ""))))
            elif child.tag == "c2c":
                count, speed = (_number(child, "c2c", key) for key in ("count", "bw"))
                ensure(min(count, speed) >= 1, "c2c bw", f"{speed} of {count} links", "from 1")
                self.both(at, cpu, count * speed / 1000 * 1e9, "c2c")

    def nic(self, element: Element, parent: str, name: str, host: int, bandwidth: float) -> None:
        nets = [n for n in element.iterfind("net") if "dev" in n.attrib and _number(n, "net", "net", 1)]
        if not nets:
            return
        adapter = self.node(name, host)
        self.both(adapter, parent, bandwidth, "pcie")
        for net in nets:
            inputs = _number(net, "net", "speed", 0)
            # The same port may be listed under several CPUs.
            port = f"net {_number(net, 'net', 'dev')}" + (f" of host {host}" if host else "")
            self.nodes[port] = None
            self.ports[port] = (inputs if inputs > 0 else 10_000) / 8000 * 1e9
            self.both(adapter, port, self.ports[port], "network")

    def join_directly(self) -> None:
        """Add NVLinks and xGMI links, except of a GPU to itself or to a GPU that is not in the file."""
        for element, at, cpu, host, each in self.elements:
            what = element.tag
            bandwidth = each * _number(element, what, "count", limits=(1, 1024))
            target = host, _bus(element, what, "target")
            named = any((gpu.host, gpu.bus) == target for gpu in self.gpus)
            kind, other = element.get("tclass", _GPU_CLASS[0] if named else ""), self.devices.get(target, at)
            if kind.startswith(_GPU_CLASS) and other == at:
                continue
            self.direct.append(what)
            if kind.startswith(_GPU_CLASS):
                self.links.append((at, other, bandwidth, what))
            elif kind == _CPU_CLASS:
                self.both(at, cpu, bandwidth, what)
            else:
                everywhere = _VIRTUAL.fullmatch(element.get("target", ""))
                self.switched(at, 0 if everywhere else host, bandwidth, what)

    def join(self) -> None:
        """Add links between bridges, between CPUs of a host, and between hosts."""
        for host, bus, element in self.pcilinks:
            other = self.devices.get((host, _bus(element, "pcilink", "target")))
            if other in self.nodes:
                self.links.append((self.devices[host, bus], other, bandwidths.LOCAL, "pcie"))
        for ((host, _), (cpu, speed)), ((other, _), (target, _)) in permutations(self.cpus.items(), 2):
            if host == other:
                self.links.append((cpu, target, speed, "qpi"))
        if len(self.hosts) > 1:
            self.nodes["network"] = None
            for port, speed in self.ports.items():
                self.both(port, "network", speed, "network")

    def switched(self, at: str, host: int, bandwidth: float, what: str) -> None:
        """Add links of a GPU to the NVSwitches of a host, which are one node."""
        switch = f"NVSwitch of host {host}" if host else "NVSwitch"
        self.nodes[switch] = None
        self.both(at, switch, bandwidth, what)

    def assume(self, nvlinks: int, sm: int | None) -> None:
        """Add NVLinks, which the file does not name, from every GPU to the NVSwitches of its host."""
        if self.direct or self.amd:
            kind = _DIRECT[self.direct[0]] if self.direct else "GPUs of AMD"
            raise InputError(f"nvlinks: {nvlinks} given; allowed: with a file that names no {kind}")
        ensure(1 <= nvlinks <= 1024, "nvlinks", f"{nvlinks} given", "1 to 1024")
        for (host, bus), speed in {(g.host, g.bus): g.sm for g in self.gpus}.items():
            each = bandwidths.nvlink(sm or speed or 80)
            self.switched(self.devices[host, bus], host, nvlinks * each, "nvlink")

    def fabric(self, name: str, alpha: float, nvlinks: int | None = None) -> Fabric:
        ranks = {g.rank for g in self.gpus}
        known = len(ranks) == len(self.gpus) and None not in ranks
        ordered = sorted(self.gpus, key=lambda g: (g.rank or 0,) if known else (g.host, g.bus))
        names = {g.node: f"GPU{r}" for r, g in enumerate(ordered)}
        kept = self._useful(set(names))
        hosts = f" on {len(self.hosts)} hosts" if len(self.hosts) > 1 else ""
        library = "RCCL" if self.amd else "NCCL"
        lacking = len(ordered) > 1 and not self.direct
        missing = LACKING[self.amd] if lacking and nvlinks is None else ""
        source = f"bandwidths that {library} derives; "
        if lacking and nvlinks is not None:
            source += f"{nvlinks} NVLinks per GPU to NVSwitches are assumed; "
        fabric = Fabric(
            name=name,
            gpus=tuple(names.values()),
            switches=tuple(n for n in self.nodes if n in kept),
            links=tuple(
                Link(names.get(a, a), names.get(b, b), bandwidth, 0.0, kind)
                for a, b, bandwidth, kind in self.links
                if a in kept and b in kept
            ),
            alpha=alpha,
            description=f"{len(ordered)} GPUs{hosts}, from an {library} topology file{missing}",
            source=f"{source}alpha is a choice",
        )
        check_connected(fabric)
        return fabric

    def _useful(self, gpus: set[str]) -> set[str]:
        """Return the names of GPUs, and of switches that are not dead ends."""
        near = {n: set[str]() for n in (*self.nodes, *gpus)}
        for a, b, _, _ in self.links:
            near[a].add(b)
            near[b].add(a)
        while ends := {n for n, others in near.items() if n not in gpus and len(others) < 2}:
            near = {n: others - ends for n, others in near.items() if n not in ends}
        return set(near)


def _number(
    element: Element, where: str, name: str, default: int | None = None, limits: tuple[int, int] | None = None
) -> int:
    """Read a whole number, decimal or hexadecimal, as NCCL does; ``limits`` are smallest and largest."""
    if element.get(name) is None and default is not None:
        return default
    value = text_of(element, where, name).strip()
    if not _NUMBER.fullmatch(value):
        raise InputError(f"{where} {name}: {show(value)}; allowed: whole numbers")
    number = int(value, 16 if value[:2] in ("0x", "0X") else 10)
    if limits is not None and not limits[0] <= number <= limits[1]:
        raise InputError(f"{where} {name}: {number}; allowed: {limits[0]} to {limits[1]}")
    return number


def _bus(element: Element, where: str, name: str) -> int:
    """Return as one number a PCI bus id: domain, bus, device, function."""
    value = text_of(element, where, name)
    if not _BUSID.fullmatch(value):
        raise InputError(f"{where} {name}: {show(value)}; allowed: a bus id such as 0000:07:00.0")
    return int(re.sub("[:.]", "", value), 16)
