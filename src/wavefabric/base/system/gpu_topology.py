"""Read how the GPUs of a host are connected, from ``nvidia-smi topo -m``."""

import os
import re
import subprocess
from dataclasses import dataclass

from wavefabric.base.errors import InputError

#: Link classes, slowest first: across sockets; between host bridges of a NUMA node; through one host bridge;
#: through several PCIe switches; through one. NVLink (NV and the number of links) is faster than all.
SLOW_FIRST = ("SYS", "NODE", "PHB", "PXB", "PIX")
#: Entry of nvidia-smi's table for a GPU and itself.
SELF = "X"

_GPU = re.compile(r"GPU\d{1,6}", re.ASCII)
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_LINK = re.compile(rf"{SELF}|{'|'.join(SLOW_FIRST)}|NV\d{{1,6}}", re.ASCII)
_ALLOWED = ", ".join((SELF, *SLOW_FIRST, "NV and a number"))


def speed(link: str) -> int:
    """Return the sorting key of a link class: slower classes have smaller keys."""
    if link == SELF:
        return 1 << 30
    return SLOW_FIRST.index(link) if link in SLOW_FIRST else len(SLOW_FIRST) + int(link[2:])


@dataclass(frozen=True)
class GpuTopology:
    """Holds the links between the GPUs of a host."""

    #: Link class between GPU i and GPU j (``"PIX"``, ``"NV18"``, …), ``"X"`` for i = j.
    links: tuple[tuple[str, ...], ...]
    #: NUMA node of each GPU, None if nvidia-smi does not say.
    numa: tuple[int | None, ...]

    @property
    def gpus(self) -> int:
        """Return the number of GPUs."""
        return len(self.links)

    @property
    def classes(self) -> tuple[str, ...]:
        """Return the link classes that occur between different GPUs, slowest first."""
        return tuple(sorted({link for row in self.links for link in row} - {SELF}, key=speed))

    def select(self, gpus: list[int]) -> "GpuTopology":
        """Return the topology of some of the GPUs, in the order of their numbers in ``gpus``."""
        return GpuTopology(
            tuple(tuple(self.links[i][j] for j in gpus) for i in gpus), tuple(self.numa[i] for i in gpus)
        )


def parse(text: str) -> GpuTopology:
    """Parse the output of ``nvidia-smi topo -m``; `InputError` if it has no table or an unknown entry.

    Rows and columns of network adapters are skipped, underlines and colours of a terminal removed.
    """
    lines = [_ESCAPE.sub("", line) for line in text.splitlines()]
    while lines and (lines[0].split()[:1] != ["GPU0"] or SELF in lines[0].split()):
        del lines[0]
    if not lines:
        raise InputError("nvidia-smi topo -m: no header with GPU0 given; allowed: its table")
    columns = lines[0].partition("CPU Affinity")[0].split()
    gpu_columns = [n for n, name in enumerate(columns) if _GPU.fullmatch(name)]
    rows, numa = [], []
    for line in lines[1:]:
        name, *cells = line.split()[: 1 + len(columns)] or [""]
        if not _GPU.fullmatch(name):
            continue
        row = [cells[n] if n < len(cells) else "nothing" for n in gpu_columns]
        bad = next((cell for cell in row if not _LINK.fullmatch(cell)), None)
        if bad is not None:
            raise InputError(f"nvidia-smi topo -m: {bad[:60]} in the row of {name}; allowed: {_ALLOWED}")
        rows.append(tuple(row))
        # CPU affinity (0-31,64-95), then NUMA affinity.
        rest = line.split()[1 + len(columns) :]
        numa.append(int(rest[1]) if len(rest) > 1 and re.fullmatch("[0-9]{1,9}", rest[1]) else None)
    if len(rows) != len(gpu_columns):
        fault = f"{len(rows)} rows for {len(gpu_columns)} GPUs"
        raise InputError(f"nvidia-smi topo -m: {fault}; allowed: one each")
    return GpuTopology(tuple(rows), tuple(numa))


def query() -> GpuTopology | None:
    """Return the topology of this host's GPUs that CUDA may use, in CUDA's order; None if unknown."""
    try:
        command = ["nvidia-smi", "topo", "-m"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    if "GPU0" not in done.stdout:
        return None
    topology = parse(done.stdout)
    if (visible := os.environ.get("CUDA_VISIBLE_DEVICES")) is None:
        return topology
    numbers = [number.strip() for number in visible.split(",") if number.strip()]
    if not all(number.isdecimal() and int(number) < topology.gpus for number in numbers):
        return None  # names instead of numbers
    return topology.select([int(number) for number in numbers])
