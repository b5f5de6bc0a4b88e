"""Choose the stages for a device, and say what memory a run takes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wavefabric.acoustics.parallel.decomposition import Decomposition, decompose
from wavefabric.acoustics.parallel.localise import localise
from wavefabric.acoustics.problem import Problem, Recording
from wavefabric.acoustics.solver.coefficients import Constants, Fields
from wavefabric.acoustics.solver.parts import Part, whole
from wavefabric.acoustics.solver.stages import Stages
from wavefabric.exchange import Communicator
from wavefabric.spectral.distributed import held_elements


def make_stages(
    device,
    problem: Problem,
    dtype,
    plain: bool = False,
    comm: Communicator | None = None,
    decomposition: Decomposition | None = None,
) -> Stages:
    """The fastest stages that this device has for this problem.

    Parameters
    ----------
    device : Device
    problem : Problem
        Of the whole grid, on every rank.
    dtype : dtype
        float32 or float64.
    plain : bool
        The reference stages instead.
    comm : Communicator, optional
        Ranks that share the work; then collective.
    decomposition : Decomposition, optional
        How they share it; by default a global one (`decompose`).
    """
    if comm is not None and comm.size > 1:
        decomposition = decomposition or decompose(problem.shape, comm.size)
        return _shared_stages(device, problem, dtype, comm, decomposition, plain)
    kind, pitch = (Stages, None) if plain else _best(device, problem, np.dtype(dtype))
    constants = Constants(device, problem, dtype, pitch)
    stages = kind(constants, Fields(constants))
    stages.ready()
    return stages


def _shared_stages(
    device, problem: Problem, dtype, comm: Communicator, decomposition: Decomposition, plain: bool
) -> Stages:
    """Stages of this rank."""
    part = decomposition.parts[comm.rank]
    mine = localise(problem, part)
    kind, pitch = (
        (_plain_shared(decomposition), None) if plain else _best_shared(device, dtype, decomposition, part)
    )
    constants = Constants(device, mine, dtype, pitch, part)
    stages = kind(constants, Fields(constants), comm, decomposition)
    stages.ready()
    return stages


def _plain_shared(decomposition: Decomposition) -> Any:
    from wavefabric.acoustics.parallel.stages_global import GlobalStages
    from wavefabric.acoustics.parallel.stages_local import LocalStages

    return LocalStages if decomposition.options.kind == "local" else GlobalStages


def _best_shared(device, dtype, decomposition: Decomposition, part: Part) -> tuple[Any, int | None]:
    """Stages for several ranks, the same kind on all, and the padded length of a row of their spectra."""
    if device.name == "cpu":
        return _plain_shared(decomposition), None
    from wavefabric.acoustics.parallel import fused_cuda_global, fused_cuda_local
    from wavefabric.acoustics.solver import axis_passes_cuda

    if decomposition.options.kind == "local":
        if fused_cuda_local.usable(decomposition, dtype):
            return fused_cuda_local.LocalAxisStages, axis_passes_cuda.pitch(part.size[0], dtype)
    elif fused_cuda_global.usable(decomposition, dtype):
        return fused_cuda_global.GlobalAxisStages, axis_passes_cuda.pitch(decomposition.shape[0], dtype)
    return _plain_shared(decomposition), None


def _best(device, problem: Problem, dtype) -> tuple[type[Stages], int | None]:
    """Stages, and the padded length of a row of their spectra."""
    if device.name == "cpu":
        from wavefabric.acoustics.solver import fused_cpu

        return fused_cpu.PlaneStages if fused_cpu.usable(device, problem, dtype) else Stages, None
    from wavefabric.acoustics.solver import fused_cuda

    if fused_cuda.usable(device, problem, dtype):
        return fused_cuda.AxisStages, fused_cuda.pitch(problem, dtype)
    return Stages, None


def needed_bytes(
    problem: Problem, recording: Recording, dtype, device, decomposition: Decomposition | None = None
) -> int:
    """Bytes that a run allocates on its device, within a few per cent; of several ranks, the one with most.

    Parameters
    ----------
    problem : Problem
        Of the whole grid.
    recording : Recording
    dtype : dtype
        float32 or float64.
    device : Device
    decomposition : Decomposition, optional
        With several ranks.
    """
    dtype = np.dtype(dtype)
    if decomposition is None or decomposition.ranks == 1:
        plain, cut = _best(device, problem, dtype)[0] is Stages, False
        return _bytes(problem, recording, dtype, device, whole(problem.shape), plain, cut)
    plain = _best_shared(device, dtype, decomposition, decomposition.parts[0])[1] is None
    return max(
        _bytes(problem, recording, dtype, device, part, plain, True)
        + _exchange_bytes(problem, dtype, decomposition, rank, plain)
        for rank, part in enumerate(decomposition.parts)
    )


def _exchange_bytes(problem: Problem, dtype, decomposition: Decomposition, rank: int, plain: bool) -> int:
    """Bytes of what a rank sends and receives, and of fields between its transforms."""
    part, disperses = decomposition.parts[rank], problem.absorption == "power_law" and problem.dispersion
    if decomposition.options.kind == "global":
        if plain:
            return 2 * dtype.itemsize * held_elements(decomposition.shape, decomposition.grid, rank)
        # Three spectra once more as columns, and what leaves and comes of each, there and back.
        nx, ny, _ = decomposition.shape
        columns = math.prod(part.spectral_shape)
        planes = part.size[2] * ny * (nx // 2 + 1)
        stays = part.size[2] * part.spectral_shape[1] * part.spectral_shape[2]
        return 2 * dtype.itemsize * (3 * columns + 6 * (planes + columns - 2 * stays))
    groups = {1, problem.dimensions, 2 if disperses else 1}
    halo = 2 * dtype.itemsize * sum(groups) * (math.prod(part.size) - math.prod(part.owned_size))
    return halo + (dtype.itemsize * math.prod(part.size) if disperses and not plain else 0)


def _bytes(problem: Problem, recording: Recording, dtype, device, part: Part, plain: bool, cut: bool) -> int:
    """Bytes of one rank without its exchanges; ``plain`` stages, arrays ``cut`` from those of the grid."""
    real, cpu = dtype.itemsize, device.name == "cpu"
    d, n = problem.dimensions, math.prod(part.size)
    shared = real == 4 and cpu and not cut  # the solver uses float32 input as it is

    def full(value) -> bool:
        return value is not None and np.ndim(value) > 0

    parameters = (problem.sound_speed, problem.density, *problem.density_staggered, problem.nonlinearity)
    grids = 1 + 2 * d + (0 if shared else sum(map(full, parameters)))
    lossy, power = problem.absorption != "none", problem.absorption == "power_law"
    if lossy and (full(problem.alpha_coeff) or full(problem.sound_speed)):
        grids += 2 if power and problem.dispersion else 1
    halves = d * 2 + 1 + (2 if power else 0)  # a complex spectrum is two half grids
    scratch = d + (0 if cpu else 2) if plain else 0  # cuFFT works in areas of its own
    sources = [problem.pressure_source, problem.velocity_source]
    additive = [s for s in sources if s is not None and s.mode == "additive"]
    halves += bool(additive)
    patterns = sum(1 if s is problem.pressure_source else d for s in additive)
    statistics = sum(d if q.startswith("u") else 1 for q in recording.quantities if q.endswith("_all"))
    moved = any("non_staggered" in q or q.startswith("I") for q in recording.quantities)
    half = math.prod(part.spectral_shape)
    from wavefabric.acoustics.recording.recorder import BLOCK_BYTES

    points = min(recording.samples, n) if cut else recording.samples
    series = sum(d if q[0] in "uI" else 1 for q in recording.quantities if q.endswith("_raw"))
    block = min(BLOCK_BYTES, 2 * series * points * real * problem.steps)
    sensor = 64 * points
    return real * ((grids + scratch + patterns + statistics + moved) * n + halves * half) + block + sensor
