"""A run forward, watched, and back: the adjoint steps, the states that they need, checkpoints, progress."""

import copy
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from wavefabric.acoustics.choose_stages import make_stages
from wavefabric.acoustics.decomposition.decompose import decompose
from wavefabric.acoustics.decomposition.subdomain import Subdomain
from wavefabric.acoustics.gradients.injection import Injection
from wavefabric.acoustics.problem import Problem, Recording
from wavefabric.acoustics.recording.delivery import RankParts, broadcast
from wavefabric.acoustics.run_settings import RunSettings
from wavefabric.acoustics.solver.adjoint.step import AdjointStep, needs_states
from wavefabric.acoustics.solver.coefficients import Fields
from wavefabric.acoustics.solver.stages import Stages
from wavefabric.acoustics.solver.step import Step
from wavefabric.exchange.communicator import Communicator
from wavefabric.lifecycle.agreement import Status, combine
from wavefabric.lifecycle.checkpoint.when import RunCheckpoint
from wavefabric.lifecycle.reversal.binomial import advances
from wavefabric.lifecycle.reversal.reversal import Reversal
from wavefabric.lifecycle.reversal.store import StateStore, Tiers, choose_tiers
from wavefabric.system.interrupt import DeferredInterrupt
from wavefabric.system.progress import Progress

#: Steps, forward or back, from one exchange of the status of ranks to the next.
_STATUS_STEPS = 16


class _Forward:
    """The forward fields of some stages, as a `Reversible`."""

    def __init__(self, stages: Stages, step: Step, poll: Any):
        self._stages, self._step, self._poll = stages, step, poll
        self._spectrum_lost = False

    def arrays(self) -> dict[str, Any]:
        return self._stages.fields.named()

    def fields_of(self, arrays: dict[str, Any]) -> Fields:
        """Stored arrays as fields."""
        fields = copy.copy(self._stages.fields)
        fields.p, fields.rho = arrays["p"], arrays["rho"]
        fields.u = [arrays[f"u{axis}"] for axis in "xyz"[: fields.dimensions]]
        parts = {axis: arrays[f"rho{axis}"] for axis in "xyz" if f"rho{axis}" in arrays}
        fields.split_layers = fields.split_layers._replace(**parts)
        return fields

    def begin(self) -> None:
        for array in self.arrays().values():
            array[...] = 0
        self.restored(0)

    def restored(self, step: int) -> None:
        self._stages.fields.clock[...] = step
        self.spoilt()

    def spoilt(self) -> None:
        """Spectra are used by others now."""
        self._spectrum_lost = True

    def advance(self, step: int) -> None:
        if self._spectrum_lost:
            self._stages.transform_pressure()
            self._spectrum_lost = False
        self._step.take(step)
        self._poll()


class AdjointRun:
    """The `Observer` of the forward run; `back` then takes its steps back.

    ``wrt`` and ``scaled`` are as of `AdjointStep`, ``states`` and ``scratch`` as of `choose_tiers`. To be
    closed.
    """

    def __init__(
        self,
        problem: Problem,
        recording: Recording,
        wrt: frozenset[str],
        scaled: frozenset[str],
        settings: RunSettings,
        states: int | None = None,
        scratch: Any = None,
    ):
        self._problem, self._recording, self._wrt, self._scaled = problem, recording, wrt, scaled
        self._settings, self._comm, self._limits = settings, settings.ranks, (states, scratch)
        self._partition = decompose(
            problem.shape, self._comm.size, settings.decomposition if self._comm.size > 1 else None
        )
        self._store: StateStore | None = None
        self._reversal: Reversal | None = None
        self._cyclic: list[Any] = [self]  # objects that refer to each other
        self._states_needed = needs_states(problem, wrt)
        #: Where states were stored; none if none were needed.
        self.tiers = Tiers(0)
        self.seconds = 0.0
        self._polls = 0
        self._number, self._half, self._resumed = problem.steps - 1, False, False
        self._interrupt: DeferredInterrupt | None = None

    @property
    def advanced(self) -> int:
        """Steps that were taken again."""
        return 0 if self._reversal is None else self._reversal.advanced

    def close(self) -> None:
        """Free the stored states; and the fields, which would wait for the collector of cycles."""
        if self._store is not None:
            self._store.close()
        for each in self._cyclic:
            vars(each).clear()

    # --- The forward run ----------------------------------------------------------------------------------

    def nbytes(self, problem: Problem, dtype: np.dtype, subdomains: list[Subdomain]) -> int:
        def of(part: Subdomain) -> int:
            field = dtype.itemsize * int(np.prod(part.size))
            return AdjointStep.nbytes(problem, self._wrt, Fields.nbytes(problem, part, dtype), field)

        return max(map(of, subdomains))

    def begin(self, stages: Stages, step: Step, taken: int) -> None:
        self._cyclic += [stages, step]
        self._stages, self._adjoint = stages, AdjointStep(stages, self._wrt, self._scaled)
        self._forward, self._fields = _Forward(stages, step, self._poll), stages.fields
        if not self._states_needed:
            return
        device, steps = stages.coefficients.device, self._problem.steps
        nbytes = sum(array.nbytes for array in self._forward.arrays().values())
        self.tiers = choose_tiers(self._comm, device, nbytes, steps, *self._limits)
        self._store = StateStore(device, nbytes, self.tiers)
        self._reversal = Reversal(self._forward, steps, self._store, at=taken)
        self.after(taken)

    def after(self, taken: int) -> None:
        if self._reversal is not None and taken:
            self._reversal.after(taken)

    def without_forward_run(self) -> None:
        """Make everything as after the forward run, but for its fields: the steps back go on elsewhere."""
        comm, dtype = self._comm, self._settings.dtype(self._problem)
        stages = make_stages(
            comm.device, self._problem, dtype, comm=comm, decomposition=self._partition, indexed=False
        )
        self.begin(stages, Step(stages), self._problem.steps)

    def restore(self, checkpoint: RunCheckpoint) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The adjoint fields and sums of a checkpoint; the other arrays and the state in it."""
        arrays, state = checkpoint.restore(self._adjoint.arrays())
        for name, values in self._adjoint.sources.host_arrays().items():
            values[...] = arrays.pop(name)
        self._number, self._half, self._resumed = int(state["step"]), bool(state["half"]), True
        return arrays, state

    # --- Back ---------------------------------------------------------------------------------------------

    def back(
        self,
        derivatives: Mapping[str, np.ndarray],
        checkpoint: RunCheckpoint | None,
        arrays: Mapping[str, np.ndarray],
        state: dict[str, Any],
    ) -> None:
        """Take the steps back, from the derivatives with respect to what was recorded; collective.

        A ``checkpoint`` holds ``arrays`` of the host and ``state`` besides; after `restore` they go on there.
        """
        began = time.perf_counter()
        self._checkpoint, self._kept, self._state = checkpoint, arrays, state
        self._injection = Injection(self._stages, self._adjoint.kernels, self._recording, derivatives)
        self._forward.spoilt()
        self._stages.layout.finish_exchanges()
        if self._resumed:
            if self._states_needed:
                self._bring(self._number + 1)
        elif checkpoint is not None:
            self._save(last=False)
        progress = self._progress = (
            Progress() if self._settings.progress is None or self._comm.rank else self._settings.progress
        )
        steps = self._problem.steps
        again = advances(steps, sum(self.tiers[:3]) + 1) - steps if self._states_needed else 0
        self._total, self._done = steps + again, 0
        progress.start(self._total, f"adjoint time steps on {self._stages.coefficients.device.name}")
        try:
            with DeferredInterrupt() as self._interrupt:
                while self._number >= 0:
                    self._step_back(self._number)
                self._stages.coefficients.device.synchronize()
                self._comm.check()
        finally:
            self._interrupt = None
            progress.finish()
        self.seconds = time.perf_counter() - began

    def _step_back(self, number: int) -> None:
        adjoint, after = self._adjoint, self._fields
        if not self._half:
            self._injection.add(adjoint.fields, number)
            adjoint.after(number, after)
            self._half = True
        if self._states_needed:
            after = self._step_fields_back(number)
        adjoint.before(number, self._fields, after)
        self._number, self._half = number - 1, False
        self._poll()

    def _step_fields_back(self, number: int) -> Fields:
        """The forward fields go back to those after so many steps; those of one step more."""
        assert self._reversal is not None
        after, stored = self._fields, self._reversal.peek(number)
        if stored is None:
            after = self._adjoint.kept(after)
            self._bring(number)
        else:
            self._fields = self._forward.fields_of(stored)
        return after

    def _bring(self, number: int) -> None:
        """Make the forward fields those after so many steps."""
        assert self._reversal is not None
        self._reversal.bring(number)
        self._stages.layout.finish_exchanges()
        self._forward.spoilt()
        self._fields = self._stages.fields

    def _poll(self) -> None:
        """A step is done, forward or back: stop or save, as all ranks do now."""
        if self._interrupt is None:
            return
        self._done += 1
        self._polls += 1
        if self._comm.size > 1 and self._polls % _STATUS_STEPS:
            return
        if self._polls % _STATUS_STEPS == 0:
            self._stages.coefficients.device.synchronize()
            self._progress.update(min(self._done, self._total))
        due = self._checkpoint is not None and self._checkpoint.due()
        status = combine(self._comm, Status(self._interrupt.requested, due))
        self._comm.check()
        if self._checkpoint is not None and (status.interrupted or status.save_due):
            self._save(status.interrupted)
        if status.interrupted:
            self._interrupt.stop()

    def _save(self, last: bool) -> None:
        assert self._checkpoint is not None
        self._stages.coefficients.device.synchronize()
        state = {**self._state, "step": self._number, "half": self._half}
        arrays = self._adjoint.arrays() | self._adjoint.sources.host_arrays() | dict(self._kept)
        self._checkpoint.save(arrays, state, last)

    # --- Results ------------------------------------------------------------------------------------------

    def medium(self) -> dict[str, np.ndarray]:
        """Derivatives with respect to medium and p₀ on the whole grid, (Nz, Ny, Nx); on all ranks."""
        named = dict(self._adjoint.gradients())
        if "initial_pressure" in self._wrt:
            named["initial_pressure"] = self._adjoint.fields.p
        to_host, owned = self._stages.coefficients.device.to_host, self._stages.coefficients.subdomain.owned
        host = {name: np.array(to_host(array)) for name, array in named.items()}
        if self._comm.size == 1:
            return host
        blocks = RankParts.of_blocks(self._comm, list(self._partition.subdomains))
        whole = {name: blocks.gather(np.ascontiguousarray(array[owned])) for name, array in host.items()}
        return _on_all_ranks(self._comm, whole)

    def signals(self, sources: Mapping[str, Any]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Derivatives with respect to signals, (steps, points) or (steps, 1), and Σ s̄ s over time, (points,).

        ``sources`` has the indices of their points in the whole grid by name; on all ranks.
        """
        comm, sources_ = self._comm, self._adjoint.sources
        read = {name.removeprefix("signal/"): array for name, array in sources_.host_arrays().items()}
        to_host = self._stages.coefficients.device.to_host
        products = {name: np.array(to_host(array)) for name, array in sources_.products.items()}
        if comm.size == 1:
            return read, products

        def everywhere(held: dict[str, np.ndarray], name: str, steps: int | None) -> np.ndarray:
            index = sources[name]
            mask, _ = self._stages.coefficients.subdomain.local_index(index)
            own = held.get(name)
            shapes = comm.control.all_gather(None if own is None else own.shape)
            known = next(shape for shape in shapes if shape is not None)
            if len(known) > 1 and _has_one_signal(self._problem, name):
                parts = comm.control.all_gather(own)
                return np.sum([part for part in parts if part is not None], axis=0)
            empty = (known[0], 0) if len(known) > 1 else (0,)
            own = np.zeros(empty, self._stages.coefficients.dtype) if own is None else own
            parts = RankParts.of_columns(comm, np.flatnonzero(mask), index.size)
            return _on_all_ranks(comm, {name: parts.gather(np.ascontiguousarray(own))})[name]

        names = [name for name in sources if name in self._wrt or name in self._scaled]
        has = comm.control.all_gather((sorted(read), sorted(products)))
        reads = [name for name in names if any(name in one for one, _ in has)]
        sums = [name for name in names if any(name in one for _, one in has)]
        return (
            {name: everywhere(read, name, 0) for name in reads},
            {name: everywhere(products, name, None) for name in sums},
        )


def _has_one_signal(problem: Problem, source: str) -> bool:
    """Whether all points of a source have the same signal; a rank with one of many points cannot tell."""
    if source == "transducer":
        return False
    p, u = problem.pressure_source, problem.velocity_source
    signal = p.signal if source == "p" else u.signals["xyz".index(source[1])]  # type: ignore[union-attr]
    return signal.shape[1] == 1  # type: ignore[union-attr]


def _on_all_ranks(comm: Communicator, gathered: Mapping[str, np.ndarray | None]) -> dict[str, np.ndarray]:
    """Arrays that rank 0 alone has."""
    return broadcast(comm, {name: array for name, array in gathered.items() if array is not None})
