"""Imports tables of ``rocm-smi --showtopo`` and ``amd-smi topology`` as fabrics."""

import re
from itertools import combinations, permutations

from wavefabric.base.errors import InputError, ensure
from wavefabric.base.units import show
from wavefabric.fabric.electrical.fabric import Fabric, Link
from wavefabric.fabric.electrical.static_routes import check_connected
from wavefabric.fabric.io.importers import bandwidths

#: Titles of tables, and the entries of those that are read.
_TITLE = re.compile(r"=+ (.*) between two GPUs =+|([A-Z -]+) TABLE:|=+ .* =+|Legend:", re.IGNORECASE)
_ENTRY = {
    "link type": r"[A-Z0]\w*",
    "weight": r"\d{1,9}",
    "hops": r"\d{1,9}",
    "numa bw": r"\d{1,9}-\d{1,9}|N/A",
}
_NUMA = re.compile(r"GPU\[(\d{1,4})\]\s*: \(Topology\) Numa Node: (\d{1,4})$")
_WHAT, _MOST = "rocm topology", 512


def read_rocm_topo(text: str, *, name: str = "rocm-smi", gcn: str | None = None) -> Fabric:
    """Return the fabric that the text of ``rocm-smi --showtopo`` or ``amd-smi topology`` shows.

    Rank r is the GPU of row r of the table of link types. xGMI joins the pairs of the least weight; data of
    pairs with larger weights pass through other GPUs. If any pair is joined by PCIE, each GPU is linked to
    the CPU of its NUMA node or, if none is told, of the GPUs up to 2 hops away; CPUs are joined in pairs.

    Bandwidths of xGMI are the larger ones of amd-smi's ``NUMA BW TABLE``, in MB/s, else what RCCL derives for
    the architecture ``gcn``, such as gfx942. By default 8 GPUs or more that are all joined directly are taken
    for MI300 (gfx942), GPUs that are joined indirectly for MI200 (gfx90a), others for MI100 (gfx908). PCIe
    x16 is 5.0 for gfx94 and gfx95, else 4.0. `InputError`, in one line: entries or tables that do not fit.
    """
    known = gcn is None or re.fullmatch(r"gfx[0-9a-f]{3,5}", gcn)
    ensure(known, "gcn", f"{show(gcn)} given", "an architecture of AMD's GPUs, such as gfx942")
    tables, numa = _tables(text)
    allowed = "the output of rocm-smi --showtopo or amd-smi topology"
    ensure("link type" in tables, _WHAT, "no table of link types", allowed)
    types, gpus = tables["link type"], len(tables["link type"])
    pairs = list(permutations(range(gpus), 2))
    for a, b in pairs:
        if types[a][b] != types[b][a] or types[a][b] not in ("XGMI", "PCIE"):
            actual = f"{show(types[a][b])} from GPU{a} to GPU{b}, {show(types[b][a])} back"
            raise InputError(f"{_WHAT}: {actual}; allowed: XGMI or PCIE, the same both ways")
    joined = [(a, b) for a, b in pairs if types[a][b] == "XGMI"]
    weights = {(a, b): int(tables["weight"][a][b]) if "weight" in tables else 0 for a, b in joined}
    least = min(weights.values(), default=0)
    direct = [pair for pair in joined if weights[pair] == least]
    alike = gpus >= 8 and len(direct) == len(pairs)
    kind = gcn or ("gfx942" if alike else "gfx90a" if len(direct) < len(joined) else "gfx908")
    shown = {(a, b): tables["numa bw"][a][b].rpartition("-")[2] for a, b in direct if "numa bw" in tables}
    rates = {pair: float(rate) * 1e6 for pair, rate in shown.items() if rate.isdigit() and int(rate)}
    ends = [(f"GPU{a}", f"GPU{b}", rates.get((a, b), bandwidths.xgmi(kind)), "xgmi") for a, b in direct]
    cpus: list[str] = []
    if len(joined) < len(pairs):
        hops = tables.get("hops", [["0"] * gpus] * gpus)
        near = (min(b for b in range(gpus) if int(hops[a][b]) <= 2 or a == b) for a in range(gpus))
        nodes = [f"CPU{numa.get(a, b)}" for a, b in enumerate(near)]
        cpus = sorted(set(nodes))
        pcie = bandwidths.pcie(32.0 if kind.startswith(("gfx94", "gfx95")) else 16.0, 16)
        tree = [(f"GPU{gpu}", node, pcie, "pcie") for gpu, node in enumerate(nodes)]
        socket = bandwidths.sockets("x86_64", "AuthenticAMD", 0, 0)
        tree += [(a, b, socket, "qpi") for a, b in combinations(cpus, 2)]
        ends += [(*pair, rate, link) for a, b, rate, link in tree for pair in ((a, b), (b, a))]
    assumed = f"as RCCL derives for {kind}{'' if gcn else ', inferred from the links'}"
    fabric = Fabric(
        name=name,
        gpus=tuple(f"GPU{gpu}" for gpu in range(gpus)),
        switches=tuple(cpus),
        links=tuple(Link(a, b, rate, 0.0, link) for a, b, rate, link in ends),
        alpha=bandwidths.NVLINK_ALPHA if direct else bandwidths.PCIE_ALPHA,
        forwards=len(direct) < len(joined),
        description=f"{gpus} GPUs, from a table of rocm-smi or amd-smi",
        source=f"bandwidths {'of the table' if len(rates) == len(pairs) else assumed}; alpha is a choice",
    )
    check_connected(fabric)
    return fabric


def _tables(text: str) -> tuple[dict[str, list[list[str]]], dict[int, int]]:
    """Return the tables between pairs of GPUs in the text by title, and the NUMA node of each GPU.

    Only tables of `_ENTRY` are read. A table or NUMA node that the text does not have is left out.
    """
    tables: dict[str, list[list[str]]] = {}
    numa, title, columns = {}, "", []
    for line in map(str.strip, text.splitlines()):
        if match := _NUMA.match(line):
            numa[int(match[1])] = int(match[2])
        elif match := _TITLE.fullmatch(line):
            title, columns = (match[1] or match[2] or "").lower(), []
        elif title in _ENTRY and (words := line.split()):
            if not columns:
                columns, tables[title] = words, []
                continue
            rows, allowed = tables[title], f"rows of {len(columns)} entries, a GPU each"
            right = len(columns) == len(words) - 1 and words[0] == columns[len(rows)]
            right = right and all(re.fullmatch(_ENTRY[title], word) for word in words[1:])
            ensure(right, _WHAT, f"row {show(line)} of {title}", allowed)
            rows.append(words[1:])
            title = "" if len(rows) == len(columns) else title
    sizes = {size for rows in tables.values() for size in (len(rows), *map(len, rows))}
    right = len(sizes) < 2 and 0 < max(sizes, default=1) <= _MOST
    ensure(right, _WHAT, f"tables of {sorted(sizes)[:2]} GPUs", f"equal ones of 1 to {_MOST}")
    return tables, numa
