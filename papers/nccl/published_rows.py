"""Published results of nccl-tests and rccl-tests over several nodes of eight GPUs, at 1 GiB and more.

Bus bandwidths are those out of place. Left out are runs that their authors, or NVIDIA in the same thread,
call wrong or slow; sizes for which latencies matter; and the algorithms `LEFT_OUT`.
"""

from __future__ import annotations

from dataclasses import dataclass

#: GB/s of a GPU within its node, as nccl-tests' ring measures on one node: A100 and H100,
#: github.com/stas00/ml-engineering (network/benchmarks); B200, Together AI's report of 2026-04-25; MI355X, an
#: all-to-all of rccl-tests.
INSIDE = {"A100": 234.9, "H100": 367.6, "H200": 367.6, "B200": 676.3, "B300": 676.3, "MI355X": 347.6}
#: GB/s of an adapter by its Gbit/s: 24 of 200 is "the peak" (NVIDIA, nccl-tests#119), 48 of 400 (46 to 49:
#: NVIDIA, nccl-tests#290 and #267); the others are in proportion.
ADAPTER = {100: 12.0, 200: 24.0, 400: 48.0, 800: 96.0}
#: Algorithms without a row: of NVLSTree no size was published, the others are not modelled.
LEFT_OUT = "NVLSTree, NVLS and CollNet (on two nodes NCCL uses NVLSTree by default where it can)"


@dataclass(frozen=True)
class Row:
    """A published bus bandwidth in GB/s: `adapters` of `gbits` each per node, an array of `gib` GiB."""

    machine: str
    nodes: int
    adapters: int
    gbits: int
    collective: str
    algorithm: (
        str  # of NCCL: ring, tree; default: the one that it takes there, which the thread names or implies
    )
    gib: float
    busbw: float
    source: str


_TOGETHER = "Together AI, report of 2026-04-17, NCCL 2.29.7"
_OCI = "oracle-quickstart/oci-hpc-oke"
_AKS = "jingchaozhang.github.io, NCCL test on AKS, 2023-09-11"
_A3 = "GoogleCloudPlatform, A3 Mega, TCPXO"
_AZURE = "jingchaozhang.github.io, scaling of H100 on Azure"
ROWS = (
    Row("A100", 2, 4, 200, "all-reduce", "ring", 1, 89.52, "nccl-tests#152, by default"),
    Row("A100", 2, 4, 200, "all-reduce", "ring", 2, 89.65, "nccl-tests#152, by default"),
    Row("A100", 3, 4, 200, "all-reduce", "ring", 0.124, 95.74, "nccl-tests#119, by default"),
    Row(
        "A100",
        4,
        8,
        200,
        "all-reduce",
        "ring",
        1,
        192.0,
        "nccl#812, NVIDIA; neither nodes nor size given",
    ),
    Row("A100", 2, 8, 200, "all-reduce", "ring", 1, 181.98, f"{_AKS}, by default"),
    Row("A100", 2, 8, 200, "all-reduce", "ring", 8, 189.20, f"{_AKS}, by default"),
    Row("A100", 2, 8, 200, "all-reduce", "ring", 1, 184.92, f"{_OCI}, 16 adapters of 100 Gbit/s"),
    Row("A100", 2, 8, 200, "all-reduce", "ring", 8, 189.60, f"{_OCI}, 16 adapters of 100 Gbit/s"),
    Row("A100", 2, 8, 200, "all-reduce", "tree", 1, 219.12, f"{_OCI}, 16 adapters of 100 Gbit/s, by default"),
    Row("A100", 2, 8, 200, "all-reduce", "tree", 8, 237.94, f"{_OCI}, 16 adapters of 100 Gbit/s, by default"),
    Row("H100", 5, 4, 400, "all-reduce", "ring", 1, 190.0, "nccl#1368"),
    Row("H100", 5, 4, 400, "all-reduce", "tree", 1, 150.0, "nccl#1368"),
    Row("H100", 2, 8, 200, "all-reduce", "tree", 1, 297.86, f"{_A3}, by default"),
    Row("H100", 2, 8, 200, "all-reduce", "tree", 8, 338.82, f"{_A3}, by default"),
    Row("H100", 2, 8, 200, "all-gather", "ring", 1, 181.94, _A3),
    Row("H100", 2, 8, 200, "all-gather", "ring", 8, 188.54, _A3),
    Row("H100", 2, 8, 400, "all-reduce", "ring", 1, 384.49, "nccl-tests#309, 24 CTAs"),
    Row("H100", 2, 8, 400, "all-reduce", "ring", 8, 392.69, "nccl-tests#309, 24 CTAs"),
    Row("H100", 4, 8, 400, "all-reduce", "ring", 1, 358.14, "nccl-tests#309, NVIDIA, by default"),
    Row("H100", 4, 8, 400, "all-reduce", "ring", 16, 365.84, "nccl-tests#309, NVIDIA, by default"),
    Row("H100", 8, 8, 400, "all-reduce", "ring", 1, 374.81, "nccl-tests#309, 24 CTAs"),
    Row("H100", 8, 8, 400, "all-reduce", "ring", 8, 391.37, "nccl-tests#309, 24 CTAs"),
    Row("H100", 8, 8, 400, "all-reduce", "ring", 8, 320.70, "nccl-tests#309, by default"),
    Row("H100", 4, 8, 400, "all-reduce", "ring", 8, 320.0, "nccl#1221, RoCE"),
    Row("H100", 4, 8, 400, "all-reduce", "ring", 8, 350.3, _AZURE),
    Row("H100", 8, 8, 400, "all-reduce", "ring", 8, 373.8, _AZURE),
    Row("H100", 32, 8, 400, "all-reduce", "ring", 2, 340.0, "nccl#1218, 16 channels"),
    Row("H200", 4, 8, 400, "all-reduce", "ring", 4, 364.65, "ml-engineering, EFA, NCCL 2.27.7"),
    Row("H200", 16, 8, 400, "all-reduce", "ring", 16, 369.86, "awsome-distributed-training, EFA, by default"),
    *(
        Row("B200", nodes, 8, 400, "all-reduce", "ring", 8, busbw, _TOGETHER)
        for nodes, busbw in ((2, 343.9), (4, 332.9), (8, 307.4), (16, 305.2), (32, 309.5))
    ),
    *(
        Row("B200", nodes, 8, 400, "all-reduce", "tree", 8, busbw, _TOGETHER)
        for nodes, busbw in ((2, 335.1), (4, 187.8), (8, 192.6), (16, 192.4), (32, 192.1))
    ),
    *(
        Row("B200", nodes, 8, 400, "all-gather", "ring", 8, busbw, _TOGETHER)
        for nodes, busbw in ((2, 343.2), (4, 333.2), (8, 324.9), (16, 312.2), (32, 315.8))
    ),
    Row("B200", 4, 8, 400, "all-reduce", "ring", 16, 381.80, "ml-engineering, EFA, NCCL 2.27.7, by default"),
    Row("B200", 2, 8, 400, "all-gather", "ring", 8, 328.85, "GoogleCloudPlatform, A4, RoCE"),
    Row("B200", 2, 8, 400, "all-to-all", "direct", 8, 89.87, "Together AI, report of 2026-04-28"),
    Row("B300", 2, 8, 800, "all-to-all", "direct", 8, 180.98, f"{_OCI}, NCCL 2.28.9"),
    Row("MI355X", 2, 8, 400, "all-reduce", "ring", 8, 368.78, f"{_OCI}, RCCL 2.26.6"),
    Row("MI355X", 4, 8, 400, "all-reduce", "ring", 8, 370.24, f"{_OCI}, RCCL 2.26.6"),
    Row("MI355X", 2, 8, 400, "all-to-all", "direct", 8, 86.60, f"{_OCI}, RCCL 2.26.6"),
    Row("MI355X", 4, 8, 400, "all-to-all", "direct", 8, 50.20, f"{_OCI}, RCCL 2.26.6"),
)
