"""What every integrator offers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # reading a run file needs the names of integrators, not Numba
    from wavefabric.optics.propagation.operators import FibreOperators


class Integrator:
    """Advances a field in place by whole steps.

    A *check interval* is ``begin``, any number of ``step`` and ``end``, all with the same h. Between
    ``begin`` and ``end`` the field may be in the integrator's own representation (``strang`` holds
    it half a linear step ahead), so it is only to be read after ``end``.
    """

    #: As in run files.
    name: str
    #: Global order in h.
    order: int
    #: Fields, and arrays of Kerr phase rates, held beside A.
    extra_fields = 0
    rate_arrays = 0
    #: Whether ``trial`` and ``reject`` give steps of controlled local error.
    adaptive = False

    def __init__(self, operators: FibreOperators):
        self.operators = operators

    @classmethod
    def nbytes(cls, field: int, rates: int) -> int:
        """Bytes held beside A, from those of a field and of an array of phase rates."""
        return cls.extra_fields * field + cls.rate_arrays * rates

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
