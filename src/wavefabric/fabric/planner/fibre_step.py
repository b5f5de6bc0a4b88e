"""Predicts the time per step of light propagation in a multimode fibre, exchanges between ranks included.

The integrators themselves say which operators a step calls; `RankOperators` defines how these are pipelined.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from wavefabric.collectives import Schedule, direct_all_gather
from wavefabric.fabric.planner.step import SolverStep
from wavefabric.fabric.planner.timeline import StepTimeline
from wavefabric.optics.fibre.fibre import Fibre
from wavefabric.optics.propagation.integrators import INTEGRATORS
from wavefabric.optics.propagation.operators import RK4IP_LAST, RK4IP_MIDDLE, ROTATE, ROTATE_RK4
from wavefabric.optics.propagation.operators_ranks import chunks_for
from wavefabric.optics.propagation.phase_groups import (
    PhaseGroupCoupling,
    phase_group_coupling,
    rank_phase_group_coupling,
)
from wavefabric.optics.propagation.rank_modes import RankModes

_LINEAR, _COPY = "linear", "copy"
#: Number of exchanges of powers in each Kerr operator.
_EXCHANGES = {each.name: each.stages for each in (ROTATE, ROTATE_RK4, RK4IP_MIDDLE, RK4IP_LAST)}
_EXCHANGES |= {"phase_rate": 1, "rotate_mean": 0}
#: Fractions of the time of an operator whose powers are exchanged: sums before the first exchange, update
#: after the last (measured with Nsight Compute); the rest couples powers.
_SUMS, _UPDATE = 0.30, 0.62
#: Model of the one kernel that stores powers on other GPUs, fitted on two H200s: the fraction of the transfer
#: time that is hidden, and multiplications per second of the coupling, by bytes per power.
_HIDDEN, _COUPLED = 0.94, {8: 3.4e12, 4: 6.8e12}


class _Field:
    """Stands in for a field array, and records each copy into it."""

    def __init__(self, calls: list[str]):
        self._calls = calls

    def __setitem__(self, where: Any, values: Any) -> None:
        self._calls.append(_COPY)


class _Operators:
    """Stands in for `FibreOperators`: records the names of operators that are called, computes nothing."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def empty(self) -> _Field:
        return _Field(self.calls)

    empty_rates = empty

    def squared_error(self) -> float:
        return 0.0

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: self.calls.append(name.removeprefix("kerr_"))


@lru_cache(maxsize=16)
def operations(integrator: str) -> tuple[str, ...]:
    """Return the operations of one step in order: linear propagations, Kerr operators, copies of a field.

    For an adaptive integrator the step is a trial step.
    """
    operators: Any = _Operators()
    method: Any = INTEGRATORS[integrator](operators)
    (method.trial if method.adaptive else method.step)(operators.empty(), 1.0)
    return tuple(operators.calls)


def kerr_coupling(fibre: Fibre, ranks: RankModes, form: str) -> PhaseGroupCoupling:
    """Return the Kerr coupling of the first rank: dense or factored, or one rank's in any of `KERR_FORMS`."""
    if ranks.ranks == 1:
        return phase_group_coupling(fibre.kappa_rows(), fibre.gamma, form)
    return rank_phase_group_coupling(fibre, ranks, form)


@dataclass(frozen=True)
class FibreStep(SolverStep):
    """Predicts the time of a step of ``integrator``, ``samples`` per row, on the rank with the most modes."""

    coupling: PhaseGroupCoupling
    samples: int
    integrator: str
    ranks: RankModes
    chunks: int | None = None

    @property
    def rows(self) -> int:
        """Return the number of field rows (two per mode) on the first rank, which has the most modes."""
        return self.ranks.row_ends[1]

    @property
    def numbers(self) -> int:
        return self.rows * self.samples

    @cached_property
    def pieces(self) -> list[int]:
        """Return the samples in each time chunk; chunks are pipelined, so that exchanges overlap the work."""
        size = -(-self.samples // (self.chunks or chunks_for(self.samples)))
        return [min(size, self.samples - first) for first in range(0, self.samples, size)]

    @property
    def schedule(self) -> Schedule:
        """Return the schedule that exchanges the powers of one time chunk between all ranks."""
        return self._all_gather(self.pieces[0])

    def _all_gather(self, samples: int) -> Schedule:
        return direct_all_gather([groups * samples for groups in self.coupling.parts])

    @cached_property
    def sent(self) -> float:
        return (self.ranks.ranks - 1) * max(self.coupling.parts)

    def add_to(self, t: StepTimeline) -> None:
        for name in operations(self.integrator):
            if name == _LINEAR:
                t.work(self.rates.linear(self.precision, self.samples, self.rows))
            elif name == _COPY:
                t.work(self.rates.copy(2 * self.numbers * 2 * self.item))
            elif self.exchange is None:
                t.work(self.rates.launch + self._one(name) * self.numbers)
            elif not _EXCHANGES[name]:
                t.work(self._split(name)[0])
            else:
                self._operator(t, name)

    def _one(self, name: str) -> float:
        """Return the time in s per complex number of a Kerr operator on a single rank.

        For a coupling in SVD form it lies between those of the factored and of the dense form.
        """
        coupling, table = self.coupling, (name, self.precision)
        dense, few = (self.rates.kerr(*table, form, "one", self.rows) for form in ("dense", "factored"))
        if coupling.form != "svd":
            return few if coupling.form == "factored" else dense
        return few + (dense - few) * min(1.0, coupling.products / self.rows**2)

    def _split(self, name: str) -> tuple[float, float]:
        """Return two times in s of a Kerr operator on several ranks: sums and update, then coupling."""
        table = name, self.precision
        few = self.rates.kerr(*table, "factored", "split", self.rows)
        couples = few * (1 - _SUMS - _UPDATE)
        if self.coupling.form == "dense":
            couples += self.rates.kerr(*table, "dense", "split", sum(self.coupling.parts)) - few
        return few * (_SUMS + _UPDATE) * self.numbers, max(0.0, couples) * self.numbers

    def _operator(self, t: StepTimeline, name: str) -> None:
        """Add a Kerr operator to the timeline ``t``: sums, then exchanges and couplings in turn, then update.

        Time chunks pass through these as a pipeline. With one-sided kernels it is one kernel beside its
        exchange.
        """
        assert self.exchange is not None
        stages, overhead = _EXCHANGES[name], self.exchange.own.overhead
        if self.exchange.one_sided:
            wire = stages * self.exchange.wire(self._all_gather(self.samples), self.item)
            few = self.rates.kerr(name, self.precision, "factored", "one", self.rows)
            products = stages * max(self.coupling.parts) * sum(self.coupling.parts) * self.samples
            coupling = self.rates.factor * products / _COUPLED[self.item]
            kernel = self.rates.launch + few * self.numbers + coupling
            signals = stages * self.exchange.kernels.signal
            t.beside(max(wire, kernel + (1 - _HIDDEN) * wire) + signals, kernel)
            return
        own, coupling = self._split(name)
        sums, update = (own * part / (_SUMS + _UPDATE) for part in (_SUMS, _UPDATE))
        work = [sums, *[coupling / stages] * (stages - 1), coupling / stages + update]
        for turn in range(len(self.pieces) + stages):
            for stage in range(stages + 1):
                chunk = turn - stage
                if 0 <= chunk < len(self.pieces):
                    piece = self.pieces[chunk]
                    t.finish(f"{stage - 1} {chunk}", overhead)
                    t.work(self.rates.launch + work[stage] * piece / self.samples)
                    if stage < stages:
                        self._start(t, f"{stage} {chunk}", piece)

    def _start(self, t: StepTimeline, name: str, samples: int) -> None:
        assert self.exchange is not None
        parts, others = self.coupling.parts, self.ranks.ranks - 2
        moved = (sum(parts) + others * max(parts)) * samples * self.item
        t.exchange(name, samples, self.rates.copy(self.exchange.passes * moved))

    def exchange_seconds(self, size: float) -> float:
        assert self.exchange is not None
        return self.exchange.seconds(self._all_gather(int(size)), self.item)
