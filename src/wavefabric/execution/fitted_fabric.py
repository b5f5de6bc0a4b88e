"""A fabric from the lines that were fitted to times."""

from __future__ import annotations

import statistics
from typing import Any

from wavefabric.fabric.electrical.fabric import Fabric, Link

#: Where all ranks at once get less than this share of what a pair alone gets, they share something.
_SHARED = 0.7


def fabric_of(case: dict[str, Any], ranks: int, on_gpu: bool, name: str, machine: dict, command: str) -> str:
    """The fabric of a case of `wavefabric.execution.measure_fabric.run`, as TOML text.

    Each ordered pair has a link of the bandwidth that it reaches alone, with the latency by which its α
    exceeds the smallest of all pairs (at most α of a round of a ring, of which the fabric's α is the rest).
    A single transfer reaches (``flow_bandwidth``) what one of a ring reaches, while all others are under way;
    a GPU sends or receives in all (``copy_bandwidth``) what it does when it talks to all others. If a ring
    gets far less than a pair alone, as in the memory of a host, ranks are joined to one shared link instead,
    which has the most that all together were seen to send.
    """
    from wavefabric.fabric.io.files import to_toml

    patterns = case["patterns"]
    step = patterns["round"]["line"]
    alone = {(p["src"], p["dst"]): p["line"]["bandwidth"] for p in case["pairs"]}
    alpha = step["alpha"]
    typical = statistics.median(alone.values())
    together = step["bandwidth"]
    gpus = tuple(f"{'GPU' if on_gpu else 'CPU'}{r}" for r in range(ranks))
    fans = [patterns[p]["line"]["bandwidth"] for p in ("one-to-all", "all-to-one") if p in patterns]
    everybody = patterns["all-to-all"]["line"]["bandwidth"] if "all-to-all" in patterns else together
    kind = "peer" if case["transport"] in ("p2p", "nccl", "mpi-cuda") else "memory"
    if max(together, everybody) < _SHARED * typical:
        copy = max([typical, *fans])
        switches = ("shared in", "shared out")
        links = [Link(gpu, switches[0], _round(copy), 0.0, kind) for gpu in gpus]
        links += [Link(*switches, _round(ranks * max(together, everybody)), 0.0, kind)]
        links += [Link(switches[1], gpu, _round(copy), 0.0, kind) for gpu in gpus]
        flow = typical
    else:
        switches, flow = (), min(together, typical)
        begin = {(p["src"], p["dst"]): p["line"]["alpha"] for p in case["pairs"]}
        first = min(begin.values())
        late = {pair: _time(min(value - first, alpha)) for pair, value in begin.items()}
        links = [Link(gpus[a], gpus[b], _round(beta), late[a, b], kind) for (a, b), beta in alone.items()]
        # A round of the ring waits for the last of its links.
        alpha = max(0.0, alpha - max(late[r, (r + 1) % ranks] for r in range(ranks)))
        copy = min([everybody, *fans])
    add, peer = patterns["add"]["line"], patterns["peer"]["us"]
    chip = machine.get("gpu") or machine.get("cpu") or "unknown processor"
    fabric = Fabric(
        name=name,
        gpus=gpus,
        switches=switches,
        links=tuple(links),
        alpha=_time(alpha),
        copy_bandwidth=_round(copy),
        flow_bandwidth=_round(flow),
        description=f"{ranks} ranks over {case['transport']}",
        source=f"measured over {case['transport']} between {ranks} x {chip}: {command}",
        reduce_bandwidth=_round(add["bandwidth"]),
        reduce_alpha=_time(add["alpha"]),
        round_overhead=_time(step["floor"]),
        peer_overhead=_time(peer * 1e-6) if step["floor"] else 0.0,
        reduce_overhead=_time(add["floor"]),
    )
    return to_toml(fabric)


def _round(value: float, unit: float = 1e9) -> float:
    """Four digits, as what was measured has no more, counted in a unit in which files are written: GB/s."""
    return float(f"{value / unit:.4g}") * unit


def _time(value: float) -> float:
    return _round(value, 1e-6)
