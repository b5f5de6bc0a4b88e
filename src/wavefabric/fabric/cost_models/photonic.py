"""Predicts the time of a schedule on a photonic fabric, whose circuits are set up round by round."""

from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np

from wavefabric.base.errors import InputError, ensure
from wavefabric.base.units import counted
from wavefabric.collectives.schedule import Schedule
from wavefabric.collectives.structure import batches
from wavefabric.fabric.bounds.bound import schedule_bound
from wavefabric.fabric.cost_models.cost import Cost, RoundCost, check_sizes
from wavefabric.fabric.electrical.static_routes import transfer_bytes
from wavefabric.fabric.photonic.budget import rates
from wavefabric.fabric.photonic.check import check_plan, check_reconfiguration
from wavefabric.fabric.photonic.circuit_plan import Bundle, CircuitPlan, CircuitRound
from wavefabric.fabric.photonic.fabric import PhotonicFabric
from wavefabric.fabric.photonic.link_budget import LinkBudget
from wavefabric.fabric.photonic.planning import plan_circuits
from wavefabric.fabric.photonic.reconfiguration.plan import ReconfigurationPlan, plan_reconfiguration

#: Attributes in which a plan's fabric and the given fabric must agree.
_GRID = ("rows", "columns", "wafer_rows", "wafer_columns", "lasers", "ports", "waveguides", "fibres")
RECONFIGURE = ("always", "never", "best")  # set up for every part of a round, once, or as is fastest


def photonic(
    schedule: Schedule,
    fabric: PhotonicFabric,
    element_bytes: float,
    *,
    plan: CircuitPlan | None = None,
    incremental: bool = False,
    budget: LinkBudget | None = None,
    reconfigure: str = "always",
    **planning: Any,
) -> Cost:
    """Return the time of a schedule over circuits between tiles; rank r is tile r.

    A round whose circuits do not fit at once is split into parts, which run one after the other. A part takes
    the latency alpha, the synchronisation with the controller, the reconfiguration of the switches, and the
    transfer time of its slowest pair of tiles: bytes ÷ (wavelengths × bandwidth of a laser). Rounds without
    transfers between ranks take no time.

    ``plan``, a circuit plan for this schedule and fabric, is checked first; by default
    `planning.plan_circuits` makes one with the options ``planning``. With a link ``budget`` a circuit carries
    the highest rate that closes over its route, at most `laser_bandwidth` per wavelength; `InputError` if no
    rate closes. Without a budget every circuit carries `laser_bandwidth`, whatever its length, as in the
    LUMORPH paper ("paths are homogeneous"). `Cost.times` spans each transfer from when its circuit is up
    until all data between the two ranks in the round have arrived.

    By default circuits are set up for every part, as in the paper, even if they are up already, as in a ring.
    With ``incremental`` nothing is set up for a part whose circuits are all up since the last set-up. Any
    other part waits for the switches; unchanged circuits are not modelled as sending meanwhile. With
    ``reconfigure`` ``"never"`` or ``"best"`` circuits are set up once, or when that is fastest
    (`plan_reconfiguration`).

    Examples
    --------
    >>> from wavefabric.collectives.registry import build
    >>> from wavefabric.fabric import load
    >>> from wavefabric.fabric.cost_models.photonic import photonic
    >>> halving = photonic(build("recursive", "all-reduce", 32, 32), load("lightpath"), 2**20)
    >>> f"{halving.seconds * 1e6:.2f} us, {len(halving.rounds)} rounds"
    '245.82 us, 10 rounds'
    """
    check_sizes(schedule, fabric, element_bytes)
    if reconfigure not in RECONFIGURE or (reconfigure != "always" and (plan or incremental or budget)):
        allowed = f"{', '.join(RECONFIGURE)}; without plan, incremental and budget unless always"
        raise InputError(f"reconfigure: {reconfigure!r} given; allowed: {allowed}")
    if reconfigure != "always" and schedule.communication_rounds:
        chosen = plan_reconfiguration(schedule, fabric, element_bytes, reconfigure == "best", **planning)
        return _reconfigured(schedule, chosen, element_bytes)
    if plan is None:
        plan = plan_circuits(schedule, fabric, **planning)
    else:
        for key in _GRID:
            here, there = getattr(plan.fabric, key), getattr(fabric, key)
            ensure(here == there, "plan", f"{here} {key}", f"the {there} of {fabric.name}")
        check_plan(plan, schedule)
    clock = _Clock(schedule, fabric, incremental, budget)
    t, size = schedule.transfers, transfer_bytes(schedule, element_bytes)
    remote, key = t["src"] != t["dst"], t["src"].astype(np.int64) * schedule.ranks + t["dst"]
    parts = {number: list(of) for number, of in groupby(plan.rounds, key=lambda part: part.round)}
    for first, last in batches(t["round"]):
        clock.times[first:last] = clock.now
        there = first + np.flatnonzero(remote[first:last])
        if there.size:
            clock.round(parts[int(t["round"][first])], there, key[there], size[there])
    sent, received = (np.bincount(t[end][remote], size[remote], 1) for end in ("src", "dst"))
    verb, amount = ("receives", received) if received.max() > sent.max() else ("sends", sent)
    return Cost(
        schedule.name,
        fabric.name,
        "photonic",
        seconds=clock.now,
        rounds=tuple(clock.rounds),
        bound=schedule_bound(schedule, fabric, element_bytes, incremental=incremental),
        times=clock.times,
        busiest=f"tile {int(amount.argmax())} {verb}" if clock.rounds else "nothing",
    )


def _reconfigured(schedule: Schedule, plan: ReconfigurationPlan, element_bytes: float) -> Cost:
    """Return the cost of a schedule over circuits that stay up between rounds; `Cost.times` is None."""
    check_reconfiguration(plan, schedule, element_bytes)
    t, rounds, hop = schedule.transfers, [], plan.fabric.alpha
    size = transfer_bytes(schedule, element_bytes) * (t["src"] != t["dst"])
    for number, group in groupby(plan.rounds, key=lambda part: part[0]):
        _, _, steps, topologies, paths = zip(*group, strict=True)
        seconds, wait = steps[-1].end - steps[0].begin, sum(s.wait for s in steps if s.wait > 1e-9 * s.end)
        latency = hop * sum(max(map(len, each)) - 1 for each in paths)
        costs = seconds, latency, wait, seconds - latency - wait, float(size[t["round"] == number].sum())
        limit = "; ".join(f"{s.choice}: {name}" for s, name in zip(steps, topologies, strict=True))
        rounds.append(RoundCost(number, len(steps), *costs, limit))
    fabric = replace(plan.fabric, synchronisation=0.0)  # part of each set-up, not of each round
    bound = schedule_bound(schedule, fabric, element_bytes, incremental=True)
    results = "photonic", plan.seconds, tuple(rounds), bound, None
    return Cost(schedule.name, fabric.name, *results, max(rounds, key=lambda r: r.seconds).limit, None, plan)


class _Clock:
    """Adds up the times of a schedule's rounds, which run one after the other over circuits."""

    def __init__(
        self, schedule: Schedule, fabric: PhotonicFabric, incremental: bool, budget: LinkBudget | None
    ):
        self.schedule, self.fabric, self.incremental, self.budget = schedule, fabric, incremental, budget
        self.now = 0.0
        self.rounds: list[RoundCost] = []
        self.times = np.zeros((schedule.transfers.size, 2))
        self.up: frozenset[Bundle] = frozenset()
        self._circuits_of: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}

    def round(self, parts: list[CircuitRound], there: np.ndarray, key: np.ndarray, size: np.ndarray) -> None:
        """Add the time of a round, whose circuits are set up in ``parts``.

        ``there``: indices of its transfers between ranks; ``key``: source × ranks + destination of each of
        these; ``size``: bytes of each.
        """
        pairs, pair = np.unique(key, return_inverse=True)
        amount = np.bincount(pair, size)
        fixed = self.fabric.alpha + self.fabric.synchronisation
        begin, setup, transfer, limit, most = self.now, 0.0, 0.0, "", -1.0
        for number, part in enumerate(parts, 1):
            wanted = frozenset(part.bundles) if self.incremental else None
            if wanted is None or not wanted <= self.up:
                setup, self.up = setup + self.fabric.reconfiguration, wanted or self.up
            ends, lasers, speed = self._circuits(part)
            mine = np.searchsorted(pairs, ends)
            seconds = amount[mine] / speed
            slowest = int(seconds.argmax())
            own = np.full(pairs.size, np.nan)
            own[mine] = seconds
            carried = ~np.isnan(own[pair])
            start = begin + setup + number * fixed + transfer
            self.times[there[carried], 0] = start
            self.times[there[carried], 1] = start + own[pair][carried]
            transfer += float(seconds[slowest])
            if seconds[slowest] > most:
                most = float(seconds[slowest])
                s, d = divmod(int(ends[slowest]), self.schedule.ranks)
                limit = f"circuit {s} -> {d}, {counted(lasers[slowest], 'wavelength')}"
        latency, total = len(parts) * fixed, float(amount.sum())
        self.now = begin + latency + setup + transfer
        costs = latency + setup + transfer, latency, setup, transfer
        self.rounds.append(RoundCost(parts[0].round, len(parts), *costs, total, limit))

    def _circuits(self, part: CircuitRound) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return arrays on the pairs of tiles with circuits in a part: pair, number of wavelengths, B/s.

        A pair is the number source × ranks + destination; pairs are ascending.
        """
        if id(part.bundles) not in self._circuits_of:
            ends = np.array([b.src * self.schedule.ranks + b.dst for b in part.bundles])
            lasers = np.array([b.lasers for b in part.bundles])
            pairs, pair = np.unique(ends, return_inverse=True)
            total = np.bincount(pair, lasers).astype(np.int64)
            speed = total * self.fabric.laser_bandwidth
            if self.budget is not None:
                closing = rates(self.fabric, [b.route for b in part.bundles], self.budget)
                if not closing.all():
                    dark = part.bundles[int(closing.argmin())]
                    fault = f"{dark.src} -> {dark.dst} carries nothing over {len(dark.route) - 1} edges"
                    allowed = "losses with which some rate closes"
                    raise InputError(f"budget: round {part.round}: circuit {fault}; allowed: {allowed}")
                speed = np.bincount(pair, lasers * np.minimum(closing, self.fabric.laser_bandwidth))
            self._circuits_of[id(part.bundles)] = pairs, total, speed
        return self._circuits_of[id(part.bundles)]
