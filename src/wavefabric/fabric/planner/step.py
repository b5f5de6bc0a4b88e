"""Describes one time step of a solver on its busiest rank, as work and exchanges on a timeline."""

from dataclasses import dataclass, replace
from typing import Self

from wavefabric.collectives import Schedule
from wavefabric.fabric.planner.exchange_times import ExchangeTimes, host_launch
from wavefabric.fabric.planner.rates import SolverRates
from wavefabric.fabric.planner.timeline import StepEvents, StepTimeline, StepTimes, steady_step


@dataclass(frozen=True, kw_only=True)
class SolverStep:
    """Base class of the steps of the solvers, whose one kind of exchange is repeated in several sizes."""

    precision: str
    rates: SolverRates
    #: Times of exchanges; None for a single rank.
    exchange: ExchangeTimes | None = None

    def add_to(self, t: StepTimeline) -> None:
        """Add the work and the exchanges of one step to the timeline ``t``, in the solver's order."""
        raise NotImplementedError

    def exchange_seconds(self, size: float) -> float:
        """Return the time in s of an exchange of ``size`` fields (ultrasound) or samples (light)."""
        raise NotImplementedError

    @property
    def schedule(self) -> Schedule:
        """Return the schedule that the step exchanges most often."""
        raise NotImplementedError

    @property
    def sent(self) -> float:
        """Return the number of elements that the busiest rank sends in an exchange of size 1."""
        raise NotImplementedError

    @property
    def item(self) -> int:
        """Return the bytes per real number."""
        return 4 if self.precision == "single" else 8

    def by(self, exchange: ExchangeTimes | None) -> Self:
        """Return the same step with another ``exchange``; None for a single rank."""
        return replace(self, exchange=exchange)

    def times(self) -> StepTimes:
        """Return the time of a step, divided into computation, packing and exposed exchange."""
        return steady_step(self.add_to, host_launch(self.exchange, self.rates), self.exchange_seconds)

    def events(self) -> list[tuple[str, str, float]]:
        """Return the work and the exchanges of a step in order, as `StepEvents`, with exchanges by copies."""
        step, events = self, StepEvents()
        if self.exchange is not None and self.exchange.one_sided:
            step = self.by(replace(self.exchange, carrier="p2p"))
        step.add_to(events)
        return events.events

    @property
    def bytes_sent(self) -> float:
        """Return the bytes per step sent by the busiest rank."""
        return self.sent * self.item * sum(size for kind, _, size in self.events() if kind == "exchange")
