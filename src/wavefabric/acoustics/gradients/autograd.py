"""Runs simulations within PyTorch models and JAX functions, with gradients by the adjoint of each step."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from threading import Lock
from typing import Any

import numpy as np

from wavefabric.acoustics.gradients.gradient import GradientSettings, linearize, prepare_gradient
from wavefabric.acoustics.grid import Grid
from wavefabric.acoustics.medium import Medium
from wavefabric.acoustics.recording.recorder import layout_of
from wavefabric.acoustics.recording.sinks import Report
from wavefabric.acoustics.recording.tones import with_tones
from wavefabric.acoustics.result import Results
from wavefabric.acoustics.sensor import Sensor
from wavefabric.acoustics.simulation import simulate
from wavefabric.acoustics.source import Source
from wavefabric.base.arguments import instance
from wavefabric.base.errors import InputError, MissingExtra, require
from wavefabric.runtime.device.user_arrays import real_array

#: The last forward run of JAX, by its number, until its gradient is computed.
_LAST: dict[int, Any] = {}
_NUMBERS = count()
#: XLA may call from several threads; kernels are not thread-safe.
_LOCK = Lock()


def simulate_torch(
    grid: Grid, medium: Medium, source: Source, sensor: Sensor, parameters: Mapping[str, Any], **options: Any
) -> dict[str, Any]:
    """Simulate with PyTorch tensors; ``backward`` on the recorded quantities computes gradients.

    Raises the errors of `simulate`, `InputError` for a wrong parameter, and `MissingExtra` without PyTorch.

    Parameters
    ----------
    grid, medium, source, sensor
        As for `simulate_and_gradient`; these, not ``parameters``, fix time step, number of steps and c_ref.
    parameters : mapping
        Tensors that replace values of ``medium`` and ``source`` of the same shape. Keys are the ``wrt`` names
        of `simulate_and_gradient`; ``"density_staggered"`` is a single tensor, (dimensions, *grid*).
    options
        As for `linearize`.

    Returns
    -------
    dict
        Tensors with the names and shapes of `Results`, or lists of tensors for boxes, in the precision of the
        run; on a GPU if any parameter is on a GPU.

    Notes
    -----
    Memory for ``backward`` (up to most of the device, see ``states``) is kept until ``backward`` or until
    the graph is freed; a second ``backward`` repeats the simulation. Forward mode, double ``backward`` and
    ``torch.func`` are not supported.
    """
    try:
        import torch
        from torch.autograd.function import once_differentiable
    except ImportError:
        raise MissingExtra("simulate_torch", "torch") from None
    tensors = {name: torch.as_tensor(value) for name, value in _real_parameters(parameters).items()}
    simulation = _Simulation(grid, medium, source, sensor, tensors, options)
    wrt = tuple(name for name, tensor in tensors.items() if tensor.requires_grad and torch.is_grad_enabled())
    device = max((one.device for one in tensors.values()), key=lambda device: device.type != "cpu")
    positions: dict[str, Any] = {}  # index of each recorded quantity in the outputs

    def host(tensor: Any) -> np.ndarray:
        return tensor.detach().cpu().numpy()

    def run(inputs: tuple) -> tuple[Results, Any]:
        return simulation.run(dict(zip(tensors, map(host, inputs), strict=True)), wrt)

    class Simulated(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> tuple:
            outputs: list[Any] = []
            results, ctx.linearization = run(inputs)
            positions.update(_each(lambda array: outputs.append(array) or len(outputs) - 1, results))
            ctx.save_for_backward(*inputs)  # so that PyTorch detects changes in place before ``backward``
            return tuple(torch.from_numpy(array).to(device) for array in outputs)

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, *cotangents: Any) -> tuple:
            inputs, arrays = ctx.saved_tensors, [*map(host, cotangents)]
            linearization, ctx.linearization = ctx.linearization, None
            # For a GPU autograd calls from another thread.
            with torch.cuda.device(device if device.type == "cuda" else -1):
                linearization = linearization or run(inputs)[1]
                gradient = linearization.gradient(_each(arrays.__getitem__, positions))
            return tuple(
                torch.from_numpy(np.asarray(gradient[name])).to(one) if name in gradient else None
                for name, one in zip(tensors, inputs, strict=True)
            )

    return _each(Simulated.apply(*tensors.values()).__getitem__, positions)


def simulate_jax(
    grid: Grid, medium: Medium, source: Source, sensor: Sensor, parameters: Mapping[str, Any], **options: Any
) -> dict[str, Any]:
    """Simulate with JAX arrays, like `simulate_torch`, for `jax.grad`, also within `jax.jit`.

    All ``parameters`` are differentiated. Without ``jax_enable_x64`` recorded data are in single precision.
    Within `jax.jit` an `InputError` or `FieldLost` is a ``JaxRuntimeError`` with the same message.

    Notes
    -----
    Uses `jax.pure_callback`; `jax.vmap` runs one simulation after another. Only the last forward run is kept
    for its gradient; the gradient of an earlier run repeats the forward run. Forward mode and second
    derivatives are not supported.
    """
    try:
        import jax
    except ImportError:
        raise MissingExtra("simulate_jax", "jax") from None
    real = _real_parameters(parameters)
    values = {name: jax.numpy.asarray(value, float) for name, value in real.items()}
    failures: list[Exception] = []
    simulation = _Simulation(grid, medium, source, sensor, values, options)

    def shape_of(array: Any) -> Any:
        return jax.ShapeDtypeStruct(array.shape, jax.dtypes.canonicalize_dtype(array.dtype))

    recorded = jax.tree.map(shape_of, dict(simulation.zero_results()))

    def call(function: Callable, shapes: Any, *inputs: Any) -> Any:
        def on_host(*inputs: Any) -> Any:
            try:
                with _LOCK:
                    outputs = function(*jax.tree.map(np.asarray, inputs))
            except InputError as error:
                failures.append(error)
                raise
            return jax.tree.map(lambda array, like: np.asarray(array, like.dtype), outputs, shapes)

        return jax.pure_callback(on_host, shapes, *inputs, vmap_method="sequential")

    def forward(values: dict[str, np.ndarray]) -> tuple[int, dict[str, Any]]:
        _LAST.clear()
        results, linearization = simulation.run(values, tuple(values))
        _LAST[number := next(_NUMBERS)] = linearization
        return number, dict(results)

    def backward(number: Any, values: dict[str, np.ndarray], cotangents: dict[str, Any]) -> dict[str, Any]:
        # JAX may omit and repeat callbacks: a forward run that is no longer stored is repeated.
        linearization = _LAST.pop(int(number), None) or simulation.run(values, tuple(values))[1]
        gradient = linearization.gradient(cotangents)
        return {name: np.asarray(gradient[name]) for name in values}

    @jax.custom_vjp
    def simulated(values: Any) -> Any:
        return call(lambda values: dict(simulation.run(values, ())[0]), recorded, values)

    def ahead(values: Any) -> tuple:
        number, results = call(forward, (jax.ShapeDtypeStruct((), np.int32), recorded), values)
        return results, (number, values)

    simulated.defvjp(ahead, lambda kept, by: (call(backward, jax.tree.map(shape_of, kept[1]), *kept, by),))
    try:
        recorded_values = simulated(values)
        for array in jax.tree.leaves(recorded_values):
            if not isinstance(array, jax.core.Tracer):
                array.block_until_ready()  # raise errors now, not where the array is read
    except jax.errors.JaxRuntimeError as error:
        raise (failures or [error])[0] from None
    return recorded_values


def _real_parameters(parameters: Any) -> dict[str, Any]:
    """Return parameters as tensors or arrays; `InputError` unless they are real numbers."""
    instance("parameters", parameters, Mapping)
    each = {n: v if hasattr(v, "dtype") else real_array(v, f"parameters.{n}") for n, v in parameters.items()}
    for name, value in each.items():
        kind = str(value.dtype).removeprefix("torch.")
        right = kind.startswith(("float", "bfloat", "int", "uint", "bool"))
        require(right, f"parameters.{name}", f"of type {kind}", "real numbers")
    return each


class _Simulation:
    """Computes recorded data as a function of ``parameters``, with fixed time step, step count and c_ref."""

    def __init__(self, grid: Grid, medium: Medium, source: Source, sensor: Sensor, parameters, options: dict):
        inputs = grid, medium, source, sensor, GradientSettings(**options)
        problem, recording, settings = prepare_gradient(tuple(parameters), "parameters", *inputs)
        for name, value in parameters.items():
            held = getattr(medium if hasattr(medium, name) else source, name)
            held = np.shape(held.signal if name == "transducer" else held)
            require(tuple(value.shape) == held, f"parameters.{name}.shape", tuple(value.shape), str(held))
        self._medium, self._source = replace(medium, reference_speed=problem.reference_speed), source
        self._grid, self._sensor, self._inputs = grid, sensor, (problem, recording, settings.dtype)
        fixed = dict(comm=settings.ranks, dt=problem.dt, steps=problem.steps, t_end=None, device="auto")
        self._options = options | fixed

    def run(self, values: Mapping[str, np.ndarray], wrt: tuple[str, ...]) -> tuple[Results, Any]:
        """Simulate with the parameters ``values``; return the results and their `Linearization`.

        If ``wrt``, the names to differentiate by, is empty, there is no `Linearization` but None.
        """
        medium = {name: value for name, value in values.items() if hasattr(self._medium, name)}
        source: dict[str, Any] = {name: value for name, value in values.items() if name not in medium}
        if "transducer" in source:
            transducer: Any = self._source.transducer
            source["transducer"] = replace(transducer, signal=source["transducer"])
        inputs = self._grid, replace(self._medium, **medium), replace(self._source, **source), self._sensor
        if wrt:
            linearization = linearize(*inputs, wrt, **self._options)
            return linearization.results, linearization
        options = {key: value for key, value in self._options.items() if key not in ("states", "scratch")}
        return simulate(*inputs, **options), None

    def zero_results(self) -> Results:
        """Return results of zeros with the names, shapes and types of a run's results."""
        problem, recording, dtype = self._inputs
        layout, zero = layout_of(problem, recording, dtype), np.zeros((), dtype)
        shapes: dict[str, Any] = dict.fromkeys(layout.fields, problem.array_shape)
        shapes |= layout.series | {name: (samples,) for name, samples in layout.points.items()}
        arrays = {name: np.broadcast_to(zero, shape) for name, shape in shapes.items()}
        return Results(with_tones(arrays, recording), problem, recording, self._grid, Report())


def _each(function: Callable[[Any], Any], recorded: Any) -> Any:
    """Apply ``function`` to each array in nested dictionaries and lists of recorded data; keep nesting."""
    if isinstance(recorded, Mapping):
        return {name: _each(function, value) for name, value in recorded.items()}
    return [_each(function, one) for one in recorded] if isinstance(recorded, list) else function(recorded)
