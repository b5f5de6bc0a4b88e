"""Fits an electrical fabric to tables of nccl-tests, and shows measured times beside predicted ones."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from wavefabric.base.errors import InputError, choices, ensure
from wavefabric.base.units import time_words
from wavefabric.collectives.candidates import Choice
from wavefabric.collectives.plans.plan import compile_plan, protocols_for
from wavefabric.fabric import AnyFabric, PhotonicFabric
from wavefabric.fabric.candidates import candidates_on, node_grid, on_rails
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
    "all-reduce": ("ring", "double-tree", "nvls", "nvls-tree"),
    **dict.fromkeys(("all-gather", "reduce-scatter"), ("ring", "nvls")),
    **dict.fromkeys(("broadcast", "reduce"), ("ring",)),
    **dict.fromkeys(("all-to-all", "gather", "scatter"), ("direct",)),
}
_PIECES = (1, 4, 16)
_TURNS = 20
#: Terms of copy engines and hosts; NCCL's kernels add what they receive, without a host between rounds.
_COPIES: dict[str, Any] = dict.fromkeys(("copy_bandwidth", "reduce_bandwidth"))
_COPIES |= dict.fromkeys(("reduce_alpha", "round_overhead", "peer_overhead", "reduce_overhead"), 0.0)
#: Numbers that the model kernel fits; those of a group by one factor.
_KERNELS = [("kernels.launch",), ("kernels.signal", "kernels.packet", "kernels.move")]
_KERNELS += [("kernels.bandwidth",), ("kernels.memory",)]


class _Row(NamedTuple):
    """A measured time, and by candidate the function of bytes per element and fabric that predicts it."""

    table: NcclTestsTable
    time: NcclTestsTime
    element_bytes: float
    predictions: dict[Choice, Callable[[float, Fabric], float]]

    def fastest(self, fabric: Fabric) -> tuple[float, Choice]:
        """Return the least predicted time in s with its candidate; of equal times the first."""
        times = {choice: predict(self.element_bytes, fabric) for choice, predict in self.predictions.items()}
        best = min(times, key=lambda choice: times[choice])
        return times[best], best


def calibrate(
    fabric: AnyFabric,
    tables: Sequence[NcclTestsTable],
    name: str | None = None,
    algorithms: Sequence[str] = (),
) -> tuple[Fabric, dict[str, Any]]:
    """Fit latencies and bandwidths of a fabric to tables of nccl-tests; return the fabric and the results.

    Results: ``numbers`` (before and after), and for each cost model ``compared`` (each row beside its
    prediction) and ``error``. For each cost model, in turn: choose for each row the NCCL algorithm that is
    predicted to be fastest; fit all numbers to the relative errors (`robust_fit`); repeat until no choice and
    no number changes. A number that the tables do not determine keeps its value. Terms of copy engines and
    hosts are dropped.

    Fitted are α and the bandwidth of each kind of link. A fabric with times of kernels keeps its link
    bandwidths, which kernels do not reach: there the times of kernels are fitted, and ``flow_bandwidth`` in
    the α–β model. ``algorithms``: only these of `NCCL_ALGORITHMS`, as with ``NCCL_ALGO``. `InputError`: a
    photonic fabric, more ranks than GPUs, an algorithm that NCCL or the fabric lacks, fewer than two sizes.
    """
    if isinstance(fabric, PhotonicFabric):
        raise InputError(f"fabric: photonic {fabric.name} given; allowed: electrical ones")
    sizes = {row.bytes for table in tables for row in table.rows}
    ensure(len(sizes) >= 2, "nccl-tests", f"{len(sizes)} size given", "two sizes or more")
    rate = max(link.bandwidth for link in fabric.links) if fabric.kernels else None
    fitted = replace(fabric, **_COPIES, flow_bandwidth=rate, alpha=fabric.alpha or 1e-6)
    names = [key for key in _numbers(fitted) if key.startswith("flow" if rate else "links")]
    # All links by one factor first: else another kind than before may come out as the one that limits.
    links = dict.fromkeys(((("alpha",), tuple(names)), (("alpha",), *((name,) for name in names))))
    facts: dict[str, Any] = {"fabric": name or f"{fabric.name} calibrated", "compared": {}, "error": {}}
    for model in dict.fromkeys(["alpha-beta", *(model_for(fabric, table.ranks) for table in tables)]):
        rows = [row for table in tables for row in _rows(fitted, table, model, algorithms)]
        for groups in (tuple(_KERNELS),) if model == "kernel" else links:
            fitted = _fitted(fitted, rows, groups)
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
    """Return the numbers that may be fitted, in s and B/s; of each kind of links the largest bandwidth."""
    numbers = {"alpha": fabric.alpha}
    numbers |= {f"links.{x.kind}": x.bandwidth for x in sorted(fabric.links, key=lambda x: x.bandwidth)}
    numbers |= {"flow_bandwidth": fabric.flow_bandwidth} if fabric.flow_bandwidth else {}
    kernels = vars(fabric.kernels) if fabric.kernels else {}
    return numbers | {f"kernels.{key}": value for key, value in kernels.items()}


def _scaled(
    fabric: Fabric, groups: Sequence[tuple[str, ...]], factors: np.ndarray, digits: int = 17
) -> Fabric:
    """Return the fabric with the times of each group multiplied, and rates divided, by its factor."""
    by_name = {name: factor for group, factor in zip(groups, factors, strict=True) for name in group}

    def scaled(name: str, value: float) -> float:
        rate = name.startswith("links") or name.endswith(("bandwidth", "memory"))
        factor = by_name.get(name, 1.0)
        return float(f"{value / factor if rate else value * factor:.{digits}g}")

    links = (replace(x, bandwidth=scaled(f"links.{x.kind}", x.bandwidth)) for x in fabric.links)
    numbers: dict[str, Any] = {"alpha": scaled("alpha", fabric.alpha), "links": tuple(links)}
    if fabric.kernels is not None:
        times = {key: scaled(f"kernels.{key}", value) for key, value in vars(fabric.kernels).items()}
        flow = scaled("flow_bandwidth", fabric.flow_bandwidth or 0.0)
        numbers |= {"kernels": KernelTimes(**times), "flow_bandwidth": flow}
    return replace(fabric, **numbers)


def _rows(fabric: Fabric, table: NcclTestsTable, model: str, algorithms: Sequence[str]) -> list[_Row]:
    """Return the rows of a table with the predictions for NCCL's algorithms."""
    possible = NCCL_ALGORITHMS[table.collective]
    choices("algorithms", algorithms, possible)
    every = candidates_on(fabric, table.collective, range(table.ranks), pieces=_PIECES)
    named = (each for each in every.choices if each.algorithm in (algorithms or possible))
    rails = on_rails(named, node_grid(fabric, range(table.ranks)))
    compared = [each for each in rails if each in every.choices]
    refusals = "; ".join(every.left_out[each] for each in algorithms if each in every.left_out)
    ensure(compared, "algorithms", refusals, f"others of {', '.join(possible)}")
    predictions: dict[Choice, Callable[[float, Fabric], float]] = {}
    for choice, schedule in pool.candidates(table.collective, table.ranks, compared):
        try:
            cost(schedule, fabric, 1.0, "alpha-beta")
        except InputError as error:  # such as switches that add up within nodes alone
            refusals = refusals or str(error)
            continue
        if model != "kernel":
            predictions[choice] = lambda size, on, schedule=schedule: cost(schedule, on, size, model).seconds
            continue
        for protocol in protocols_for(schedule):
            plan, key = compile_plan(schedule, protocol), replace(choice, protocol=protocol)
            predictions[key] = lambda size, on, plan=plan: plan_seconds(plan, on, size, table.graph)
    ensure(predictions, "algorithms", refusals, f"others of {', '.join(possible)}")
    elements = pool.elements_of(table.ranks)
    return [_Row(table, row, row.bytes / elements, predictions) for row in table.rows]


def _compared(fabric: Fabric, row: _Row) -> dict[str, Any]:
    """Return a measured time and the predicted time, in s, with bandwidths in B/s, and their ratio."""
    (seconds, choice), table, measured = row.fastest(fabric), row.table, row.time._asdict()
    facts = {"collective": table.collective, "ranks": table.ranks, "bytes": measured.pop("bytes")}
    rates = operation_bandwidths(table.collective, table.ranks, row.time.bytes, seconds)
    facts |= {"algorithm": str(choice), "measured": measured, "predicted": {"seconds": seconds, **rates}}
    return facts | {"ratio": seconds / row.time.seconds}


def _fitted(fabric: Fabric, rows: Sequence[_Row], groups: Sequence[tuple[str, ...]]) -> Fabric:
    """Return the fabric with the factors of `_scaled` that fit the rows best, rounded to four digits.

    At a fixed algorithm times are linear in these factors, or piecewise linear for kernels.
    """
    measured, ones = np.array([row.time.seconds for row in rows]), np.ones(len(groups))
    factors, best = ones, (np.inf, ones)
    for _ in range(_TURNS):
        trial = _scaled(fabric, groups, factors)
        seconds, chosen = zip(*(row.fastest(trial) for row in rows), strict=True)
        best = min(best, (float(np.abs(seconds / measured - 1).sum()), factors), key=lambda each: each[0])
        columns = np.empty((len(rows), len(groups)))
        for k in range(len(groups)):
            other = _scaled(fabric, groups, factors * (1 + 1e-3 * (np.arange(len(groups)) == k)))
            later = [r.predictions[c](r.element_bytes, other) for r, c in zip(rows, chosen, strict=True)]
            columns[:, k] = (np.array(later) - seconds) / (1e-3 * factors[k])
        rest = measured - (seconds - columns @ factors)
        last, factors = factors, np.maximum(robust_fit(columns, rest, measured, factors), 1e-3)
        if np.allclose(factors, last, rtol=1e-6):
            break
    return _scaled(fabric, groups, best[1], digits=4)


def show(facts: dict[str, Any]) -> list[Any]:
    """Return tables of compared times and of fitted numbers, and a line on the error of each cost model."""
    shown: list[Any] = []
    numbers = "measured", "algbw GB/s", "busbw", "predicted", "busbw", "ratio"
    columns = ("<operation", "size", *numbers, "<algorithm")
    caption = "predicted by the fastest of NCCL's algorithms; ratio: predicted over measured time"
    for model, compared in facts["compared"].items():
        rows = []
        for each in compared:
            cells = []
            for times, names in ((each["measured"], ("algbw", "busbw")), (each["predicted"], ("busbw",))):
                cells += [time_words(times["seconds"]), *(f"{times[name] * 1e-9:.3g}" for name in names)]
            size = report.size_words(each["bytes"])
            rows.append((each["collective"], size, *cells, f"{each['ratio']:.2f}", each["algorithm"]))
        title, error = f"{facts['fabric']}, {model} model", facts["error"][model]
        shown.append(report.table(title, columns, rows, caption, plain=True))
        shown.append(
            "error: {median:.1%} in the median, {worst:.0%} at most".format(**error).replace("%", " %")
        )
    rows = []
    for name, each in facts["numbers"].items():
        words = (
            time_words if max(each.values(), key=lambda x: x or 0) < 1e3 else lambda x: f"{x * 1e-9:.4g} GB/s"
        )
        rows.append((name, *("-" if value is None else words(value) for value in each.values())))
    return [*shown, report.table("fitted", ("<number", "before", "after"), rows, plain=True)]
