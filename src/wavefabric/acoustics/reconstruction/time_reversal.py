"""The initial pressure of a photoacoustic wave, from what surrounds it has recorded.

Pressure that is imposed on a closed surface, backwards in time, makes the field inside go back to where it
came from: after the last step it is the initial pressure (Xu & Wang 2004, doi:10.1103/PhysRevLett.92.033902;
Treeby, Zhang & Cox 2010, doi:10.1088/0266-5611/26/11/115003). What is missing, of an open surface or of an
uneven medium, comes with iterations, p₀ ← p₀ + R(y − A p₀), a Neumann series (Stefanov & Uhlmann 2009,
doi:10.1088/0266-5611/25/7/075011).
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.acoustics.arguments import as_array, check_reals, is_whole, positive, require
from wavefabric.acoustics.grid import Grid
from wavefabric.acoustics.medium import Medium
from wavefabric.acoustics.run_settings import RunSettings
from wavefabric.acoustics.sensor import Sensor
from wavefabric.acoustics.simulation import simulate
from wavefabric.acoustics.source import Source
from wavefabric.lifecycle.agreement import on_first_rank


@dataclass(frozen=True)
class Reconstruction:
    """``image``, p₀ of the grid's shape, Pa; ``residuals``, ‖y − A p₀‖/‖y‖ before each iteration."""

    image: np.ndarray
    residuals: tuple[float, ...]


def time_reversal(
    grid: Grid,
    medium: Medium,
    mask: Any,
    signals: Any,
    dt: float | str,
    *,
    iterations: int = 1,
    non_negative: bool = False,
    **options: Any,
) -> Reconstruction:
    """Reconstruct the initial pressure from signals at a sensor.

    Parameters
    ----------
    grid, medium
        Those of the wave. Absorption is left out going back: it would take away twice what is missing. In
        iterations the medium absorbs on the way out, so that what it took comes back by and by.
    mask : array_like of bool, grid's shape
        The sensor's points.
    signals : array_like, shape (points, steps)
        What it recorded from t = 0 on, Pa, points in the order of Fortran (``Results["p"]``).
    dt : float or str
        Time step of the signals, s, and of the runs.
    iterations : int
        1: time reversal alone. Each further one takes two runs.
    non_negative : bool
        Set negative pressures to 0 after each iteration, which an initial pressure does not have.

    Other Parameters
    ----------------
    device, threads, precision, progress, checkpoint, check_stability, comm, decomposition : optional
        As of `simulate`. With a checkpoint each run has one of its own beside it, and the image is kept after
        every run: the same call goes on from there.

    Raises
    ------
    InputError
        If an argument is wrong, or shapes do not fit together.
    """
    require(is_whole(iterations) and iterations >= 1, "iterations", iterations, "a whole number from 1")
    step = positive(dt, "s", "dt")
    marked = grid.mask(mask, "mask")
    series = as_array(signals, "signals")
    check_reals(series, "signals")
    points = int(marked.sum())
    right = series.ndim == 2 and len(series) == points and series.shape[1] > 1
    require(right, "signals", series.shape, f"({points}, steps), a row for each point of the mask")
    require(bool(np.any(series)), "signals", "0 everywhere", "a wave")
    how = RunSettings(**options).with_ranks(grid.total_shape)
    runs = _Runs(grid, medium, marked, step, how)
    heard, image, residuals = series.astype(float), np.zeros(grid.shape), []
    scale = float(np.linalg.norm(heard))
    for number in range(iterations):
        rest = heard if number == 0 else heard - runs.forward(image, heard.shape[1], number)
        residuals.append(float(np.linalg.norm(rest)) / scale)
        image = image + runs.back(rest, number)
        if non_negative:
            image = np.maximum(image, 0.0)
    runs.remove()
    return Reconstruction(image, tuple(residuals))


class _Runs:
    """Runs there and back; what a run gave is kept beside its checkpoint until the image is complete."""

    def __init__(self, grid: Grid, medium: Medium, mask: np.ndarray, dt: float, how: RunSettings):
        self._grid, self._medium, self._mask, self._dt, self._how = grid, medium, mask, dt, how
        self._lossless = replace(medium, alpha_coeff=None, alpha_power=None, absorption="power_law")
        self._kept: list[Path] = []

    def forward(self, p0: np.ndarray, steps: int, number: int) -> np.ndarray:
        """What the sensor hears of an initial pressure, (points, steps)."""
        source, sensor = Source(p0=p0, smooth=False), Sensor(self._mask)
        return self._run(f"forward{number}", self._medium, source, sensor, steps)["p"]

    def back(self, signals: np.ndarray, number: int) -> np.ndarray:
        """The pressure at t = 0 of a field that has these signals: imposed from the last to the first."""
        source = Source(p_mask=self._mask, p=signals[:, ::-1], p_mode="dirichlet")
        sensor = Sensor(record="p_final")
        return self._run(f"back{number}", self._lossless, source, sensor, signals.shape[1])["p_final"]

    def _run(
        self, name: str, medium: Medium, source: Source, sensor: Sensor, steps: int
    ) -> Mapping[str, np.ndarray]:
        options, kept, comm = dict(vars(self._how)), None, self._how.ranks
        if self._how.checkpoints is not None:
            path = self._how.checkpoints.path
            options["checkpoint"] = replace(self._how.checkpoints, path=path.with_name(f"{path.name}.{name}"))
            kept = path.with_name(f"{path.name}.{name}.npz")
            self._kept.append(kept)
            if self._how.checkpoints.resume and comm.control.bcast(comm.rank == 0 and kept.exists()):
                arrays = None
                if comm.rank == 0:
                    with np.load(kept) as file:
                        arrays = dict(file)
                return comm.control.bcast(arrays)
        with warnings.catch_warnings():
            # What a sensor heard may hold more than the grid carries: that is left out of the image.
            warnings.filterwarnings("ignore", r"source\.p: .* highest frequency that the grid carries")
            result = simulate(self._grid, medium, source, sensor, dt=self._dt, steps=steps, **options)
        arrays = {key: np.asarray(value, float) for key, value in result.items()}
        if kept is not None:
            on_first_rank(comm, lambda: np.savez(kept, **arrays))  # type: ignore[arg-type]
        return arrays

    def remove(self) -> None:
        """The image is complete."""
        for path in self._kept if self._how.ranks.rank == 0 else ():
            path.unlink(missing_ok=True)
