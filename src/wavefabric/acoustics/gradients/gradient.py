"""`linearize`, `simulate_and_gradient`: gradients of a simulation, in the terms of its arguments."""

import copy
import math
import weakref
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.acoustics.arguments import ensure, require
from wavefabric.acoustics.gradients.objective import Objective, as_recorded, check_recorded, evaluate
from wavefabric.acoustics.gradients.run import AdjointRun, GradientSettings
from wavefabric.acoustics.grid import Grid
from wavefabric.acoustics.medium import Medium
from wavefabric.acoustics.problem import Problem, Recording
from wavefabric.acoustics.recording.delivery import broadcast
from wavefabric.acoustics.recording.quantities import is_tone
from wavefabric.acoustics.recording.sinks import Report
from wavefabric.acoustics.result import Results
from wavefabric.acoustics.run import identity
from wavefabric.acoustics.sensor import Sensor
from wavefabric.acoustics.simulation import PreparedSimulation, SimulateSettings, check_inputs, solve
from wavefabric.acoustics.solver.adjoint.sources import SOURCES
from wavefabric.acoustics.solver.adjoint.step import MEDIUM
from wavefabric.acoustics.source import ContinuousWave, Source, at_points
from wavefabric.errors import InputError, choice
from wavefabric.lifecycle.agreement import locked_by_first_rank, on_first_rank
from wavefabric.lifecycle.checkpoint.when import RunCheckpoint
from wavefabric.lifecycle.reversal import Tiers
from wavefabric.results.file import Data, ResultWriter
from wavefabric.results.provenance import provenance
from wavefabric.units import show

#: What a simulation can be differentiated by: names of the parameters of `Medium` and `Source`.
PARAMETERS = ("p0", *SOURCES, *MEDIUM, "density_staggered")
#: Settings that prepared simulations have.
_OF_PREPARED = ("device", "threads", "precision", "check_stability", "comm", "decomposition", "dt", "cfl")
_UNITS = {"p0": "Pa", "p": "Pa", "sound_speed": "m/s", "density": "kg/m^3", "density_staggered": "kg/m^3"}
_UNITS |= {"ux": "m/s", "uy": "m/s", "uz": "m/s", "transducer": "m/s", "alpha_coeff": "dB/(MHz^y cm)"}


class Gradient(dict[str, Any]):
    """Derivatives of an objective, by the names of the parameters: ``gradient["sound_speed"]``.

    Each has the shape of the parameter: a number where that is one.

    Attributes
    ----------
    value : float
        Of the objective.
    results : Results
        Of the forward run.
    states : Tiers
        How many states of the forward run were stored on the device, in host memory and on disk.
    steps_again : int
        Time steps of the forward run that were taken again.
    seconds : float
        Wall time of the adjoint steps and of those taken again, without compilation.
    """

    def __init__(self, derivatives: Mapping[str, Any], value: float, results: Results, run: AdjointRun):
        super().__init__(derivatives)
        self.value, self.results = value, results
        self.states: Tiers = run.tiers
        self.steps_again, self.seconds = run.advanced, run.seconds

    def __repr__(self) -> str:
        return f"Gradient({', '.join(self)}; value {self.value:.6g})"

    def save(self, path: str | Path, force: bool = False) -> Path:
        """Write an HDF5 result file, on rank 0 alone.

        `InputError` if it exists (without ``force``) or cannot be written.
        """
        if not self.results.writes:
            return Path(path)
        units = {name: f"1/({_UNITS.get(name, '1')})" for name in self}
        arrays = {name: Data(np.asarray(by), units[name], name) for name, by in self.items()}
        contents = {"value": Data(self.value, "", "value of the objective"), "gradient": arrays}
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
    """Simulate, and differentiate an objective of what was recorded: exactly, by the adjoint of each step.

    The same on all ranks. Errors are those of `simulate`; `InputError` also if a name in ``wrt`` or what the
    objective returns is wrong.

    Parameters
    ----------
    grid, medium, source, sensor
        As of `simulate`. Of what a sensor records, ``p``, ``u``, ``p_final``, ``u_final``, ``p_amp`` and
        ``p_amp_all`` with their phases can be differentiated.
    objective : callable
        ``objective(results)`` returns its value and a mapping of derivatives: by the name of a recorded
        quantity an array (of boxes a list) of its shape. Called on rank 0.
    wrt : str or sequence of str
        By what to differentiate: ``"sound_speed"``, ``"density"``, ``"alpha_coeff"``, ``"nonlinearity"``,
        ``"density_staggered"`` (if set), ``"p0"``, ``"p"``, ``"ux"``, ``"uy"``, ``"uz"``, and the signal of
        the ``"transducer"``. For the elements of an array see `TransducerMask.element_signals`.

    Other Parameters
    ----------------
    states : int, optional
        Most states of the forward run that are stored; by default as many as help and fit.
    scratch : path, optional
        A folder for states on disk, where memory is short.
    prepared : PreparedSimulation, optional
        What `prepare` returned for this grid and medium, whose time step, device and ranks count then: for
        many sources, as the shots of an inversion.
    checkpoint : path or Checkpoints, optional
        As of `simulate`; the steps back are saved in ``<checkpoint>.adjoint``. The same call goes on there.
    **options
        As of `simulate`: ``dt``, ``steps``, ``t_end``, ``cfl`` and the keywords of `RunSettings`.

    Notes
    -----
    Derivatives hold the time step and c_ref fixed (`Medium.reference_speed`, by default the largest sound
    speed). Those by the sound speed include the scaling of the source's signals (`Source`); those by the
    density the default staggered densities. In single precision sums over the steps are in single precision.
    The adjoint is that of the discrete scheme (`solver.adjoint`); states between are taken again by binomial
    checkpointing (Griewank & Walther 2000, doi:10.1145/347837.347846). A call that would go on from a
    ``<checkpoint>.adjoint`` of another objective is refused.
    """
    require(callable(objective), "objective", objective, "a function of results")
    with _run(GradientSettings(**options), wrt, grid, medium, source, sensor) as linearization:
        return linearization.gradient(objective)


def linearize(
    grid: Grid, medium: Medium, source: Source, sensor: Sensor, wrt: str | tuple[str, ...], **options: Any
) -> "Linearization":
    """Simulate, and keep what the gradient of an objective needs whose derivatives come later.

    As `simulate_and_gradient`, without objective and checkpoint. The gradient frees it; so does leaving.
    """
    how = GradientSettings(**options)
    for key in ("checkpoint", "prepared"):
        require(getattr(how, key) is None, key, getattr(how, key), "None; `simulate_and_gradient` has one")
    return _run(how, wrt, grid, medium, source, sensor)


def _run(how: GradientSettings, wrt: Any, grid: Grid, medium: Medium, source: Source, sensor: Sensor):
    names = tuple(wrt) if isinstance(wrt, tuple | list) else (wrt,)
    problem, recording, how = prepare_gradient(names, "wrt", grid, medium, source, sensor, how)
    return Linearization(grid, medium, source, problem, recording, names, how)


def prepare_gradient(
    names: tuple[str, ...], key: str, grid: Grid, medium: Medium, source: Any, sensor: Any, how: Any
) -> tuple[Problem, Recording, GradientSettings]:
    """Prepare as `simulation.prepare`; refuse what has no derivatives. ``key``: argument with the names."""
    check_inputs(grid, medium, source, sensor)
    how, prepared = _prepared(grid, medium, how)
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
    problem, recording, how = prepared.problem(source, sensor, how)
    check_recorded(recording)
    return problem, recording, how


def _prepared(
    grid: Grid, medium: Medium, how: GradientSettings
) -> tuple[GradientSettings, PreparedSimulation]:
    """Return the settings with a communicator, and the prepared simulations in them, or new ones."""
    prepared = how.prepared
    if prepared is None:
        how = how.with_ranks(grid.total_shape)
        return how, PreparedSimulation(grid, medium, how)
    same = prepared.grid is grid and prepared.medium is medium
    ensure(same, "prepared", "is of another grid or medium", "that of this call")
    for each in fields(SimulateSettings):
        if each.name in _OF_PREPARED:
            actual = "is given along with prepared simulations"
            ensure(getattr(how, each.name) == each.default, each.name, actual, "an option of `prepare`")
    names = _OF_PREPARED if how.steps or how.t_end else (*_OF_PREPARED, "steps", "t_end")
    return replace(how, **{name: getattr(prepared.settings, name) for name in names}), prepared


class Linearization(AbstractContextManager):
    """A simulation that was run, with its `results`, to be taken back for one gradient: see `linearize`."""

    def __init__(
        self, grid: Grid, medium: Medium, source: Any, problem: Problem, recording: Recording,
        names: tuple[str, ...], how: GradientSettings,
    ):  # fmt: skip
        self._grid, self._medium, self._source, self._names, self._how = grid, medium, source, names, how
        self._problem, self._recording = problem, recording
        p, u, transducer = problem.pressure_source, problem.velocity_source, problem.transducer
        signals = () if u is None else zip(SOURCES[1:], u.signals, strict=False)
        sources: dict[str, Any] = {name: u for name, signal in signals if signal is not None}
        sources |= {"p": p, "transducer": transducer}
        self._points = {name: each.index for name, each in sources.items() if each is not None}
        #: Sources whose scale goes with the sound speed; in an order, which sets have not in all processes.
        self._scaled: tuple[str, ...] = ()
        if "sound_speed" in names and isinstance(source, Source):
            moved = {name: name == "transducer" or source.scale_power(name) for name in self._points}
            self._scaled = tuple(name for name in sorted(moved) if moved[name])
        self._simulate()
        # Graphs of automatic differentiation drop it unclosed.
        weakref.finalize(self, self._held.close)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free what the gradient needs; `results` stay."""
        self._held.close()
        self._back = None

    def _simulate(self) -> None:
        called = {"p0": "initial_pressure", "density_staggered": "density"}
        wrt = frozenset(called.get(name, name) for name in self._names)
        scaled = frozenset(self._scaled)
        if "transducer" in scaled:  # from whose derivative that of its scale follows
            wrt, scaled = wrt | {"transducer"}, scaled - {"transducer"}
        with ExitStack() as stack:
            run = AdjointRun(self._problem, self._recording, wrt, scaled, self._how)
            self._back = stack.enter_context(closing(run))
            # A digest of what the objective said before the steps back that a checkpoint goes on with.
            self._evaluated, checkpoint, how = None, None, self._how
            inputs = self._problem, self._recording, self._grid
            if how.checkpoints is not None:
                digest = identity(*inputs[:2], tuple(sorted(wrt)), how.dtype.str)
                path = how.checkpoints.path
                policy = replace(how.checkpoints, path=path.with_name(f"{path.name}.adjoint"), every=None)
                checkpoint = RunCheckpoint(how.ranks, policy, f"{digest} {how.decomposition}")
                stack.enter_context(locked_by_first_rank(how.ranks, checkpoint.path, "checkpoint"))
            self._checkpoint = checkpoint
            if checkpoint is not None and checkpoint.find() is not None:
                # Everything as after the forward run, for the steps back that are left.
                arrays, state = run.restore(checkpoint)
                self._recorded = {name.removeprefix("recorded/"): array for name, array in arrays.items()}
                self._evaluated, report = state["objective"], Report(**state["report"])
                self.results = Results(self._recorded, *inputs, report, writes=how.ranks.rank == 0)
            else:
                self._recorded: dict[str, np.ndarray] = {}
                setup = None if how.prepared is None else how.prepared.setup(indexed=False)
                self.results = solve(*inputs[:2], how, self._grid, self._keep, observer=run, setup=setup)
                if how.prepared is not None:
                    how.prepared.stable = True
            # As they were recorded: whoever has the results may change them in place.
            tones = {name: value for name, value in self.results.items() if is_tone(name)}
            self._tones = copy.deepcopy(tones)
            self._held = stack.pop_all()

    def _keep(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Arrays as recorded."""
        self._recorded.update(arrays)
        return arrays

    def gradient(self, derivatives: Mapping[str, Any] | Objective) -> Gradient:
        """The gradient of an objective, by its derivatives with respect to `results`, or by itself.

        Both as `simulate_and_gradient` takes them, of rank 0; collective. InputError if wrong, or twice.
        """
        run, checkpoint = self._back, self._checkpoint
        if run is None:
            raise InputError("gradient: was taken already, or closed; allowed: once for each forward run")
        value, recorded = self._on_first_rank(derivatives)
        digest = identity(value, *(part for item in sorted(recorded.items()) for part in item))
        if self._evaluated not in (None, digest):
            path = self._how.checkpoints and self._how.checkpoints.path
            what = f"is another one than when {path}.adjoint was saved"
            raise InputError(f"objective: {what}; allowed: the same, or another checkpoint")
        arrays = {f"recorded/{name}": array for name, array in self._recorded.items()}
        state = {"objective": digest, "report": asdict(self.results.report)}
        with self:
            run.back(recorded, checkpoint, arrays, state)
            gradient = Gradient(self._in_terms_of_user(run), value, self.results, run)
            if checkpoint is not None:
                checkpoint.remove()
        return gradient

    def _on_first_rank(self, said: Mapping[str, Any] | Objective) -> tuple[float, dict[str, np.ndarray]]:
        """On rank 0; value, and derivatives as the recorder keeps them, on all."""
        derivatives: dict[str, np.ndarray] = {}

        def call() -> float:
            value, arrays = (math.nan, said) if isinstance(said, Mapping) else evaluate(said, self.results)
            arrays = as_recorded(arrays, self.results, self._tones, self._grid, self._recording)
            derivatives.update(arrays)
            return value

        value = on_first_rank(self._how.ranks, call)
        return value, broadcast(self._how.ranks, derivatives)

    def _in_terms_of_user(self, run: AdjointRun) -> dict[str, Any]:
        medium, (signals, products) = run.medium(), run.signals(self._points)
        staggered = [medium[name] for name in ("density_x", "density_y", "density_z") if name in medium]

        def of(name: str) -> Any:
            if name == "p0":
                return self._source.p0_gradient(medium["initial_pressure"], self._grid)
            if name == "transducer":
                scale = self._source.scale(name, self._grid, self._speed_at(name), self._problem.dt)
                return self._transducer_sums(signals[name]) * scale
            if name in SOURCES:
                return self._signal(name, signals[name])
            if name == "density_staggered":
                pairs = zip(staggered, self._medium.density_staggered, strict=True)
                return tuple(self._like(*pair) for pair in pairs)
            field = medium[name]
            if name == "density" and self._medium.density_staggered is None:
                for axis, along in enumerate(staggered):
                    field = field + transposed_stagger(along, axis, self._grid.periodic[axis])
            if name == "sound_speed":
                field = self._with_scales(field, signals, products)
            return self._like(field, getattr(self._medium, name))

        return {name: of(name) for name in self._names}

    def _like(self, field: np.ndarray, parameter: Any) -> Any:
        """A derivative by a parameter: a number, or on the user's grid."""
        whole = field.astype(np.float64)
        return float(whole.sum()) if np.ndim(parameter) == 0 else self._grid.from_edges(whole)

    def _speed_at(self, name: str) -> np.ndarray:
        return at_points(self._problem.sound_speed, self._points[name])

    def _signal(self, name: str, derivative: np.ndarray) -> np.ndarray:
        """Of the solver's signals (steps, points) or (steps, 1), that of the user's."""
        values = np.asarray(getattr(self._source, name))
        scale = self._source.scale(name, self._grid, self._speed_at(name), self._problem.dt)
        scaled = (derivative * scale).T
        if values.ndim == 1 or values.shape[0] == 1:
            scaled = scaled.sum(axis=0, keepdims=True)
        out = np.zeros((scaled.shape[0], values.shape[-1]))
        steps = min(values.shape[-1], scaled.shape[1])
        out[:, :steps] = scaled[:, :steps]
        return out.reshape(values.shape)

    def _transducer_sums(self, derivative: np.ndarray) -> np.ndarray:
        """Of the pushes (steps, points), that of the signal before its scale."""
        transducer: Any = self._problem.transducer
        at, size = transducer.delay + np.arange(len(derivative))[:, None], transducer.signal.size
        pushes = derivative.ravel().astype(np.float64)
        return np.bincount(at.ravel(), pushes, max(size, int(at.max()) + 1))[:size]

    def _with_scales(self, field: np.ndarray, signals: Mapping, products: Mapping) -> np.ndarray:
        """Add that sources are scaled by the sound speed where they are."""
        total = field.astype(np.float64)
        flat = total.reshape(-1)
        for name in self._scaled:
            index, c = self._points[name], self._speed_at(name)
            if name == "transducer":
                transducer: Any = self._problem.transducer
                sums = float(np.sum(self._transducer_sums(signals[name]) * transducer.signal))
                flat[index] += sums / (index.size * c.mean())
            else:
                flat[index] += products[name] * self._source.scale_power(name) / c
        return total


def transposed_stagger(field: np.ndarray, axis: int, wrap: bool = False) -> np.ndarray:
    """The transpose of `medium.stagger`."""
    out = field / 2
    along, half = np.moveaxis(out, 2 - axis, 0), np.moveaxis(field / 2, 2 - axis, 0)
    along[1:] += half[:-1]
    along[0 if wrap else -1] += half[-1]
    return out
