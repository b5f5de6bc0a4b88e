"""What kernels that run execution plans take between these ranks: `KernelTimes` of a measured fabric."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wavefabric.collectives import Schedule
from wavefabric.collectives.plans.moves import Move
from wavefabric.collectives.plans.plan import PROTOCOLS, compile_plan
from wavefabric.errors import InputError
from wavefabric.execution.fitted_fabric import fit
from wavefabric.execution.timed_schedule import GRAPHED
from wavefabric.fabric.electrical.fabric import KernelTimes

#: Rounds of two chains, whose difference is rounds alone.
_FEW, _MANY = 2, 6
_WORD = 4


def measure_kernels(
    comm,
    sizes: Sequence[int],
    relay: Callable[[int, int, int], Schedule],
    additions: Callable[[int, int, int], Schedule],
    buffers: Callable[[Schedule], dict[str, Any]],
    seconds: Callable[[Callable[[], Any]], float],
    say: Callable[[str], None],
) -> dict[str, Any] | None:
    """Lines of a round of a relay with each protocol and of additions, and the times that follow; collective.

    ``relay`` and ``additions`` make schedules of ranks, elements and rounds; ``seconds`` times a call. Calls
    run in CUDA graphs, so that no host is in their times: launch + rounds × (signal + bytes/bandwidth), or
    packets'. What a host needs to launch a call is the time of the smallest, launched one by one. None for a
    transport without kernels; ``why_not`` where they cannot run.
    """
    if any(protocol not in comm.protocols for protocol in PROTOCOLS):
        return None

    def call(schedule: Schedule, protocol: str, graph: bool = True) -> float:
        say(f"{comm.transport}, {protocol}: {schedule.name}")
        run = comm.bind(schedule, buffers(schedule), protocol).run
        if not graph:
            return seconds(run)
        return seconds(comm.device.graph(lambda: [run() for _ in range(GRAPHED)])) / GRAPHED

    def difference(make, protocol: str, nbytes: int) -> tuple[float, float]:
        """Seconds, and bytes of a rank's own memory, that further rounds take, each."""
        few, many = (make(comm.size, nbytes // _WORD, rounds) for rounds in (_FEW, _MANY))
        times, memory = (
            [call(each, protocol) for each in (few, many)],
            [_own_bytes(each) for each in (few, many)],
        )
        more = _MANY - _FEW
        time = (times[1] - times[0]) / more
        # On a machine that does something else more rounds may seem to take less.
        return time if time > 0 else times[1] / _MANY, (memory[1] - memory[0]) / more

    def line(rows: list[tuple[float, float]]) -> dict[str, Any]:
        found = fit([nbytes for _, nbytes in rows], [time for time, _ in rows])
        return {"rows": [{"bytes": b, "us": t * 1e6} for t, b in rows], "line": found.as_dict()}

    try:
        lines = {
            protocol: line([(difference(relay, protocol, nbytes)[0], nbytes) for nbytes in sizes])
            for protocol in PROTOCOLS
        }
    except InputError as error:  # the same on all ranks, such as two that share a GPU
        return {"why_not": str(error)}
    lines["additions"] = line([difference(additions, "signals", nbytes) for nbytes in sizes])
    # Packets of a round travel while those of the round before are passed on: the longer of the two counts.
    packet = lines["packets"]["rows"][0]["us"] * 1e-6
    smallest = relay(comm.size, sizes[0] // _WORD, _FEW)
    times = KernelTimes(
        launch=max(0.0, call(smallest, "packets") - _FEW * packet),
        signal=lines["signals"]["line"]["alpha"],
        packet=packet,
        bandwidth=lines["signals"]["line"]["bandwidth"],
        memory=lines["additions"]["line"]["bandwidth"],
        issue=call(smallest, "packets", graph=False),
    )
    return {"lines": lines, "times": vars(times)}


def _own_bytes(schedule: Schedule) -> float:
    """Bytes of its own memory that the busiest rank reads and writes in a plan of signals."""
    plan = compile_plan(schedule, "signals")
    return max(
        _WORD
        * sum(
            each.size * (len(each.sources) + sum(place.rank == rank for place in each.targets))
            for each in code
            if isinstance(each, Move)
        )
        for rank, code in enumerate(plan.instructions)
    )
