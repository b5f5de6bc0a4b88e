"""The time step: first-order k-space pseudospectral scheme on a staggered grid, split density.

Tabei, Mast & Waag 2002 (doi:10.1121/1.1421344); Treeby & Cox 2010 (doi:10.1117/1.3360308); with
nonlinearity and absorption Treeby et al. 2012 (doi:10.1121/1.4712021), eq. (7)-(10). Second order in time,
exact in time for a homogeneous lossless medium with c_ref = c₀; spectral in space.
"""

from __future__ import annotations

from collections.abc import Callable

from wavefabric.acoustics.solver.stages import Stages


class Step:
    """Advances the fields by Δt.

    Parameters
    ----------
    stages : Stages
    """

    def __init__(self, stages: Stages):
        self.stages = stages
        self._device = stages.constants.device
        self._clock, self._tick = stages.fields.clock, stages.constants.kernels.tick
        self._initial = stages.constants.problem.initial_pressure
        self._replay: dict[tuple, tuple[Callable[[], None], int]] = {}

    def take(self, number: int) -> None:
        """Time step ``number``, 0-based."""
        active = self.stages.sources.active(number)
        if number == 0:
            self._work(active)
            if self._initial is not None:
                self.stages.initial_pressure(self._device.asarray(self._initial, self.stages.constants.dtype))
            self._tick(self._clock)
            return
        if active not in self._replay:
            self.stages.prepare(active)
            self._replay[active] = self._record(active)
        replay, transforms = self._replay[active]
        replay()
        self.stages.transforms += transforms

    def _record(self, active: tuple[bool, ...]) -> tuple[Callable[[], None], int]:
        """A replay of a step, and the transforms of it that nobody counts because no Python runs."""
        before = self.stages.transforms
        replay = self.stages.graph(lambda: self._whole(active))
        recorded, self.stages.transforms = self.stages.transforms - before, before
        return replay, recorded

    def _whole(self, active: tuple[bool, ...]) -> None:
        self._work(active)
        self._tick(self._clock)

    def _work(self, active: tuple[bool, ...]) -> None:
        self.stages.velocity(active)  # u ← pml (pml u − Δt/ρ₀ ∂p), sources of velocity
        self.stages.density(active)  # ρ_ξ ← pml (pml ρ_ξ − Δt ρ ∂u_ξ), sources of pressure
        self.stages.pressure()  # p = c₀² (Σρ + B/A Σρ²/(2ρ₀) + τ L1{ρ₀ ∇·u} − η L2{Σρ})
