"""Symmetric split step with the exact nonlinear flow."""

from __future__ import annotations

from wavefabric.optics.propagation.integrators.base import Integrator


class Strang(Integrator):
    r"""Strang splitting: 2 FFTs and one evaluation of N̂ a step, globally second order.

    .. math:: A(z+h) = e^{\frac h2\hat L}\,e^{h\hat N}\,e^{\frac h2\hat L} A(z)

    :math:`|A|^2` is invariant under :math:`\hat N` (κ is real), so :math:`e^{h\hat N}` is the exact
    rotation :math:`\exp(i h γκ|A|^2)`. Half steps that follow one another are merged.
    """

    name, order, extra_fields = "strang", 2, 0

    @staticmethod
    def lengths(h: float) -> tuple[float, ...]:
        return (h / 2, h, -h / 2)

    def begin(self, A, h: float) -> None:
        self.stages.linear(A, h / 2)

    def step(self, A, h: float) -> None:
        self.stages.kerr_rotate(A, h)
        self.stages.linear(A, h)

    def end(self, A, h: float) -> None:
        self.stages.linear(A, -h / 2)
