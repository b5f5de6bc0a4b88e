"""The exact gradient of a propagation, with respect to the launched field and to parameters of its steps."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.device import Device, get_device
from wavefabric.errors import InputError
from wavefabric.exchange.communicator import solo
from wavefabric.lifecycle.agreement import check_memory
from wavefabric.lifecycle.reversal.reversal import Reversal
from wavefabric.lifecycle.reversal.store import StateStore, choose_tiers
from wavefabric.optics.fibre.fibre import Fibre
from wavefabric.optics.propagation.adjoint.operators import StepOperators
from wavefabric.optics.propagation.adjoint.steps import ADJOINT_STEPS, AdjointSplitSteps
from wavefabric.optics.propagation.integrators import INTEGRATORS
from wavefabric.optics.propagation.operators import fused_plan_of, linear_coefficients, linear_nbytes
from wavefabric.optics.propagation.phase_groups import phase_group_coupling
from wavefabric.optics.propagation.propagate import (
    PropagationOptions,
    PropagationReport,
    Propagator,
    checked_launch,
    memory_needed,
)
from wavefabric.optics.propagation.rank_modes import RankModes
from wavefabric.optics.propagation.step_size import step_count
from wavefabric.units import quantity


@dataclass(frozen=True)
class GradientOptions(PropagationOptions):
    """How a field is propagated for a gradient: with a ``step``, and an integrator of `ADJOINT_STEPS`.

    ``states``: most states that are kept on the way; by default as many as memory holds, and ``scratch``, a
    folder for states on disk. Where several propagators are in use at once, name ``states`` for each.
    `InputError` as of `PropagationOptions`, and for what has no gradient.
    """

    states: int | None = None
    scratch: str | Path | None = None

    def __post_init__(self):
        super().__post_init__()
        if self.integrator not in ADJOINT_STEPS:
            allowed = ", ".join(ADJOINT_STEPS)
            raise InputError(f"integrator: {self.integrator!r} given; allowed with a gradient: {allowed}")
        if self.step is None:
            raise InputError("step: none given; allowed with a gradient: a length in m")
        for key in ("max_phase", "tolerance"):
            if (value := getattr(self, key)) is not None:
                raise InputError(f"{key}: {value} given; allowed with a gradient: step, of one length")


class DifferentiablePropagator(AbstractContextManager):
    """Propagation over ``length`` m in fixed steps, and its adjoint, on one device.

    `run` propagates a field and keeps some of the states on the way, by binomial checkpointing; `adjoint`
    then takes a gradient from the end of the fibre to its begin. The gradient of a real function f of a
    complex field A is ∂f/∂Re A + i ∂f/∂Im A, so that f(A + δ) ≈ f(A) + Re Σ gradient* δ.

    ``backward`` of ``options`` is for digital back-propagation. ``linear_phases``: whether `run` will get
    some. `InputError` for options without a gradient and for too little memory, before anything large is
    allocated.
    """

    def __init__(
        self,
        fibre: Fibre,
        samples: int,
        sample_rate: float,
        length: float,
        device: Device,
        options: GradientOptions,
        linear_phases: bool = False,
    ):
        length = quantity(length, "m", "length")
        kind = ADJOINT_STEPS[options.integrator]
        if linear_phases and not issubclass(kind, AdjointSplitSteps):
            split = [name for name, each in ADJOINT_STEPS.items() if issubclass(each, AdjointSplitSteps)]
            fault = f"integrator {options.integrator!r} given"
            raise InputError(f"linear_phases: {fault}; allowed with: {', '.join(split)}")
        steps = step_count(length, options.step)
        needed = gradient_memory(fibre, samples, options, device, steps, linear_phases)
        what = f"a gradient of {fibre.rows} rows x {samples} samples"
        check_memory(None, device, needed, what, "fewer modes or samples, or single precision, need less")
        self._propagator = Propagator(fibre, samples, sample_rate, device, options)
        self.operators, self.length, self.step_count = self._propagator.operators, length, steps
        h = self._propagator.control.h(length)
        self._parameters = StepOperators(self.operators, steps, linear_phases)
        self._steps = kind(self._parameters, self._propagator.integrator, h)
        self._stages = steps * self._steps.stages_of_step
        self._field, self._reversal = self.operators.empty(), None
        state, kept = self._field.nbytes, (options.states, options.scratch)
        self._store = StateStore(
            device, state, choose_tiers(solo(device), device, state, self._stages, *kept, store_start=True)
        )
        self._check = options.check_interval * self._steps.stages_of_step

    @property
    def report(self) -> PropagationReport:
        """What all calls have cost; ``steps`` counts those taken again too."""
        report, counts = self._propagator.report, self.operators.counts
        vars(report).update(vars(counts), step=abs(self._steps.h))
        return report

    def __exit__(self, *_: object) -> None:
        """Release the kept states."""
        self._store.close()

    # --- what `Reversal` steps -------------------------------------------------------------------

    def arrays(self) -> dict[str, Any]:
        return {"field": self._field}

    def begin(self) -> None:
        raise AssertionError("the launched field is kept")

    def restored(self, step: int) -> None:
        """The field is all there is."""

    def advance(self, step: int) -> None:
        self._steps.stage(self._field, step)
        self.operators.counts.steps += (step + 1) % self._steps.stages_of_step == 0

    # --- calls -----------------------------------------------------------------------------------

    def run(self, A, nonlinear_factors=None, linear_phases=None, progress=None) -> None:
        """Propagate ``A`` (rows, N), √W, from ``operators.empty()``, in place.

        Parameters of the steps, in the order in which they are taken. ``nonlinear_factors`` (steps,) or
        (steps, phase groups of ``operators.coupling``) multiply the Kerr phase of a step, 1 by default.
        ``linear_phases`` (steps, N) or (steps, rows, N), rad, in NumPy's order of frequencies, are added to
        the phase of the linear propagation behind the Kerr phase of a step. ``progress(done, all)`` counts
        steps. `InputError` for other shapes, `FieldLost` if the field does not stay finite.
        """
        if linear_phases is not None and not self._parameters.phased:
            raise InputError("linear_phases: some given; allowed where the propagator was made for them")
        self._parameters.set_parameters(nonlinear_factors, linear_phases)
        self._field[...] = A
        self._steps.begin(self._field)
        self._reversal = Reversal(self, self._stages, self._store, store_start=True)
        self._reversal.after(0)
        for stage in range(self._stages):
            self.advance(stage)
            self._reversal.after(stage + 1)
            if (stage + 1) % self._check == 0:
                self._propagator.finite_energy(self._field, self.length * (stage + 1) / self._stages)
            self._tell(progress, stage + 1, 0)
        self._steps.end(self._field)
        self._propagator.finite_energy(self._field, self.length)
        A[...] = self._field

    def adjoint(self, Y, progress=None) -> None:
        """``Y`` (rows, N), the gradient for the field at the end, becomes that for the launched field.

        In place, after a `run`, once. Then `factor_gradient` and `phase_gradient` have those of the
        parameters. ValueError without a run.
        """
        if self._reversal is None:
            raise ValueError("adjoint: no run before it; allowed: once after each run")
        reversal, self._reversal = self._reversal, None
        self._steps.end_adjoint(Y)
        for stage in reversed(range(self._stages)):
            reversal.bring(stage)
            self._steps.stage_adjoint(self._field, Y, stage)
            self._tell(progress, self._stages - stage, self.step_count)
        self._steps.begin_adjoint(Y)
        self._propagator.finite_energy(Y, 0.0)

    def _tell(self, progress, stages: int, before: int) -> None:
        steps, rest = divmod(stages, self._steps.stages_of_step)
        if progress and not rest:
            progress(before + steps, 2 * self.step_count)

    @property
    def factor_gradient(self) -> np.ndarray | None:
        """Gradient for the ``nonlinear_factors`` of the last run, of their shape; None without."""
        return self._on_host(self._parameters.factor_gradient)

    @property
    def phase_gradient(self) -> np.ndarray | None:
        """Gradient for the ``linear_phases`` of the last run, of their shape; None without."""
        return self._on_host(self._parameters.phase_gradient)

    def _on_host(self, array):
        return None if array is None else self._propagator.device.to_host(array).copy()


def gradient_memory(
    fibre: Fibre, samples: int, options: PropagationOptions, device: Device, steps: int, linear_phases: bool
) -> int:
    """Bytes of a `DifferentiablePropagator`, a field and a gradient on the device, but for kept states."""
    kind, item = ADJOINT_STEPS[options.integrator], np.dtype(options.dtype).itemsize
    groups = phase_group_coupling(fibre.kappa_rows(), fibre.gamma, options.kerr, options.svd_tolerance).groups
    field, rates = fibre.rows * samples * item, groups * samples * item // 2
    lengths = len(set(INTEGRATORS[options.integrator].lengths(1.0)))
    table_rows = len(linear_coefficients(fibre, RankModes((0, fibre.modes)))[0])
    conjugate = linear_nbytes(device, fibre.rows, samples, options.dtype, table_rows, lengths)
    # The working field, the gradient, a field between for sums.
    beside = conjugate + (3 + kind.extra_fields) * field + (1 + 2 * kind.rate_arrays) * rates
    if linear_phases:  # phases and their gradients, of a step and of all; tables in place of fused kernels
        beside += field + (40 + 16 * steps) * fibre.rows * samples
        fused = fused_plan_of(device, samples, options.dtype)
        beside += 2 * (16 * samples * table_rows * lengths + field) if fused else 0
    return memory_needed(fibre, samples, options, device) + beside


@dataclass(frozen=True)
class PropagationGradient:
    """The value of a function of the field at the end, and its gradients."""

    #: The field at the end, (2M, N) on the host, √W.
    output: np.ndarray
    value: float
    #: ∂f/∂Re A + i ∂f/∂Im A for the launched field, (2M, N) on the host.
    field: np.ndarray
    #: With respect to the parameters, of their shapes; None without.
    nonlinear_factors: np.ndarray | None
    linear_phases: np.ndarray | None
    report: PropagationReport


def propagate_and_gradient(
    field,
    fibre: Fibre,
    length,
    objective: Callable[[Any], tuple[float, Any]],
    *,
    sample_rate,
    device="auto",
    progress: Callable[[int, int], None] | None = None,
    **options,
) -> PropagationGradient:
    """`wavefabric.optics.propagate`, then the exact gradient of a function of the field at the end.

    >>> def energy_of_first_row(A):
    ...     gradient = 0 * A
    ...     gradient[0] = 2 * A[0]
    ...     return float((abs(A[0]) ** 2).sum()), gradient
    >>> result = propagate_and_gradient(
    ...     field, fibre, "80 km", energy_of_first_row, sample_rate="512 GHz", step="1 km"
    ... )

    ``objective(A)`` gives a real number and its gradient ∂f/∂Re A + i ∂f/∂Im A for the field ``A`` (2M, N) of
    the device. Options: ``nonlinear_factors`` and ``linear_phases`` as in `DifferentiablePropagator.run`,
    those of `GradientOptions`, and ``comm`` as in `propagate`, but of one rank. ``progress(done, all)``
    counts steps, there and back.

    The gradient is that of the discrete steps, exact to round-off. `InputError` and `FieldLost` as of
    `DifferentiablePropagator`, and for more than one rank.
    """
    comm, factors, phases = (options.pop(key, None) for key in ("comm", "nonlinear_factors", "linear_phases"))
    if comm is not None and comm.size > 1:
        raise InputError(f"comm: {comm.size} ranks given; allowed: one, since adjoints exchange no powers")
    field, length, rate = checked_launch(field, fibre, length, sample_rate)
    device = get_device(device) if isinstance(device, str) else device
    shape = fibre, field.shape[1], rate, length
    made = DifferentiablePropagator(*shape, device, GradientOptions(**options), phases is not None)
    with made as propagator:
        A = propagator.operators.empty()
        A[...] = device.asarray(field)
        propagator.run(A, factors, phases, progress)
        output = device.to_host(A).copy()
        value, gradient = objective(A)
        if gradient.shape != A.shape:
            raise InputError(f"objective: gradient of shape {gradient.shape} given; allowed: {A.shape}")
        A[...] = device.asarray(gradient)
        propagator.adjoint(A, progress)
        gradients = propagator.factor_gradient, propagator.phase_gradient
        return PropagationGradient(output, value, device.to_host(A).copy(), *gradients, propagator.report)
