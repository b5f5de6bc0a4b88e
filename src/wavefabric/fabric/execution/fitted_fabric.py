"""Derives a fabric from measured times: fits lines to them, and shows lines and fabric as tables."""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from wavefabric.fabric.electrical.fabric import Fabric, KernelTimes, Link
from wavefabric.fabric.execution import report

#: Residuals beyond this many standard deviations get less weight (Huber 1964, doi:10.1214/aoms/1177703732;
#: 95 % as efficient as least squares if errors are normal).
_HUBER = 1.345
_TURNS = 20
#: Largest absolute residual of a valid fit: at −0.75 a measured time is four times the fitted time.
RESIDUAL = 0.75
#: Lines with a larger residual are listed as rough, in the report and in the file.
ROUGH = 0.25
#: If bytes take less than this fraction of the time at the largest size, no bandwidth can be measured.
_SEEN = 0.01
#: If all ranks at once each reach less than this fraction of a pair's rate, they share a link.
_SHARED = 0.7
#: Text for each pattern of exchanges.
_WORDS = {
    "ring": "each rank to the next",
    "both": "each rank to both neighbours",
    "one-to-all": "one to all",
    "all-to-one": "all to one",
    "all-to-all": "all to all",
    "round": "a round of a ring",
    "add": "an addition",
    "signals": "signals",
}
#: Patterns whose lines become numbers of a fabric, besides the pairs; signals are for `Fabric.kernels`.
_USED = ("one-to-all", "all-to-one", "all-to-all", "round", "add", "signals")


@dataclass(frozen=True)
class Line:
    """A fitted time t = max(floor, α + bytes/bandwidth) in s; ``residuals``: (fitted − measured)/measured."""

    alpha: float
    bandwidth: float
    floor: float
    residuals: tuple[float, ...]

    @property
    def worst(self) -> float:
        """Return the largest absolute residual."""
        return max(map(abs, self.residuals))

    def grows(self, nbytes: float) -> bool:
        """Return whether the time grows measurably with bytes; ``nbytes``: the largest size measured."""
        return nbytes / self.bandwidth > _SEEN * self.seconds(nbytes)

    def seconds(self, nbytes):
        """Return the time in s for ``nbytes`` bytes on the line."""
        return np.maximum(self.floor, self.alpha + nbytes / self.bandwidth)

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "residuals": list(self.residuals), "worst": self.worst}


def fit(nbytes: Sequence[float], seconds: Sequence[float], floor: bool = False) -> Line:
    """Fit times t = α + bytes/bandwidth, α ≥ 0, to those of two or more sizes, with less weight on outliers.

    Errors are relative. With ``floor``, times of small sizes may be constant: a host needs that long to issue
    a transfer, while the device is still busy with the one before. How many sizes are at the floor is chosen
    for the best fit. The fit is iteratively reweighted least squares with Huber's weights, started from equal
    weights; the scale is the median absolute residual over 0.6745.
    """
    b, t = np.asarray(nbytes, float), np.asarray(seconds, float)
    sizes = np.unique(b)
    if sizes.size < 2 or (t <= 0).any():
        raise ValueError("a line needs two sizes, and times above 0")
    lines = []
    for level in sizes[: sizes.size - 1 if floor else 1]:
        low = b < level
        alpha, slope = _huber(b[~low], t[~low])
        least = float(np.median(t[low])) if low.any() else 0.0
        residual = np.maximum(least, alpha + slope * b) / t - 1
        lines.append(Line(alpha, 1 / slope, least, tuple(map(float, residual))))
    # Of equally good fits take the one with fewer points at the floor.
    errors = [np.abs(line.residuals).sum() * (1 + 1e-9 * number) for number, line in enumerate(lines)]
    return lines[int(np.argmin(errors))]


def _huber(b: np.ndarray, t: np.ndarray) -> tuple[float, float]:
    """Fit times ``t`` by α + slope × sizes ``b`` robustly; return α ≥ 0 in s, and the slope > 0 in s/B."""
    alpha, slope = robust_fit(np.column_stack([np.ones_like(b), b]), t, t)
    # If times do not grow at all, take the largest rate that these times can show.
    return float(alpha), max(float(slope), 1e-6 * float(np.median(t)) / float(b.max()))


def robust_fit(
    columns: np.ndarray, target: np.ndarray, scale: np.ndarray, prior: np.ndarray | None = None
) -> np.ndarray:
    """Return x ≥ 0 for which ``columns`` @ x is nearest to ``target``, with errors relative to ``scale``.

    Iteratively reweighted least squares with Huber's weights (see `fit`). ``prior`` (x > 0) counts as weakly
    as one row with a hundred times the relative error: it decides only what ``target`` leaves open. With a
    prior errors up to a percent never count less: some rows may fit exactly before all others do.
    """
    from scipy.optimize import nnls

    units = np.abs(columns).max(axis=0)
    units[units == 0] = 1.0
    weights, count = np.ones_like(target), columns.shape[1]
    least = 1e-6 if prior is None else 0.01
    extra = np.zeros((0, count)) if prior is None else np.diag(0.01 / (prior * units))
    x = np.zeros(count)
    for _ in range(_TURNS):
        w = weights / scale
        rows = np.vstack([w[:, None] * columns / units, extra])
        x = nnls(rows, np.append(w * target, np.full(len(extra), 0.01)))[0] / units
        residual = np.abs((columns @ x - target) / scale)
        spread = max(float(np.median(residual)) / 0.6745, least)
        weights = np.sqrt(np.minimum(1.0, _HUBER * spread / np.maximum(residual, 1e-300)))
    return x


def fabric_of(case: dict[str, Any], ranks: int, on_gpu: bool, name: str, machine: dict, command: str) -> str:
    """Return, as TOML text, the fabric that describes the measured times of one transport.

    ``case`` holds the fitted lines of this transport, as `measure_fabric.run` lists them. Each ordered pair
    of ranks has a link with the bandwidth that the pair reaches alone. The link's latency is the α of the
    pair's line minus the smallest α of all pairs, but at most the α of a round of a ring. The fabric's α is
    the α of such a round minus the largest latency in the ring. ``flow_bandwidth`` is the rate of one
    transfer of a ring while all others are in progress; ``copy_bandwidth`` is the rate of a GPU to or from
    all others.

    If a pair alone is much faster than in a ring and in an all-to-all, as through the memory of a host, all
    ranks are joined to one shared link instead. It has the highest total rate that was measured.
    """
    from wavefabric.fabric.io.files import to_toml

    patterns, pairs = case["patterns"], {(p["src"], p["dst"]): p["line"] for p in case["pairs"]}
    step, add, peer = patterns["round"]["line"], patterns["add"]["line"], patterns["peer"]["us"]
    alpha, together = step["alpha"], step["bandwidth"]
    typical = statistics.median(line["bandwidth"] for line in pairs.values())
    gpus = tuple(f"{'GPU' if on_gpu else 'CPU'}{r}" for r in range(ranks))
    fans = [patterns[p]["line"]["bandwidth"] for p in ("one-to-all", "all-to-one") if p in patterns]
    everybody = patterns["all-to-all"]["line"]["bandwidth"] if "all-to-all" in patterns else together
    kind = "peer" if case["transport"] in ("p2p", "nccl", "mpi-cuda") else "memory"
    if max(together, everybody) < _SHARED * typical:
        copy, flow = max([typical, *fans]), typical
        switches = ("shared in", "shared out")
        links = [Link(gpu, switches[0], _round(copy), 0.0, kind) for gpu in gpus]
        links += [Link(*switches, _round(ranks * max(together, everybody)), 0.0, kind)]
        links += [Link(switches[1], gpu, _round(copy), 0.0, kind) for gpu in gpus]
    else:
        switches, copy, flow = (), min([everybody, *fans]), min(together, typical)
        first = min(line["alpha"] for line in pairs.values())
        late = {pair: _time(min(line["alpha"] - first, alpha)) for pair, line in pairs.items()}
        links = [
            Link(gpus[a], gpus[b], _round(line["bandwidth"]), late[a, b], kind)
            for (a, b), line in pairs.items()
        ]
        # A round of the ring waits for the last of its links.
        alpha = max(0.0, alpha - max(late[r, (r + 1) % ranks] for r in range(ranks)))
    kernels = (case.get("kernels") or {}).get("times")
    if kernels is not None:
        rates = ("bandwidth", "memory")
        kernels = KernelTimes(**{k: (_round if k in rates else _time)(v) for k, v in kernels.items()})
    doubts = f"; rough: {'; '.join(case['rough'])}" if case.get("rough") else ""
    chip = machine.get("gpu") or machine.get("cpu") or "unknown processor"
    return to_toml(
        Fabric(
            name=name,
            gpus=gpus,
            switches=switches,
            links=tuple(links),
            alpha=_time(alpha),
            copy_bandwidth=_round(copy),
            flow_bandwidth=_round(flow),
            description=f"{ranks} ranks over {case['transport']}",
            source=f"measured over {case['transport']} between {ranks} x {chip}: {command}{doubts}",
            reduce_bandwidth=_round(add["bandwidth"]),
            reduce_alpha=_time(add["alpha"]),
            round_overhead=_time(step["floor"]),
            peer_overhead=_time(peer * 1e-6) if step["floor"] else 0.0,
            reduce_overhead=_time(add["floor"]),
            kernels=kernels,
        )
    )


def _round(value: float, unit: float = 1e9) -> float:
    """Return ``value`` rounded to four significant digits in ``unit``, the unit in files (GB/s)."""
    return float(f"{value / unit:.4g}") * unit


def _time(value: float) -> float:
    return _round(value, 1e-6)


def _lines(case: dict[str, Any], patterns) -> list[tuple[str, Line, list[dict[str, Any]]]]:
    """Return (description, fitted line, measured times) for each pair, and for each of ``patterns``."""
    fitted = {f"rank {p['src']} to rank {p['dst']}": p for p in case["pairs"]}
    fitted |= {_WORDS[key]: case["patterns"][key] for key in patterns if key in case["patterns"]}
    keys = ("alpha", "bandwidth", "floor", "residuals")
    return [(words, Line(*(f["line"][key] for key in keys)), f["rows"]) for words, f in fitted.items()]


def rough(case: dict[str, Any], limit: float = RESIDUAL) -> list[str]:
    """Return descriptions of rough fitted lines: largest residual above `ROUGH`, at most ``limit``."""
    return [
        f"{words} (up to {100 * line.worst:.0f} %)"
        for words, line, _ in _lines(case, _USED)
        if ROUGH < line.worst <= limit
    ]


def misfits(case: dict[str, Any], limit: float = RESIDUAL) -> list[str]:
    """Return descriptions of unusable lines: largest residual above ``limit``, or no growth with bytes."""
    wrong = []
    for words, line, times in _lines(case, _USED):
        if line.worst > limit:
            wrong.append(f"{words}: residual of {100 * line.worst:.1f} %")
        elif not line.grows(max(row["bytes"] for row in times)):
            wrong.append(f"{words}: times do not grow with bytes")
    return wrong


def reliable_kernels(measured: dict[str, Any] | None, limit: float = RESIDUAL) -> dict[str, Any] | None:
    """Return the result of `kernel_times`, without the times if the fitted line of signals is a misfit.

    The key ``why_not`` then replaces the key ``times``.
    """
    if measured is None or "times" not in measured:
        return measured
    wrong = misfits({"pairs": [], "patterns": {"signals": measured["lines"]["signals"]}}, limit)
    return {"lines": measured["lines"], "why_not": "; ".join(wrong)} if wrong else measured


def table(result: dict[str, Any]) -> list:
    """Return a table of fitted lines per transport, each with a summary of the fabric and with notes."""
    shown: list = []
    for case in result["cases"]:
        rows = []
        for words, line, _ in _lines(case, _WORDS):
            floor = f"{line.floor * 1e6:.1f}" if line.floor else "-"
            rate = f"{line.bandwidth * 1e-9:.4g}"
            rows.append((words, f"{line.alpha * 1e6:.2f}", rate, floor, f"{line.worst * 100:.1f} %"))
        title = f"{report.transport_name(case['transport'])}, {result['ranks']} ranks"
        columns = ("<pattern", "alpha us", "GB/s", "floor us", "worst residual")
        caption = "fitted: the larger of floor and alpha + bytes/bandwidth; bytes of the busiest rank"
        shown.append(report.table(title, columns, rows, caption, plain=True))
        shown.append(_summary(case["fabric"]))
        if why := (case.get("kernels") or {}).get("why_not"):
            shown.append(f"kernels: not in the fabric; {why}")
        if case.get("rough"):
            limit = f"off by more than {100 * ROUGH:g} % at some size"
            shown.append(f"rough ({limit}): {'; '.join(case['rough'])}")
        if case["misfits"]:
            limit = f"residuals above {100 * result['residual']:g} % or level times"
            shown.append(f"no fabric to rely on ({limit}): {'; '.join(case['misfits'])}")
    return shown + report.unavailable(result)


def _summary(text: str) -> str:
    """Return in words the latencies and bandwidths of a fabric (TOML text), but not of single links."""
    from wavefabric.fabric.io.files import from_toml

    fabric: Any = from_toml(text)
    bandwidths = {"flow": "a transfer at most", "copy": "a rank in all", "reduce": "sums"}
    times = {
        "reduce_alpha": "before each sum",
        "round_overhead": "of the host a round",
        "peer_overhead": "a further rank",
        "reduce_overhead": "a sum",
    }
    parts = [f"alpha {fabric.alpha * 1e6:.3g} us"]
    for key, words in bandwidths.items():
        if (value := getattr(fabric, f"{key}_bandwidth")) is not None:
            parts.append(f"{words} {value * 1e-9:.4g} GB/s")
    for key, words in times.items():
        if value := getattr(fabric, key):
            parts.append(f"{value * 1e6:.3g} us {words}")
    if fabric.kernels is not None:
        own = fabric.kernels
        words = ", ".join(f"{key} {getattr(own, key) * 1e6:.3g} us" for key in ("launch", "signal", "packet"))
        parts.append(f"kernels: {words}, {own.bandwidth * 1e-9:.4g} GB/s")
    shared = " (all ranks share one link)" if fabric.switches else ""
    return f"fabric {fabric.name}{shared}: {', '.join(parts)}"
