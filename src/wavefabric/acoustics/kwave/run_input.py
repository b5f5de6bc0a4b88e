"""Provides `run_kwave_file`, which, like k-Wave's programs, runs an input file and writes an output file."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from wavefabric.acoustics.check.rules import check_recording
from wavefabric.acoustics.choose_stages import begin_compiling
from wavefabric.acoustics.kwave.input import KWaveInput, dataset_names, read_input
from wavefabric.acoustics.kwave.output import KWaveOutput
from wavefabric.acoustics.problem import Recording
from wavefabric.acoustics.recording.quantities import recorded_quantities
from wavefabric.acoustics.recording.sinks import Report
from wavefabric.acoustics.run import run
from wavefabric.acoustics.run_checks import check_run
from wavefabric.acoustics.run_settings import RunSettings
from wavefabric.base.arguments import is_whole
from wavefabric.base.errors import InputError, require
from wavefabric.runtime.device import get_device
from wavefabric.runtime.exchange.launch import environment
from wavefabric.runtime.lifecycle.collective_checks import on_all_ranks


@dataclass(frozen=True, kw_only=True)
class KWaveFileSettings(RunSettings):
    """Holds the keywords of `run_kwave_file`.

    ``names`` maps arguments, such as ``"start"`` or ``"check_stability=False"``, to the names that messages
    use instead. ``started`` is called with the input after all checks, before the first step.
    """

    precision: str = "single"
    record: str | Sequence[str] | None = None
    start: int = 1
    steps: int | None = None
    compression: int = 0
    copy_sensor_mask: bool = False
    force: bool = False
    names: Mapping[str, str] = field(default_factory=dict)
    started: Callable[[KWaveInput], object] = lambda inputs: None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_flags("copy_sensor_mask", "force")
        right = self.steps is None or (is_whole(self.steps) and 1 <= self.steps < 1 << 40)
        require(right, "steps", self.steps, "a whole number from 1, below 2^40")
        level = self.compression
        require(is_whole(level) and 0 <= level <= 9, "compression", level, "a whole number from 0 to 9")
        require(is_whole(self.start), "start", self.start, "a whole number from 1")


def run_kwave_file(input: str | Path, output: str | Path, **options: Any) -> Report:
    """Run a k-Wave input file and write k-Wave's output file.

    A script that calls this runs unchanged under ``mpiexec -n K``: its ranks share the grid.
    Errors and warnings are those of `simulate`; `InputError` also if a file is wrong.

    Parameters
    ----------
    input, output : path
        HDF5 files. During the run the output is ``OUTPUT.partial``.

    Other Parameters
    ----------------
    record : str or sequence of str, optional
        Quantities to record, by the names of `Sensor`. Default: ``p`` and ``p_max`` at the file's sensor,
        if it has one, and ``p_max_all`` and ``p_final``.
    start : int
        First time step recorded, from 1 as in k-Wave.
    steps : int, optional
        Number of time steps, in place of the number in the file.
    compression : int
        Deflate level of the output, 0 (none; default) to 9.
    copy_sensor_mask, force : bool
        Copy the sensor mask into the output; replace an existing output.
    device, threads, precision, progress, checkpoint, check_stability, comm, decomposition : optional
        As in `RunSettings`. The output is float32 in any precision.

    Returns
    -------
    Report
        Cost of the run, the same on all ranks. If ``steps < total_steps``, a checkpoint ended the run
        (`Checkpoints.stop`): repeat the call to resume.
    """
    start_time = time.perf_counter()
    settings = KWaveFileSettings(**options)
    device: Any = None
    if settings.comm is None and environment.ranks() == 1:
        device = settings.device
        device = get_device(device, settings.threads) if isinstance(device, str) else device
        settings = replace(settings, device=device)
        begin_compiling(device, settings.dtype)  # while the file is read
    else:
        settings = settings.with_ranks()  # several ranks check together whether they have the memory
    inputs = read_input(input, device)
    if settings.steps is not None:
        inputs = replace(inputs, problem=replace(inputs.problem, steps=settings.steps))
    return run_input(inputs, output, settings, start_time)


def run_input(inputs: KWaveInput, output: Any, settings: KWaveFileSettings, start_time: float) -> Report:
    """Run the contents of an input file and write ``output``; reading began at ``start_time``."""
    path = inputs.path
    names = {**dataset_names(path), "alpha_power": f"{path}: alpha_power", "where": f"{path}: "}
    names |= settings.names
    recording = _recording(inputs, settings)
    settings = settings.with_ranks(inputs.problem.shape)
    saved = settings.checkpoints
    handed_on = ("compression", "copy_sensor_mask", "force", "threads")
    same: dict[str, Any] = {key: getattr(settings, key) for key in handed_on}
    same |= {"start": settings.start - 1, "checkpoint": saved and saved.path, "plan": settings.ranks.plan}
    make = partial(KWaveOutput, Path(output), inputs, **same)
    sink = on_all_ranks(settings.ranks, lambda: None if settings.ranks.rank else make())
    otherwise = names.get("check_stability=False", "check_stability=False")
    check_run(inputs.problem, settings, names, names["where"], otherwise and f", or {otherwise}", advice="")
    settings.started(inputs)
    return run(inputs.problem, recording, sink, settings, time.perf_counter() - start_time)


def _recording(inputs: KWaveInput, options: KWaveFileSettings) -> Recording:
    record = options.record
    if record is None:
        record = (*(() if inputs.sensor is None else ("p", "p_max")), "p_max_all", "p_final")
    quantities = recorded_quantities(record, "record")
    if "u_non_staggered_raw" in quantities and inputs.version == (1, 0):
        name = options.names.get("u_non_staggered", "u_non_staggered")
        raise InputError(f"{name}: {inputs.path} has format 1.0; allowed: 1.1 or 1.2")
    recording = Recording(quantities, inputs.sensor, options.start - 1)
    names = {"recording.start": options.names.get("start", "start")}
    names["recording.where"] = f"{inputs.path}: dataset 'sensor_mask_index'"
    check_recording(inputs.problem, recording, names, first_index=1)
    return recording
