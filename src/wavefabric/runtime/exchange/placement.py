"""Choose the GPU of each rank: by rank number, from a file, or such that slow links carry little data."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import cycle, product
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.base.errors import InputError, cut, quoted, visible
from wavefabric.base.files.input import parse_toml, read_bytes
from wavefabric.base.system.gpu_topology import GpuTopology
from wavefabric.collectives import Schedule
from wavefabric.collectives.assignment import all_assignments, descend, lexicographic_order
from wavefabric.collectives.structure import transfer_elements
from wavefabric.runtime.device import Device, get_device
from wavefabric.runtime.device.select import cuda_count
from wavefabric.runtime.exchange.launch import environment

#: Number of placements up to which all are tried (8 ranks on 8 GPUs: 40320).
_EXACT = 50_000
#: Upper limit of GPU numbers in a file, to reject absurd input.
MOST_GPUS = 4096
_NUMBER = re.compile(r"[0-9]{1,9}")


def rank_device(device: str | Device | None, local_rank: int, placement: list[int] | None = None) -> Device:
    """Return the device of the rank that is number ``local_rank`` on its host.

    ``device`` None, ``"auto"`` or ``"cuda"`` means a GPU: entry ``local_rank`` of ``placement``, or without
    one GPU ``local_rank`` modulo the number of GPUs. On a host without GPUs it means the CPU (``"cuda"``: an
    error). Any other ``device`` is a name of a device, or the device itself.
    """
    if device not in (None, "auto", "cuda"):
        return get_device(device) if isinstance(device, str) else device  # type: ignore[return-value]
    gpus = cuda_count()
    if not gpus:
        return get_device("cuda") if device == "cuda" else get_device("cpu", environment.threads() or 1)
    if placement is None:
        return get_device(f"cuda:{local_rank % gpus}")
    if local_rank >= len(placement):
        raise InputError(f"placement: {len(placement)} GPUs for {local_rank + 1} or more ranks of this host")
    return get_device(f"cuda:{placement[local_rank]}")


def traffic(schedule: Schedule, messages: bool = False) -> np.ndarray:
    """Return a matrix [a, b] of the elements that rank a sends to rank b in one run of a schedule.

    With ``messages`` it counts messages instead of elements.
    """
    total = np.zeros((schedule.ranks, schedule.ranks), np.int64)
    amounts = 1 if messages else transfer_elements(schedule)
    np.add.at(total, (schedule.transfers["src"], schedule.transfers["dst"]), amounts)
    np.fill_diagonal(total, 0)
    return total


def crossings(amounts: np.ndarray, topology: GpuTopology, gpus: Sequence[int] | np.ndarray) -> dict[str, int]:
    """Return a dictionary from each class of links, slowest first, to the traffic over links of this class.

    ``amounts[a, b]`` is the traffic from rank a to rank b; rank r is on ``gpus[r]``.
    """
    return dict(zip(topology.classes, _by_class(amounts, topology, [gpus])[:, 0].tolist(), strict=True))


def _by_class(amounts: np.ndarray, topology: GpuTopology, placements) -> np.ndarray:
    """Return an array (classes, placements): the traffic over each class of links in each of ``placements``.

    Classes are in the order of ``topology.classes``, the slowest first; a placement is the GPU of each rank.
    """
    placed = np.asarray(placements)
    links = np.array(topology.links)[placed[:, :, None], placed[:, None, :]]
    crossed = [(amounts * (links == name)).sum((1, 2)) for name in topology.classes]
    return np.array(crossed, np.int64).reshape(-1, len(placed))


@dataclass(frozen=True)
class Placement:
    """Holds the GPU of each rank, and the traffic over the slowest links."""

    gpus: list[int]
    #: Class of the slowest links of the host; empty if it has one GPU.
    slowest: str
    #: Messages over links of that class, in both directions: in this placement, and in the worst one found.
    crossing: int
    worst: int

    def __str__(self) -> str:
        text = f"placement: {' '.join(map(str, self.gpus))}"
        if self.slowest:
            text += f"; messages over the slowest links ({self.slowest}): {self.crossing}"
            text += f" (worst case {self.worst})"
        return text


def best_placement(schedule: Schedule, topology: GpuTopology) -> Placement:
    """Return the placement that sends the least data over the slowest links, then the next class, and so on.

    All placements are compared for up to 8 ranks on 8 GPUs; for more, ranks are placed greedily and then
    swapped while that helps. Of equally good placements the first in order of GPU numbers is returned, so
    that all ranks agree. `InputError` if there are fewer GPUs than ranks.
    """
    ranks, gpus = schedule.ranks, topology.gpus
    if ranks > gpus:
        raise InputError(f"placement: {ranks} ranks on {gpus} GPUs; allowed: a GPU for each rank")
    moved, counted = traffic(schedule), traffic(schedule, messages=True)

    def cost(placements) -> np.ndarray:
        return _by_class(moved, topology, placements).T

    def kept_off_slowest(placements) -> np.ndarray:
        return -_by_class(counted, topology, placements)[:1].T

    tried = all_assignments(ranks, gpus, _EXACT)
    if tried is not None:
        best, worst = (tried[lexicographic_order(values(tried))[0]] for values in (cost, kept_off_slowest))
    else:
        swaps = list(product(range(ranks), range(gpus)))

        def search(starts: Iterable[Sequence[int]], values: Callable[[Any], np.ndarray]):
            def value_of(placed: np.ndarray) -> list[int]:
                return values([placed])[0].tolist()

            ends = (descend(np.array(each), value_of, _swapped, cycle(swaps), len(swaps)) for each in starts)
            return min(ends, key=lambda end: (end[1], end[0].tolist()))[0]

        plain = range(ranks)
        best = search([*(_greedy(moved + moved.T, topology, first) for first in range(gpus)), plain], cost)
        # Start with every other GPU: far apart on most hosts.
        worst = search([[*range(0, gpus, 2), *range(1, gpus, 2)][:ranks], plain], kept_off_slowest)
    slowest = next(iter(topology.classes), "")
    crossing, most = (crossings(counted, topology, placed).get(slowest, 0) for placed in (best, worst))
    return Placement(best.tolist(), slowest, crossing, most)


def _swapped(placed: np.ndarray, rank: int, gpu: int) -> np.ndarray:
    """Return a copy of ``placed``, the GPU of each rank, in which ``rank`` has moved to ``gpu``.

    A rank that was on this GPU gets the GPU that ``rank`` has left.
    """
    swapped = np.where(placed == gpu, placed[rank], placed)
    swapped[rank] = gpu
    return swapped


def _greedy(traffic: np.ndarray, topology: GpuTopology, first: int) -> list[int]:
    """Return a GPU for each rank, chosen rank by rank such that slow links carry the least traffic.

    ``both[a, b]`` is the traffic between ranks a and b. The rank with the most traffic gets GPU ``first``.
    """
    ranks, links = len(traffic), topology.links
    placed = {int(np.argmax(traffic.sum(1))): first}
    while len(placed) < ranks:
        left = [rank for rank in range(ranks) if rank not in placed]
        rank = max(left, key=lambda rank: (sum(traffic[rank, other] for other in placed), -rank))

        def cost(gpu: int, rank: int = rank) -> tuple:
            pairs = [(links[gpu][peer_gpu], int(traffic[rank, other])) for other, peer_gpu in placed.items()]
            return *(sum(n for link, n in pairs if link == name) for name in topology.classes), gpu

        placed[rank] = min((gpu for gpu in range(topology.gpus) if gpu not in placed.values()), key=cost)
    return [placed[rank] for rank in range(ranks)]


def read_placement(path: str | Path, ranks: int | None = None) -> list[int]:
    """Read the GPU of each rank from a TOML or JSON file, or from a text file of GPU numbers."""
    path = Path(path)
    try:
        text = read_bytes(path).decode("utf-8")
    except (OSError, ValueError) as error:  # ValueError: no text, or a name with a null byte
        reason = getattr(error, "strerror", None) or "it is no text"
        raise InputError(f"--placement: {path} cannot be read ({reason}); allowed: a file, or auto") from None
    if path.suffix.lower() in (".json", ".toml"):
        entries = [(f"entry {number}", value) for number, value in enumerate(_listed(path, text), 1)]
    else:
        entries = [
            (f"line {number}", int(word) if _NUMBER.fullmatch(word) else word)
            for number, line in enumerate(text.splitlines(), 1)
            for word in line.partition("#")[0].replace(",", " ").split()
        ]
    key_of_gpu: dict[int, str] = {}
    for key, value in entries:
        if type(value) is not int or not 0 <= value < MOST_GPUS:
            allowed = f"the number of a GPU, 0 to {MOST_GPUS - 1}"
            raise InputError(f"{path}, {key}: {quoted(value)} given; allowed: {allowed}")
        if value in key_of_gpu:
            again = f"GPU {value} is given again (first: {key_of_gpu[value]})"
            raise InputError(f"{path}, {key}: {again}; allowed: each once")
        key_of_gpu[value] = key
    if ranks is not None and len(key_of_gpu) != ranks:
        raise InputError(f"{path}: {len(key_of_gpu)} GPUs given; allowed: one for each of {ranks} ranks")
    return list(key_of_gpu)


def _listed(path: Path, text: str) -> list[Any]:
    """Return the list of GPUs in the text of a JSON or TOML file; `InputError` if there is none."""
    try:
        content = parse_toml(text, str(path)) if path.suffix.lower() == ".toml" else json.loads(text)
    except InputError:
        raise
    except json.JSONDecodeError as error:
        raise InputError(f"{path}, line {error.lineno}: {error.msg}; allowed: JSON") from None
    except (RecursionError, ValueError):  # Python reads no whole number of more than 4300 digits
        raise InputError(f"{path}: nested too deeply, or too many digits; allowed: JSON") from None
    if isinstance(content, dict):
        if set(content) != {"placement"}:
            keys = ", ".join(cut(visible(str(key))) for key in content) or "nothing"
            raise InputError(f"{path}: {keys} given; allowed: placement = [GPU of rank 0, of rank 1, ...]")
        content = content["placement"]
    if not isinstance(content, list):
        allowed = "a list with the GPU of each rank"
        raise InputError(f"{path}: placement: {quoted(content)} given; allowed: {allowed}")
    return content
