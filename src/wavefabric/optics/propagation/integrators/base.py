"""What every integrator offers."""

from __future__ import annotations

from wavefabric.optics.propagation.operators import Stages


class Integrator:
    """Advances a field in place by whole steps.

    A *segment* is ``begin``, any number of ``step`` and ``end``, all with the same h. Between
    ``begin`` and ``end`` the field may be in the integrator's own representation (``strang`` holds
    it half a linear step ahead), so it is only to be read after ``end``.

    Attributes
    ----------
    name : str
        As in run files.
    order : int
        Global order in h.
    extra_fields : int
        Fields held beside A.
    adaptive : bool
        Whether ``trial`` gives a local error.
    """

    name: str
    order: int
    extra_fields: int
    adaptive = False

    def __init__(self, stages: Stages):
        self.stages = stages

    @staticmethod
    def lengths(h: float) -> tuple[float, ...]:
        """Lengths of linear propagation that a step of h uses."""
        return (h / 2,)

    def begin(self, A, h: float) -> None:
        """Prepare ``A`` for steps of h."""

    def step(self, A, h: float) -> None:
        """Advance ``A`` by h."""
        raise NotImplementedError

    def end(self, A, h: float) -> None:
        """Leave ``A`` as the field itself."""

    def advance(self, A, h: float, steps: int = 1) -> None:
        """``begin``, ``steps`` steps of h, ``end``."""
        self.begin(A, h)
        for _ in range(steps):
            self.step(A, h)
        self.end(A, h)
