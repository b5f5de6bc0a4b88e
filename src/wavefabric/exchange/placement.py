"""Which GPU each rank takes: as little traffic over slow links as the pattern allows, or as a file says."""

from __future__ import annotations

import itertools
import json
import math
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.collectives import Schedule
from wavefabric.errors import InputError, cut, quoted, visible
from wavefabric.files.input import read_bytes
from wavefabric.files.toml import parse_toml
from wavefabric.system.gpu_topology import Topology

#: All placements are tried up to so many (8 ranks on 8 GPUs: 40320).
_EXACT = 50_000
#: Numbers of GPUs that a file may name: a bound on absurd input.
MOST_GPUS = 4096
_NUMBER = re.compile(r"[0-9]{1,9}")


def traffic(schedule: Schedule, itemsize: int = 1) -> np.ndarray:
    """Bytes (elements by default) from rank to rank in one run of a schedule, shape (ranks, ranks)."""
    found = np.zeros((schedule.ranks, schedule.ranks), np.int64)
    for transfer in schedule.transfers:
        source, first = int(transfer["src"]), int(transfer["src_chunk"])
        sizes = schedule.sizes[transfer["src_buffer"]][source]
        moved = int(sizes[first : first + int(transfer["count"])].sum())
        found[source, transfer["dst"]] += moved * itemsize
    np.fill_diagonal(found, 0)
    return found


def messages(schedule: Schedule) -> np.ndarray:
    """Messages from rank to rank in one run of a schedule, shape (ranks, ranks); both directions count."""
    found = np.zeros((schedule.ranks, schedule.ranks), np.int64)
    np.add.at(found, (schedule.transfers["src"], schedule.transfers["dst"]), 1)
    np.fill_diagonal(found, 0)
    return found


def crossings(counts: np.ndarray, topology: Topology, gpus: list[int]) -> dict[str, int]:
    """What goes over each class of links, slow ones first.

    Parameters
    ----------
    counts : ndarray, shape (ranks, ranks)
        Bytes or messages from rank to rank.
    topology : Topology
    gpus : list of int
        GPU of each rank.
    """
    used = topology.only(gpus)
    links = np.array(used.links)
    return {name: int(counts[links == name].sum()) for name in topology.classes}


@dataclass(frozen=True)
class Placement:
    """GPUs of ranks, and what crosses the slowest links for them.

    Parameters
    ----------
    gpus : list of int
        GPU of each rank.
    slowest : str
        Class of the slowest links of the host; empty if it has one GPU.
    crossing, worst : int
        Messages over links of that class, in both directions: here, and in the worst placement found.
    exact : bool
        Whether all placements were compared.
    """

    gpus: list[int]
    slowest: str
    crossing: int
    worst: int
    exact: bool

    def __str__(self) -> str:
        words = f"placement: {' '.join(map(str, self.gpus))}"
        if self.slowest:
            words += f"; messages over the slowest links ({self.slowest}): {self.crossing}"
            words += f" (worst case {self.worst})"
        return words


def place(schedule: Schedule, topology: Topology) -> Placement:
    """The placement that sends the least data over the slowest links, then over the next class, and so on.

    All placements are compared for up to 8 ranks on 8 GPUs; beyond, ranks are placed greedily and then
    swapped while that helps. Of equally good ones the first in order of numbers is taken, so that all ranks
    agree.

    Raises
    ------
    InputError
        If there are fewer GPUs than ranks.
    """
    ranks = schedule.ranks
    if ranks > topology.gpus:
        raise InputError(f"placement: {ranks} ranks on {topology.gpus} GPUs; allowed: a GPU for each rank")
    moved, counted = traffic(schedule), messages(schedule)
    exact = math.perm(topology.gpus, ranks) <= _EXACT
    best, worst = _all(moved, counted, topology) if exact else _search(moved, counted, topology)
    slowest = topology.classes[0] if topology.classes else ""
    count = {gpus: crossings(counted, topology, list(gpus)).get(slowest, 0) for gpus in (best, worst)}
    return Placement(list(best), slowest, count[best], count[worst], exact)


def _levels(topology: Topology) -> np.ndarray:
    """Number of the class of each link, 0 for the slowest; the last number for a GPU with itself."""
    order = {name: number for number, name in enumerate(topology.classes)}
    return np.array([[order.get(link, len(order)) for link in row] for row in topology.links])


def _all(moved, counted, topology: Topology) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Best placement by bytes, and worst by messages over the slowest class."""
    levels = _levels(topology)
    tried = np.array(list(itertools.permutations(range(topology.gpus), len(moved))))
    costs = np.zeros((len(topology.classes), len(tried)), np.int64)
    worst = np.zeros(len(tried), np.int64)
    for a, b in zip(*np.nonzero(moved + counted), strict=True):
        level = levels[tried[:, a], tried[:, b]]
        for number in range(len(costs)):
            costs[number] += moved[a, b] * (level == number)
        worst += counted[a, b] * (level == 0)
    # lexsort takes its last key first; it is stable, so that the first of equals stays first.
    best = np.lexsort(costs[::-1])[0] if len(costs) else 0
    return tuple(map(int, tried[best])), tuple(map(int, tried[np.argmax(worst)]))


def _search(moved, counted, topology: Topology) -> tuple[tuple[int, ...], tuple[int, ...]]:
    levels, classes = _levels(topology), len(topology.classes)
    both, number = moved + moved.T, counted + counted.T

    def bytes_by_class(gpus: list[int]) -> tuple[int, ...]:
        level = levels[np.ix_(gpus, gpus)]
        return tuple(int(both[level == c].sum()) for c in range(classes))

    def spared(gpus: list[int]) -> tuple[int, ...]:
        return (-int(number[levels[np.ix_(gpus, gpus)] == 0].sum()),)

    starts = [_greedy(both, levels, first) for first in range(topology.gpus)]
    starts.append(list(range(len(moved))))
    best = min((_improve(start, topology.gpus, bytes_by_class) for start in starts), key=lambda found: found)
    # Every other GPU first: far apart on most hosts.
    scattered = [*range(0, topology.gpus, 2), *range(1, topology.gpus, 2)][: len(moved)]
    worst = min(_improve(start, topology.gpus, spared) for start in (scattered, list(range(len(moved)))))
    return tuple(best[1]), tuple(worst[1])


def _greedy(both, levels, first: int) -> list[int]:
    """Place the rank that talks most with those placed where that costs least, beginning on one GPU."""
    ranks, gpus = len(both), len(levels)
    placed = {int(np.argmax(both.sum(1))): first}
    while len(placed) < ranks:
        left = [rank for rank in range(ranks) if rank not in placed]
        rank = max(left, key=lambda rank: (sum(both[rank, other] for other in placed), -rank))

        def cost(gpu: int, rank: int = rank) -> tuple:
            pairs = [(int(levels[gpu, at]), int(both[rank, other])) for other, at in placed.items()]
            return *(sum(n for level, n in pairs if level == c) for c in range(levels.max())), gpu

        placed[rank] = min((gpu for gpu in range(gpus) if gpu not in placed.values()), key=cost)
    return [placed[rank] for rank in range(ranks)]


def _improve(gpus: list[int], total: int, cost) -> tuple[tuple[int, ...], list[int]]:
    """Swap two ranks, or move one to a free GPU, while that helps."""
    gpus, found = list(gpus), cost(gpus)
    better = True
    while better:
        better = False
        for a, gpu in itertools.product(range(len(gpus)), range(total)):
            trial = list(gpus)
            if gpu in trial:
                trial[trial.index(gpu)] = trial[a]
            trial[a] = gpu
            value = cost(trial)
            if value < found:
                gpus, found, better = trial, value, True
    return found, gpus


# --- files -----------------------------------------------------------------------------------------------


def read_placement(path: str | Path, ranks: int | None = None) -> list[int]:
    """Read the GPU of each rank.

    Parameters
    ----------
    path : path
        TOML with ``placement = [0, 1, …]``, JSON with such a list or table, or text: numbers with blanks,
        commas or line ends between, rank 0 first; ``#`` begins a remark.
    ranks : int, optional
        How many there must be.

    Raises
    ------
    InputError
        Naming file, line and what is allowed.
    """
    path = Path(path)
    try:
        text = read_bytes(path).decode("utf-8")
    except (OSError, ValueError) as error:  # ValueError: no text, or a name with a null byte
        reason = getattr(error, "strerror", None) or "it is no text"
        raise InputError(f"--placement: {path} cannot be read ({reason}); allowed: a file, or auto") from None
    suffix = path.suffix.lower()
    found = _structured(path, text, suffix) if suffix in (".json", ".toml") else _words(path, text)
    seen: dict[int, str] = {}
    gpus = []
    for where, value in found:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < MOST_GPUS:
            allowed = f"the number of a GPU, 0 to {MOST_GPUS - 1}"
            raise InputError(f"{where}: {quoted(value)} given; allowed: {allowed}")
        if value in seen:
            raise InputError(
                f"{where}: GPU {value} is given again (first: {seen[value]}); allowed: each once"
            )
        seen[value] = where.removeprefix(f"{path}, ")
        gpus.append(value)
    if ranks is not None and len(gpus) != ranks:
        raise InputError(f"{path}: {len(gpus)} GPUs given; allowed: one for each of {ranks} ranks")
    return gpus


def _words(path: Path, text: str) -> list[tuple[str, Any]]:
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        for word in re.split(r"[\s,]+", line.partition("#")[0].strip()):
            if word:
                found.append((f"{path}, line {number}", int(word) if _NUMBER.fullmatch(word) else word))
    return found


def _structured(path: Path, text: str, suffix: str) -> list[tuple[str, Any]]:
    try:
        found = json.loads(text) if suffix == ".json" else parse_toml(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{path}, line {error.lineno}: {error.msg}; allowed: JSON") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: {error}; allowed: TOML") from None
    except (RecursionError, ValueError):  # Python reads no whole number of more than 4300 digits
        raise InputError(
            f"{path}: nested too deeply, or a number with too many digits; allowed: JSON"
        ) from None
    if isinstance(found, dict):
        if set(found) != {"placement"}:
            keys = ", ".join(cut(visible(str(key))) for key in found) or "nothing"
            raise InputError(f"{path}: {keys} given; allowed: placement = [GPU of rank 0, of rank 1, ...]")
        found = found["placement"]
    if not isinstance(found, list):
        raise InputError(
            f"{path}: placement: {quoted(found)} given; allowed: a list with the GPU of each rank"
        )
    return [(f"{path}, entry {number}", value) for number, value in enumerate(found, 1)]
