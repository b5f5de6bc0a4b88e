"""The operators over ranks whose kernels store in each other's memory: a sweep is one kernel."""

from __future__ import annotations

from wavefabric.exchange import Communicator
from wavefabric.optics.propagation.kernels.peer_sweeps_cuda import PeerSweeps
from wavefabric.optics.propagation.operators_ranks import RankOperators


class PeerOperators(RankOperators):
    """`RankOperators` of a one-sided communicator.

    What has more than two exchanges, or needs phase rates by themselves, is done as there; its exchanges are
    kernels too.
    """

    def _lay_out_kerr(self, kerr, svd_tolerance):
        super()._lay_out_kerr(kerr, svd_tolerance)
        self.sweeps = PeerSweeps(
            self.device, self.comm, self.coupling, self.n, self.dtype, received=self.use_received
        )

    def graph(self, work):
        # No call of a kernel that waits has a number of the host's: a step can be captured.
        return self.device.graph(work)

    def kerr_derivative(self, A, K) -> None:
        self.sweeps.derivative(A, K)
        self.counts.exchanges += 1

    def kerr_rotate(self, A, h: float) -> None:
        self.sweeps.rotate(A, h)
        self.counts.exchanges += 1

    def rk4ip_middle(self, A, K, h: float) -> None:
        self.sweeps.rk4ip_middle(A, K, h)
        self.counts.exchanges += 2

    def rk4ip_last(self, A, K, h: float, measure: bool = False) -> None:
        self.sweeps.rk4ip_last(A, K, h, self.error[:1] if measure else None)
        self.counts.exchanges += 2


def rank_operators(*shape, comm: Communicator, **how) -> RankOperators:
    """`RankOperators`, or `PeerOperators` where the communicator's kernels store in other ranks' memory."""
    return (PeerOperators if comm.one_sided else RankOperators)(*shape, comm=comm, **how)
