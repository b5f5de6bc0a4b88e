"""The time step: first-order k-space pseudospectral scheme on a staggered grid, split density in the PML.

Tabei, Mast & Waag 2002 (doi:10.1121/1.1421344); Treeby & Cox 2010 (doi:10.1117/1.3360308); with
nonlinearity and absorption Treeby et al. 2012 (doi:10.1121/1.4712021), eq. (7)-(10). Second order in time,
exact in time for a homogeneous lossless medium with c_ref = c₀; spectral in space.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from wavefabric.acoustics.solver.stages import Stages


class _Captured(NamedTuple):
    """What repeats a step, the transforms in it that nobody counts because no Python runs, and what it leaves
    under way."""

    repeat: Callable[[], None]
    transforms: int
    pending: Any


class Step:
    """Advances the fields of some stages by Δt."""

    def __init__(self, stages: Stages):
        self.stages = stages
        #: For each set of active sources, and whether an exchange is under way before the step.
        self._captured: dict[tuple[tuple[bool, ...], bool], _Captured] = {}
        self._taken: set[tuple[tuple[bool, ...], bool]] = set()

    def take(self, number: int) -> None:
        """Time step ``number``, 0-based."""
        stages = self.stages
        active = stages.sources.active(number)
        if number == 0:
            self.advance(active)
            initial = stages.coefficients.problem.initial_pressure
            if initial is not None:
                stages.initial_pressure(initial)
            stages.tick()
            return
        key = active, stages.layout.pending is not None
        if key not in self._captured:
            stages.prepare_sources(active)
            if not stages.layout.captured or (stages.layout.comm is not None and key not in self._taken):
                # As written: what exchanges need for the first time is made ready.
                self._taken.add(key)
                self.advance(active)
                stages.tick()
                return

            def work() -> None:
                self.advance(active)
                stages.tick()

            before = stages.transforms
            repeat = stages.coefficients.device.graph(work, stages.kernels_alone)
            transforms, stages.transforms = stages.transforms - before, before
            self._captured[key] = _Captured(repeat, transforms, stages.layout.pending)
        captured = self._captured[key]
        captured.repeat()
        stages.transforms += captured.transforms
        stages.layout.pending = captured.pending

    def forget(self) -> None:
        """Take steps as written again, before they are captured: what the stages call is another now."""
        self._captured.clear()
        self._taken.clear()

    def advance(self, active: tuple[bool, ...]) -> None:
        """The stages of a step with these sources active, as they are written."""
        self.stages.velocity(active)  # u ← pml (pml u − Δt/ρ₀ ∂p), sources of velocity
        self.stages.density(active)  # ρ_ξ ← pml (pml ρ_ξ − Δt ρ ∂u_ξ), sources of pressure
        self.stages.pressure()  # p = c₀² (ρ + B/A ρ²/(2ρ₀) + τ L1{ρ₀ ∇·u} − η L2{ρ})
