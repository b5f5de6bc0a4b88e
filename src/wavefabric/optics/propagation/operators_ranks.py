"""The operators of the propagation when the rows of the field are split over ranks.

Linear propagation needs no other rank. A Kerr sweep is cut where powers of phase groups are exchanged, and
time is cut in chunks: while the powers of one chunk travel, sums, phases and rows of its neighbours are
worked on. A step of RK4IP exchanges one real number a group and sample four times, as in Brehler et al.,
section 4.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from wavefabric.collectives import direct_all_gather
from wavefabric.device import fftw
from wavefabric.optics.fibre.fibre import Fibre
from wavefabric.optics.propagation.operators import FibreOperators
from wavefabric.optics.propagation.phase_groups import (
    RankPhaseGroupCoupling,
    exchange_form,
    rank_phase_group_coupling,
)
from wavefabric.optics.propagation.rank_modes import RankModes

#: Chunks of time for long rows: the first and the last do not overlap, small ones cost messages.
CHUNKS = 4
#: Fewest samples of a chunk.
_LEAST = 1 << 15


def chunks_for(n: int) -> int:
    """Chunks of time that rows of ``n`` samples are cut in."""
    return max(1, min(CHUNKS, n // _LEAST))


class TimeChunk(NamedTuple):
    """Samples ``start`` to ``start + size`` of all rows; ``index`` counts from 0."""

    index: int
    start: int
    size: int


class PowerExchange:
    """Powers of the phase groups of all ranks over ``m`` samples, W, and the all-gather that fills them."""

    def __init__(self, comm, parts, m: int, dtype):
        ends = m * np.cumsum([0, *parts])
        data = comm.allocate((int(ends[-1]),), dtype)
        #: Of all ranks, one after the other: (groups, m).
        self.all = data.reshape(-1, m)
        #: Of each rank, valid from `arrived` to the next `start`: (groups of rank r, m).
        self.parts = [data[a:b].reshape(-1, m) for a, b in pairwise(ends.tolist())]
        #: Of this rank, to be written between `wait` and `start`.
        self.own = self.parts[comm.rank]
        exchange = comm.bind(direct_all_gather([groups * m for groups in parts]), {"data": data})
        self.start, self.arrived, self.wait = exchange.start, exchange.arrived, exchange.finish


class RankOperators(FibreOperators):
    """Operators on the rows that one rank holds; all ranks call the same ones in the same order.

    ``share`` are the modes of every rank, ``exchange`` is the form of `rank_phase_group_coupling`, ``chunks``
    the number of chunks of time (`chunks_for`). ``use_received`` False leaves out the work on what other
    ranks send, which still travels: the "only communication" of Brehler et al., figure 3; answers are wrong.
    InputError for ``kerr="svd"``, or forms that disagree.
    """

    def __init__(
        self,
        device,
        fibre: Fibre,
        n,
        sample_rate,
        dtype,
        comm,
        share: RankModes,
        kerr="auto",
        exchange="auto",
        chunks: int | None = None,
        use_received: bool = True,
    ):
        n = int(n)
        self.comm, self.use_received = comm, use_received
        self._form = exchange_form(exchange, kerr)
        size = -(-n // (chunks or chunks_for(n)))
        self._chunks = [TimeChunk(i, t, min(size, n - t)) for i, t in enumerate(range(0, n, size))]
        self._exchanges: dict[tuple[int, int, int], PowerExchange] = {}
        self._scratch: dict[tuple[str, int, int], Any] = {}
        super().__init__(device, fibre, n, sample_rate, dtype, kerr, share=share)
        self.error = device.zeros((len(self._chunks),), np.float64)

    def _lay_out_kerr(self, kerr, svd_tolerance):
        comm, kappa = self.comm, self.fibre.kappa_rows()
        self.coupling: RankPhaseGroupCoupling = rank_phase_group_coupling(  # type: ignore
            kappa, self.fibre.gamma, self.share, self._form
        )
        self.rank_kernels = self.device.kernels("wavefabric.optics.propagation.kernels.kerr_ranks")
        self.layout = self.rank_kernels.RankKerrLayout(self.device, self.coupling.start, self.n, self.dtype)
        self._blocks = [self.device.asarray(block.astype(self.real)) for block in self.coupling.blocks]
        self._all_blocks = self.device.asarray(np.hstack(self.coupling.blocks).astype(self.real))
        # Peers in the order in which a round of direct sends reaches this rank; fixed, so that sums are.
        self._peers = [(comm.rank + step) % comm.size for step in range(1, comm.size)]
        self.exchange_bytes = (comm.size - 1) * sum(self.coupling.parts) * self.n * self.real.itemsize

    def _plan(self):
        """Plans chosen by rank 0, for all: the next run of these ranks then has the same bits."""
        if self.device.name != "cpu":
            return super()._plan()
        plan = super()._plan() if self.comm.rank == 0 else None
        wisdom = self.comm.control.bcast(fftw.export_wisdom())
        if plan is None:
            fftw.import_wisdom(wisdom)
            plan = super()._plan()
        return plan

    def empty_rates(self):
        """Kerr phase rates of the own groups, one array (own parts, m) a chunk."""
        rows = self.coupling.own_groups
        return [self.device.empty((rows, chunk.size), self.real) for chunk in self._chunks]

    def graph(self, work):
        # A captured step could not wait for other ranks.
        return work

    # --- pipeline --------------------------------------------------------------------------------

    def _pipeline(self, *phases: Callable[[TimeChunk, int], None]) -> None:
        """Phase k of chunk i in turn i + k; each gets the chunk and the number of its buffers in the ring.

        What a phase has started travels while the other chunks of that turn are worked on. Buffers in the
        ring are taken again once their chunk has been through all phases.
        """
        last, depth = len(self._chunks), len(phases)
        for turn in range(last + depth - 1):
            for k, phase in enumerate(phases):
                if 0 <= turn - k < last:
                    phase(self._chunks[turn - k], (turn - k) % depth)

    @property
    def _couple_at_once(self) -> bool:
        """Whether the groups of all ranks are coupled in one kernel: where they are few, one a peer costs
        more than it hides."""
        return self.use_received and self.coupling.form == "factored"

    def _powers(self, chunk: TimeChunk, ring: int, kind: int = 0) -> PowerExchange:
        """Buffers of exchanged powers; two kinds, since two rounds of a chunk follow one another."""
        key = (kind, ring, chunk.size)
        if key not in self._exchanges:
            self._exchanges[key] = PowerExchange(self.comm, self.coupling.parts, chunk.size, self.real)
        return self._exchanges[key]

    def _array(self, name: str, chunk: TimeChunk, ring: int):
        """Scratch of one real number an own group and sample."""
        key = (name, ring, chunk.size)
        if key not in self._scratch:
            self._scratch[key] = self.device.empty((self.coupling.own_groups, chunk.size), self.real)
        return self._scratch[key]

    def _send(self, powers: PowerExchange, rate) -> None:
        """Exchange the own powers; meanwhile, if there are many, rate ← what the own groups contribute."""
        powers.start()
        if not self._couple_at_once:
            self.rank_kernels.couple(rate, powers.own, self._blocks[self.comm.rank], True)

    def _collect(self, powers: PowerExchange, rate) -> None:
        """rate ← all groups' contribution, or rate + that of each other rank once its powers are there."""
        if self._couple_at_once:
            powers.arrived()
            self.rank_kernels.couple(rate, powers.all, self._all_blocks, True)
            return
        for peer in self._peers:
            powers.arrived(peer)
            if self.use_received:
                self.rank_kernels.couple(rate, powers.parts[peer], self._blocks[peer], False)

    def _rates_then(self, A, finish: Callable[[TimeChunk, Any], None], rates: list | None = None) -> None:
        """Phase rates of |A|² in one exchange, into ``rates`` if given, then ``finish(chunk, rate)``."""

        def rate_of(chunk, ring):
            return self._array("theta", chunk, ring) if rates is None else rates[chunk.index]

        def begin(chunk, ring):
            powers = self._powers(chunk, ring)
            powers.wait()
            self.rank_kernels.group_power(A, chunk.start, powers.own, self.layout)
            self._send(powers, rate_of(chunk, ring))

        def end(chunk, ring):
            rate = rate_of(chunk, ring)
            self._collect(self._powers(chunk, ring), rate)
            finish(chunk, rate)

        self._pipeline(begin, end)
        self.counts.exchanges += 1

    def finish_exchanges(self) -> None:
        """Wait until no exchange is under way."""
        for powers in self._exchanges.values():
            powers.wait()

    # --- Kerr ------------------------------------------------------------------------------------

    def kerr_derivative(self, A, K) -> None:
        finish = self.rank_kernels.finish_derivative
        self._rates_then(A, lambda chunk, rate: finish(A, K, chunk.start, rate, self.layout))

    def kerr_rotate(self, A, h: float) -> None:
        finish = self.rank_kernels.finish_rotate
        self._rates_then(A, lambda chunk, rate: finish(A, chunk.start, rate, h, self.layout))

    def kerr_phase_rate(self, A, rate) -> None:
        self._rates_then(A, lambda chunk, rate: None, rate)

    def rotate_mean(self, H, A, rate0, rate1, h: float) -> None:
        for chunk in self._chunks:
            window = slice(chunk.start, chunk.start + chunk.size)
            A[:, window] = H[:, window]
            both = self._array("theta", chunk, 0)
            both[...] = rate0[chunk.index]
            both += rate1[chunk.index]
            self.rank_kernels.finish_rotate(A, chunk.start, both, 0.5 * h, self.layout)

    def max_phase_rate(self, A) -> float:
        largest = []
        self._rates_then(A, lambda chunk, rate: largest.append(self.rank_kernels.max_rate(rate)))
        self.comm.check()
        # numpy.max and control.max keep a NaN: all ranks see it.
        return float(self.comm.control.max(float(np.max(largest))))

    def kerr_rotate_rk4(self, A, h: float) -> None:
        """Four exchanges: the paper's SSFM-RK4."""
        kernels, layout = self.rank_kernels, self.layout
        before, weight = (0.0, 0.5, 0.5, 1.0), (1 / 6, 1 / 3, 1 / 3, 1 / 6)

        def phase(stage, chunk, ring):
            """The end of a stage's exchange, and the begin of the next one's."""
            theta, p = self._array("theta", chunk, ring), self._array("p", chunk, ring)
            mr, mi, sr, si = m = [self._array(name, chunk, ring) for name in ("mr", "mi", "sr", "si")]
            if stage == 0:
                kernels.group_power(A, chunk.start, p, layout)
                for array in m:
                    array[...] = 0
            else:
                self._collect(self._powers(chunk, ring, (stage - 1) % 2), theta)
                kernels.stage_multiplier(theta, h, before[stage - 1], weight[stage - 1], *m)
            if stage == 4:
                kernels.finish_multiply(A, chunk.start, sr, si, layout)
                return
            powers = self._powers(chunk, ring, stage % 2)
            powers.wait()
            kernels.stage_power(powers.own, p, before[stage], mr, mi)
            self._send(powers, theta)

        self._pipeline(*(partial(phase, stage) for stage in range(5)))
        self.counts.exchanges += 4

    def _two_rounds(self, sums: Callable, couple: Callable, power: Callable, finish: Callable, h: float):
        """A sweep of RK4IP: phases of one stage give the powers of the next, so both travel as one number.

        ``sums(chunk, first, second, cross)`` leaves the powers of the first stage, and of the second without
        what ``power`` adds to them; ``couple`` does that in one with the kernel of that name;
        ``finish(chunk, theta, rate)`` updates the rows from the phase rates of both.
        """

        def begin(chunk, ring):
            one, two = self._powers(chunk, ring), self._powers(chunk, ring, 1)
            one.wait()
            two.wait()
            sums(chunk, one.own, two.own, self._array("cross", chunk, ring))
            self._send(one, self._array("theta", chunk, ring))

        def middle(chunk, ring):
            one, two = self._powers(chunk, ring), self._powers(chunk, ring, 1)
            theta, cross = self._array("theta", chunk, ring), self._array("cross", chunk, ring)
            if self._couple_at_once:
                one.arrived()
                couple(theta, one.all, self._all_blocks, two.own, one.own, cross, h)
            else:
                self._collect(one, theta)
                power(two.own, one.own, cross, theta, h)
            self._send(two, self._array("rate", chunk, ring))

        def end(chunk, ring):
            rate = self._array("rate", chunk, ring)
            self._collect(self._powers(chunk, ring, 1), rate)
            finish(chunk, self._array("theta", chunk, ring), rate)

        self._pipeline(begin, middle, end)
        self.counts.exchanges += 2

    def rk4ip_middle(self, A, K, h: float) -> None:
        kernels, layout = self.rank_kernels, self.layout

        def sums(chunk, sbb, saa, sab):
            kernels.group_sums_middle(A, K, chunk.start, h, saa, sbb, sab, layout)

        def finish(chunk, theta2, theta3):
            kernels.finish_middle(A, K, chunk.start, theta2, theta3, h, layout)

        self._two_rounds(sums, kernels.couple_middle, kernels.power_middle, finish, h)

    def rk4ip_last(self, A, K, h: float, measure: bool = False) -> None:
        kernels, layout = self.rank_kernels, self.layout

        def sums(chunk, scc, sss, ssc):
            kernels.group_sums_last(A, K, chunk.start, scc, sss, ssc, layout)

        def finish(chunk, theta, rate):
            error = self.error[chunk.index : chunk.index + 1] if measure else None
            kernels.finish_last(A, K, chunk.start, theta, rate, h, layout, error)

        self._two_rounds(sums, kernels.couple_last, kernels.power_last, finish, h)

    # --- norms -----------------------------------------------------------------------------------

    def squared_error(self) -> float:
        return float(self.comm.control.sum(float(self.device.to_host(self.error).sum())))

    def _all_rows(self, values):
        self.finish_exchanges()
        rows = super()._all_rows(values)  # waits for the device
        self.comm.check()
        return np.concatenate(self.comm.control.all_gather(rows))
