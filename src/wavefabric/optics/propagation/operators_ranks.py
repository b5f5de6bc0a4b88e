"""The stages of a step when the rows of the field are split over ranks.

Linear propagation needs no other rank. A Kerr sweep is cut where cell powers are exchanged, and time is
cut in chunks: while the powers of one chunk travel, sums, phases and rows of its neighbours are worked on.
Powers travel as one real number a cell and sample; a step of RK4IP exchanges them four times, as in
Brehler et al., section 4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wavefabric.device import fftw
from wavefabric.optics.fibre.fibre import Fibre
from wavefabric.optics.propagation.kerr_exchange import RankMixing, Slot, exchange_form, rank_mixing
from wavefabric.optics.propagation.operators import Stages
from wavefabric.optics.propagation.rows import Share

#: Chunks of time for long rows: the first and the last do not overlap, small ones cost messages.
CHUNKS = 4
#: Fewest samples of a chunk.
_LEAST = 1 << 15


def chunks_for(n: int) -> int:
    """Chunks of time that rows of ``n`` samples are cut in."""
    return max(1, min(CHUNKS, n // _LEAST))


class Chunk:
    """Samples ``start`` to ``start + size`` of all rows; ``index`` counts from 0."""

    def __init__(self, index: int, start: int, size: int):
        self.index, self.start, self.size = index, start, size


class RankStages(Stages):
    """Linear propagation and Kerr sweeps of the rows that one rank holds.

    All ranks call the same stages in the same order.

    Parameters
    ----------
    device, fibre, n, sample_rate, dtype, kerr
        See :class:`Stages`; ``fibre`` is the whole fibre.
    comm : Communicator
    share : Share
        Modes of every rank.
    exchange : {"auto", "dense", "factored"}
        What is exchanged (see :func:`wavefabric.optics.propagation.kerr_exchange.rank_mixing`).
    chunks : int, optional
        Chunks of time; by default `chunks_for`.

    Attributes
    ----------
    others : bool
        False leaves out the work on what the other ranks sent, which still travels: the "only
        communication" of Brehler et al., figure 3. Answers are then wrong.

    Raises
    ------
    InputError
        For ``kerr="svd"``, or forms that disagree.
    """

    def __init__(
        self,
        device,
        fibre: Fibre,
        n,
        sample_rate,
        dtype,
        comm,
        share: Share,
        kerr="auto",
        exchange="auto",
        chunks: int | None = None,
    ):
        self.comm, self.others = comm, True
        self._form = exchange_form(exchange, kerr)
        size = -(-int(n) // (chunks or chunks_for(int(n))))
        self._chunks = [Chunk(i, t, min(size, int(n) - t)) for i, t in enumerate(range(0, int(n), size))]
        self._slots: dict[tuple[int, int, int], Slot] = {}
        self._scratch: dict[tuple[str, int, int], Any] = {}
        super().__init__(device, fibre, n, sample_rate, dtype, kerr, share=share)
        self.error = device.zeros((len(self._chunks),), np.float64)

    def _lay_out_kerr(self, kerr, svd_tolerance):
        comm, share = self.comm, self.share
        kappa = self.fibre.kappa_rows()
        self.mixing: RankMixing = rank_mixing(kappa, self.fibre.gamma, share, self._form)  # type: ignore
        self.cell_kernels = self.device.kernels("wavefabric.optics.propagation.kernels.kerr_ranks")
        self.layout = self.cell_kernels.Cells(self.device, self.mixing.start, self.n, self.dtype)
        self._blocks = [self.device.asarray(block.astype(self.real)) for block in self.mixing.blocks]
        self._all_blocks = self.device.asarray(np.hstack(self.mixing.blocks).astype(self.real))
        # Peers in the order in which a round of direct sends reaches this rank; fixed, so that sums are.
        self._peers = [(comm.rank + step) % comm.size for step in range(1, comm.size)]
        parts = sum(self.mixing.parts)
        self.round_bytes = (comm.size - 1) * parts * self.n * self.real.itemsize

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

    def rates(self):
        """Kerr phase rates of the own cells, one array (own parts, m) a chunk."""
        rows = self.mixing.parts[self.comm.rank]
        return [self.device.empty((rows, chunk.size), self.real) for chunk in self._chunks]

    def graph(self, work):
        # A captured step could not wait for other ranks.
        return work

    # --- pipeline --------------------------------------------------------------------------------

    def _pipeline(self, *phases: Callable[[Chunk, int], None]) -> None:
        """Phase k of chunk i in turn i + k; each gets the chunk and the number of its place in the ring.

        What a phase has started travels while the other chunks of that turn are worked on. A place in the
        ring is taken again once its chunk has been through all phases.
        """
        last, depth = len(self._chunks), len(phases)
        for turn in range(last + depth - 1):
            for k, phase in enumerate(phases):
                if 0 <= turn - k < last:
                    phase(self._chunks[turn - k], (turn - k) % depth)

    @property
    def _at_once(self) -> bool:
        """Whether all cells are mixed together: a kernel a peer costs more than it hides if they are few."""
        return self.others and self.mixing.form == "factored"

    def _slot(self, chunk: Chunk, place: int, kind: int) -> Slot:
        """Buffers of exchanged powers; two kinds, since two rounds of a chunk follow one another."""
        key = (kind, place, chunk.size)
        if key not in self._slots:
            self._slots[key] = Slot(self.comm, self.mixing.parts, chunk.size, self.real)
        return self._slots[key]

    def _array(self, name: str, chunk: Chunk, place: int):
        """Scratch of one real number an own cell and sample."""
        key = (name, place, chunk.size)
        if key not in self._scratch:
            shape = self.mixing.parts[self.comm.rank], chunk.size
            self._scratch[key] = self.device.empty(shape, self.real)
        return self._scratch[key]

    def _send(self, slot: Slot, rate) -> None:
        """Exchange the own powers; meanwhile, if there are many, rate ← what the own cells contribute."""
        slot.start()
        if not self._at_once:
            self.cell_kernels.mix_part(rate, slot.own, self._blocks[self.comm.rank], True)

    def _collect(self, slot: Slot, rate) -> None:
        """rate ← all cells' contribution, or rate + that of each other rank once its powers are there."""
        if self._at_once:
            slot.arrived()
            self.cell_kernels.mix_part(rate, slot.all, self._all_blocks, True)
            return
        for peer in self._peers:
            slot.arrived(peer)
            if self.others:
                self.cell_kernels.mix_part(rate, slot.parts[peer], self._blocks[peer], False)

    def _rates_then(self, A, rate_of: Callable, finish: Callable | None) -> None:
        """Phase rates of |A|² in one exchange, then ``finish(chunk, rate)``."""

        def begin(chunk, place):
            slot = self._slot(chunk, place, 0)
            slot.free()
            self.cell_kernels.cell_power(A, chunk.start, slot.own, self.layout)
            self._send(slot, rate_of(chunk, place))

        def end(chunk, place):
            rate = rate_of(chunk, place)
            self._collect(self._slot(chunk, place, 0), rate)
            if finish:
                finish(chunk, rate)

        self._pipeline(begin, end)
        self.counts.exchanges += 1

    def _theta(self, chunk, place):
        return self._array("theta", chunk, place)

    def settle(self) -> None:
        """Wait until no exchange is under way."""
        for slot in self._slots.values():
            slot.free()

    # --- Kerr ------------------------------------------------------------------------------------

    def kerr_derivative(self, A, K) -> None:
        def finish(chunk, rate):
            self.cell_kernels.finish_derivative(A, K, chunk.start, rate, self.layout)

        self._rates_then(A, self._theta, finish)

    def kerr_rotate(self, A, h: float) -> None:
        def finish(chunk, rate):
            self.cell_kernels.finish_rotate(A, chunk.start, rate, h, self.layout)

        self._rates_then(A, self._theta, finish)

    def kerr_phase_rate(self, A, rate) -> None:
        self._rates_then(A, lambda chunk, place: rate[chunk.index], None)

    def rotate_mean(self, H, A, rate0, rate1, h: float) -> None:
        for chunk in self._chunks:
            window = slice(chunk.start, chunk.start + chunk.size)
            A[:, window] = H[:, window]
            both = self._theta(chunk, 0)
            both[...] = rate0[chunk.index]
            both += rate1[chunk.index]
            self.cell_kernels.finish_rotate(A, chunk.start, both, 0.5 * h, self.layout)

    def max_phase_rate(self, A) -> float:
        found = []
        self._rates_then(A, self._theta, lambda chunk, rate: found.append(self.cell_kernels.rate_max(rate)))
        # numpy.max and control.max keep a NaN: all ranks see it.
        return float(self.comm.control.max(float(np.max(found))))

    def kerr_rotate_rk4(self, A, h: float) -> None:
        """Four exchanges: the paper's SSFM-RK4."""
        kernels, layout = self.cell_kernels, self.layout
        before, weight = (0.0, 0.5, 0.5, 1.0), (1 / 6, 1 / 3, 1 / 3, 1 / 6)

        def arrays(chunk, place):
            return [self._array(name, chunk, place) for name in ("mr", "mi", "sr", "si")]

        def send(stage, chunk, place):
            slot = self._slot(chunk, place, stage % 2)
            slot.free()
            p, (mr, mi, _, _) = self._array("p", chunk, place), arrays(chunk, place)
            kernels.stage_power(slot.own, p, before[stage], mr, mi)
            self._send(slot, self._theta(chunk, place))

        def receive(stage, chunk, place):
            theta = self._theta(chunk, place)
            self._collect(self._slot(chunk, place, stage % 2), theta)
            kernels.stage_multiplier(theta, h, before[stage], weight[stage], *arrays(chunk, place))

        def first(chunk, place):
            kernels.cell_power(A, chunk.start, self._array("p", chunk, place), layout)
            for array in arrays(chunk, place):
                array[...] = 0
            send(0, chunk, place)

        def between(stage):
            def phase(chunk, place):
                receive(stage - 1, chunk, place)
                send(stage, chunk, place)

            return phase

        def last(chunk, place):
            receive(3, chunk, place)
            _, _, sr, si = arrays(chunk, place)
            kernels.finish_multiply(A, chunk.start, sr, si, layout)

        self._pipeline(first, between(1), between(2), between(3), last)
        self.counts.exchanges += 4

    def _two_rounds(self, sums: Callable, mix: Callable, power: Callable, finish: Callable, h: float) -> None:
        """A sweep of RK4IP: phases of one stage give the powers of the next, so both travel as one number.

        ``sums(chunk, first, second, cross)`` leaves the powers of the first stage, and of the second without
        what ``power`` adds to them; ``mix`` does that in one with `mix_part`; ``finish(chunk, theta, rate)``
        updates the rows from the phase rates of both.
        """

        def begin(chunk, place):
            one, two = self._slot(chunk, place, 0), self._slot(chunk, place, 1)
            one.free()
            two.free()
            sums(chunk, one.own, two.own, self._array("cross", chunk, place))
            self._send(one, self._theta(chunk, place))

        def middle(chunk, place):
            one, two = self._slot(chunk, place, 0), self._slot(chunk, place, 1)
            theta, cross = self._theta(chunk, place), self._array("cross", chunk, place)
            if self._at_once:
                one.arrived()
                mix(theta, one.all, self._all_blocks, two.own, one.own, cross, h)
            else:
                self._collect(one, theta)
                power(two.own, one.own, cross, theta, h)
            self._send(two, self._array("rate", chunk, place))

        def end(chunk, place):
            rate = self._array("rate", chunk, place)
            self._collect(self._slot(chunk, place, 1), rate)
            finish(chunk, self._theta(chunk, place), rate)

        self._pipeline(begin, middle, end)
        self.counts.exchanges += 2

    def rk4ip_middle(self, A, K, h: float) -> None:
        kernels, layout = self.cell_kernels, self.layout

        def sums(chunk, sbb, saa, sab):
            kernels.cell_sums_middle(A, K, chunk.start, h, saa, sbb, sab, layout)

        def finish(chunk, theta2, theta3):
            kernels.finish_middle(A, K, chunk.start, theta2, theta3, h, layout)

        self._two_rounds(sums, kernels.mix_middle, kernels.power_middle, finish, h)

    def rk4ip_last(self, A, K, h: float, measure: bool = False) -> None:
        kernels, layout = self.cell_kernels, self.layout

        def sums(chunk, scc, sss, ssc):
            kernels.cell_sums_last(A, K, chunk.start, scc, sss, ssc, layout)

        def finish(chunk, theta, rate):
            error = self.error[chunk.index : chunk.index + 1] if measure else None
            kernels.finish_last(A, K, chunk.start, theta, rate, h, layout, error)

        self._two_rounds(sums, kernels.mix_last, kernels.power_last, finish, h)

    # --- norms -----------------------------------------------------------------------------------

    def squared_error(self) -> float:
        return float(self.comm.control.sum(float(self.device.to_host(self.error).sum())))

    def _all_rows(self, values):
        self.settle()
        return np.concatenate(self.comm.control.all_gather(super()._all_rows(values)))
