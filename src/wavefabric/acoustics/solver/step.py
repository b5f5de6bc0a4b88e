"""Takes time steps of the first-order k-space pseudospectral scheme: staggered grid, split-field PML.

Tabei, Mast & Waag 2002 (doi:10.1121/1.1421344); Treeby & Cox 2010 (doi:10.1117/1.3360308); with
nonlinearity and absorption Treeby et al. 2012 (doi:10.1121/1.4712021), eq. (7)-(10). Second order in time,
exact in time for a homogeneous lossless medium with c_ref = c₀; spectral in space.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from wavefabric.acoustics.solver.stages import Stages


class StepRecording(Protocol):
    """Records the fields after a step, before the number of the time step is incremented."""

    @property
    def kernels_alone(self) -> bool:
        """Whether recording only launches kernels, so that a graph of the step can include them."""
        ...

    def kernels(self, step: int, /) -> Callable[[], None] | None:
        """Return a function that records time step ``step``; None if nothing is recorded."""
        ...


_Kind = tuple[tuple[bool, ...], bool, tuple[bool, ...]]


class _Captured(NamedTuple):
    """Holds a captured step: a function to repeat it, its number of transforms, the exchange left pending."""

    repeat: Callable[[int], None]
    transforms: int
    pending: Any


class Step:
    """Takes time steps by ``stages``, and records the fields after each."""

    def __init__(self, stages: Stages, *recordings: StepRecording):
        self.stages, self._recordings = stages, recordings
        #: Captured steps by the active sources, whether an exchange is pending before the step, and which
        #: recordings record it.
        self._captured: dict[_Kind, _Captured] = {}
        self._taken_once: set[_Kind] = set()

    def take(self, number: int, most: int = 1) -> int:
        """Take time step ``number`` (0-based) and the steps like it that follow; return how many were taken.

        At most ``most`` are taken. Steps are alike if the same sources are on. Several are taken only if they
        can be repeated without running Python in between. The same recordings must record all of them.
        """
        stages = self.stages
        active = stages.sources.active(number)
        records = [recording.kernels(number) for recording in self._recordings]
        recorded = tuple(record is not None for record in records)
        pairs = zip(recorded, self._recordings, strict=True)
        records_apart = any(used and not recording.kernels_alone for used, recording in pairs)

        def finish() -> None:
            for record in records:
                if record is not None:
                    record()
            stages.tick()

        def work() -> None:
            self.advance(active)
            if not records_apart:
                finish()

        key = active, stages.layout.pending is not None, recorded
        first = key not in self._captured
        if first and number:
            stages.prepare_sources(active)
        if number == 0 or not stages.layout.captured or self._needs_first_run(key):
            self.advance(active)
            initial = stages.coefficients.problem.initial_pressure if number == 0 else None
            if initial is not None:
                stages.initial_pressure(initial)
            finish()
            return 1
        if first:
            before = stages.transforms
            repeat = stages.coefficients.device.graph(work, stages.kernels_alone)
            transforms, stages.transforms = stages.transforms - before, before
            self._captured[key] = _Captured(repeat, transforms, stages.layout.pending)
        captured = self._captured[key]
        count = 1 if records_apart else stages.sources.steps_alike(number, most)
        captured.repeat(count)
        stages.transforms += count * captured.transforms
        stages.layout.pending = captured.pending
        if records_apart:
            finish()
        return count

    def _needs_first_run(self, key: _Kind) -> bool:
        """Return whether to run a step ``key`` once before capture, to set up exchanges or recordings."""
        once = self.stages.layout.comm is not None or any(key[-1])
        if not once or key in self._taken_once:
            return False
        self._taken_once.add(key)
        return True

    def discard_graphs(self) -> None:
        """Discard the captured steps, because the calls of the stages have changed."""
        self._captured.clear()
        self._taken_once.clear()

    def advance(self, active: tuple[bool, ...]) -> None:
        """Run the stages of a step with these ``active`` sources, without capture."""
        self.stages.velocity(active)  # u ← pml (pml u − Δt/ρ₀ ∂p), sources of velocity
        self.stages.density(active)  # ρ_ξ ← pml (pml ρ_ξ − Δt ρ ∂u_ξ), sources of pressure
        self.stages.pressure()  # p = c₀² (ρ + B/A ρ²/(2ρ₀) + τ L1{ρ₀ ∇·u} − η L2{ρ})
