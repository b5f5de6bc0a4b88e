"""The fabric between these ranks, from times of exchanges on its real links."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wavefabric.collectives import Schedule
from wavefabric.errors import InputError
from wavefabric.execution.fabric_report import misfits, plot, table
from wavefabric.execution.fit import RESIDUAL, fit
from wavefabric.execution.fitted_fabric import fabric_of
from wavefabric.execution.patterns import PATTERNS, additions, busiest, pair, pattern, relay
from wavefabric.execution.ranks import Ranks, timed
from wavefabric.execution.timed_schedule import exchanging

__all__ = ["SIZES", "plot", "run", "table"]

_KIB, _MIB = 1 << 10, 1 << 20
#: Bytes of a message by kind of device: closer where the host stops being what limits.
SIZES = {
    "cpu": tuple(4 * _KIB << 2 * i for i in range(6)),
    "cuda": (4 * _KIB, 64 * _KIB, 256 * _KIB, *(_MIB << i for i in range(9))),
}
#: Rounds of two relays; what the longer one takes more is the cost of rounds alone.
_FEW, _MANY = 2, 6
#: Of more pairs than these, fewer sizes.
_PAIRS, _PAIR_SIZES = 12, 4
_WORD = 4
#: Transports whose hosts wait for nothing while a schedule runs.
_AHEAD = ("p2p", "nccl")
#: s that a sample lasts: shorter than a benchmark's, since there are many.
_SAMPLE = 0.04


def run(
    ranks: Ranks,
    sizes: Sequence[int] = (),
    repeats: int = 5,
    name: str = "measured",
    progress: Callable[[str], None] | None = None,
    residual: float = RESIDUAL,
) -> dict[str, Any]:
    """Measure what moves how fast between all ranks, and make a fabric of it; collective.

    Times of exchanges of one level: each ordered pair alone (``pairs``); each rank to the next (``ring``);
    to both neighbours (``both``); one to all; all to one; all to all. And relays, in which each rank passes
    on to the next what it received in the round before: the difference between relays of 6 and 2 rounds is
    what rounds cost in a schedule (``round``). What adding costs on all devices at once is found likewise
    (``add``); and at the smallest size what one more rank to send to costs (``peer``).

    Lines are fitted to the times: t = α + bytes/bandwidth, and over P2P and NCCL, where hosts run ahead of
    their GPUs, the larger of this and what a host needs to issue a round (``floor``).

    Parameters
    ----------
    ranks : Ranks
        Every transport that can be used is measured.
    sizes : sequence of int
        Bytes of a message, multiples of 4, two or more. Empty: see `SIZES`.
    repeats : int
        Samples, each of many exchanges in a row; the median counts.
    name : str
        Of the fabric.
    progress : callable, optional
        Called with a line about what is being measured.
    residual : float
        Largest residual of a line, (fitted − measured)/measured, with which a fabric stands for the times.

    Returns
    -------
    dict
        ``fabric``, the fabric of the first transport as TOML text (None if none could be used); ``cases``,
        one for each transport, with ``fabric``, ``patterns`` (each: ``rows`` of bytes that the busiest rank
        sends or receives and µs; ``line``: α, bandwidth, floor, residuals), ``pairs``, ``facts``, ``misfits``
        (lines with larger residuals, or whose times do not grow with bytes); ``unavailable``; ``machine``.

    Raises
    ------
    InputError
        If an option is not allowed, or the buffers do not fit.
    """
    say = progress or (lambda line: None)
    if ranks.size < 2:
        raise InputError(f"ranks: {ranks.size} given; allowed: 2 or more")
    for size in sizes:
        if size < _WORD or size % _WORD:
            raise InputError(f"sizes: {size} bytes given; allowed: multiples of {_WORD}")
    if sizes and len(set(sizes)) < 2:
        raise InputError(f"sizes: {sizes[0]} bytes alone given; allowed: two sizes or more")
    if repeats < 1:
        raise InputError(f"repeats: {repeats} given; allowed: at least 1")
    if not 0 < residual < float("inf"):
        raise InputError(f"residual: {residual} given; allowed: above 0")
    if not name or not name.isprintable():
        raise InputError(f"name: {name!r} given; allowed: text of one line, not empty")
    chosen = sorted(set(sizes)) or list(SIZES["cuda" if ranks.on_gpu else "cpu"])
    # A relay's chunks or what is sent to all, and what comes from all.
    parts = max(_MANY + 1, ranks.size - 1) + ranks.size - 1
    ranks.check_memory(parts * chosen[-1], f"sizes: {chosen[-1]} bytes")
    sample, ranks.sample = ranks.sample, _SAMPLE
    machine, cases = ranks.machine(), []
    try:
        for comm in ranks.each():
            case = _Measurement(ranks, comm, chosen, repeats, say).case()
            command = f"wavefabric fabric measure --ranks {ranks.size} --transport {comm.transport}"
            if sizes:
                command += f" --sizes {','.join(map(str, chosen))}"
            case["fabric"] = fabric_of(case, ranks.size, ranks.on_gpu, name, machine, command)
            case["misfits"] = misfits(case, residual)
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
    """All times of one transport."""

    def __init__(self, ranks: Ranks, comm, sizes: list[int], repeats: int, say: Callable[[str], None]):
        self.ranks, self.comm, self.sizes, self.repeats, self.say = ranks, comm, sizes, repeats, say
        self._ahead = comm.transport in _AHEAD
        most = sizes[-1] // _WORD
        whole = max(_MANY + 1, ranks.size - 1) * most
        # One buffer, cut anew for every schedule; zeros, which stay zeros however often they are added.
        self._memory = comm.allocate((whole,), "float32")
        self._others = comm.allocate(((ranks.size - 1) * most,), "float32")
        self._memory[...] = 0
        self._others[...] = 0
        comm.device.synchronize()
        ranks.control.barrier()

    def case(self) -> dict[str, Any]:
        size, patterns = self.ranks.size, {}
        for name in PATTERNS if size > 2 else ("ring",):
            rows = [self._row(pattern(name, size, nbytes // _WORD), name, nbytes) for nbytes in self.sizes]
            patterns[name] = self._fitted(rows)
        patterns["round"] = self._fitted(self._rounds("round", self.sizes))
        patterns["add"] = self._fitted(self._rounds("additions", self.sizes, additions))
        patterns["peer"] = {"us": 0.0}
        if size > 2:
            ring, everybody = (patterns[name]["rows"][0]["us"] for name in ("ring", "all-to-all"))
            patterns["peer"]["us"] = max(0.0, (everybody - ring) / (size - 2))
        return {
            "transport": self.comm.transport,
            "patterns": patterns,
            "pairs": self._pairs(),
            "facts": self.comm.describe(),
        }

    def _pairs(self) -> list[dict[str, Any]]:
        size = self.ranks.size
        pairs = [(a, b) for a in range(size) for b in range(size) if a != b]
        sizes = self.sizes if len(pairs) <= _PAIRS else self.sizes[-_PAIR_SIZES:]
        fitted = []
        for a, b in pairs:
            rows = [
                self._row(pair(size, a, b, nbytes // _WORD), f"rank {a} to rank {b}", nbytes)
                for nbytes in sizes
            ]
            fitted.append({"src": a, "dst": b, **self._fitted(rows)})
        return fitted

    def _rounds(self, what: str, sizes: Sequence[int], make: Callable[..., Schedule] = relay) -> list[dict]:
        """What a round of a schedule takes that is made of ranks, elements and rounds, by size."""
        rows = []
        for nbytes in sizes:
            times = {}
            for rounds in (_FEW, _MANY):
                schedule = make(self.ranks.size, nbytes // _WORD, rounds)
                times[rounds] = self._row(schedule, what, nbytes)["us"]
            more = (times[_MANY] - times[_FEW]) / (_MANY - _FEW)
            # On a machine that does something else a longer relay may seem the faster one.
            rows.append({"bytes": nbytes, "us": more if more > 0 else times[_MANY] / _MANY})
        return rows

    def _row(self, schedule: Schedule, what: str, nbytes: int) -> dict[str, Any]:
        self.say(f"{self.comm.transport}: {what}, {nbytes} bytes")
        held = dict(zip(schedule.buffers, (self._memory, self._others), strict=False))
        work = exchanging(self.comm.bind(schedule, held))
        return {
            "bytes": busiest(schedule) * _WORD,
            "us": timed(self.ranks, work, self.repeats)["ms"] * 1e3,
        }

    def _fitted(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        line = fit([row["bytes"] for row in rows], [row["us"] * 1e-6 for row in rows], floor=self._ahead)
        return {"rows": rows, "line": line.as_dict()}
