"""Time of a schedule over circuits that are set up round by round."""

from __future__ import annotations

from itertools import groupby

import numpy as np

from wavefabric.collectives.schedule import Schedule
from wavefabric.collectives.structure import batches, checked_structure
from wavefabric.errors import InputError
from wavefabric.fabric.bounds.bound import schedule_bound
from wavefabric.fabric.cost_models.result import Cost, RoundCost, check_sizes
from wavefabric.fabric.electrical.resources import transfer_bytes
from wavefabric.fabric.photonic.budget import LinkBudget, rates
from wavefabric.fabric.photonic.check import check_plan
from wavefabric.fabric.photonic.fabric import PhotonicFabric
from wavefabric.fabric.photonic.plan import Bundle, CircuitPlan, CircuitRound
from wavefabric.fabric.photonic.planning import plan_circuits


def photonic(
    schedule: Schedule,
    fabric: PhotonicFabric,
    element_bytes: float,
    *,
    plan: CircuitPlan | None = None,
    routing: str = "auto",
    sharing: str = "even",
    oversubscribed: str = "split",
    incremental: bool = False,
    seed: int = 0,
    budget: LinkBudget | None = None,
) -> Cost:
    """Time of a schedule over circuits.

    A round costs, for each of its parts, alpha, the synchronisation with the controller, the reconfiguration
    of the switches, and the transfer: the greatest of bytes / (wavelengths × bandwidth of a laser) over its
    pairs. Rounds that stay within ranks cost nothing.

    Parameters
    ----------
    schedule : Schedule
        Rank r is tile r.
    fabric : PhotonicFabric
    element_bytes : float
        B an element.
    plan : CircuitPlan, optional
        For this schedule and fabric; checked first. By default one is made.
    routing, sharing, oversubscribed, seed
        See `planning.plan_circuits`; of no effect if a plan is given.
    incremental : bool
        Reconfigure only where circuits are needed that are not up. By default every part pays, as in the
        LUMORPH paper, so that a ring sets up the same circuits again and again.
    budget : LinkBudget, optional
        Circuits carry what closes over their routes, and no more than `laser_bandwidth` a wavelength. By
        default every circuit carries that, however long, as in the LUMORPH paper ("paths are homogeneous").

    Returns
    -------
    Cost
        `times` give when the circuit of a transfer is up until all between its two ranks in that round is
        there.

    Raises
    ------
    InputError
        For more ranks than tiles, an option that is unknown, a plan that does not carry the schedule, or a
        circuit over which, by `budget`, no rate closes.

    Notes
    -----
    With `incremental`, what is up is what the last part that paid had set up. A part all of whose circuits
    (tiles, wavelengths, route, waveguides) are among those pays nothing. Else all wait for the switches:
    circuits that stay could send on meanwhile, but whether their data is there, and crosstalk of turning
    switches, are not modelled. Circuits of parts before the last are not counted as up, though some could
    have been left alone. So the time is achievable, not the least.

    Examples
    --------
    >>> from wavefabric.collectives.registry import build
    >>> from wavefabric.fabric import load
    >>> from wavefabric.fabric.cost_models.photonic import photonic
    >>> halving = photonic(build("recursive", "all-reduce", 32, 32), load("lightpath"), 2**20)
    >>> f"{halving.seconds * 1e6:.2f} us, {len(halving.rounds)} rounds"
    '245.82 us, 10 rounds'
    """
    checked_structure(schedule)
    check_sizes(schedule, fabric, element_bytes)
    if plan is None:
        plan = plan_circuits(
            schedule, fabric, routing=routing, sharing=sharing, oversubscribed=oversubscribed, seed=seed
        )
    else:
        _same_grid(plan.fabric, fabric)
        check_plan(plan, schedule)
    clock = _Clock(schedule, fabric, plan, incremental, budget)
    clock.run(transfer_bytes(schedule, element_bytes))
    sent = np.bincount(clock.sender, clock.amount, 1)
    received = np.bincount(clock.receiver, clock.amount, 1)
    verb, amount = ("receives", received) if received.max() > sent.max() else ("sends", sent)
    return Cost(
        schedule=schedule.name,
        fabric=fabric.name,
        model="photonic",
        seconds=clock.now,
        rounds=tuple(clock.rounds),
        bound=schedule_bound(schedule, fabric, element_bytes, incremental=incremental),
        times=clock.times,
        busiest=f"tile {int(amount.argmax())} {verb}" if clock.rounds else "nothing",
    )


class _Clock:
    """Rounds one after the other."""

    def __init__(
        self,
        schedule: Schedule,
        fabric: PhotonicFabric,
        plan: CircuitPlan,
        incremental: bool,
        budget: LinkBudget | None,
    ):
        self.schedule, self.fabric, self.incremental, self.budget = schedule, fabric, incremental, budget
        self.parts = {number: list(of) for number, of in groupby(plan.rounds, key=lambda part: part.round)}
        self.now = 0.0
        self.rounds: list[RoundCost] = []
        self.times = np.zeros((schedule.transfers.size, 2))
        self.up: frozenset[Bundle] = frozenset()
        self._pairs: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}

    def run(self, size: np.ndarray) -> None:
        t, ranks = self.schedule.transfers, self.schedule.ranks
        remote = t["src"] != t["dst"]
        self.sender, self.receiver, self.amount = t["src"][remote], t["dst"][remote], size[remote]
        key = t["src"].astype(np.int64) * ranks + t["dst"]
        for first, last in batches(t["round"]):
            self.times[first:last] = self.now
            there = first + np.flatnonzero(remote[first:last])
            if there.size:
                self._round(int(t["round"][first]), there, key[there], size[there])

    def _round(self, number: int, there: np.ndarray, key: np.ndarray, size: np.ndarray) -> None:
        pairs, pair = np.unique(key, return_inverse=True)
        amount = np.bincount(pair, size)
        begin, setup, transfer, limit, most = self.now, 0.0, 0.0, "", -1.0
        parts = self.parts[number]
        for part in parts:
            setup += self._set_up(part)
            ends, lasers, speed = self._circuits(part)
            mine = np.searchsorted(pairs, ends)
            seconds = amount[mine] / speed
            slowest = int(seconds.argmax())
            own = np.full(pairs.size, np.nan)
            own[mine] = seconds
            carried = ~np.isnan(own[pair])
            start = begin + setup + len(parts[: part.part + 1]) * self._fixed + transfer
            self.times[there[carried], 0] = start
            self.times[there[carried], 1] = start + own[pair][carried]
            transfer += float(seconds[slowest])
            if seconds[slowest] > most:
                most = float(seconds[slowest])
                s, d = divmod(int(ends[slowest]), self.schedule.ranks)
                limit = (
                    f"circuit {s} -> {d}, {lasers[slowest]} wavelength{'s' if lasers[slowest] > 1 else ''}"
                )
        latency = len(parts) * self._fixed
        self.now = begin + latency + setup + transfer
        total = float(amount.sum())
        seconds = latency + setup + transfer
        self.rounds.append(RoundCost(number, len(parts), seconds, latency, setup, transfer, total, limit))

    @property
    def _fixed(self) -> float:
        return self.fabric.alpha + self.fabric.synchronisation

    def _set_up(self, part: CircuitRound) -> float:
        """s that the switches take."""
        if not self.incremental:
            return self.fabric.reconfiguration
        wanted = frozenset(part.bundles)
        if wanted <= self.up:
            return 0.0
        self.up = wanted
        return self.fabric.reconfiguration

    def _circuits(self, part: CircuitRound) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Pairs of a part (source × ranks + destination, ascending), wavelengths and B/s of each."""
        known = self._pairs.get(id(part.bundles))
        if known is None:
            ends = np.array([b.src * self.schedule.ranks + b.dst for b in part.bundles])
            lasers = np.array([b.lasers for b in part.bundles])
            pairs, pair = np.unique(ends, return_inverse=True)
            total = np.bincount(pair, lasers).astype(np.int64)
            speed = total * self.fabric.laser_bandwidth
            if self.budget is not None:
                speed = np.bincount(pair, lasers * self._rates(part, self.budget))
            known = self._pairs[id(part.bundles)] = pairs, total, speed
        return known

    def _rates(self, part: CircuitRound, budget: LinkBudget) -> np.ndarray:
        """B/s of one wavelength of each bundle."""
        closing = rates(self.fabric, [b.route for b in part.bundles], budget)
        if not closing.all():
            dark = part.bundles[int(closing.argmin())]
            raise InputError(
                f"budget: round {part.round}: circuit {dark.src} -> {dark.dst} carries nothing over"
                f" {len(dark.route) - 1} edges; allowed: losses with which some rate closes"
            )
        return np.minimum(closing, self.fabric.laser_bandwidth)


def _same_grid(given: PhotonicFabric, fabric: PhotonicFabric) -> None:
    """Refuse a plan for tiles, wavelengths or waveguides that the fabric does not have."""
    for key in ("rows", "columns", "wafer_rows", "wafer_columns", "lasers", "ports", "waveguides", "fibres"):
        if getattr(given, key) != getattr(fabric, key):
            raise InputError(
                f"plan: {getattr(given, key)} {key}; allowed: the {getattr(fabric, key)} of {fabric.name}"
            )
