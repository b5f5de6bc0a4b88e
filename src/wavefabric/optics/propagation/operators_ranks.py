"""Define the operators of the propagation for fields whose rows are split over ranks.

Linear propagation needs no communication. A Kerr kernel is split where powers of phase groups are exchanged,
and time is split into chunks: while the powers of one chunk travel, the sums, phases and rows of other chunks
are computed. A step of RK4IP exchanges one real number per group and sample four times, as in Brehler et al.,
section 4.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from wavefabric.collectives import direct_all_gather
from wavefabric.optics.fibre.fibre import Fibre
from wavefabric.optics.propagation.kernels import KerrOperator
from wavefabric.optics.propagation.kernels.kerr_one_sided_cuda import OneSidedKerr
from wavefabric.optics.propagation.operators import DERIVATIVE, ROTATE, FibreOperators
from wavefabric.optics.propagation.phase_groups import rank_phase_group_coupling
from wavefabric.optics.propagation.rank_modes import RankModes
from wavefabric.runtime.exchange.communicator import Communicator

#: Number of time chunks of long rows. More chunks hide more of the exchange, but cost more messages.
CHUNKS = 4
#: Largest number of concurrent exchanges: of all chunks that are in any phase of an operator.
_CONCURRENT = 8
#: Fewest samples of a chunk.
_LEAST = 1 << 15


def chunks_for(n: int) -> int:
    """Return the number of chunks of time into which rows of ``n`` samples are split."""
    return max(1, min(CHUNKS, n // _LEAST))


class TimeChunk(NamedTuple):
    """Describes chunk ``index`` (from 0) of time: samples ``start`` to ``start + size`` of all rows."""

    index: int
    start: int
    size: int


@dataclass(frozen=True)
class ExchangeOptions:
    """Holds options of the exchange of phase-group powers between ranks."""

    form: str = "auto"  # ``exchange`` of `rank_phase_group_coupling`
    chunks: int | None = None  # number of chunks of time; None: see `chunks_for`
    #: False omits the work on other ranks' data, which is still transferred: the "only communication" of
    #: Brehler et al., figure 3; answers are wrong.
    use_received: bool = True


class PowerExchange:
    """Holds the powers (W) of all ranks' phase groups over ``m`` samples, and gathers them from all ranks.

    ``parts`` are the numbers of phase groups on each rank.
    """

    def __init__(self, comm, parts, m: int, dtype):
        ends = m * np.cumsum([0, *parts])
        data = comm.allocate((int(ends[-1]),), dtype)
        #: Powers of all ranks, one after the other: (groups, m).
        self.all = data.reshape(-1, m)
        #: Powers of each rank, valid from `wait_for` to the next `start`: (groups of rank r, m).
        self.parts = [data[a:b].reshape(-1, m) for a, b in pairwise(ends.tolist())]
        #: Powers of this rank, to be written between `finish` and `start`.
        self.local = self.parts[comm.rank]
        gather = direct_all_gather([groups * m for groups in parts])
        exchange = comm.bind(gather, {"data": data}, concurrent=_CONCURRENT)
        self.start, self.wait_for, self.finish = exchange.start, exchange.wait_for, exchange.finish


class RankOperators(FibreOperators):
    """Applies the operators to the rows of one rank of several; all ranks must make the same calls in order.

    ``local_modes`` gives the modes of every rank. `InputError` for ``kerr="svd"``, or if ``kerr`` and the
    form of the exchange conflict.
    """

    def __init__(
        self,
        comm: Communicator,
        fibre: Fibre,
        n,
        sample_rate,
        dtype,
        local_modes: RankModes,
        kerr="auto",
        exchange: ExchangeOptions | None = None,
    ):
        n, exchange = int(n), exchange or ExchangeOptions()
        self.comm, self.use_received = comm, exchange.use_received
        self._form = exchange.form
        size = -(-n // (exchange.chunks or chunks_for(n)))
        self._chunks = [TimeChunk(i, t, min(size, n - t)) for i, t in enumerate(range(0, n, size))]
        self._exchanges: dict[tuple[int, int, int], PowerExchange] = {}
        self._scratch: dict[tuple, Any] = {}
        super().__init__(comm.device, fibre, n, sample_rate, dtype, kerr, local_modes=local_modes)
        self.error = comm.device.zeros((len(self._chunks),), np.float64)

    def _lay_out_kerr(self, kerr, svd_tolerance):
        comm = self.comm
        self.coupling = rank_phase_group_coupling(self.fibre, self.local_modes, self._form, kerr)
        self.layout = self.kernels.KerrChunkLayout(self.device, self.coupling.start, self.n, self.dtype)
        # Factored groups are few: one kernel couples those of all ranks, a kernel per peer would cost more.
        self._couple_at_once = self.use_received and self.coupling.form == "factored"
        self._blocks = [self.device.asarray(block.astype(self.real)) for block in self.coupling.blocks]
        self._all_blocks = self.device.asarray(np.hstack(self.coupling.blocks).astype(self.real))
        # Peers in the order in which direct sends reach this rank; a fixed order makes sums reproducible.
        self._peers = [(comm.rank + step) % comm.size for step in range(1, comm.size)]
        self.exchange_bytes = (comm.size - 1) * sum(self.coupling.parts) * self.n * self.real.itemsize

    def empty_rates(self):
        """Allocate phase rates of this rank's phase groups: for each chunk an array (groups, samples)."""
        rows = self.coupling.own_groups
        return [self.device.empty((rows, chunk.size), self.real) for chunk in self._chunks]

    def graph(self, work, kernels_alone: bool = False):
        # Do not capture: a captured step could not wait for other ranks.
        return work

    def _pipeline(self, *phases: Callable[[TimeChunk, int], None]) -> None:
        """Run ``phases`` one after the other on each chunk of time: in turn t, phase k processes chunk t − k.

        Transfers that a phase starts overlap with work on the other chunks of that turn. A phase is called
        with its chunk and the index of the chunk's buffers, which are reused after the last phase.
        """
        last, depth = len(self._chunks), len(phases)
        for round_number in range(last + depth - 1):
            for k, phase in enumerate(phases):
                if 0 <= round_number - k < last:
                    phase(self._chunks[round_number - k], (round_number - k) % depth)

    def _powers(self, chunk: TimeChunk, ring: int, stage: int = 0) -> PowerExchange:
        """Return the buffers for a chunk's powers that ranks exchange in stage ``stage`` of an operator.

        ``ring`` is the index of the chunk's buffers. Even and odd stages have separate ones.
        """
        key = (stage % 2, ring, chunk.size)
        if key not in self._exchanges:
            self._exchanges[key] = PowerExchange(self.comm, self.coupling.parts, chunk.size, self.real)
        return self._exchanges[key]

    def _array(self, name: str, chunk: TimeChunk, ring: int, *count: int):
        """Return a scratch array of a chunk, (local groups, samples); ``count`` adds a first axis.

        ``name`` and ``ring``, the index of the chunk's buffers, identify the array.
        """
        key = (name, ring, chunk.size, *count)
        if key not in self._scratch:
            shape = (*count, self.coupling.own_groups, chunk.size)
            self._scratch[key] = self.device.empty(shape, self.real)
        return self._scratch[key]

    def _send(self, powers: PowerExchange, rate) -> None:
        """Start to send this rank's powers to all other ranks.

        If the powers of all ranks are later multiplied by γκ at once, this is all. Otherwise set ``rate``
        meanwhile to the phase rates due to this rank's powers.
        """
        powers.start()
        if not self._couple_at_once:
            self.kernels.couple(rate, powers.local, self._blocks[self.comm.rank], True)

    def _collect(self, powers: PowerExchange, rate) -> None:
        """Wait for the powers of other ranks, and compute the phase rates ``rate`` from those of all ranks.

        Either the powers of all ranks are multiplied by γκ at once, or the part of each other rank is added
        to ``rate`` when it is received.
        """
        if self._couple_at_once:
            powers.wait_for()
            self.kernels.couple(rate, powers.all, self._all_blocks, True)
            return
        for peer in self._peers:
            powers.wait_for(peer)
            if self.use_received:
                self.kernels.couple(rate, powers.parts[peer], self._blocks[peer], False)

    def finish_exchanges(self) -> None:
        """Wait until all exchanges have finished."""
        for powers in self._exchanges.values():
            powers.finish()

    def _kerr(self, operator: KerrOperator, A, K, h: float, error=None) -> None:
        def update(chunk: TimeChunk, rate, numbers) -> None:
            part = None if error is None else error[chunk.index : chunk.index + 1]
            self.kernels.kerr_update(operator, A, K, chunk.start, rate, h, numbers, self.layout, part)

        self._stages(operator, A, K, h, update)

    def kerr_phase_rate(self, A, rate) -> None:
        self._stages(DERIVATIVE, A, A, 0.0, lambda *_: None, rate)

    def _stages(self, operator: KerrOperator, A, K, h: float, use: Callable, last_rates=None) -> None:
        """Run the stages of an operator: in each, exchange powers and compute phase rates from them.

        Then ``use(chunk, rate, numbers)`` is called for each chunk with the phase rates of the last stage.
        ``last_rates`` are arrays for these rates, one per chunk; None: scratch arrays.
        """
        kernels, last = self.kernels, operator.stages

        def phase(stage: int, chunk: TimeChunk, ring: int) -> None:
            """Finish the exchange of a chunk's powers in stage ``stage`` − 1, and start that in ``stage``."""
            numbers = self._array("numbers", chunk, ring, operator.numbers)
            for_last = last_rates[chunk.index] if last_rates else self._array("rate", chunk, ring)
            # RK4IP updates rows from both of its phase rates.
            rates = [numbers[0], for_last] if last == 2 else [for_last] * last
            staged = self._powers(chunk, ring, stage)
            if stage == 0:
                staged.finish()
                kernels.kerr_begin(operator, A, K, chunk.start, h, staged.local, numbers, self.layout)
                self._send(staged, rates[0])
                return
            powers, rate = self._powers(chunk, ring, stage - 1), rates[stage - 1]
            if stage == last:
                self._collect(powers, rate)
                use(chunk, rate, numbers)
                return
            staged.finish()
            if self._couple_at_once:
                powers.wait_for()
                parts = powers.all, self._all_blocks
                kernels.couple_advance(
                    operator, stage - 1, rate, *parts, h, powers.local, numbers, staged.local
                )
            else:
                self._collect(powers, rate)
                kernels.kerr_advance(operator, stage - 1, rate, h, powers.local, numbers, staged.local)
            self._send(staged, rates[stage])

        self._pipeline(*(partial(phase, stage) for stage in range(last + 1)))
        self.counts.exchanges += last

    def rotate_mean(self, H, A, rate0, rate1, h: float) -> None:
        for chunk in self._chunks:
            window = slice(chunk.start, chunk.start + chunk.size)
            A[:, window] = H[:, window]
            sum_rate = self._array("rate", chunk, 0)
            sum_rate[...] = rate0[chunk.index]
            sum_rate += rate1[chunk.index]
            none = self._array("numbers", chunk, 0, 0)
            self.kernels.kerr_update(ROTATE, A, A, chunk.start, sum_rate, 0.5 * h, none, self.layout)

    def max_phase_rate(self, A) -> float:
        largest = []
        self._stages(DERIVATIVE, A, A, 0.0, lambda _, rate, *__: largest.append(self.kernels.max_rate(rate)))
        self.comm.check()
        # numpy.max and control.max keep a NaN: all ranks see it.
        return float(self.comm.control.max(float(np.max(largest))))

    def squared_error(self) -> float:
        return float(self.comm.control.sum(float(self.device.to_host(self.error).sum())))

    def _all_rows(self, values):
        self.finish_exchanges()
        rows = super()._all_rows(values)  # waits for the device
        self.comm.check()
        return np.concatenate(self.comm.control.all_gather(rows))


class OneSidedOperators(RankOperators):
    """Applies an operator to the rows of one rank by one kernel, which writes powers to other ranks' memory.

    Operators with more than two exchanges or too many rows, or calls that need the phase rates alone, run as
    in `RankOperators`, with separate kernels for the exchanges.
    """

    def _lay_out_kerr(self, kerr, svd_tolerance):
        super()._lay_out_kerr(kerr, svd_tolerance)
        field, recorder = (self.coupling, self.n, self.dtype), self.comm.step_recorder
        self.one_sided = OneSidedKerr(self.device, self.comm, *field, received=self.use_received)
        if recorder is not None:
            schedule = direct_all_gather([groups * self.n for groups in self.coupling.parts])
            starts = schedule, self.real, lambda operator, *_: operator.stages
            recorder.note_starts(self.one_sided, "kerr", *starts)

    def graph(self, work, kernels_alone: bool = False):
        # Waiting kernels take no changing argument from the host: a step can be captured.
        return self.device.graph(work)

    def _kerr(self, operator: KerrOperator, A, K, h: float, error=None) -> None:
        if not self.one_sided.serves(operator):
            return super()._kerr(operator, A, K, h, error)
        self.one_sided.kerr(operator, A, K, h, None if error is None else error[:1])
        self.counts.exchanges += operator.stages


def rank_operators(comm: Communicator, *options) -> RankOperators:
    """Return `OneSidedOperators` if kernels can write to the memory of other ranks, else `RankOperators`."""
    return (OneSidedOperators if comm.one_sided else RankOperators)(comm, *options)
