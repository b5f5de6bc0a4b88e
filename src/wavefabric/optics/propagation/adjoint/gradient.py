"""Compute the exact gradient of a propagation with respect to the launched field and step parameters."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from wavefabric.base.arguments import instance, positive, whole
from wavefabric.base.errors import InputError, quoted
from wavefabric.optics.fibre.fibre import Fibre
from wavefabric.optics.propagation.adjoint.steps import ADJOINT_STEPS, StepOperators
from wavefabric.optics.propagation.integrators import INTEGRATORS
from wavefabric.optics.propagation.operators import linear_nbytes
from wavefabric.optics.propagation.phase_groups import phase_group_coupling
from wavefabric.optics.propagation.propagate import (
    PropagationOptions,
    Propagator,
    checked_launch,
    memory_needed,
)
from wavefabric.optics.propagation.step_size import step_count
from wavefabric.runtime.device import Device, get_device
from wavefabric.runtime.exchange.communicator import solo
from wavefabric.runtime.lifecycle.collective_checks import check_memory
from wavefabric.runtime.lifecycle.reversal import Reversal, Reversible, StateStore, choose_tiers
from wavefabric.runtime.lifecycle.state_copies import state_bytes


class DifferentiablePropagator(Reversible):
    """Propagates over ``length`` m in fixed steps, and applies the adjoint, on one device.

    `run` propagates a field and stores states on the way, by binomial checkpointing; `adjoint` then converts
    a gradient for the final field to that for the launched field. The gradient of a real f of a complex field
    A is ∂f/∂Re A + i ∂f/∂Im A, so that f(A + δ) ≈ f(A) + Re Σ gradient* δ. Options: those of
    `PropagationOptions` with a ``step`` and an integrator of `ADJOINT_STEPS` (``backward`` for digital
    back-propagation); ``states``, the largest number of stored states, by default as many as fit into memory;
    ``scratch``, a folder for some of them. Set ``states`` for each of several propagators in use at once.
    `InputError` for options without a gradient and for too little memory, before anything large is allocated.
    """

    def __init__(self, fibre: Fibre, samples: int, sample_rate: float, length, device: Device, **options):
        limits = options.pop("states", None), options.pop("scratch", None)
        settings, device = PropagationOptions(**options), get_device(device)
        instance("fibre", fibre, Fibre)
        whole("samples", samples, 1, 2**50)
        if settings.integrator not in ADJOINT_STEPS:
            allowed = ", ".join(ADJOINT_STEPS)
            raise InputError(f"integrator: {settings.integrator!r} given; allowed with a gradient: {allowed}")
        if settings.step is None or settings.max_phase is not None or settings.tolerance is not None:
            raise InputError("step: a gradient is that of steps of one length; allowed: step alone, in m")
        sample_rate = positive(sample_rate, "Hz", "sample_rate")
        length, kind = positive(length, "m", "length"), ADJOINT_STEPS[settings.integrator]
        self.length, self.step_count = length, step_count(length, settings.step)
        needed = gradient_memory(fibre, samples, settings, device)
        what = f"a gradient of {fibre.rows} rows x {samples} samples"
        check_memory(None, device, needed, what, "fewer modes or samples, or single precision, need less")
        self._propagator = Propagator(fibre, samples, sample_rate, device, settings)
        self.operators = self._propagator.operators
        self._parameters = StepOperators(self.operators, self.step_count)
        h = (-1 if settings.backward else 1) * length / self.step_count
        self._steps = kind(self._parameters, self._propagator.integrator, h)
        self._stages = self.step_count * self._steps.stages_of_step
        self._check = settings.check_interval * self._steps.stages_of_step
        self._field, self._reversal = self.operators.empty(), None
        nbytes = state_bytes(self.arrays())
        tiers = choose_tiers(solo(device), device, nbytes, self._stages, *limits, store_start=True)
        self._store = StateStore(device, self.arrays(), tiers)

    def arrays(self) -> dict[str, Any]:
        """Return a dictionary from a name to the field, which `advance` changes and a `Reversal` stores."""
        return {"field": self._field}

    def advance(self, step: int) -> None:
        """Advance the field by stage number ``step``; a step of the integrator has one or more stages."""
        self._steps.stage(self._field, step)
        self.operators.counts.steps += (step + 1) % self._steps.stages_of_step == 0

    def run(self, A, nonlinear_factors=None, linear_phases=None, progress=None) -> None:
        """Propagate ``A`` (rows, N), √W, from ``operators.empty()``, in place.

        Parameters apply to the steps in order: ``nonlinear_factors`` (steps,) or (steps, phase groups of
        ``operators.coupling``) multiply the Kerr phase; ``linear_phases`` (steps, N) or (steps, rows, N) in
        rad, in NumPy's order of frequencies, are added to the phase of the linear propagation that follows.
        ``progress(done, all)`` counts steps, forward and back. `InputError` for other shapes and integrators,
        `FieldLost` if the field does not stay finite.
        """
        if linear_phases is not None and not self._steps.phased:
            allowed = ", ".join(name for name, each in ADJOINT_STEPS.items() if each.phased)
            fault = f"integrator {self._steps.integrator.name!r} given"
            raise InputError(f"linear_phases: {fault}; allowed with: {allowed}")
        self._parameters.begin(nonlinear_factors, linear_phases)
        self._field[...] = A
        if first := self._steps.first:
            self.operators.linear(self._field, first)
        self._reversal = Reversal(self, self._stages, self._store, store_start=True)
        self._reversal.after(0)
        for stage in range(1, self._stages + 1):
            self.advance(stage - 1)
            self._reversal.after(stage)
            if stage % self._check == 0:
                self._propagator.finite_energy(self._field, self.length * stage / self._stages)
            self._show_progress(progress, stage, 0)
        if first:
            self.operators.linear(self._field, -first)
        self._propagator.finite_energy(self._field, self.length)
        A[...] = self._field

    def adjoint(self, Y, progress=None) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Convert ``Y`` (rows, N) from the gradient for the final field to that for the launched field.

        Works in place, once after each `run`, else ValueError. Returns the gradients for
        ``nonlinear_factors`` and ``linear_phases``, on the host, None for omitted parameters.
        """
        reversal, self._reversal, first = self._reversal, None, self._steps.first
        if reversal is None:
            raise ValueError("adjoint: no run before it; allowed: once after each run")
        if first:
            self._parameters.linear_adjoint(Y, -first)
        for stage in reversed(range(self._stages)):
            reversal.restore(stage)
            self._steps.stage_adjoint(self._field, Y, stage)
            self._show_progress(progress, self._stages - stage, self.step_count)
        if first:
            self._parameters.linear_adjoint(Y, first)
        self._propagator.finite_energy(Y, 0.0)
        pairs, to_host = (self._parameters.factors, self._parameters.phases), self.operators.device.to_host
        factors, phases = (pair and to_host(pair[1]).copy() for pair in pairs)
        return factors, phases

    def _show_progress(self, progress, stages: int, before: int) -> None:
        steps, rest = divmod(stages, self._steps.stages_of_step)
        if progress and not rest:
            progress(before + steps, 2 * self.step_count)


def gradient_memory(fibre: Fibre, samples: int, options: PropagationOptions, device: Device) -> int:
    """Return a `DifferentiablePropagator`'s bytes on the device, without stored states and linear phases."""
    kind, item = ADJOINT_STEPS[options.integrator], np.dtype(options.dtype).itemsize
    groups = phase_group_coupling(fibre.kappa_rows(), fibre.gamma, options.kerr, options.svd_tolerance).groups
    field, rates = fibre.rows * samples * item, groups * samples * item // 2
    # The working field, the gradient and a field for sums; then the memory of the conjugate propagation.
    beside = (3 + kind.extra_fields) * field + (1 + kind.rate_arrays) * rates
    lengths = len(set(INTEGRATORS[options.integrator].lengths(1.0)))
    conjugate = linear_nbytes(device, fibre.rows, samples, options.dtype, fibre.modes, lengths)
    return memory_needed(fibre, samples, options, device) + beside + conjugate


class PropagationGradient(NamedTuple):
    """Holds the final field ``output`` (2M, N), √W, the objective's value, and its gradients, on the host.

    ``field`` is the gradient for the launched field; the others are named after their parameters.
    """

    output: np.ndarray
    value: float
    field: np.ndarray
    nonlinear_factors: np.ndarray | None
    linear_phases: np.ndarray | None


def propagate_and_gradient(
    field, fibre: Fibre, length, objective: Any, *, sample_rate, device="auto", progress=None, **options
) -> PropagationGradient:
    """Run `wavefabric.optics.propagate`, then compute the exact gradient of a function of the final field.

    >>> def objective(A):
    ...     return (abs(A) ** 4).sum(), 4 * abs(A) ** 2 * A
    >>> result = propagate_and_gradient(field, fibre, "80 km", objective, sample_rate="512 GHz", step="1 km")

    ``objective(A)`` returns a real number and its gradient ∂f/∂Re A + i ∂f/∂Im A for the device field ``A``
    (2M, N). Options and errors: those of `DifferentiablePropagator` and its methods; ``comm`` must have one
    rank. The gradient is exact, to round-off, for the discrete steps.
    """
    comm, factors, phases = (options.pop(key, None) for key in ("comm", "nonlinear_factors", "linear_phases"))
    if comm is not None and comm.size > 1:
        raise InputError(f"comm: {comm.size} ranks given; allowed: one, since adjoints exchange no powers")
    field, length, rate = checked_launch(field, fibre, length, sample_rate)
    if not callable(objective):
        raise InputError(f"objective: {quoted(objective)} given; allowed: a function of the field")
    device = get_device(device)
    propagator = DifferentiablePropagator(fibre, field.shape[1], rate, length, device, **options)
    A = propagator.operators.empty()
    A[...] = device.asarray(field)
    propagator.run(A, factors, phases, progress)
    output = device.to_host(A).copy()
    answer: Any = objective(A)
    value, gradient = answer
    if gradient.shape != A.shape:
        raise InputError(f"objective: gradient of shape {gradient.shape} given; allowed: {A.shape}")
    A[...] = device.asarray(gradient)
    gradients = propagator.adjoint(A, progress)
    return PropagationGradient(output, value, device.to_host(A).copy(), *gradients)
