"""Takes the adjoint steps of an observed forward run, with stored states, checkpoints and progress."""

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.acoustics.choose_stages import make_stages, needed_bytes
from wavefabric.acoustics.decomposition.decompose import decompose
from wavefabric.acoustics.decomposition.subdomain import Subdomain
from wavefabric.acoustics.gradients.injection import Injection, injected_fields
from wavefabric.acoustics.problem import Problem, Recording
from wavefabric.acoustics.recording.delivery import RankParts, broadcast
from wavefabric.acoustics.simulation import PreparedSimulation, SimulateSettings
from wavefabric.acoustics.solver.adjoint.step import AdjointStep, needs_states
from wavefabric.acoustics.solver.coefficients import Fields
from wavefabric.acoustics.solver.stages import Stages
from wavefabric.acoustics.solver.step import Step, StepRecording
from wavefabric.base.arguments import is_whole
from wavefabric.base.errors import InputError, require
from wavefabric.base.system.compilation_clock import working_time
from wavefabric.base.system.deferred_interrupt import DeferredInterrupt
from wavefabric.base.system.progress import Progress
from wavefabric.runtime.lifecycle.checkpoint.run_checkpoint import RunCheckpoint
from wavefabric.runtime.lifecycle.collective_checks import Status, check_memory, combine, on_all_ranks
from wavefabric.runtime.lifecycle.reversal import Reversal, StateStore, Tiers, advances, choose_tiers
from wavefabric.runtime.lifecycle.state_copies import StateCopies, state_bytes

#: Steps, forward or adjoint, between two exchanges of the ranks' status.
_STATUS_STEPS = 16
#: Largest grids, in points, on which an adjoint step is captured and replayed as a whole, on a CPU and a GPU:
#: replaying needs copies of stored states, which then take less time than the saved launches.
_REPEATED_POINTS, _REPEATED_POINTS_GPU = 1 << 17, 1 << 21


@dataclass(frozen=True, kw_only=True)
class GradientSettings(SimulateSettings):
    """Holds the keywords of `simulate_and_gradient`."""

    states: int | None = None
    scratch: str | Path | None = None
    prepared: PreparedSimulation | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_files("scratch")
        right = self.states is None or (is_whole(self.states) and self.states >= 1)
        require(right, "states", self.states, "a whole number from 1")
        for key in ("record", "output"):
            require(getattr(self, key) is None, key, getattr(self, key), "a sensor, and `Gradient.save`")
        kind = self.prepared is None or isinstance(self.prepared, PreparedSimulation)
        require(kind, "prepared", self.prepared, "what `prepare` returns")
        if self.checkpoints is not None and self.checkpoints.stop:
            raise InputError("checkpoint: stops at its first save; allowed: Checkpoints(path, stop=False)")


class _Forward:
    """Lets a `Reversal` restore the fields of a forward run of ``stages``, and advance them by steps."""

    def __init__(self, stages: Stages, step: Step, poll: Any):
        self._stages, self._step, self._poll = stages, step, poll
        self.spectrum_lost = False  # True: the pressure's spectrum must be computed; `AdjointRun` sets it

    def arrays(self) -> dict[str, Any]:
        return self._stages.fields.named()

    def fields_of(self, arrays: dict[str, Any]) -> Fields:
        """Return stored arrays as `Fields`."""
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
        self.spectrum_lost = True

    def advance(self, step: int) -> None:
        if self.spectrum_lost:
            self._stages.transform_pressure()
            self.spectrum_lost = False
        self._step.take(step)
        self._poll()


class _StateRecording:
    """A `StepRecording` that stores the state after each time step by calling ``store``."""

    #: Recording only launches a kernel.
    kernels_alone = True

    def __init__(self, store: Callable[[], None]):
        self._store = store

    def kernels(self, step: int) -> Callable[[], None]:
        return self._store


class AdjointRun:
    """An `Observer` that stores states of a forward run, and takes the adjoint steps in `run_backward`.

    ``wrt`` names the medium parameters and sources to differentiate by, ``scaled`` the sources whose signals
    are scaled by the sound speed (`AdjointSources`). Call `close` at the end.
    """

    def __init__(
        self, problem: Problem, recording: Recording, wrt: frozenset[str], scaled: frozenset[str],
        settings: GradientSettings,
    ):  # fmt: skip
        self._problem, self._recording, self._wrt, self._scaled = problem, recording, wrt, scaled
        self._settings, self._comm = settings, settings.ranks
        cut = settings.decomposition if self._comm.size > 1 else None
        self._partition = decompose(problem.shape, self._comm.size, cut, problem.stacked)
        self._store: StateStore | None = None
        self._reversal: Reversal | None = None  # none if no states are needed
        self._cyclic: list[Any] = [self]  # objects that refer to each other
        #: Stores states by kernels within the time steps, if a GPU stores all states; else None.
        self._recording_states: _StateRecording | None = None
        #: Numbers of states stored on the device, in host memory and on disk.
        self.tiers = Tiers(0)
        self.seconds = 0.0
        self._number, self._half, self._resumed = problem.steps - 1, False, False
        self._interrupt: DeferredInterrupt | None = None
        #: Function that repeats each kind of adjoint step; None after the first step of a kind.
        self._repeats: dict[tuple, Any] = {}
        #: `StateCopies` to load stored states into forward fields: True, those of the stages; False, a copy.
        self._copies: dict[bool, StateCopies] = {}

    @property
    def advanced(self) -> int:
        """Return the number of forward steps that were repeated."""
        return 0 if self._reversal is None else self._reversal.advanced

    def close(self) -> None:
        """Free the stored states and the fields now, not when the garbage collector runs."""
        if self._store is not None:
            self._store.close()
        self._repeats.clear()
        self._copies.clear()
        for each in self._cyclic:
            vars(each).clear()

    # --- The forward run ----------------------------------------------------------------------------------

    def nbytes(self, problem: Problem, dtype: np.dtype, subdomains: list[Subdomain]) -> int:
        each = [(Fields.nbytes(problem, s, dtype), dtype.itemsize * math.prod(s.size)) for s in subdomains]
        later = injected_fields(self._recording, problem.dimensions)
        return max(AdjointStep.nbytes(problem, self._wrt, *sizes) + later * sizes[1] for sizes in each)

    def begin(self, stages: Stages, taken: int) -> StepRecording | None:
        step = Step(stages)  # without a recorder: repeated steps are not recorded again
        self._cyclic += [step] if self._settings.prepared is not None else [stages, step]
        self._stages, self._adjoint = stages, AdjointStep(stages, self._wrt, self._scaled)
        self._forward, self._fields = _Forward(stages, step, self._count_step), stages.fields
        if not needs_states(self._problem, self._wrt):
            return None
        device, steps = stages.coefficients.device, self._problem.steps
        arrays = self._forward.arrays()
        nbytes = state_bytes(arrays)
        limits = self._settings.states, self._settings.scratch
        later = injected_fields(self._recording, self._problem.dimensions) * stages.fields.p.nbytes
        if device.name == "cpu":  # derivatives of the series in double precision, and sorted
            later += 24 * self._recording.samples * steps
        self.tiers = choose_tiers(self._comm, device, nbytes, steps, *limits, reserve=later)
        self._store = on_all_ranks(self._comm, lambda: StateStore(device, arrays, self.tiers))
        self._reversal = Reversal(self._forward, steps, self._store, at=taken)
        if not taken and self._repeatable and device.name != "cpu" and self.tiers[:3] == (steps - 1, 0, 0):
            self._recording_states = _StateRecording(self._store.by_clock(stages.fields.clock))
        self.after(taken)
        return self._recording_states

    def after(self, taken: int) -> None:
        if self._reversal is None or not taken:
            return
        if self._recording_states is not None:
            self._reversal.note_stored(taken)
        else:
            self._reversal.after(taken)

    def restore(self, checkpoint: RunCheckpoint) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Restore adjoint fields and sums from a checkpoint of the adjoint steps, instead of a forward run.

        Return the other arrays and the state of the checkpoint; `run_backward` restores the forward fields.
        """
        device, dtype = self._comm.device, self._settings.dtype
        inputs = self._problem, self._recording, dtype, device, self._partition, self._comm.one_sided
        needed = needed_bytes(*inputs, indexed=False)
        needed += self.nbytes(self._problem, dtype, list(self._partition.subdomains))
        check_memory(self._comm, device, needed, "this run", "use a smaller grid or single precision")
        inputs = device, self._problem, dtype
        stages = make_stages(*inputs, comm=self._comm, decomposition=self._partition, indexed=False)
        self.begin(stages, self._problem.steps)
        arrays, state = checkpoint.restore(self._adjoint.arrays())
        for name, values in self._adjoint.sources.host_arrays().items():
            values[...] = arrays.pop(name)
        self._number, self._half, self._resumed = int(state["step"]), bool(state["half"]), True
        return arrays, state

    # --- Back ---------------------------------------------------------------------------------------------

    def run_backward(
        self, derivatives: Mapping[str, np.ndarray], checkpoint: RunCheckpoint | None,
        arrays: Mapping[str, np.ndarray], state: dict[str, Any],
    ) -> None:  # fmt: skip
        """Take the adjoint steps, driven by the objective's ``derivatives`` with respect to recorded data.

        All ranks must call this. ``checkpoint`` saves the adjoint fields, and also ``arrays``, on the host,
        and ``state``. After `restore` the steps resume from there.
        """
        began, stages, steps = working_time(), self._stages, self._problem.steps
        self._checkpoint, self._stored_arrays, self._state = checkpoint, arrays, state
        self._injection = Injection(stages, self._adjoint.kernels, self._recording, derivatives)
        self._forward.spectrum_lost = True
        stages.layout.finish_exchanges()
        if self._resumed:
            if self._reversal is not None:
                self._restore_forward(self._number + 1)
        elif checkpoint is not None:
            self._save(last=False)
        self._total, self._done = steps, 0
        if self._reversal is not None:
            self._total = advances(steps, sum(self.tiers[:3]) + 1)
        progress = self._progress = Progress() if self._comm.rank else self._settings.progress or Progress()
        again = f", {self._total - steps} forward again" if self._total > steps else ""
        progress.start(self._total, f"adjoint time steps{again}, on {self._comm.device.name}")
        try:
            with DeferredInterrupt() as self._interrupt:
                while self._number >= 0:
                    self._step_back(self._number)
                self._comm.device.synchronize()
                self._comm.check()
        finally:
            self._interrupt = None
            progress.finish()
        self.seconds = working_time() - began

    def _step_back(self, number: int) -> None:
        self._stages.fields.clock[...] = number
        stored = None if self._reversal is None else self._reversal.peek(number)
        if not self._half:
            self._injection.begin(self._adjoint.fields, number)
        whole = not self._half and number > 0 and (self._reversal is None or stored is not None)
        if whole and self._repeatable:
            self._repeat(number, stored)
        else:
            self._take_back(number, stored)
        self._adjoint.count_step(number)
        self._number, self._half = number - 1, False
        self._count_step()

    def _take_back(self, number: int, stored: Any) -> None:
        """Take an adjoint step, or only its second half if a checkpoint was saved between the halves.

        If the forward fields before the step are needed, they are restored from ``stored``, or else by
        forward steps. Unlike in `_repeat`, no kernels are captured to be replayed.
        """
        adjoint, after = self._adjoint, self._fields
        if not self._half:
            self._injection.add(adjoint.fields, number)
            adjoint.transpose_pressure(number, after)
            self._half = True
        if stored is not None and not self._repeatable:  # restore the forward fields before the step
            self._fields = self._forward.fields_of(self._copies_into(self._stages.fields).parts(stored))
        elif self._reversal is not None:
            after = adjoint.forward_after_step(after)
            self._restore_forward(number)
            self._stages.fields.clock[...] = number
        adjoint.transpose_motion(number, self._fields, after)

    @property
    def _repeatable(self) -> bool:
        """Whether adjoint steps that need no forward steps first are captured once and then replayed."""
        device, points = self._comm.device, math.prod(self._problem.shape)
        most = _REPEATED_POINTS if device.name == "cpu" else _REPEATED_POINTS_GPU
        return self._comm.size == 1 and points <= most and self._adjoint.repeatable

    def _repeat(self, number: int, stored: Any) -> None:
        """Take an adjoint step: the first of each kind call by call, later ones by replaying a captured step.

        The forward fields after the step and before it alternate between two sets of arrays.
        """
        adjoint, after = self._adjoint, self._fields
        first, second = self._stages.fields, adjoint.after_step or self._stages.fields
        before = second if after is first and stored is not None else first
        if stored is not None and before is not after:
            self._copies_into(before).load(stored)

        def work() -> None:
            self._injection.add(adjoint.fields, number)
            adjoint.transpose_pressure(number, after)
            adjoint.transpose_motion(number, before, after)

        kind = self._stages.sources.active(number), number >= self._recording.start, after is first
        if kind not in self._repeats:
            self._repeats[kind] = None
            work()
        else:
            if self._repeats[kind] is None:
                self._repeats[kind] = self._comm.device.graph(work, self._stages.kernels_alone)
            self._repeats[kind](1)
        if stored is not None and before is after:
            self._copies_into(before).load(stored)
        self._fields = before

    def _copies_into(self, fields: Fields) -> StateCopies:
        """Return the `StateCopies` that load stored states into ``fields``, one of the two sets of arrays."""
        key = fields is self._stages.fields
        if key not in self._copies:
            self._copies[key] = StateCopies(self._comm.device, fields.named())
        return self._copies[key]

    def _restore_forward(self, number: int) -> None:
        """Restore the forward fields to their values after ``number`` time steps."""
        assert self._reversal is not None
        self._reversal.restore(number)
        self._stages.layout.finish_exchanges()
        self._forward.spectrum_lost = True
        self._fields = self._stages.fields

    def _count_step(self) -> None:
        """Count a completed step, forward or adjoint; stop or save a checkpoint together with all ranks."""
        if self._interrupt is None:
            return
        self._done += 1
        if self._comm.size > 1 and self._done % _STATUS_STEPS:
            return
        if self._done % _STATUS_STEPS == 0:
            self._comm.device.synchronize()
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
        self._comm.device.synchronize()
        state = {**self._state, "step": self._number, "half": self._half}
        arrays = self._adjoint.arrays() | self._adjoint.sources.host_arrays() | dict(self._stored_arrays)
        self._checkpoint.save(arrays, state, last)

    # --- Results ------------------------------------------------------------------------------------------

    def medium(self) -> dict[str, np.ndarray]:
        """Return derivatives with respect to medium and p₀ on the whole grid, (Nz, Ny, Nx); on all ranks."""
        named = dict(self._adjoint.gradients())
        if "initial_pressure" in self._wrt:
            named["initial_pressure"] = self._adjoint.fields.p
        to_host, owned = self._comm.device.to_host, self._stages.coefficients.subdomain.owned
        blocks = RankParts.of_blocks(self._comm, self._partition.subdomains)
        return {name: self._gathered(blocks, np.array(to_host(each))[owned]) for name, each in named.items()}

    def signals(self, points: Mapping[str, np.ndarray]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return two dictionaries from source name: derivatives s̄ for its signal s, and the sums Σ s̄ s.

        All ranks get both. A signal s is (steps, points), or (steps, 1) if points share it; Σ s̄ s, over
        time, is (points,). ``points`` has each source's indices in the whole grid.
        """
        comm, sources, c = self._comm, self._adjoint.sources, self._stages.coefficients
        read = {name.removeprefix("signal/"): array for name, array in sources.host_arrays().items()}
        products = {name: np.array(comm.device.to_host(array)) for name, array in sources.products.items()}
        if comm.size == 1:
            return read, products

        def everywhere(local: np.ndarray | None, name: str) -> np.ndarray:
            mask, _ = c.subdomain.local_index(points[name])
            shape = None if local is None else (local.shape[:-1], local.shape[-1] == np.count_nonzero(mask))
            shapes = [each for each in comm.control.all_gather(shape) if each is not None]
            if not all(by_point for _, by_point in shapes):  # points share the signal: add the ranks' parts
                sums = comm.control.all_gather(local)
                return np.sum([one for one in sums if one is not None], axis=0)
            steps = shapes[0][0]
            columns = RankParts.of_columns(comm, np.flatnonzero(mask), mask.size)
            return self._gathered(columns, np.zeros((*steps, 0), c.dtype) if local is None else local)

        return (
            {name: everywhere(read.get(name), name) for name in points if name in self._wrt},
            {name: everywhere(products.get(name), name) for name in points if name in self._scaled},
        )

    def _gathered(self, parts: RankParts, local: np.ndarray) -> np.ndarray:
        """Gather the part ``local`` of each rank; return the whole array, on all ranks; collective."""
        whole = parts.gather(local)
        return broadcast(self._comm, {} if whole is None else {"": whole})[""]
