"""Measures the fabric between ranks: times exchanges on its links, and fits latencies and bandwidths."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import permutations
from typing import Any

import numpy as np

from wavefabric.base.errors import InputError, ensure
from wavefabric.collectives import TRANSFER, Schedule, point_to_point
from wavefabric.collectives.plans.plan import PROTOCOLS, compile_plan
from wavefabric.collectives.structure import NAMES, is_name
from wavefabric.fabric.cost_models.bus_bandwidth import most_elements
from wavefabric.fabric.electrical.fabric import KernelTimes
from wavefabric.fabric.execution import fitted_fabric
from wavefabric.fabric.execution.timed_schedule import GRAPHED
from wavefabric.fabric.execution.timing import Ranks, check_options, timed
from wavefabric.runtime.exchange.transports.plan_code import staging_bytes

#: Formats fitted lines and fabrics of a result as tables.
table = fitted_fabric.table

_KIB, _MIB = 1 << 10, 1 << 20
#: Bytes per message by kind of device: closer together where the host is no longer the limit.
SIZES = {
    "cpu": tuple(4 * _KIB << 2 * i for i in range(6)),
    "cuda": (4 * _KIB, 64 * _KIB, 256 * _KIB, *(_MIB << i for i in range(9))),
}
#: Exchanges of one round between all ranks.
PATTERNS = ("ring", "both", "one-to-all", "all-to-one", "all-to-all")
#: Numbers of rounds in two chains; the difference of their times is the cost of rounds alone.
_FEW, _MANY = 2, 6
#: With more than `_PAIRS` pairs, only the largest `_PAIR_SIZES` sizes are measured between pairs.
_PAIRS, _PAIR_SIZES = 12, 4
_WORD = 4
#: Transports whose hosts do not wait while a schedule runs.
_AHEAD = ("p2p", "nccl")
#: Seconds per sample: shorter than in a benchmark, since there are many.
_SAMPLE = 0.04


def run(
    ranks: Ranks,
    sizes: Sequence[int] = (),
    repeats: int = 5,
    name: str = "measured",
    progress: Callable[[str], None] | None = None,
    residual: float = fitted_fabric.RESIDUAL,
) -> dict[str, Any]:
    """Time exchanges between all ranks, and fit a fabric to the times, as TOML text; all ranks must call it.

    These exchanges are timed:

    - one round: each ordered pair alone (``pairs``), each rank to the next (``ring``), to both neighbours
      (``both``), one to all, all to one, all to all;
    - relays, in which each rank passes to the next what it received in the round before. The difference
      between 6 and 2 rounds gives the cost of a round in a schedule (``round``);
    - additions on all devices at once, evaluated in the same manner (``add``);
    - over P2P, kernels that run execution plans (`kernel_times`).

    At the smallest size the cost of sending to one more rank is derived too (``peer``). Lines t = α +
    bytes/bandwidth are fitted to the times. Over P2P and NCCL, where hosts run ahead of their GPUs, t is at
    least the host's time to issue a round (``floor``). Lines with |fitted − measured|/measured above
    ``residual`` are reported as misfits.
    """
    ensure(ranks.size >= 2, "ranks", f"{ranks.size} given", "2 or more")
    check_options(repeats, sizes, _WORD)
    if sizes and len(set(sizes)) < 2:
        raise InputError(f"sizes: {sizes[0]} bytes alone given; allowed: two sizes or more")
    ensure(0 < residual < float("inf"), "residual", f"{residual} given", "above 0")
    ensure(is_name(name), "name", f"{name!r} given", NAMES)
    chosen = sorted(set(sizes)) or list(SIZES["cuda" if ranks.on_gpu else "cpu"])
    # Chunks of a relay or of one-to-all, and of all-to-one.
    parts = max(_MANY + 1, ranks.size - 1) + ranks.size - 1
    ranks.check_memory(parts * chosen[-1], f"sizes: {chosen[-1]} bytes")
    sample, ranks.sample = ranks.sample, _SAMPLE
    machine, cases = ranks.machine(), []
    try:
        for comm in ranks.each():
            case = _Measurement(ranks, comm, chosen, repeats, progress or (lambda line: None)).case()
            command = f"wavefabric fabric measure --ranks {ranks.size} --transport {comm.transport}"
            if sizes:
                command += f" --sizes {','.join(map(str, chosen))}"
            case["kernels"] = fitted_fabric.reliable_kernels(case["kernels"], residual)
            case["rough"] = fitted_fabric.rough(case, residual)
            case["fabric"] = fitted_fabric.fabric_of(case, ranks.size, ranks.on_gpu, name, machine, command)
            case["misfits"] = fitted_fabric.misfits(case, residual)
            cases.append(case)
    finally:
        ranks.sample = sample
    return {
        "benchmark": "fabric-measure",
        "name": name,
        "ranks": ranks.size,
        "repeats": repeats,
        "sizes": chosen,
        "residual": residual,
        "fabric": cases[0]["fabric"] if cases else None,
        "cases": cases,
        "unavailable": ranks.unavailable,
        "machine": machine,
    }


class _Measurement:
    """Measures all times of one transport."""

    def __init__(self, ranks: Ranks, comm, sizes: list[int], repeats: int, say: Callable[[str], None]):
        self.ranks, self.comm, self.sizes, self.repeats, self.say = ranks, comm, sizes, repeats, say
        self._ahead = comm.transport in _AHEAD
        # All times but those of kernels are for the copy engines, whatever the environment sets.
        self._protocol = "copies" if "copies" in comm.protocols else "auto"
        most, others = sizes[-1] // _WORD, ranks.size - 1
        # One buffer, divided differently for each schedule; zeros, which remain zeros when added.
        parts = (max(_MANY + 1, others), others)
        self._memory = [comm.allocate((count * most,), "float32") for count in parts]
        for buffer in self._memory:
            buffer[...] = 0
        comm.device.synchronize()
        ranks.control.barrier()

    def case(self) -> dict[str, Any]:
        size, patterns = self.ranks.size, {}
        for name in PATTERNS if size > 2 else ("ring",):
            patterns[name] = self._fitted(name, self.sizes, lambda n, name=name: pattern(name, size, n))
        patterns["round"] = self._rounds("round", relay)
        patterns["add"] = self._rounds("additions", additions)
        patterns["peer"] = {"us": 0.0}
        if size > 2:
            ring, everybody = (patterns[name]["rows"][0]["us"] for name in ("ring", "all-to-all"))
            patterns["peer"]["us"] = max(0.0, (everybody - ring) / (size - 2))
        facts = {"transport": self.comm.transport, "patterns": patterns}
        return {**facts, "pairs": self._pairs(), "kernels": self._kernels(), "facts": self.comm.describe()}

    def _kernels(self) -> dict[str, Any] | None:
        """Return the result of `kernel_times`, or ``why_not`` if packets need more memory than there is."""
        if "packets" in self.comm.protocols:
            plan = compile_plan(relay(self.ranks.size, self.sizes[-1] // _WORD, _MANY), "packets")
            needed = 2 * staging_bytes(plan, self.ranks.rank, _WORD)
            try:
                self.ranks.check_memory(needed, f"packets of {self.sizes[-1]} bytes")
            except InputError as error:
                return {"why_not": str(error)}
        return kernel_times(self)

    def buffers(self, schedule: Schedule) -> dict[str, Any]:
        """Return the buffers of a schedule by name."""
        return dict(zip(schedule.buffers, self._memory, strict=False))

    def seconds(self, work: Callable[[], Any]) -> float:
        """Return the time in s of one call of ``work``."""
        return timed(self.ranks, work, self.repeats)["ms"] * 1e-3

    def _pairs(self) -> list[dict[str, Any]]:
        size = self.ranks.size
        pairs = list(permutations(range(size), 2))
        sizes = self.sizes if len(pairs) <= _PAIRS else self.sizes[-_PAIR_SIZES:]

        def fitted(a: int, b: int) -> dict[str, Any]:
            return self._fitted(
                f"rank {a} to rank {b}", sizes, lambda n: point_to_point("pair", size, [(a, b, n)])
            )

        return [{"src": a, "dst": b, **fitted(a, b)} for a, b in pairs]

    def _fitted(self, what: str, sizes: Sequence[int], make: Callable[[int], Schedule]) -> dict[str, Any]:
        """Time the schedule ``make(elements)`` for each size; return the times and a line fitted to them."""
        return _with_line([self._row(make(nbytes // _WORD), what, nbytes) for nbytes in sizes], self._ahead)

    def _rounds(self, what: str, make: Callable[[int, int, int], Schedule]) -> dict[str, Any]:
        """Time a round of ``make(ranks, elements, rounds)`` for each size; return times and fitted line."""
        rows = []
        for nbytes in self.sizes:
            schedules = [make(self.ranks.size, nbytes // _WORD, rounds) for rounds in (_FEW, _MANY)]
            few, many = (self._row(schedule, what, nbytes)["us"] for schedule in schedules)
            rows.append({"bytes": nbytes, "us": _of_a_round(few, many)})
        return _with_line(rows, self._ahead)

    def _row(self, schedule: Schedule, what: str, nbytes: int) -> dict[str, Any]:
        self.say(f"{self.comm.transport}: {what}, {nbytes} bytes")
        work = self.comm.bind(schedule, self.buffers(schedule), self._protocol).run
        return {
            "bytes": most_elements(schedule) * _WORD,
            "us": timed(self.ranks, work, self.repeats)["ms"] * 1e3,
        }


def _with_line(rows: list[dict[str, Any]], floor: bool = False) -> dict[str, Any]:
    line = fitted_fabric.fit([row["bytes"] for row in rows], [row["us"] * 1e-6 for row in rows], floor)
    return {"rows": rows, "line": line.as_dict()}


def kernel_times(measurement) -> dict[str, Any] | None:
    """Time kernels that run execution plans; return the fitted lines, and `KernelTimes` as a dict.

    All ranks must call it. ``measurement`` is a `_Measurement` or has the same ``comm``, ``sizes`` in bytes,
    ``buffers``, ``seconds`` and ``say``. The result is None for a transport without kernels, and has only the
    key ``why_not``, the reason, if kernels cannot run.

    Calls run in CUDA graphs, so that their times exclude the host. With signals a call takes launch + rounds
    × (signal + bytes/bandwidth) + (rounds − 1) × move, with small packets launch + rounds × packet. The
    host's time to launch a call is the time of the smallest call without a graph. The gap between calls is
    the time that a longer call takes more without a graph. The rate of the GPU's memory is measured with the
    largest size, which exceeds its caches.
    """
    comm, sizes = measurement.comm, measurement.sizes
    if any(protocol not in comm.protocols for protocol in PROTOCOLS):
        return None

    def call(schedule: Schedule, protocol: str, graph: bool = True) -> float:
        measurement.say(f"{comm.transport}, {protocol}: {schedule.name}")
        run = comm.bind(schedule, measurement.buffers(schedule), protocol).run
        if not graph:
            return measurement.seconds(run)
        return measurement.seconds(comm.device.graph(lambda: [run() for _ in range(GRAPHED)])) / GRAPHED

    def line(make: Callable[[int, int, int], Schedule], protocol: str, own: bool = False) -> dict[str, Any]:
        """Fit a line to a round's time over bytes per message or, with ``own``, bytes moved in a rank."""
        rows = []
        for nbytes in sizes:
            few, many = (make(comm.size, nbytes // _WORD, rounds) for rounds in (_FEW, _MANY))
            memory = (_own_bytes(many) - _own_bytes(few)) / (_MANY - _FEW) if own else nbytes
            rows.append({"bytes": memory, "us": _of_a_round(call(few, protocol), call(many, protocol)) * 1e6})
        return _with_line(rows)

    def gap(rounds: list[dict[str, float]], issue: float) -> float:
        """Return how many s longer a call takes without a graph, at a size that the host does not limit."""
        for row in rounds:
            if _FEW * row["us"] * 1e-6 > 1.5 * issue:
                schedule = relay(comm.size, int(row["bytes"]) // _WORD, _FEW)
                return max(0.0, call(schedule, "signals", graph=False) - call(schedule, "signals"))
        return 0.0

    try:
        lines = {protocol: line(relay, protocol) for protocol in PROTOCOLS}
    except InputError as error:  # raised alike on all ranks, for example if two share a GPU
        return {"why_not": str(error)}
    lines["additions"] = line(additions, "signals", own=True)
    # Packets of a round travel while those of the round before are passed on: the longer time counts.
    packet, largest = lines["packets"]["rows"][0]["us"] * 1e-6, lines["additions"]["rows"][-1]
    smallest = relay(comm.size, sizes[0] // _WORD, _FEW)
    issue = call(smallest, "packets", graph=False)
    launch = max(0.0, call(smallest, "packets") - _FEW * packet)
    signal_and_move = lines["signals"]["line"]["alpha"]
    signal = min(max(0.0, call(smallest, "signals") - launch - signal_and_move), signal_and_move)
    times = KernelTimes(
        launch=launch,
        signal=signal,
        packet=packet,
        bandwidth=lines["signals"]["line"]["bandwidth"],
        memory=largest["bytes"] / (largest["us"] * 1e-6),
        issue=issue,
        gap=gap(lines["signals"]["rows"], issue),
        move=signal_and_move - signal,
    )
    return {"lines": lines, "times": vars(times)}


def _of_a_round(few: float, many: float) -> float:
    """Return the time per round from the times of two chains, with few and with many rounds."""
    more = (many - few) / (_MANY - _FEW)
    # On a machine with other load the longer chain may appear faster.
    return more if more > 0 else many / _MANY


def _own_bytes(schedule: Schedule) -> float:
    """Return the most bytes that any rank reads and writes in its own memory if signals run the schedule."""
    elements = [0] * schedule.ranks
    for move in compile_plan(schedule, "signals").moves:
        own = sum(address.rank == move.rank for address in move.targets)
        elements[move.rank] += move.size * (len(move.sources) + own)
    return max(elements) * _WORD


def pattern(name: str, ranks: int, elements: int) -> Schedule:
    """Return the one-round schedule ``name`` of `PATTERNS` with ``elements`` per message."""
    everybody = range(ranks)
    pairs = {
        "ring": [(r, (r + 1) % ranks) for r in everybody],
        "both": [(r, (r + step) % ranks) for step in (1, -1) for r in everybody],
        "one-to-all": [(0, r) for r in everybody[1:]],
        "all-to-one": [(r, 0) for r in everybody[1:]],
        "all-to-all": [(r, (r + step) % ranks) for step in everybody[1:] for r in everybody],
    }[name]
    return point_to_point(name, ranks, [(a, b, elements) for a, b in pairs])


def _chain(name: str, ahead: int, ranks: int, elements: int, rounds: int) -> Schedule:
    """Return a schedule in which, in round k, the chunk k of each rank becomes chunk k + 1 of another rank.

    The other is rank + ``ahead``. If ``ahead`` is 0, a rank adds its chunk k to its own chunk k + 1 instead.
    """
    step, rank = (a.ravel() for a in np.indices((rounds, ranks)))
    transfers = np.zeros(step.size, TRANSFER)
    transfers["round"], transfers["src"], transfers["dst"] = step, rank, (rank + ahead) % ranks
    transfers["src_chunk"], transfers["dst_chunk"] = step, step + 1
    transfers["count"], transfers["reduce"] = 1, ahead == 0
    sizes = np.full((ranks, rounds + 1), elements, np.int64)
    return Schedule(name, ranks, ("data",), (sizes,), transfers, {}, {})


#: In each round every rank sends the next rank the elements that it received in the round before.
relay = partial(_chain, "relay", 1)
#: In each round every rank adds the chunk that it summed in the round before to another chunk.
additions = partial(_chain, "additions", 0)
