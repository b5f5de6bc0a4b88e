"""Provides `linearize` and `simulate_and_gradient`: gradients with respect to a simulation's arguments."""

import copy
import math
import weakref
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.acoustics.gradients.objective import Objective, as_recorded, check_recorded, evaluate
from wavefabric.acoustics.gradients.parameters import ParameterGradients
from wavefabric.acoustics.gradients.run import AdjointRun, GradientSettings
from wavefabric.acoustics.grid import Grid
from wavefabric.acoustics.medium import Medium
from wavefabric.acoustics.problem import Problem, Recording
from wavefabric.acoustics.recording.delivery import broadcast
from wavefabric.acoustics.recording.quantities import is_tone
from wavefabric.acoustics.recording.sinks import Report
from wavefabric.acoustics.result import Results, axes_of
from wavefabric.acoustics.run import identity
from wavefabric.acoustics.sensor import Sensor
from wavefabric.acoustics.simulation import PreparedSimulation, SimulateSettings, check_inputs, solve
from wavefabric.acoustics.solver.adjoint.sources import SOURCES
from wavefabric.acoustics.solver.adjoint.step import MEDIUM
from wavefabric.acoustics.source import ContinuousWave, Source
from wavefabric.base.errors import InputError, choice, ensure, require
from wavefabric.base.results.file import Data, ResultWriter
from wavefabric.base.results.provenance import provenance
from wavefabric.base.units import show
from wavefabric.runtime.lifecycle.checkpoint.run_checkpoint import RunCheckpoint
from wavefabric.runtime.lifecycle.collective_checks import locked_by_first_rank, on_first_rank
from wavefabric.runtime.lifecycle.reversal import Tiers

#: Parameters of `Medium` and `Source` with respect to which a simulation can be differentiated.
PARAMETERS = ("p0", *SOURCES, *MEDIUM, "density_staggered")
#: Settings that prepared simulations fix.
_OF_PREPARED = ("device", "threads", "precision", "check_stability", "comm", "decomposition", "dt", "cfl")
_UNITS = {"p0": "Pa", "p": "Pa", "sound_speed": "m/s", "density": "kg/m^3", "density_staggered": "kg/m^3"}
_UNITS |= {"ux": "m/s", "uy": "m/s", "uz": "m/s", "transducer": "m/s", "alpha_coeff": "dB/(MHz^y cm)"}


class Gradient(dict[str, Any]):
    """Holds derivatives of an objective by the names of the parameters: ``gradient["sound_speed"]``.

    Each derivative has the shape of the parameter, and is a number if the parameter is a number.

    Attributes
    ----------
    value : float
        Value of the objective.
    results : Results
        Results of the forward run.
    states : Tiers
        Numbers of states of the forward run stored on the device, in host memory and on disk.
    steps_again : int
        Number of forward time steps that were repeated.
    seconds : float
        Wall time of the adjoint steps and of the repeated steps, without compilation.
    """

    def __init__(self, derivatives: Mapping[str, Any], value: float, results: Results, run: AdjointRun):
        super().__init__(derivatives)
        self.value, self.results = value, results
        self.states: Tiers = run.tiers
        self.steps_again, self.seconds = run.advanced, run.seconds

    def __repr__(self) -> str:
        return f"Gradient({', '.join(self)}; value {self.value:.6g})"

    def save(self, path: str | Path, force: bool = False) -> Path:
        """Write an HDF5 result file, on rank 0 only.

        `InputError` if the file exists (without ``force``) or cannot be written.
        """
        if not self.results.writes:
            return Path(path)
        units = {name: f"1/({_UNITS.get(name, '1')})" for name in self}
        grid = self.results.grid
        axes = axes_of(grid)
        arrays = {
            name: Data(np.asarray(by), units[name], name, tuple(axes) if np.shape(by) == grid.shape else ())
            for name, by in self.items()
        }
        contents = {**axes, "value": Data(self.value, "", "value of the objective"), "gradient": arrays}
        attributes = provenance(device=self.results.report.device)
        return ResultWriter(path, force).write(contents, attributes=attributes)


def simulate_and_gradient(
    grid: Grid,
    medium: Medium,
    source: Source,
    sensor: Sensor,
    objective: Objective,
    wrt: str | tuple[str, ...] = ("sound_speed",),
    **options: Any,
) -> Gradient:
    """Simulate, and compute the exact gradient of an objective of the recorded data by the adjoint method.

    The result is the same on all ranks. Errors are those of `simulate`; `InputError` also if a name in
    ``wrt`` or the result of the objective is wrong.

    Parameters
    ----------
    grid, medium, source, sensor
        As in `simulate`. Of the recorded quantities, ``p``, ``u``, ``p_final``, ``u_final``, ``p_amp`` and
        ``p_amp_all`` with their phases can be differentiated.
    objective : callable
        ``objective(results)`` returns its value and a mapping of derivatives: by the name of a recorded
        quantity an array (for boxes a list) of its shape. Called on rank 0.
    wrt : str or sequence of str
        Differentiate with respect to these: ``"sound_speed"``, ``"density"``, ``"alpha_coeff"``,
        ``"nonlinearity"``, ``"density_staggered"`` (if set), ``"p0"``, ``"p"``, ``"ux"``, ``"uy"``, ``"uz"``,
        and the signal of the ``"transducer"``. For elements of an array see `TransducerMask.element_signals`.

    Other Parameters
    ----------------
    states : int, optional
        Largest number of stored states of the forward run; by default as many as help and fit.
    scratch : path, optional
        A folder for states on disk, if memory is short.
    prepared : PreparedSimulation, optional
        Result of `prepare` for this grid and medium, whose time step, device and ranks are used: for many
        sources, such as the shots of an inversion.
    checkpoint : path or Checkpoints, optional
        As in `simulate`; adjoint steps are saved in ``<checkpoint>.adjoint``. Repeat the call to resume
        there.
    **options
        As in `simulate`: ``dt``, ``steps``, ``t_end``, ``cfl`` and the keywords of `RunSettings`.

    Notes
    -----
    Derivatives hold the time step and c_ref fixed (`Medium.reference_speed`, by default the largest sound
    speed). Those with respect to sound speed include the scaling of the source's signals (`Source`); those
    with respect to density include the default staggered densities. In single precision, sums over the steps
    are in single precision. The adjoint is that of the discrete scheme (`solver.adjoint`); states that are
    not stored are recomputed by binomial checkpointing (Griewank & Walther 2000, doi:10.1145/347837.347846).
    A call that would resume from a ``<checkpoint>.adjoint`` of another objective is an `InputError`.
    """
    require(callable(objective), "objective", objective, "a function of results")
    with _run(GradientSettings(**options), wrt, grid, medium, source, sensor) as linearization:
        return linearization.gradient(objective)


def linearize(
    grid: Grid, medium: Medium, source: Source, sensor: Sensor, wrt: str | tuple[str, ...], **options: Any
) -> "Linearization":
    """Simulate, and keep the data for the gradient of an objective whose derivatives are known later.

    Arguments are those of `simulate_and_gradient`, except ``objective``, ``checkpoint`` and ``prepared``. The
    data are freed by computing the gradient, and at the end of a ``with`` block.
    """
    settings = GradientSettings(**options)
    for key in ("checkpoint", "prepared"):
        value = getattr(settings, key)
        require(value is None, key, value, "None; `simulate_and_gradient` has one")
    return _run(settings, wrt, grid, medium, source, sensor)


def _run(settings: GradientSettings, wrt: Any, grid: Grid, medium: Medium, source: Source, sensor: Sensor):
    names = tuple(wrt) if isinstance(wrt, tuple | list) else (wrt,)
    problem, recording, settings = prepare_gradient(names, "wrt", grid, medium, source, sensor, settings)
    return Linearization(grid, medium, source, problem, recording, names, settings)


def prepare_gradient(
    names: tuple[str, ...], key: str, grid: Grid, medium: Medium, source: Any, sensor: Any, settings: Any
) -> tuple[Problem, Recording, GradientSettings]:
    """Return problem, recording and settings of a run to differentiate with respect to ``names``.

    `InputError`: a parameter or recorded quantity has no derivative. The error calls the argument ``names``
    by the name ``key``.
    """
    check_inputs(grid, medium, source, sensor)
    settings, prepared = _prepared(grid, medium, settings)
    require(bool(names), key, names, f"one or more of {', '.join(PARAMETERS)}")
    if grid.axisymmetric:
        raise InputError("grid.axisymmetric: True has no gradient; allowed: False")
    for name in names:
        choice(key, name, PARAMETERS)
        owner, held = ("source", source) if name in ("p0", *SOURCES) else ("medium", medium)
        value = getattr(held, name, None)
        if value is None:
            raise InputError(f"{key}: {show(name)}, but {owner}.{name} is not set; allowed: what {owner} has")
        if isinstance(value, ContinuousWave):
            raise InputError(f"{key}: {show(name)}, which is a ContinuousWave; allowed: signals as arrays")
    problem, recording, settings = prepared.problem(source, sensor, settings)
    check_recorded(recording)
    return problem, recording, settings


def _prepared(
    grid: Grid, medium: Medium, settings: GradientSettings
) -> tuple[GradientSettings, PreparedSimulation]:
    """Return settings in which ranks are set, and a `PreparedSimulation`, by default a new one."""
    prepared = settings.prepared
    if prepared is None:
        settings = settings.with_ranks(grid.total_shape)
        return settings, PreparedSimulation(grid, medium, settings)
    same = prepared.grid is grid and prepared.medium is medium
    ensure(same, "prepared", "is of another grid or medium", "that of this call")
    for each in fields(SimulateSettings):
        if each.name in _OF_PREPARED:
            actual = "is given along with prepared simulations"
            ensure(getattr(settings, each.name) == each.default, each.name, actual, "an option of `prepare`")
    names = _OF_PREPARED if settings.steps or settings.t_end else (*_OF_PREPARED, "steps", "t_end")
    return replace(settings, **{name: getattr(prepared.settings, name) for name in names}), prepared


class Linearization(AbstractContextManager):
    """A completed forward run with its `results`, to be used for one gradient: see `linearize`."""

    def __init__(
        self, grid: Grid, medium: Medium, source: Any, problem: Problem, recording: Recording,
        names: tuple[str, ...], settings: GradientSettings,
    ):  # fmt: skip
        self._grid, self._settings = grid, settings
        self._problem, self._recording = problem, recording
        self._parameters = ParameterGradients(grid, medium, source, problem, names)
        self._simulate()
        # Graphs of automatic differentiation do not call `close`.
        weakref.finalize(self, self._open_files.close)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the data for the gradient, but not `results`."""
        self._open_files.close()
        self._adjoint_run = None

    def _simulate(self) -> None:
        wrt, scaled = self._parameters.wrt, self._parameters.scaled
        with ExitStack() as stack:
            run = AdjointRun(self._problem, self._recording, wrt, scaled, self._settings)
            self._adjoint_run = stack.enter_context(closing(run))
            # Digest of the objective's derivatives with which the checkpoint's adjoint steps began.
            self._evaluated, checkpoint, settings = None, None, self._settings
            inputs = self._problem, self._recording, self._grid
            if settings.checkpoints is not None:
                digest = identity(*inputs[:2], tuple(sorted(wrt)), settings.dtype.str)
                path = settings.checkpoints.path.with_name(f"{settings.checkpoints.path.name}.adjoint")
                policy = replace(settings.checkpoints, path=path, every=None)
                checkpoint = RunCheckpoint(settings.ranks, policy, f"{digest} {settings.decomposition}")
                stack.enter_context(locked_by_first_rank(settings.ranks, checkpoint.path, "checkpoint"))
            self._checkpoint = checkpoint
            if checkpoint is not None and checkpoint.find() is not None:
                # Restore the state after the forward run, for the remaining adjoint steps.
                arrays, state = run.restore(checkpoint)
                self._recorded = {name.removeprefix("recorded/"): array for name, array in arrays.items()}
                self._evaluated, report = state["objective"], Report(**state["report"])
                self.results = Results(self._recorded, *inputs, report, writes=settings.ranks.rank == 0)
            else:
                self._recorded: dict[str, np.ndarray] = {}
                setup = None if settings.prepared is None else settings.prepared.setup(indexed=False)
                options = {"observer": run, "setup": setup}
                self.results = solve(*inputs[:2], settings, self._grid, self._store, **options)
                if settings.prepared is not None:
                    settings.prepared.stable = True
            # Copies, because users may change the results in place.
            tones = {name: value for name, value in self.results.items() if is_tone(name)}
            self._tones = copy.deepcopy(tones)
            self._open_files = stack.pop_all()

    def _store(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the recorded arrays, and store them for a checkpoint of the adjoint steps."""
        self._recorded.update(arrays)
        return arrays

    def gradient(self, derivatives: Mapping[str, Any] | Objective) -> Gradient:
        """Return the gradient of an objective of the recorded data; all ranks must call this.

        ``derivatives`` is the objective, a function as in `simulate_and_gradient`, or a mapping of its
        derivatives with respect to `results`. Only the argument on rank 0 is used. `InputError`: it is wrong,
        or the gradient was computed before.
        """
        run, checkpoint = self._adjoint_run, self._checkpoint
        if run is None:
            raise InputError("gradient: was taken already, or closed; allowed: once for each forward run")
        value, recorded = self._on_first_rank(derivatives)
        digest = identity(value, *(part for item in sorted(recorded.items()) for part in item))
        if self._evaluated not in (None, digest):
            path = self._settings.checkpoints and self._settings.checkpoints.path
            what = f"is another one than when {path}.adjoint was saved"
            raise InputError(f"objective: {what}; allowed: the same, or another checkpoint")
        arrays = {f"recorded/{name}": array for name, array in self._recorded.items()}
        state = {"objective": digest, "report": asdict(self.results.report)}
        with self:
            run.run_backward(recorded, checkpoint, arrays, state)
            parameters = self._parameters
            derivatives = parameters.from_grid(run.medium(), *run.signals(parameters.points))
            gradient = Gradient(derivatives, value, self.results, run)
            if checkpoint is not None:
                checkpoint.remove()
        return gradient

    def _on_first_rank(self, objective: Mapping[str, Any] | Objective) -> tuple[float, dict[str, np.ndarray]]:
        """Evaluate an objective on rank 0; return its value and its derivatives on all ranks.

        ``objective`` may be a dictionary of its derivatives; the value is then NaN. The returned derivatives
        have the recorder's names and layout.
        """
        derivatives: dict[str, np.ndarray] = {}

        def call() -> float:
            value, arrays = math.nan, objective
            if not isinstance(arrays, Mapping):
                value, arrays = evaluate(arrays, self.results)
            arrays = as_recorded(arrays, self.results, self._tones, self._grid, self._recording)
            derivatives.update(arrays)
            return value

        value = on_first_rank(self._settings.ranks, call)
        return value, broadcast(self._settings.ranks, derivatives)
