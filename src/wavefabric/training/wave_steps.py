"""Build one time step of the fibre or ultrasound solver as tasks, to simulate the exchanges on any fabric.

A computation takes the time to read or write a number of fields (arrays of all points) at the rate of a copy.
The numbers follow from times of a step on one H200: 10.8 ms for light in 30 rows of 2²¹ samples whose powers
are exchanged; for ultrasound at 512³ points 7.49 ms in a homogeneous and 11.5 ms in a heterogeneous medium
(docs/performance.md). `fabric.planner` predicts single steps more accurately.
"""

import math
import re
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from typing import Literal

import numpy as np

from wavefabric.acoustics.decomposition.decompose import Decomposition, decompose
from wavefabric.base.errors import InputError, show
from wavefabric.base.units import three_digits
from wavefabric.collectives.structure import transfer_elements
from wavefabric.fabric.planner.ultrasound_step import busiest_exchange
from wavefabric.optics.propagation.operators_ranks import chunks_for
from wavefabric.optics.propagation.rank_modes import split_modes
from wavefabric.runtime.spectral.distributed import Box, boxes
from wavefabric.training.gpu.device_model import DeviceModel
from wavefabric.training.iteration.task_graph import Call, TaskGraph

#: Fraction of the memory bandwidth that a copy reaches.
_COPY = 0.875
#: Number of fields read or written by linear propagation, by sums of powers, by coupling and update.
_LINEAR, _SUMS, _UPDATE = 7.4, 2.3, 5.4
#: Fields read or written and transforms per ultrasound step, by whether the medium is heterogeneous.
_MOVED = {False: (58.6, 10), True: (90.0, 14)}
#: Number of fields stored in memory: of a fibre; of ultrasound, by whether the medium is heterogeneous.
_HELD_FIBRE, _HELD = 2.0, {False: 8.4, True: 16.7}
#: Bytes per complex number of light, and per real number of ultrasound.
_COMPLEX, _REAL = 16, 4
#: Patterns of the sizes in names such as ``fibre:120x1048576`` (`parse_wave_step`).
_NUMBER = "([1-9][0-9]{0,9})"
_FIBRE = re.compile(f"{_NUMBER}x{_NUMBER}(?::{_NUMBER})?")
_GRID = re.compile(f"{_NUMBER}x{_NUMBER}x{_NUMBER}(?::(local|global))?")
#: Maximum number of messages per call, to limit memory.
_MOST_MESSAGES = 2**20


def fibre_step(
    modes: int, samples: int, gpus: int, device: DeviceModel, *, groups: int | None = None
) -> TaskGraph:
    """Build the tasks of one RK4IP step of light in a multimode fibre, with the modes divided among GPUs.

    A phase group consists of rows of the field with equal Kerr phase. Each of the step's two Kerr kernels
    cuts the samples into chunks, and exchanges the groups' powers by two all-gathers per chunk; while one
    chunk is sent, the next is computed (`RankOperators`; Brehler et al. 2017, doi:10.1016/j.cpc.2017.02.018).

    The field has two rows of ``samples`` per spatial mode; there is at most one GPU per mode. ``groups`` is
    the number of phase groups, by default one per row of the field (dense coupling).
    """
    split_modes(modes, gpus)
    groups = 2 * modes if groups is None else groups
    if groups < 1 or samples < 1:
        raise InputError(f"groups: {groups}, samples: {samples} given; allowed: 1 or more")
    field = 2 * -(-modes // gpus) * samples * _COMPLEX
    _check_memory(_HELD_FIBRE * field, device)
    chunks = chunks_for(samples)
    step = _Step(gpus, device)
    powers = groups * samples / chunks * _COMPLEX / 2
    gather = Call("all-gather", (tuple(range(gpus)),), powers, "layer-to-layer")
    for kernel in ("middle", "last"):
        step.compute(f"linear {kernel}", 2 * _LINEAR * field)
        first, second = [-1] * chunks, [-1] * chunks
        for turn in range(chunks + 2):
            if turn < chunks:
                ready = step.compute(f"sums {kernel} {turn}", _SUMS * field / chunks)
                first[turn] = step.call(f"powers {kernel} {turn}", gather, [ready])
            if 0 <= turn - 1 < chunks:
                ready = step.compute(f"couple {kernel} {turn - 1}", 0.0, [first[turn - 1]])
                second[turn - 1] = step.call(f"second powers {kernel} {turn - 1}", gather, [ready])
            if turn >= 2:
                step.compute(f"update {kernel} {turn - 2}", _UPDATE * field / chunks, [second[turn - 2]])
    return step.graph


def ultrasound_step(
    shape: tuple[int, int, int],
    gpus: int,
    device: DeviceModel,
    *,
    decomposition: Literal["global", "local"] = "global",
    overlap: int = 16,
    heterogeneous: bool = True,
) -> TaskGraph:
    """Build the tasks of one ultrasound time step on a grid of ``shape`` (Nx, Ny, Nz) divided among GPUs.

    ``decomposition``: with ``"global"``, Fourier transforms extend over all GPUs, with transposes between the
    axes. With ``"local"``, each GPU has a block that overlaps its neighbours by ``overlap`` points, which
    they fill before each set of transforms (local Fourier basis). ``heterogeneous``: the medium is absorbing
    and nonlinear, with 14 transforms per step; otherwise it is lossless, with 10.
    """
    local = decomposition == "local"
    options = Decomposition(kind="local", overlap=overlap) if local else Decomposition(kind="global")
    held = _HELD[heterogeneous] * _REAL
    _check_memory(held * math.prod(shape) / gpus, device)  # refuse a grid too large before dividing it
    cut = decompose(shape, gpus, options)
    moved, transforms = _MOVED[heterogeneous]
    field = _REAL * max(math.prod(each.size) for each in cut.subdomains)
    _check_memory(held / _REAL * field, device)
    if not local:
        _, rows, planes, columns = boxes(shape, cut.grid)
        layouts = [rows] + [planes] * (cut.grid[1] > 1) + [columns] * (cut.grid[2] > 1)
        calls = [_transpose(a, b, 2 * _REAL) for a, b in pairwise(layouts)] * transforms
    else:
        halos = busiest_exchange(cut)
        ends = halos.transfers["src"], halos.transfers["dst"], transfer_elements(halos)
        counts = (1, 3, 2) if heterogeneous else (1, 3)  # fields per exchange: pressure; velocity; absorption
        calls = [_exchange(*ends, gpus, count * _REAL) for count in counts]
    step = _Step(gpus, device)
    ready: list[int] = []
    for number, call in enumerate(calls):
        done = step.compute(f"part {number}", moved * field / (len(calls) + 1), ready)
        ready = [step.call(f"exchange {number}", call, [done])]
    step.compute(f"part {len(calls)}", moved * field / (len(calls) + 1), ready)
    return step.graph


class _Step:
    """Builds the tasks of one worker, which represents all GPUs, as all do the same at the same time."""

    def __init__(self, gpus: int, device: DeviceModel):
        self._device, self._gpus = device, gpus
        self.graph = TaskGraph(1)
        self.graph.program.append([])

    def compute(self, name: str, nbytes: float, waits: Iterable[int] = ()) -> int:
        task = self.graph.compute("forward", name, 0, nbytes / (self._device.bandwidth * _COPY), list(waits))
        self.graph.program[0].append(task)
        return task

    def call(self, name: str, call: Call, waits: list[int]) -> int:
        return waits[0] if self._gpus == 1 else self.graph.communicate(name, call, (0,), waits)


def _check_memory(nbytes: float, device: DeviceModel) -> None:
    """Raise `InputError` if a step needs ``nbytes`` bytes per GPU and the device has less memory."""
    if nbytes > device.memory:
        actual = f"{three_digits(nbytes / 1e9)} GB needed a GPU at least, {device.memory / 1e9:g} GB there"
        raise InputError(f"memory: {actual}; allowed: more GPUs, or a smaller grid")


def _transpose(before: list[Box], after: list[Box], itemsize: int) -> Call:
    """Return the call that redistributes an array of which GPU k has box ``before[k]``, then ``after[k]``."""
    a, b = np.array(before), np.array(after)  # shape (GPUs, axes, 2): first point, last point + 1
    sizes = np.ones((len(a), len(b)), np.int64)
    for axis in range(3):
        common = np.minimum.outer(a[:, axis, 1], b[:, axis, 1])
        common -= np.maximum.outer(a[:, axis, 0], b[:, axis, 0])
        sizes *= np.maximum(common, 0, out=common)
    np.fill_diagonal(sizes, 0)
    src, dst = np.nonzero(sizes)
    return _exchange(src, dst, sizes[src, dst], len(a), itemsize)


def _exchange(src: np.ndarray, dst: np.ndarray, sizes: np.ndarray, gpus: int, itemsize: int) -> Call:
    """Return the call that sends ``sizes[i]`` items from GPU ``src[i]`` to ``dst[i]``, for all i.

    It is an all-to-all if all sizes are equal and the pairs form groups (`_complete_groups`), else messages.
    """
    talks = np.zeros((gpus, gpus), bool)
    talks[src, dst] = True
    alike = sizes.size and sizes.size == talks.sum() and sizes.min() == sizes.max()
    if alike and (groups := _complete_groups(talks)):
        return Call("all-to-all", groups, float(sizes[0] * itemsize * len(groups[0])), "layer-to-layer")
    if sizes.size > _MOST_MESSAGES:
        actual = f"{gpus} given, between which an exchange has {sizes.size} messages"
        allowed = f"up to {_MOST_MESSAGES}, or a number that divides the grid"
        raise InputError(f"gpus: {actual}; allowed: {allowed}")
    ends = tuple(np.union1d(src, dst).tolist())
    messages = tuple(zip(src.tolist(), dst.tolist(), sizes.tolist(), strict=True))
    return Call("messages", (ends,), float(itemsize), "layer-to-layer", messages)


def _complete_groups(talks: np.ndarray) -> tuple[tuple[int, ...], ...] | None:
    """Return groups of equal size in which each GPU sends to all others; None if there are no such groups.

    ``talks[i, j]``: whether GPU i sends to GPU j. There are none if GPUs of different groups send to each
    other.
    """
    np.fill_diagonal(talks, talks.any(axis=1))
    _, number = np.unique(np.packbits(talks, axis=1), axis=0, return_inverse=True)
    groups = [np.flatnonzero(number == k) for k in range(number.max() + 1)]
    groups = sorted(tuple(g.tolist()) for g in groups if talks[g[0]].any())
    complete = all(np.array_equal(np.flatnonzero(talks[g[0]]), g) for g in groups)
    return tuple(groups) if complete and len(set(map(len, groups))) == 1 else None


def parse_wave_step(text: str) -> Callable[[int, DeviceModel], TaskGraph]:
    """Return a function (number of GPUs, device) that builds the tasks of the solver step ``text``.

    ``fibre:120x1048576`` has 120 spatial modes of 2²⁰ samples; ``:34`` after it means that the powers of 34
    phase groups are exchanged. ``ultrasound:4096x4096x4096`` is a grid; ``:local`` after it cuts the grid
    into blocks that overlap by 16 points.

    Raises
    ------
    InputError
        If ``text`` has another form.

    Examples
    --------
    >>> from wavefabric.training.gpu.device_file import load_device
    >>> from wavefabric.training.wave_steps import parse_wave_step
    >>> step = parse_wave_step("fibre:120x1048576:34")
    >>> len(step(8, load_device("h200")).call)
    42
    """
    kind, _, sizes = text.partition(":")
    if kind == "fibre" and (match := _FIBRE.fullmatch(sizes)):
        modes, samples, groups = match.groups()
        return partial(fibre_step, int(modes), int(samples), groups=int(groups) if groups else None)
    if kind == "ultrasound" and (match := _GRID.fullmatch(sizes)):
        x, y, z, cut = match.groups()
        kind = "local" if cut == "local" else "global"
        return partial(ultrasound_step, (int(x), int(y), int(z)), decomposition=kind)
    allowed = "sizes such as fibre:120x1048576, fibre:120x1048576:34 (phase groups), ultrasound:512x512x512"
    raise InputError(f"model: {show(text)} given; allowed: {allowed}, ultrasound:512x512x512:local")
