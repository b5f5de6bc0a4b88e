"""Turn one time step of the fibre or ultrasound solver, as the planner describes it, into tasks.

`fabric.planner` runs the solver's own step without fields, which gives the order of its kernels and exchanges
and the times of the kernels on an H200. On another GPU these times grow as its memory bandwidth falls. The
exchanges become calls, so that any fabric, algorithm and policy can be simulated.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from wavefabric.acoustics.choose_stages import CUDA
from wavefabric.acoustics.decomposition.decompose import Decomposition, decompose
from wavefabric.base.errors import InputError, ensure, show
from wavefabric.base.units import significant
from wavefabric.fabric import load
from wavefabric.fabric.planner.exchange_times import ExchangeTimes
from wavefabric.fabric.planner.fibre_step import FibreStep
from wavefabric.fabric.planner.rates import load_rates
from wavefabric.fabric.planner.step import SolverStep
from wavefabric.fabric.planner.ultrasound_step import StepMedium, UltrasoundStep, exchanges
from wavefabric.optics.propagation.phase_groups import PhaseGroupCoupling
from wavefabric.optics.propagation.rank_modes import RankModes, split_modes
from wavefabric.training.gpu.device_model import DEVICES, DeviceModel
from wavefabric.training.iteration.task_graph import Call, TaskGraph

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

    A phase group consists of adjacent rows of the field with equal Kerr phase; groups are of equal size to
    within a row. The powers of a group whose rows are on several GPUs are sent by each of them (`FibreStep`).

    The field has two rows of ``samples`` per spatial mode; there is at most one GPU per mode. ``groups`` is
    the number of phase groups, by default one per row of the field (dense coupling).
    """
    ranks, rows = RankModes(split_modes(modes, gpus)), 2 * modes
    groups = rows if groups is None else groups
    ensure(1 <= groups <= rows, "groups", groups, f"1 to {rows}, the rows of the field")
    ensure(samples >= 1, "samples", samples, "1 or more")
    # The group of row r is ⌊r groups / rows⌋.
    parts = tuple((b - 1) * groups // rows - a * groups // rows + 1 for a, b in pairwise(ranks.row_ends))
    coupled = 8 * max(parts) * sum(parts)  # γκ between the groups of one GPU and all groups
    _check_memory(_HELD_FIBRE * ranks.rows * samples * _COMPLEX + coupled, device)
    form = "dense" if groups == rows else "factored"
    coupling = PhaseGroupCoupling(form, groups, parts, np.zeros(parts[0] + 1, np.int64), [])
    step = FibreStep(coupling, samples, "rk4ip", ranks, **_setting(gpus, device, "double"))
    gather = Call("all-gather", (tuple(range(gpus)),), float(sum(parts) * step.item), "layer-to-layer")
    return _tasks(step, [gather])


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
    they fill before each set of transforms (local Fourier basis). ``heterogeneous``: the medium is absorbing,
    dispersive and nonlinear; otherwise it is homogeneous and lossless.
    """
    local = decomposition == "local"
    options = Decomposition(kind="local", overlap=overlap) if local else Decomposition(kind="global")
    held = _HELD[heterogeneous] * _REAL
    _check_memory(held * np.prod(shape, dtype=float) / gpus, device)  # refuse before the grid is divided
    cut = decompose(shape, gpus, options)
    medium = StepMedium("heterogeneous", 2) if heterogeneous else StepMedium("homogeneous")
    fused = CUDA["one" if gpus == 1 else decomposition].supports(cut, np.dtype(np.float32))
    fused &= gpus == 1 or shape[2] > 1  # as `stages_form` chooses
    stages = "fused" if fused else "plain"
    step = UltrasoundStep(cut, medium, stages, **_setting(gpus, device, "single"))
    _check_memory(held * step.points, device)
    return _tasks(step, [_call(each, gpus, step.item) for each in exchanges(cut)])


def _setting(gpus: int, device: DeviceModel, precision: str) -> dict[str, Any]:
    """Return keyword arguments of `SolverStep`.

    Times of kernels are the H200's, scaled to the memory bandwidth of ``device``. No host delays exchanges.
    The fabric between the GPUs matters to none of the events of a step.
    """
    rates = replace(load_rates("h200"), factor=DEVICES["h200"].bandwidth / device.bandwidth)
    exchange = ExchangeTimes(load(f"switch:{gpus}"), "p2p") if gpus > 1 else None
    return {"precision": precision, "rates": rates, "exchange": exchange}


def _tasks(step: SolverStep, exchange: list[Call]) -> TaskGraph:
    """Build the tasks of one worker, which represents all GPUs, as all do the same at the same time.

    ``exchange``: the calls, one after the other, of an exchange of size 1.
    """
    events, graph = step.events(), TaskGraph(1, program=[[]])
    # Exchanges that nobody waits for end in the next step, so the step begins with those of the last step.
    last = max(n for n, (kind, *_) in enumerate(events) if kind != "exchange") + 1
    before: list[int] = []  # what the next task waits for
    sent: dict[str, int] = {}
    for number, (kind, name, value) in enumerate(events[last:] + events[:last]):
        if kind == "work":
            before = [graph.compute("forward", f"{name} {number}", 0, value, before)]
            graph.program[0] += before
        elif kind == "exchange":
            done = before
            for call in exchange:
                sized = replace(call, bytes=call.bytes * value)
                done = [graph.communicate(f"exchange {name}", sized, (0,), done)]
            sent[name] = done[0]
        elif name in sent:
            before = [*before, sent.pop(name)]
    return graph


def _check_memory(nbytes: float, device: DeviceModel) -> None:
    """Raise `InputError` if a step needs ``nbytes`` bytes per GPU and the device has less memory."""
    if nbytes > device.memory:
        actual = f"{significant(nbytes / 1e9)} GB needed a GPU at least, {device.memory / 1e9:g} GB there"
        raise InputError(f"memory: {actual}; allowed: more GPUs, or a smaller grid")


def _call(messages: np.ndarray, gpus: int, itemsize: int) -> Call:
    """Return the call that sends ``messages``, rows of source, destination and number of items.

    It is an all-to-all if sizes are equal and each GPU of a group sends once to every other, else messages.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    src, dst, sizes = messages.T
    joined = connected_components(csr_array((sizes, (src, dst)), shape=(gpus, gpus)))[1]
    ends = np.union1d(src, dst).tolist()
    members: dict[int, list[int]] = {}
    for gpu in ends:
        members.setdefault(joined[gpu], []).append(gpu)
    groups = tuple(map(tuple, members.values()))
    alike = len({*map(len, groups)}) == len({*sizes.tolist()}) == 1
    pairs = np.unique(src * gpus + dst).size
    if alike and sizes.size == pairs == len(ends) * (len(groups[0]) - 1):
        return Call("all-to-all", groups, float(sizes[0] * itemsize * len(groups[0])), "layer-to-layer")
    if sizes.size > _MOST_MESSAGES:
        actual = f"{gpus} given, between which an exchange has {sizes.size} messages"
        allowed = f"up to {_MOST_MESSAGES}, or a number that divides the grid"
        raise InputError(f"gpus: {actual}; allowed: {allowed}")
    return Call(
        "messages", (tuple(ends),), float(itemsize), "layer-to-layer", tuple(map(tuple, messages.tolist()))
    )


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
