"""Gives bandwidths (B/s, one direction) that NCCL assumes if a machine names only the kinds of links.

The values are from github.com/NVIDIA/nccl and github.com/ROCm/rccl, src/graph/topo.h and topo.cc: rates of
actual copies, a little less than nominal rates.
"""

from pathlib import Path

from wavefabric.base.arguments import positive
from wavefabric.base.files.input import read_text

#: B/s of a path within a device or a host bridge.
LOCAL = 5000e9
#: Latency of a transfer in s: measured on NVLink for TACCL (arXiv:2111.04867); a small peer copy over PCIe.
NVLINK_ALPHA, PCIE_ALPHA = 0.7e-6, 10e-6
_NVLINK = ((100, 40.1e9), (90, 20.6e9), (87, 20e9), (86, 12e9), (80, 20e9), (70, 20e9), (60, 18e9))
_XGMI = (("gfx90a", 36e9), ("gfx94", 48e9), ("gfx95", 48e9))
_PCIE = ((90, 48e9), (80, 24e9), (0, 12e9))
#: Bandwidth of a PCIe lane in units of 100 Mbit/s, by transfer rate in GT/s.
_LANE = {2.5: 15, 5.0: 30, 8.0: 60, 16.0: 120, 32.0: 240, 64.0: 480}


def nvlink(sm: int) -> float:
    """Return the bandwidth in B/s of one NVLink of a GPU of compute capability ``sm`` / 10."""
    return next((speed for least, speed in _NVLINK if sm >= least), 20e9)


def xgmi(gcn: str) -> float:
    """Return the bandwidth in B/s of an xGMI link; ``gcn``: GPU architecture, such as gfx942 (MI300X)."""
    name = {"910": "gfx90a"}.get(gcn, gcn if gcn.startswith("gfx") else f"gfx{gcn}")
    return next((speed for start, speed in _XGMI if name.startswith(start)), 24e9)


def pcie(rate: float | None, lanes: int) -> float:
    """Return the B/s of a PCIe link with ``rate`` in GT/s (8 if unknown) and ``lanes`` (16 if 0)."""
    return (lanes or 16) * _LANE.get(rate or 8.0, 60) / 80 * 1e9


def pcie_of(sm: int) -> float:
    """Return the bandwidth in B/s of the PCIe x16 link of a GPU; ``sm``: its compute capability times ten."""
    return next(speed for least, speed in _PCIE if sm >= least)


def sockets(arch: str, vendor: str, family: int, model: int) -> float:
    """Return the bandwidth in B/s between two CPU sockets of a host."""
    if arch == "ppc64":
        return 32e9
    if arch == "arm64":
        return 6e9
    if vendor == "AuthenticAMD":
        return 16e9
    if vendor in ("CentaurHauls", "  Shanghai  "):
        return 9e9 if (family, model) == (7, 0x5B) else 6e9
    if vendor == "GenuineIntel" and family == 6:
        # Granite Rapids and Sierra Forest have lower numbers than Emerald Rapids.
        newest = model >= 0xCF or model in (0xAD, 0xAE, 0xAF)
        return 40e9 if newest else 22e9 if model >= 0x8F else 10e9 if model >= 0x55 else 6e9
    return 6e9


def source_text(source: str | Path, what: str) -> str:
    """Return ``source`` itself, or the text of the file if it is a `Path`."""
    return read_text(source, what) if isinstance(source, Path) else source


def or_default(key: str, value: float | None, default: float) -> float:
    """Return ``value``, which must be positive, or ``default`` if it is None."""
    return default if value is None else positive(value, "", key)
