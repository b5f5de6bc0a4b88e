"""Choose the stages for a device, and say what memory a run takes."""

from __future__ import annotations

import numpy as np

from wavefabric.acoustics.constants import Constants, Fields
from wavefabric.acoustics.problem import Problem, Recording
from wavefabric.acoustics.stages import Stages


def make_stages(device, problem: Problem, dtype, plain: bool = False) -> Stages:
    """The fastest stages that this device has for this problem.

    Parameters
    ----------
    device : Device
    problem : Problem
    dtype : dtype
        float32 or float64.
    plain : bool
        The reference stages instead.
    """
    kind, pitch = (Stages, None) if plain else _best(device, problem, np.dtype(dtype))
    constants = Constants(device, problem, dtype, pitch)
    stages = kind(constants, Fields(constants))
    stages.ready()
    return stages


def _best(device, problem: Problem, dtype) -> tuple[type[Stages], int | None]:
    """Stages, and the padded length of a row of their spectra."""
    if device.name == "cpu":
        from wavefabric.acoustics import stages_planes

        return stages_planes.PlaneStages if stages_planes.usable(device, problem, dtype) else Stages, None
    from wavefabric.acoustics import stages_axes

    if stages_axes.usable(device, problem, dtype):
        return stages_axes.AxisStages, stages_axes.pitch(problem, dtype)
    return Stages, None


def needed_bytes(problem: Problem, recording: Recording, dtype, device) -> int:
    """Bytes that a run allocates on its device, within a few per cent."""
    real, cpu = np.dtype(dtype).itemsize, device.name == "cpu"
    d, n = problem.dimensions, problem.points
    shared = real == 4 and cpu  # the solver uses float32 input as it is

    def full(value) -> bool:
        return value is not None and np.ndim(value) > 0

    parameters = (problem.sound_speed, problem.density, *problem.density_staggered, problem.nonlinearity)
    grids = 1 + 2 * d + (0 if shared else sum(map(full, parameters)))
    lossy, power = problem.absorption != "none", problem.absorption == "power_law"
    if lossy and (full(problem.alpha_coeff) or full(problem.sound_speed)):
        grids += 2 if power and problem.dispersion else 1
    halves = d * 2 + 1 + (2 if power else 0)  # a complex spectrum is two half grids
    whole_arrays = _best(device, problem, np.dtype(dtype))[0] is Stages
    scratch = d + (0 if cpu else 2) if whole_arrays else 0  # cuFFT works in areas of its own
    sources = [problem.pressure_source, problem.velocity_source]
    additive = [s for s in sources if s is not None and s.mode == "additive"]
    halves += bool(additive)
    patterns = sum(1 if s is problem.pressure_source else d for s in additive)
    whole = sum(d if q.startswith("u") else 1 for q in recording.quantities if q.endswith("_all"))
    moved = any("non_staggered" in q or q.startswith("I") for q in recording.quantities)
    nx, ny, nz = problem.shape
    half = (nx // 2 + 1) * ny * nz
    from wavefabric.acoustics.recorder import BLOCK_BYTES, sensor_points

    points = sensor_points(problem, recording)
    series = sum(d if q[0] in "uI" else 1 for q in recording.quantities if q.endswith("_raw"))
    block = min(BLOCK_BYTES, 2 * series * points * real * problem.steps)
    sensor = 64 * points
    return real * ((grids + scratch + patterns + whole + moved) * n + halves * half) + block + sensor
