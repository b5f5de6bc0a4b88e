"""Fits an electrical fabric to tables of nccl-tests, and shows measured times beside predicted ones."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from wavefabric.base.errors import InputError, ensure, not_one_of
from wavefabric.base.units import time_words
from wavefabric.collectives.candidates import Choice
from wavefabric.collectives.plans.plan import compile_plan, protocols_for
from wavefabric.fabric import AnyFabric, PhotonicFabric
from wavefabric.fabric.candidates import candidates_on
from wavefabric.fabric.cost_models.bus_bandwidth import operation_bandwidths
from wavefabric.fabric.cost_models.cost import cost, model_for
from wavefabric.fabric.cost_models.kernel import plan_seconds
from wavefabric.fabric.electrical.fabric import Fabric, KernelTimes
from wavefabric.fabric.execution import report
from wavefabric.fabric.execution import tune_candidates as pool
from wavefabric.fabric.execution.fitted_fabric import robust_fit
from wavefabric.fabric.io.nccl_tests import NcclTestsTable, NcclTestsTime

#: Algorithms of the registry that NCCL has, by collective operation; it sends the others point to point.
NCCL_ALGORITHMS = {
    "all-reduce": ("ring", "double-tree", "nvls"),
    **dict.fromkeys(("all-gather", "reduce-scatter"), ("ring", "nvls")),
    **dict.fromkeys(("broadcast", "reduce"), ("ring",)),
    **dict.fromkeys(("all-to-all", "gather", "scatter"), ("direct",)),
}
_PIECES = (1, 4, 16)
_TURNS = 20
#: Terms of copy engines and hosts; NCCL's kernels add what they receive, without a host between rounds.
_COPIES: dict[str, Any] = {
    **dict.fromkeys(("copy_bandwidth", "flow_bandwidth", "reduce_bandwidth"), None),
    **dict.fromkeys(("reduce_alpha", "round_overhead", "peer_overhead", "reduce_overhead"), 0.0),
}
#: Factors of kernels that are fitted; "signals" is that of signal, packet and move.
_KERNELS = ("launch", "signals", "bandwidth", "memory")


class _Row(NamedTuple):
    """A measured time, and by candidate the function from a fabric to the predicted time in s."""

    table: NcclTestsTable
    time: NcclTestsTime
    predictions: dict[Choice, Callable[[Fabric], float]]

    def fastest(self, fabric: Fabric) -> tuple[float, Choice]:
        """Return the least predicted time with its candidate; of equal times the first."""
        times = {choice: predict(fabric) for choice, predict in self.predictions.items()}
        best = min(times, key=lambda choice: times[choice])
        return times[best], best


def calibrate(
    fabric: AnyFabric,
    tables: Sequence[NcclTestsTable],
    name: str | None = None,
    algorithms: Sequence[str] = (),
) -> tuple[Fabric, dict[str, Any]]:
    """Fit a fabric to measured tables; return it, its ``numbers``, and per model ``compared`` and ``error``.

    For each cost model: choose the fastest of NCCL's algorithms for each row, solve for all numbers with
    errors relative to the measured times (`robust_fit`), and repeat until nothing changes. What the tables
    leave open stays as it was. Terms of copy engines and hosts are dropped.

    Without times of kernels α and the bandwidth of each kind of links are fitted. With them, links keep
    their nominal bandwidth, which kernels reach in part: α and ``flow_bandwidth``, the rate of a transfer,
    are fitted for the model alpha-beta, and ``launch``, ``bandwidth``, ``memory``, and a common factor of
    ``signal``, ``packet`` and ``move`` for the model kernel. ``algorithms`` allows only some of
    `NCCL_ALGORITHMS`, as ``NCCL_ALGO`` does. `InputError`: a photonic fabric, more ranks than GPUs, an
    algorithm that NCCL or the fabric lacks, fewer than two sizes.
    """
    if isinstance(fabric, PhotonicFabric):
        raise InputError(f"fabric: photonic {fabric.name} given; allowed: electrical ones")
    sizes = {row.bytes for table in tables for row in table.rows}
    ensure(len(sizes) >= 2, "nccl-tests", f"{len(sizes)} size given", "two sizes or more")
    kinds = tuple(dict.fromkeys(f"{link.kind} links" for link in fabric.links))
    rate = max(link.bandwidth for link in fabric.links) if fabric.kernels else None
    fitted = replace(fabric, **_COPIES | {"flow_bandwidth": rate, "alpha": fabric.alpha or 1e-6})
    facts: dict[str, Any] = {"fabric": name or f"{fabric.name} calibrated", "compared": {}, "error": {}}
    for model in dict.fromkeys(["alpha-beta", *(model_for(fabric, table.ranks) for table in tables)]):
        rows = [row for table in tables for row in _rows(fitted, table, model, algorithms)]
        names = _KERNELS if model == "kernel" else ("alpha", *(("a transfer",) if rate else kinds))
        fitted = _fitted(fitted, rows, names)
        facts["compared"][model] = compared = [_compared(fitted, row) for row in rows]
        errors = [abs(each["ratio"] - 1) for each in compared]
        facts["error"][model] = {"median": float(np.median(errors)), "worst": max(errors)}
    used = ", ".join(dict.fromkeys(f"{table.collective} of {table.ranks} ranks" for table in tables))
    errors = ", ".join(f"{model} {100 * each['median']:.1f} %" for model, each in facts["error"].items())
    source = f"{fabric.source} Calibrated to nccl-tests ({used}); median error: {errors}.".strip()
    before, after = _numbers(fabric), _numbers(fitted)
    facts["numbers"] = {key: {"before": before.get(key), "after": value} for key, value in after.items()}
    return replace(fitted, name=facts["fabric"], source=source), facts


def _numbers(fabric: Fabric) -> dict[str, float]:
    """Return the numbers that a calibration may change, in s and B/s; of links of a kind the fastest."""
    numbers = {"alpha": fabric.alpha}
    for link in sorted(fabric.links, key=lambda link: link.bandwidth):
        numbers[f"{link.kind} links"] = link.bandwidth
    numbers |= {"a transfer": fabric.flow_bandwidth} if fabric.flow_bandwidth else {}
    kernels = vars(fabric.kernels) if fabric.kernels else {}
    return numbers | {
        f"kernels: {key}": value for key, value in kernels.items() if key not in ("issue", "gap")
    }


def _scaled(fabric: Fabric, factors: dict[str, float]) -> Fabric:
    """Return the fabric with some times multiplied, and bandwidths divided, by factors."""
    links = (replace(x, bandwidth=x.bandwidth / factors.get(f"{x.kind} links", 1.0)) for x in fabric.links)
    changed: dict[str, Any] = {"alpha": fabric.alpha * factors.get("alpha", 1.0), "links": tuple(links)}
    if fabric.flow_bandwidth is not None:
        changed["flow_bandwidth"] = fabric.flow_bandwidth / factors.get("a transfer", 1.0)
    if (kernels := fabric.kernels) is not None:
        launch, signals, bandwidth, memory = (factors.get(key, 1.0) for key in _KERNELS)
        times = {key: getattr(kernels, key) * signals for key in ("signal", "packet", "move")}
        times |= {"bandwidth": kernels.bandwidth / bandwidth, "memory": kernels.memory / memory}
        changed["kernels"] = replace(kernels, launch=kernels.launch * launch, **times)
    return replace(fabric, **changed)


def _rows(fabric: Fabric, table: NcclTestsTable, model: str, algorithms: Sequence[str]) -> list[_Row]:
    """Return the rows of a table with the predictions for NCCL's algorithms."""
    possible = NCCL_ALGORITHMS[table.collective]
    for each in algorithms:
        if each not in possible:
            raise InputError(f"algorithms: {not_one_of(each, possible)} (NCCL's for {table.collective})")
    every = candidates_on(fabric, table.collective, range(table.ranks), pieces=_PIECES)
    wanted = [each for each in every.choices if each.algorithm in (algorithms or possible)]
    refusals = "; ".join(every.left_out[each] for each in algorithms if each in every.left_out)
    ensure(wanted, "algorithms", refusals, f"others of {', '.join(possible)}")
    elements = pool.elements_of(table.ranks)
    predictions: dict[Choice, Callable[[float, Fabric], float]] = {}
    for choice, schedule in pool.candidates(table.collective, table.ranks, wanted):
        for protocol in protocols_for(schedule) if model == "kernel" else ("auto",):
            each = partial(
                _seconds, schedule, compile_plan(schedule, protocol) if model == "kernel" else None
            )
            predictions[replace(choice, protocol=protocol)] = partial(each, table.graph)
    return [
        _Row(table, row, {c: partial(predict, row.bytes / elements) for c, predict in predictions.items()})
        for row in table.rows
    ]


def _seconds(schedule, plan, graph: bool, element_bytes: float, fabric: Fabric) -> float:
    if plan is None:
        return cost(schedule, fabric, element_bytes, "alpha-beta").seconds
    return plan_seconds(plan, fabric, element_bytes, graph)


def _compared(fabric: Fabric, row: _Row) -> dict[str, Any]:
    """Return a measured time and the predicted time, in s, with bandwidths in B/s, and their ratio."""
    (seconds, choice), collective, ranks = row.fastest(fabric), row.table.collective, row.table.ranks
    measured = {key: value for key, value in vars(row.time).items() if key != "bytes"}
    predicted = {"seconds": seconds, **operation_bandwidths(collective, ranks, row.time.bytes, seconds)}
    facts = {"collective": collective, "ranks": ranks, "bytes": row.time.bytes, "algorithm": str(choice)}
    return facts | {"measured": measured, "predicted": predicted, "ratio": seconds / row.time.seconds}


def _fitted(fabric: Fabric, rows: Sequence[_Row], names: Sequence[str]) -> Fabric:
    """Return the fabric with the factors ``names`` of `_scaled` that fit the rows best.

    At a fixed algorithm times are linear in these factors, or piecewise linear for kernels.
    """
    measured, ones = np.array([row.time.seconds for row in rows]), np.ones(len(names))
    factors, best = ones, (np.inf, fabric)
    for _ in range(_TURNS):
        trial = _scaled(fabric, dict(zip(names, factors.tolist(), strict=True)))
        seconds, choices = zip(*(row.fastest(trial) for row in rows), strict=True)
        best = min(best, (float(np.abs(seconds / measured - 1).sum()), trial), key=lambda each: each[0])
        columns = np.empty((len(rows), len(names)))
        for k in range(len(names)):
            moved = factors * np.where(np.arange(len(names)) == k, 1.001, 1.0)
            other = _scaled(fabric, dict(zip(names, moved.tolist(), strict=True)))
            later = [row.predictions[choice](other) for row, choice in zip(rows, choices, strict=True)]
            columns[:, k] = (np.array(later) - seconds) / (1e-3 * factors[k])
        rest = measured - (seconds - columns @ factors)
        last, factors = factors, np.maximum(robust_fit(columns, rest, measured, ones), 1e-3)
        if np.allclose(factors, last, rtol=1e-6):
            break
    return _rounded(best[1])


def _rounded(fabric: Fabric) -> Fabric:
    """Return the fabric with the numbers that may be fitted rounded to four digits, for its file."""

    def short(value: Any) -> Any:
        return value and float(f"{value:.4g}")

    kernels = fabric.kernels and KernelTimes(
        **{key: short(each) for key, each in vars(fabric.kernels).items()}
    )
    links = tuple(replace(link, bandwidth=short(link.bandwidth)) for link in fabric.links)
    numbers = {key: short(getattr(fabric, key)) for key in ("alpha", "flow_bandwidth")}
    return replace(fabric, links=links, kernels=kernels, **numbers)


def show(facts: dict[str, Any]) -> list[Any]:
    """Return tables of compared times and of fitted numbers, and a line on the error of each cost model."""
    shown: list[Any] = []
    for model, compared in facts["compared"].items():
        rows = []
        for each in compared:
            cells = [each["collective"], report.size_words(each["bytes"])]
            for times, keys in ((each["measured"], ("algbw", "busbw")), (each["predicted"], ("busbw",))):
                cells += [time_words(times["seconds"]), *(f"{times[key] * 1e-9:.3g}" for key in keys)]
            rows.append((*cells, f"{each['ratio']:.2f}", each["algorithm"]))
        columns = ("<operation", "size", "measured", "algbw GB/s", "busbw", "predicted", "busbw", "ratio")
        caption = "predicted by the fastest of NCCL's algorithms; ratio: predicted over measured time"
        title = f"{facts['fabric']}, {model} model"
        shown.append(report.table(title, (*columns, "<algorithm"), rows, caption, plain=True))
        error = facts["error"][model]
        shown.append(
            f"error: {100 * error['median']:.1f} % in the median, {100 * error['worst']:.0f} % at most"
        )
    rows = []
    for name, each in facts["numbers"].items():
        rate = "links" in name or name.endswith(("transfer", "bandwidth", "memory"))
        texts = [
            "-" if value is None else f"{value * 1e-9:.4g} GB/s" if rate else time_words(value)
            for value in (each["before"], each["after"])
        ]
        rows.append((name, *texts))
    return [*shown, report.table("fitted", ("<number", "before", "after"), rows, plain=True)]
