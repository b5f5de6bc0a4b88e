"""The Kerr operators over ranks whose kernels write into each other's memory: an operator is one kernel."""

from __future__ import annotations

from wavefabric.exchange.communicator import Communicator
from wavefabric.optics.propagation.kernels import KerrOperator
from wavefabric.optics.propagation.kernels.kerr_one_sided_cuda import OneSidedKerr
from wavefabric.optics.propagation.operators_ranks import RankOperators


class OneSidedOperators(RankOperators):
    """`RankOperators` of a one-sided communicator.

    What has more than two exchanges, or needs phase rates by themselves, is done as there; its exchanges are
    kernels too.
    """

    def _lay_out_kerr(self, kerr, svd_tolerance):
        super()._lay_out_kerr(kerr, svd_tolerance)
        self.one_sided = OneSidedKerr(
            self.device, self.comm, self.coupling, self.n, self.dtype, received=self.use_received
        )

    def graph(self, work):
        # No call of a kernel that waits has a number of the host's: a step can be captured.
        return self.device.graph(work)

    def _kerr(self, operator: KerrOperator, A, K, h: float, error=None) -> None:
        if operator.stages > 2:
            return super()._kerr(operator, A, K, h, error)
        self.one_sided.kerr(operator, A, K, h, None if error is None else error[:1])
        self.counts.exchanges += operator.stages


def rank_operators(comm: Communicator, *options) -> RankOperators:
    """`RankOperators`, or `OneSidedOperators` where the communicator's kernels write into other ranks."""
    return (OneSidedOperators if comm.one_sided else RankOperators)(comm, *options)
