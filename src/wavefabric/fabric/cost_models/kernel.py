"""Predicts the time of a schedule that one kernel per GPU runs as an execution plan."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from wavefabric.collectives.plans.check import run_order
from wavefabric.collectives.plans.moves import STAGING, Move, kind_of
from wavefabric.collectives.plans.order import Signal, Wait
from wavefabric.collectives.plans.plan import ExecutionPlan, compile_plan, protocols_for
from wavefabric.collectives.schedule import Schedule
from wavefabric.fabric.bounds.bound import bounds
from wavefabric.fabric.cost_models.cost import Cost, check_sizes, kernel_times
from wavefabric.fabric.electrical.fabric import Fabric, KernelTimes
from wavefabric.fabric.electrical.flows import Tree, with_trees
from wavefabric.fabric.electrical.static_routes import resource_use

#: Bytes of a packet per byte of data.
_PACKED = 2.0


def kernel(
    schedule: Schedule,
    fabric: Fabric,
    element_bytes: float,
    *,
    protocol: str = "auto",
    slots: int | None = None,
    graph: bool = False,
) -> Cost:
    """Return the time per call of a schedule run as one kernel per GPU, call after call without pause.

    The model simulates the execution plan of all ranks with the times of `Fabric.kernels`. An instruction is
    a move of data, a signal, or a wait. The moves of a rank up to its next signal or wait run together, and
    take as long as the busiest of these resources: links and total send and receive rates of GPUs, shared by
    the moves of all ranks in one level of the plan (moves that can run at once); `KernelTimes.bandwidth` to
    each other GPU; the GPU's own memory.

    A signal arrives `KernelTimes.signal` plus the latency of its route after the moves before it. Moves of
    data that a signal announced take `KernelTimes.move` longer. Packets carry flags beside the data, so they
    need no signal, but take twice the bytes. A packet arrives `KernelTimes.packet` plus the latency of its
    route after its move.

    Stores reach `KernelTimes.bandwidth` rather than a link's bandwidth, because links carry packet headers
    too. The load of headers on links counts only where a switch multicasts or adds. The GPU that reads a sum
    sends requests of one header each to all GPUs. The data come after a round trip, which takes
    `KernelTimes.packet` and twice the latency, because no measurement separates requests from data.

    Blocks share all resources evenly, so their number does not matter. Levels of the plan may overlap and
    then share resources: a call takes at least the time in which the busiest resource carries all its bytes,
    plus one signal or packet.

    ``protocol`` and ``slots`` are as in `compile_plan`; ``"auto"`` takes the faster protocol. With ``graph``
    a CUDA graph launches the calls. Without it a gap follows each call, and a call takes at least the time in
    which a host launches it. `Cost.busiest` names the protocol. `InputError` as in `compile_plan`, and if the
    fabric has no data on kernels.
    """
    times = kernel_times(fabric)
    check_sizes(schedule, fabric, element_bytes)
    result = []
    for name in protocols_for(schedule) if protocol == "auto" else (protocol,):
        plan = compile_plan(schedule, name, slots if name == "signals" or protocol != "auto" else None)
        result.append((plan_seconds(plan, fabric, element_bytes, graph), name))
    seconds, name = min(result)
    words = "host that launches" if not graph and seconds == times.issue else f"kernels of {name}"
    # Lower bound for kernels: a round takes at least the quicker of signal and packet. The fabric's
    # ``flow_bandwidth`` describes copy engines, not kernels.
    free = dict.fromkeys(("reduce_alpha", "round_overhead", "peer_overhead", "reduce_overhead"), 0.0)
    free |= {"alpha": min(times.signal, times.packet), "flow_bandwidth": times.bandwidth}
    least, unaided = bounds(schedule, replace(fabric, reduce_bandwidth=None, **free), element_bytes)
    return Cost(schedule.name, fabric.name, "kernel", seconds, (), least, None, words, unaided)


class PlanEvent(NamedTuple):
    """Describes what a rank does during an interval of time (s): moves of data, waits, messages on the way.

    ``kind`` is ``"put"``, ``"add"``, ``"add and put"`` or ``"copy"`` (moves of ``nbytes`` bytes), ``"wait"``,
    or ``"signal"`` or ``"packets"`` (messages on the way to the rank ``peer``).
    """

    kind: str
    rank: int
    begin: float
    end: float
    peer: int = -1
    nbytes: float = 0.0


def plan_events(plan: ExecutionPlan, fabric: Fabric, element_bytes: float) -> list[PlanEvent]:
    """Simulate one call of an execution plan by the model `kernel`; return what each rank does when."""
    replay = _Replay(plan, fabric, kernel_times(fabric), element_bytes)
    replay.seconds()
    return replay.events


def plan_seconds(plan: ExecutionPlan, fabric: Fabric, element_bytes: float, graph: bool) -> float:
    """Return the time per call of an execution plan by the model `kernel`, which tells of ``graph``."""
    times = kernel_times(fabric)
    issue, gap = (0.0, 0.0) if graph else (times.issue, times.gap)
    return max(_Replay(plan, fabric, times, element_bytes).seconds() + gap, issue)


def _trees(move: Move) -> list[tuple[Tree, bool]]:
    """Return the switch operations (sums, multicasts) of a move, each with whether it carries only requests.

    A sum in a switch has two: the data, and the requests for them, which go to all summed ranks.
    """
    trees = []
    if move.summed:
        members = tuple(sorted(address.rank for address in move.sources))
        trees += [((True, move.rank, members), False), ((False, move.rank, members), True)]
    if move.multicast:
        trees.append(((False, move.rank, tuple(sorted(address.rank for address in move.targets))), False))
    return [(tree, asks) for tree, asks in trees if set(tree[2]) != {move.rank}]


class _Replay:
    """Simulates one call of an execution plan: the moves, signals and waits of all ranks through time."""

    def __init__(self, plan: ExecutionPlan, fabric: Fabric, times: KernelTimes, element_bytes: float):
        self._plan, self._times, self._bytes = plan, times, element_bytes
        ranks = plan.schedule.ranks
        moves = [move for move in plan.moves if not move.multicast]
        pairs = {(move.rank, target.rank) for move in moves for target in move.targets} | set(plan.signals)
        # The first rank of a pair stores in the second rank's memory, or sends a signal there.
        pairs = sorted(pair for pair in pairs if pair[0] != pair[1])
        self._pairs = {pair: number for number, pair in enumerate(pairs)}
        use = resource_use(fabric, *np.array(pairs, np.int64).reshape(-1, 2).T)
        trees = dict.fromkeys(tree for move in plan.moves for tree, _ in _trees(move))
        self._trees = {tree: len(pairs) + number for number, tree in enumerate(trees)}
        self._use = with_trees(use, list(trees))
        #: Resources and fractions per route: of a pair of ranks, or of a switch operation.
        ends = np.searchsorted(self._use.pair, np.arange(1, self._use.latency.size))
        self._resources = np.split(self._use.resource, ends)
        self._fractions = np.split(self._use.fraction, ends)
        self._loads = self._level_loads()
        self._now = [0.0] * ranks
        self._sent: dict[tuple[int, int], list[float]] = defaultdict(list)
        self._here: dict[int, float] = {}  # staging buffer → time when its packets have arrived
        self.events: list[PlanEvent] = []

    def seconds(self) -> float:
        """Simulate the call; return the time in s, launch included, until the last rank is done."""
        done = [0] * len(self._now)  # instructions of each rank up to the last of its moves
        for rank, _, number, does in run_order(self._plan, 1):
            if isinstance(does, Move):
                if number >= done[rank]:
                    moves = self._together(self._plan.instructions[rank], number)
                    self._move(rank, moves)
                    done[rank] = number + len(moves)
            elif isinstance(does, Signal):
                for peer in does.to:
                    there = self._now[rank] + self._times.signal + self._latency(rank, peer)
                    self._sent[rank, peer].append(there)
                    self.events.append(PlanEvent("signal", rank, self._now[rank], there, peer))
            elif isinstance(does, Wait):
                self._wait(rank, max(self._sent[peer, rank][count - 1] for peer, count in does.signals))
        least = 0.0  # total time of the busiest resource
        if self._loads:
            least = self._times.packet if self._plan.packets else self._times.signal
            least += float(np.sum(list(self._loads.values()), axis=0).max())
        return self._times.launch + max(least, *self._now)

    def _remote(self, move: Move) -> list[tuple[int, float]]:
        """Return (rank, bytes) for each other rank to which a move writes without multicast."""
        if move.multicast:
            return []
        data = move.size * self._bytes
        return [(p.rank, data * self._packing(p)) for p in move.targets if p.rank != move.rank]

    def _packed(self, address) -> bool:
        return self._plan.packets and address.buffer == STAGING

    def _packing(self, address) -> float:
        return _PACKED if self._packed(address) else 1.0

    def _level_loads(self) -> dict[tuple[int, int], np.ndarray]:
        """Return for how many s each link or port is busy with the moves of each (level, phase) of the plan.

        The result is a dictionary from (level, phase) to an array over links and ports. Moves that can run at
        once form a level, which has two phases: moves of phase 0 come first.
        """
        capacity = self._use.capacity
        loads: dict[tuple[int, int], np.ndarray] = defaultdict(lambda: np.zeros(capacity.size))
        for move in self._plan.moves:
            for peer, nbytes in self._remote(move):
                pair = self._pairs[move.rank, peer]
                used = self._resources[pair]
                loads[move.level, move.phase][used] += nbytes * self._fractions[pair] / capacity[used]
            for used, seconds in self._switched(move):
                np.add.at(loads[move.level, move.phase], used, seconds)
        return loads

    def _switched(self, move: Move) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the links and ports of each switch operation of a move, and their busy times in s."""
        size, rate = move.size * self._bytes, self._times.bandwidth
        for tree, asks in _trees(move):
            used, data = self._resources[self._trees[tree]], size * self._fractions[self._trees[tree]]
            each = 1 / self._use.capacity[used]
            header = np.where(used < self._use.wires.source.size, np.maximum(1 / rate - each, 0.0), 0.0)
            yield used, data * (header if asks else np.maximum(each, 1 / rate))

    def _duration(self, moves: Sequence[Move]) -> float:
        local, busy = 0.0, 0.0  # bytes that the rank reads and writes in its own memory; s
        to: dict[int, float] = defaultdict(float)
        for move in moves:
            own = (address for address in (*move.sources, *move.targets) if address.rank == move.rank)
            local += move.size * self._bytes * sum(map(self._packing, own))
            routes = [self._trees[tree] for tree, _ in _trees(move)]
            for peer, nbytes in self._remote(move):
                to[peer] += nbytes
                routes.append(self._pairs[move.rank, peer])
            for route in routes:
                load = self._loads[move.level, move.phase][self._resources[route]]
                busy = max(busy, float(load.max()))
        remote = (nbytes / self._times.bandwidth for nbytes in to.values())
        return max([local / self._times.memory, busy, *remote])

    def _before_first_byte(self, move: Move) -> float:
        """Return the delay in s before a move's first byte, due to a signal or a request to a switch."""
        if move.summed:
            latency = max((self._use.latency[self._trees[tree]] for tree, _ in _trees(move)), default=0.0)
            return self._times.packet + 2 * float(latency)
        return self._times.move if move.level and not self._plan.packets else 0.0

    def _together(self, code, at: int) -> list[Move]:
        """Return the moves that run together from ``code[at]`` on: the next ones of its level and phase.

        A move that reads packets begins a new group. ``code``: all instructions of a rank.
        """
        moves = [code[at]]
        for each in code[at + 1 :]:
            like = isinstance(each, Move) and (each.level, each.phase) == (moves[0].level, moves[0].phase)
            if not like or any(map(self._packed, each.sources)):
                break
            moves.append(each)
        return moves

    def _move(self, rank: int, moves: list[Move]) -> None:
        """Run ``moves`` together on ``rank``: advance its time to their end and record their events.

        They end after their duration, but not before the packets that they read have arrived.
        """
        lasts = self._duration(moves) + max(map(self._before_first_byte, moves))
        arrived = (self._here[address.key] for address in moves[0].sources if self._packed(address))
        end = max([self._now[rank] + lasts, *arrived])
        self._wait(rank, end - lasts)
        data = sum(move.size for move in moves) * self._bytes
        self.events.append(PlanEvent(kind_of(moves), rank, self._now[rank], end, nbytes=data))
        for move in moves:
            for address in move.targets:
                if self._packed(address):
                    there = end + self._times.packet + self._latency(rank, address.rank)
                    self._here[address.key] = there
                    self.events.append(PlanEvent("packets", rank, end, there, address.rank))
        self._now[rank] = end

    def _wait(self, rank: int, until: float) -> None:
        if until > self._now[rank]:
            self.events.append(PlanEvent("wait", rank, self._now[rank], until))
            self._now[rank] = until

    def _latency(self, src: int, dst: int) -> float:
        return float(self._use.latency[self._pairs[src, dst]])
