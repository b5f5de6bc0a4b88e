"""Imports tables of ``nvidia-smi topo -m`` as fabrics."""

from collections.abc import Container
from itertools import combinations, product
from pathlib import Path

import numpy as np

from wavefabric.base.errors import InputError, ensure
from wavefabric.base.system.gpu_topology import SLOW_FIRST, GpuTopology, parse
from wavefabric.fabric.electrical.fabric import Fabric, Link
from wavefabric.fabric.io.importers import bandwidths

#: Total NVLinks per GPU, by compute capability times ten.
_NVLINKS = {60: 4, 70: 6, 80: 12, 86: 4, 90: 18, 100: 18}
#: Compute capability times ten, inferred from the number of NVLinks if a GPU uses all of them.
_INFERRED = {18: 90, 12: 80, 6: 70, 4: 86}
#: Classes of the table, closest first, and names of nodes that join GPUs; the last is a CPU socket.
_TREE = (("PIX", "PCIe switch "), ("PXB", "PCIe tree "), ("PHB", "bridge "), ("NODE", "CPU"))


def read_topo(
    source: str | Path,
    *,
    name: str = "nvidia-smi",
    sm: int | None = None,
    nvswitch: bool | None = None,
    nvlink_bandwidth: float | None = None,
    pcie_bandwidth: float | None = None,
    socket_bandwidth: float | None = None,
    alpha: float | None = None,
) -> Fabric:
    """Return the fabric shown by a table of ``nvidia-smi topo -m``, given as text or as a file (a `Path`).

    An entry such as NV4 stands for four NVLinks. The other classes form a tree: PIX joins GPUs by one PCIe
    switch, PXB by a tree of switches, PHB by a host bridge, NODE by a CPU; CPUs are joined in pairs (SYS).
    For a pair with NVLinks the table does not show the PCIe class; there the NUMA affinity tells the CPUs.

    ``sm`` is the compute capability times ten (70: V100, 80: A100, 86: A40, 90: H100, 100: B200), which sets
    all bandwidths that are not given. By default it is inferred from the number of NVLinks of a GPU (18: 90,
    12: 80, 6: 70, 4: 86); a table with another number is refused without ``sm``. Bandwidths are in B/s:
    ``nvlink_bandwidth`` per NVLink and direction (by default as NCCL assumes), ``pcie_bandwidth`` per PCIe
    link (12, 24 or 48 GB/s for GPUs before 8.0, of 8.x and from 9.0), ``socket_bandwidth`` between sockets,
    and between host bridges of a socket (16 GB/s).

    ``nvswitch``: whether NVLinks end at NVSwitches rather than at the other GPU. By default they do if the
    numbers in any GPU's row add up to more NVLinks than a GPU has (18 for 9.0, 12 for 8.0, 6 for 7.0).
    ``alpha``: latency in s, by default 0.7 us with NVLinks, else 10 us. Raises `InputError` with a one-line
    message; also if the classes contradict one another.
    """
    table = parse(bandwidths.source_text(source, "nvidia-smi topo -m"))
    _check(table)
    counts = [[int(link[2:]) if link.startswith("NV") else 0 for link in row] for row in table.links]
    nvlinks = any(map(any, counts))
    known = "" if sm is not None or not nvlinks else ", inferred from the NVLinks of a GPU"
    sm = _capability(counts, sm)
    each = bandwidths.or_default("nvlink_bandwidth", nvlink_bandwidth, bandwidths.nvlink(sm))
    pcie = bandwidths.or_default("pcie_bandwidth", pcie_bandwidth, bandwidths.pcie_of(sm))
    switches, pairs = _tree(table, pcie, bandwidths.or_default("socket_bandwidth", socket_bandwidth, 16e9))
    if nvlinks:
        direct = _nvlinks(table, counts, sm, nvswitch, each)
        switches += sorted({b for _, b, _, _ in direct if not b.startswith("GPU")})
        pairs += direct
    default_alpha = bandwidths.NVLINK_ALPHA if nvlinks else bandwidths.PCIE_ALPHA
    pairs += [(b, a, w, kind) for a, b, w, kind in pairs]
    return Fabric(
        name=name,
        gpus=tuple(f"GPU{g}" for g in range(table.gpus)),
        switches=tuple(switches),
        links=tuple(Link(a, b, w, 0.0, kind) for a, b, w, kind in pairs),
        alpha=bandwidths.or_default("alpha", alpha, default_alpha),
        description=f"{table.gpus} GPUs, from nvidia-smi topo -m",
        source=f"classes of the table; bandwidths assumed for compute capability {sm / 10:.1f}{known}",
    )


def _check(table: GpuTopology) -> None:
    for a, b in product(range(table.gpus), repeat=2):
        link, back = table.links[a][b], table.links[b][a]
        if (link == "X") != (a == b) or link == "NV0":
            allowed = "X" if a == b else f"{', '.join(SLOW_FIRST)}, NV and a number from 1"
            raise InputError(f"nvidia-smi topo -m: {link} between GPU{a} and GPU{b}; allowed: {allowed}")
        actual = f"{link} from GPU{a} to GPU{b}, {back} back"
        ensure(link == back, "nvidia-smi topo -m", actual, "the same both ways")


def _most_nvlinks(sm: int) -> int:
    """Return the NVLinks per GPU of a compute capability, or of the next lower one in the table."""
    return _NVLINKS[max((known for known in _NVLINKS if known <= sm), default=60)]


def _capability(counts: list[list[int]], sm: int | None) -> int:
    """Return the compute capability times ten: ``sm``, or inferred from NVLinks; 80 without NVLinks."""
    most = max(map(max, counts), default=0)
    if sm is not None:
        if most > (own := _most_nvlinks(sm)):
            allowed = "a capability whose GPUs have so many, such as " + ("80" if most <= 12 else "90")
            raise InputError(f"sm: {sm} given, {own} NVLinks, with NV{most}; allowed: {allowed}")
        return sm
    # Either links go directly to other GPUs and add up, or each pair uses all links through switches.
    used = max(map(sum, counts), default=0)
    joined = [{gpu, *(other for other, count in enumerate(row) if count)} for gpu, row in enumerate(counts)]
    switched = all(joined[gpu] == joined[other] for gpu in range(len(counts)) for other in joined[gpu])
    for number in (used, most if switched else 0):
        if number in _INFERRED:
            return _INFERRED[number]
    if used:
        allowed = ", ".join(f"{known} ({number} NVLinks)" for known, number in _NVLINKS.items())
        text = f"sm: none given, and no GPU has {used} or {most} NVLinks in all; allowed: {allowed} (--sm)"
        raise InputError(f"nvidia-smi topo -m: {text}")
    return 80


def _nvlinks(
    table: GpuTopology, counts: list[list[int]], sm: int, nvswitch: bool | None, each: float
) -> list[tuple]:
    """Return NVLinks (node, node, B/s, kind) between GPUs, or from each set of connected GPUs to a switch."""
    most = _most_nvlinks(sm)
    if nvswitch is None:
        nvswitch = any(sum(row) > most for row in counts)
    if not nvswitch:
        pairs = ((a, b) for a, b in combinations(range(table.gpus), 2) if counts[a][b])
        return [(f"GPU{a}", f"GPU{b}", counts[a][b] * each, "nvlink") for a, b in pairs]
    joined = _joined(table, {link for row in table.links for link in row if link.startswith("NV")})
    sets = sorted({group for group in joined if sum(g == group for g in joined) > 1})
    return [
        (f"GPU{g}", f"NVSwitch{sets.index(group)}", max(counts[g]) * each, "nvlink")
        for g, group in enumerate(joined)
        if group in sets
    ]


def _joined(table: GpuTopology, classes: Container[str], same_numa: bool = False) -> list[int]:
    """Return for each GPU the first GPU that it is joined to by links of ``classes``, directly or indirectly.

    With ``same_numa`` NVLinks within a NUMA node join GPUs too, since the table hides the PCIe class there.
    """
    group = np.arange(table.gpus)
    for a, b in combinations(range(table.gpus), 2):
        link = table.links[a][b]
        hidden = same_numa and link.startswith("NV") and table.numa[a] == table.numa[b]
        if hidden or link in classes:
            low, high = sorted((group[a], group[b]))
            group[group == high] = low
    return group.tolist()


def _tree(table: GpuTopology, pcie: float, socket: float) -> tuple[list[str], list[tuple]]:
    """Return switches, and links (node, node above, B/s, kind) of the tree of PCIe switches and CPUs."""
    top = [f"GPU{g}" for g in range(table.gpus)]  # topmost node of each GPU so far
    closest: dict[tuple[int, int], str] = {}  # class of a pair, also through other GPUs
    switches: list[str] = []
    pairs: list[tuple] = []
    for name, word in _TREE:
        group = _joined(table, SLOW_FIRST[SLOW_FIRST.index(name) :], same_numa=name == "NODE")
        for a, b in combinations(range(table.gpus), 2):
            if group[a] == group[b]:
                closest.setdefault((a, b), name)
        alone = len(set(group)) == 1
        for first in sorted(set(group)):
            children = list(dict.fromkeys(top[g] for g in range(table.gpus) if group[g] == first))
            if len(children) < 2 and (name != "NODE" or alone):
                continue
            node = f"{word}{sum(s.startswith(word) for s in switches)}"
            switches.append(node)
            for child in children:
                bridge = child.startswith("bridge")
                pairs.append((child, node, socket if bridge else pcie, "qpi" if bridge else "pcie"))
            top = [node if group[g] == first else at for g, at in enumerate(top)]
    for a, b in combinations(range(table.gpus), 2):
        link, joined = table.links[a][b], closest.get((a, b), "SYS")
        if link in SLOW_FIRST and link != joined:  # closer through a third GPU than in the table
            actual = f"{link} between GPU{a} and GPU{b}, which are {joined} through others"
            raise InputError(f"nvidia-smi topo -m: {actual}; allowed: classes of a tree")
    cpus = [node for node in switches if node.startswith("CPU")]
    pairs += [(a, b, socket, "qpi") for a, b in combinations(cpus, 2)]
    return switches, pairs
