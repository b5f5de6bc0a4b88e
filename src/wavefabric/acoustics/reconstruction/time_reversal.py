"""Computes photoacoustic images: the initial pressure from recorded pressures, by iterated time reversal.

Time reversal: Xu & Wang 2004 (doi:10.1103/PhysRevLett.92.033902); Treeby, Zhang & Cox 2010
(doi:10.1088/0266-5611/26/11/115003). As a Neumann series: Stefanov & Uhlmann 2009
(doi:10.1088/0266-5611/25/7/075011). Iteration with bounds: Paltauf et al. 2002 (doi:10.1121/1.1501898);
Arridge et al. 2016 (doi:10.1088/0266-5611/32/11/115012).
"""

import math
import warnings
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from wavefabric.acoustics.check.warnings import max_frequency
from wavefabric.acoustics.grid import Grid
from wavefabric.acoustics.medium import Medium
from wavefabric.acoustics.reconstruction.imposed import Imposed
from wavefabric.acoustics.run import identity
from wavefabric.acoustics.run_settings import RunSettings
from wavefabric.acoustics.sensor import Sensor
from wavefabric.acoustics.series import check_series, densified, warn_if_coarse
from wavefabric.acoustics.simulation import PreparedSimulation, prepare
from wavefabric.acoustics.source import Source
from wavefabric.acoustics.stability.bounds import MediumExtremes
from wavefabric.acoustics.stability.stable_time_step import stable_step
from wavefabric.base.arguments import instance, is_whole, positive
from wavefabric.base.errors import InputError, require
from wavefabric.base.system.progress import Progress
from wavefabric.runtime.exchange.control import check_agreement
from wavefabric.runtime.lifecycle.checkpoint.run_checkpoint import RunCheckpoint
from wavefabric.runtime.lifecycle.collective_checks import check_memory, locked_by_first_rank

#: Largest number of iterations: a Neumann series that converges does so long before.
MOST_ITERATIONS = 1000
#: Largest CFL numbers at which simulations use the time step of the data: in a uniform medium, where the
#: k-space scheme is exact, and in others. At larger ones they use shorter steps, of CFL up to `_SHORTER`.
_UNIFORM, _UNEVEN, _SHORTER = 1.0, 1 / 3, 0.3
#: Largest number of simulation steps per time step of the data.
_MOST_PARTS = 1000


@dataclass(frozen=True, kw_only=True)
class ReversalSettings(RunSettings):
    """Holds the keywords of `time_reversal`."""

    iterations: int = 1
    non_negative: bool = False
    region: Any = None
    absorption: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        right = is_whole(self.iterations) and 1 <= self.iterations <= MOST_ITERATIONS
        require(right, "iterations", self.iterations, f"a whole number from 1 to {MOST_ITERATIONS}")
        self._require_flags("non_negative", "absorption")
        if self.checkpoints is not None and self.checkpoints.stop:
            raise InputError("checkpoint: stops at its first save; allowed: Checkpoints(path, stop=False)")


@dataclass(frozen=True)
class Reconstruction:
    """Holds the result of `time_reversal`.

    ``image`` is the initial pressure p₀, Pa, of the grid's shape. ``residuals`` are ‖y − A p₀‖/‖y‖ at the
    start of each iteration, where y are the signals and A p₀ those of the image. The first one is 1.
    """

    image: np.ndarray
    residuals: tuple[float, ...]


def time_reversal(
    grid: Grid, medium: Medium, mask: Any, signals: Any, dt: float | str, **options: Any
) -> Reconstruction:
    """Reconstruct the initial pressure from the pressure series that a sensor recorded.

    Errors are those of `simulate`. Warns if the grid carries frequencies above the Nyquist frequency of the
    series and the series have energy near the Nyquist frequency.

    Parameters
    ----------
    grid, medium
        As in the simulation or experiment.
    mask : array_like of bool, grid's shape, or Sensor
        Points of the sensor: a closed surface around the object, or the available part of one. Or a `Sensor`
        with a mask, `Sensor.points` or `Sensor.elements`; its ``record`` is ignored.
    signals : array_like, shape (points, steps)
        Pressures, Pa, the first at t = 0; points in the order of `Results`: those of a mask x fastest.
    dt : float or str
        Time step of the series, s.

    Other Parameters
    ----------------
    iterations : int, optional
        1 (default): one pass of time reversal. More iterations repeat it with the residual of the image.
    non_negative : bool, optional
        Set negative values to zero after each iteration.
    region : array_like of bool, grid's shape, optional
        Region where the image may differ from zero. Default: the points that the mask encloses, if these are
        more than the mask's points, else all points. Outside of sensors that surround the object lies a
        mirror image, which iterations must not keep: for a mask with gaps, give the region inside.
    absorption : bool, optional
        True: time reversal absorbs as the medium does. Default: it is lossless.
    device, threads, precision, progress, checkpoint, check_stability, comm, decomposition : optional
        As in `RunSettings`. Repeat the call to resume from the checkpoint: images are saved there after each
        run, and fields during a run in ``<checkpoint>.run``.

    Notes
    -----
    docs/reconstruction.md says how points and elements drive the grid (`Imposed`), how series of long time
    steps are interpolated, and how accurate one pass and iterations are.

    With y[n], n = 0 … N − 1, step m imposes y[N − 1 − m] as Dirichlet pressure at the mask, in a medium at
    rest. The pressure after N steps is that of t = 0, about which the scheme is symmetric: p₀ begins with
    u(−Δt/2) = −u(Δt/2). Nothing is scaled. If sensors surround the object and the field has left by the end,
    the result, R y, is p₀ up to errors of the discrete scheme; in one dimension with CFL number 1 it is
    exact.

    Iterations are p₀ ← P[p₀ + R(y − A p₀)]. A is the simulation. P sets the image to zero outside the region
    and, with ``non_negative``, where it is negative. This Neumann series converges if the sensor receives
    waves from all of the image; the proof begins time reversal from a harmonic extension of y[N − 1], this
    code from rest. A is absorbing and nonlinear as the medium is. R is linear and does not amplify waves to
    compensate for absorption (no negative α₀).
    """
    instance("grid", grid, Grid)
    instance("medium", medium, Medium)
    how = ReversalSettings(**options).with_ranks(grid.total_shape)
    return _Reversal(grid, medium, mask, signals, positive(dt, "s", "dt"), how).run()


class _Reversal:
    """Runs one reconstruction, which alternates time reversal and simulation."""

    def __init__(
        self, grid: Grid, medium: Medium, mask: Any, signals: Any, dt: float, settings: ReversalSettings
    ) -> None:
        self._grid, self._medium, self._dt, self._settings = grid, medium, dt, settings
        self._imposed = Imposed.of(mask, grid)
        points = self._imposed.weights.shape[1]
        self._signals = check_series(signals, points, "signals").astype(np.float64)
        self._norm = float(np.linalg.norm(self._signals))
        if not 0 < self._norm < np.inf:
            raise InputError("signals: are zero everywhere, or not finite; allowed: finite pressures, Pa")
        region = settings.region
        self._region = self._imposed.enclosed if region is None else grid.mask(region, "region")
        # Time reversal is linear: it imposes p = c₀²ρ at a Dirichlet point.
        changes: dict[str, Any] = {} if medium.nonlinearity is None else {"nonlinearity": None}
        if medium.alpha_coeff is not None and not settings.absorption:
            changes |= {"alpha_coeff": None, "alpha_power": None}
        self._reversed = replace(medium, **changes) if changes else medium
        if 0.5 / dt < max_frequency(grid, medium) and settings.ranks.rank == 0:
            warn_if_coarse(self._signals, dt)
        self._check_stability, self._parts = settings.check_stability, 1
        # Simulation steps per time step of the series: 1 if the series' time step is short enough.
        uniform = MediumExtremes.of(grid.silent_problem(medium, dt)).uniform
        if dt > (1 + 1e-9) * grid.cfl_step(medium, _UNIFORM if uniform else _UNEVEN):
            shorter = grid.cfl_step(medium, _SHORTER)
            allowed = f"up to {_MOST_PARTS * shorter:.3g} s, {_MOST_PARTS} time steps on this grid"
            require(dt <= _MOST_PARTS * shorter, "dt", dt, allowed)
            self._parts = math.ceil(dt / shorter)
        for each in (self._reversed, medium) if settings.check_stability else ():
            silent = grid.silent_problem(each, dt / self._parts)
            step, stable = stable_step(silent, settings)
            self._parts *= math.ceil(silent.dt / step)
            self._check_stability = not stable
        if self._parts > 1:
            need = 16 * sum(self._imposed.weights.shape) * self._steps
            advice = f"use a larger spacing: one time step of the data is {self._parts} on this grid"
            check_memory(settings.ranks, settings.ranks.device, need, "interpolation of the signals", advice)
        options = {field.name: getattr(settings, field.name) for field in fields(RunSettings)}
        options |= {"checkpoint": None, "check_stability": self._check_stability}  # an error if unstable
        options |= {"dt": dt / self._parts, "steps": self._steps}
        self._simulation = self._reversal = prepare(grid, medium, **options)
        if changes:
            self._reversal = prepare(grid, self._reversed, **options)

    @property
    def _steps(self) -> int:
        """Return the number of time steps of each simulation."""
        return (self._signals.shape[1] - 1) * self._parts + 1

    def run(self) -> Reconstruction:
        settings, comm, saved = self._settings, self._settings.ranks, self._settings.checkpoints
        keys = "iterations", "non_negative", "absorption", "precision", "decomposition"
        fingerprint = tuple(getattr(settings, key) for key in keys)
        arrays = self._imposed.mask, self._region, self._signals
        digest = identity(self._grid, self._medium, arrays, self._dt, self._parts, fingerprint)
        check_agreement(comm.control, {"reconstruction": digest})
        image, residual, done, residuals = np.zeros(self._grid.shape), self._signals, 0, [1.0]
        with ExitStack() as stack:
            checkpoint = saved and RunCheckpoint(comm, saved, digest)
            if checkpoint:
                stack.enter_context(locked_by_first_rank(comm, checkpoint.path, "checkpoint"))
                if checkpoint.find() is not None:
                    earlier, state = checkpoint.restore({})
                    image, residual = earlier["image"], earlier["left"]
                    done, residuals = state["runs"], state["residuals"]
            # Time reversal and simulation in turn; the last image is not simulated.
            for number in range(done, 2 * settings.iterations - 1):
                if number % 2 == 0:
                    driven = self._imposed.weights @ densified(residual, self._parts)[:, ::-1]
                    source = Source(p_mask=self._imposed.mask, p=driven, p_mode="dirichlet")
                    image = image + self._simulate(number, self._reversal, source, Sensor(record="p_final"))
                    image = np.maximum(image, 0) if settings.non_negative else image
                    image = np.where(self._region, image, 0)
                else:
                    source = Source(p0=image, smooth=False)
                    heard = self._simulate(number, self._simulation, source, self._imposed.sensor)
                    residual = self._signals - heard[:, :: self._parts]
                    residuals.append(float(np.linalg.norm(residual)) / self._norm)
                if checkpoint:
                    state = {"runs": number + 1, "residuals": residuals}
                    checkpoint.save({"image": image, "left": residual}, state, last=True)
            if checkpoint:
                checkpoint.remove()
        return Reconstruction(image, tuple(residuals))

    def _simulate(
        self, number: int, prepared: PreparedSimulation, source: Source, sensor: Sensor
    ) -> np.ndarray:
        """Simulate run ``number``; return the only quantity that the sensor records, float64."""
        settings, options = self._settings, dict[str, Any]()
        if settings.checkpoints is not None:
            path = settings.checkpoints.path
            options["checkpoint"] = replace(settings.checkpoints, path=path.with_name(f"{path.name}.run"))
        if settings.progress is not None:
            prefix = f"run {number + 1} of {2 * settings.iterations - 1}, "
            options["progress"] = _Numbered(settings.progress, prefix)
        with warnings.catch_warnings():
            if number > 1:  # later residuals are small, and above the grid's frequencies
                warnings.simplefilter("ignore", UserWarning)
            results = prepared.simulate(source, sensor, **options)
        if self._simulation is not self._reversal:
            prepared.close_if_large()
        (name,) = results
        return results[name].astype(np.float64)


class _Numbered(Progress):
    """Shows progress through another `Progress`, with a prefix such as the number of the current run."""

    def __init__(self, progress: Progress, prefix: str):
        self._progress, self._prefix = progress, prefix

    def start(self, total_steps: float | None, label: str) -> None:
        self._progress.start(total_steps, self._prefix + label)

    def update(self, done: float, message: str = "") -> None:
        self._progress.update(done, message)

    def finish(self) -> None:
        self._progress.finish()
