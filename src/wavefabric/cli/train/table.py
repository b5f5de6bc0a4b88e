"""Prepare the output of `wavefabric train`: tables, or values for JSON."""

import statistics
from collections import Counter
from collections.abc import Iterator
from typing import Any

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from wavefabric.base.units import amount, binary_bytes, significant, time_words
from wavefabric.cli.common.show import console, pairs_table, rate_text, table
from wavefabric.training.compare import Case
from wavefabric.training.fabrics import gpu_bandwidth
from wavefabric.training.iteration.memory import largest_need
from wavefabric.training.iteration.simulate import COMPUTATION
from wavefabric.training.iteration.workload import Workload
from wavefabric.training.strategies.strategy import LayerLayout

#: Boolean fields of a strategy, and the words shown for each.
_OPTIONS = {"sequence": "sequence-parallel", "recompute": "recomputed", "selective": "attention recomputed",
            "overlap": "TP overlap", "ring": "keys and values on a ring"}  # fmt: skip
#: Statistics of the sizes of calls in bytes, by name.
_OF_SIZES = {
    "calls": len, "least_bytes": min, "median_bytes": statistics.median, "largest_bytes": max, "bytes": sum,
}  # fmt: skip
#: Facts that are attributes of an iteration, and of a case.
_OF_ITERATION = ("seconds", "samples_per_second", "exposed_seconds", "bound_by", "critical_seconds", "bubble",
                 "idle", "free_seconds")  # fmt: skip
_OF_CASE = ("hidden_seconds", "ratio_to_ring", "ratio_to_free", "left_out")


def calls_by_purpose(case: Case) -> dict[str, dict[str, Any]]:
    """Return, for each purpose of communication, the number of calls, their sizes and their algorithms.

    Sizes are the smallest, median, largest and total bytes.
    """
    return {
        purpose: {key: of(each) for key, of in _OF_SIZES.items()}
        | {"algorithms": dict(case.algorithms.get(purpose, {}))}
        for purpose, each in case.iteration.call_bytes.items()
    }


def facts(case: Case, healthy: Case | None = None) -> dict[str, Any]:
    """Return all facts about a case, for JSON; times in s, sizes in B.

    ``healthy`` is the same case without stragglers and slow links.
    """
    iteration = case.iteration
    result: dict[str, Any] = {
        "gpus": case.gpus,
        "fabric": case.fabric.name,
        "collective": case.collective,
        "model": case.times and case.times.model,
        "samples_per_second_per_gpu": iteration.samples_per_second / case.gpus,
        "compute_seconds": iteration.gpu_seconds.tolist(),
        "host_seconds": iteration.compute_seconds[~iteration.on_gpus].tolist(),
        "fabric_busy_seconds": iteration.timeline.fabric_busy,
        "ring_seconds": case.ring.seconds,
        "calls": calls_by_purpose(case),
        **{name: getattr(iteration, name) for name in _OF_ITERATION},
        **{name: getattr(case, name) for name in _OF_CASE},
    }
    if healthy is not None:
        result["healthy_seconds"] = healthy.iteration.seconds
    if iteration.workload:
        result |= {
            "model_flops_per_second_per_gpu": iteration.model_flops_per_second,
            "model_flops_utilisation": iteration.model_flops_utilisation,
            **_workload_facts(iteration.workload),
        }
    return result


def _workload_facts(workload: Workload) -> dict[str, Any]:
    strategy, need = workload.strategy, largest_need(workload)
    layouts = {layout: None for layout in strategy.layouts}
    return {
        "batch": strategy.batch,
        "microbatches": strategy.microbatches,
        "stages": strategy.stages,
        "layouts": [vars(layout) for layout in layouts],
        **{key: getattr(strategy, key) for key in (*_OPTIONS, "zero", "interleave")},
        "bucket_bytes": strategy.bucket,
        "memory_bytes": vars(need) | {"total": need.total},
    }


def show_case(case: Case, title: str, memory: float, healthy: Case | None = None) -> Iterator[Any]:
    """Yield the printed output of one simulation; ``memory``: B per GPU; ``healthy`` as in `facts`."""
    yield f"{title}; {case.gpus} GPUs of {case.fabric.name}, {case.collective}\n"
    lines = _lines(case, memory)
    if healthy is not None:
        longer = case.iteration.seconds / healthy.iteration.seconds
        words = f"{longer:.3f} x as long as without, which takes {time_words(healthy.iteration.seconds)}"
        lines.insert(1, ("slow parts", words))
    yield pairs_table(lines)
    result = calls_by_purpose(case)
    if result:
        yield ""
        yield _calls_table(result)
        if any(call and call.messages for call in case.iteration.graph.call):
            yield "sizes: of the array of one group; of messages the sum of all"
        if case.times is not None:
            yield f"calls: {case.times.model} model on {case.fabric.name}"
    for kind, missing in case.left_out.items():
        for name, why in missing.items():
            yield f"left out for {kind}: {name} ({why})"


def _lines(case: Case, memory: float) -> list[tuple[str, str]]:
    iteration, workload = case.iteration, case.iteration.workload
    throughput = iteration.samples_per_second
    compute = iteration.gpu_seconds
    lines = [("iteration", time_words(iteration.seconds))]
    if workload is None:
        lines.append(("throughput", f"{rate(throughput)} iterations/s"))
    else:
        each = f"{rate(throughput / case.gpus)} a GPU; {workload.strategy.batch} samples per iteration"
        lines.append(("throughput", f"{rate(throughput)} samples/s ({each})"))
        arithmetic = workload.precision.arithmetic
        peak = significant(workload.device.peak[arithmetic] / 1e12)
        fraction = f"{iteration.model_flops_utilisation:.1%} of the {arithmetic} peak of {peak}"
        flops = f"{significant(iteration.model_flops_per_second / 1e12)} TFLOP/s per GPU, {fraction}"
        lines += [("model FLOP/s", flops), ("strategy", strategy_words(workload))]
    which = "in the least busy stage" if iteration.pipelined else "on the least busy"
    least = f", {time_words(float(compute.min()))} {which}" if compute.size > 1 else ""
    hidden = f"{_time(case.hidden_seconds)} hidden behind computation"
    lines += [
        ("computation", f"{time_words(float(compute.max(initial=0.0)))} a GPU{least}"),
        ("communication", f"{_time(iteration.exposed_seconds)} exposed, {hidden}"),
        ("bound by", iteration.bound_by),
    ]
    if iteration.pipelined or iteration.idle > 5e-4:
        name = "pipeline bubble" if iteration.pipelined else "GPUs idle"
        lines.append((name, f"{iteration.idle:.1%} of the iteration with free communication"))
    if workload is not None:
        need = largest_need(workload)
        used = f"{significant(need.total / 1e9)} of {significant(memory / 1e9)} GB per GPU"
        lines.append(("memory", f"{used} ({need.parts})"))
    ring = f"x ring on an ideal switch of {rate_text(gpu_bandwidth(case.fabric))} a GPU"
    lines.append(("ratio", f"{case.ratio_to_ring:.3f} {ring}, which takes {time_words(case.ring.seconds)}"))
    free = f"x free communication, which takes {time_words(iteration.free_seconds)}"
    lines.append(("", f"{case.ratio_to_free:.3f} {free}"))
    return lines


def strategy_words(workload: Workload) -> str:
    """Describe a strategy in words: layouts and their numbers of layers, stages, microbatches, options."""
    strategy = workload.strategy
    counts = Counter(strategy.layouts).most_common()
    many = len(counts) > 1
    each = [(_layout_words(layout, strategy.context), count) for layout, count in counts[:3]]
    shown = [words + (f" ({count} layers)" if many else "") for words, count in each]
    if len(counts) > 3:
        shown.append(f"{len(counts) - 3} more (--json)")
    words = [", ".join(shown)]
    if strategy.stages > 1:
        words.append(f"{strategy.stages} stages")
    if strategy.microbatches > 1:
        words.append(f"{strategy.microbatches} microbatches")
    words += [f"{strategy.interleave} chunks a stage"] * (strategy.interleave > 1)
    words += [f"ZeRO {strategy.zero}"] * (strategy.zero > 0)
    words += [word for key, word in _OPTIONS.items() if getattr(strategy, key)]
    if strategy.bucket:
        words.append(f"buckets of {binary_bytes(strategy.bucket, 3)}")
    return "; ".join(words)


def _layout_words(layout: LayerLayout, context: int) -> str:
    degrees = [("data", layout.data // context), ("context", context), ("tensor", layout.tensor),
               ("expert", layout.expert)]  # fmt: skip
    return " x ".join(f"{name} {degree}" for name, degree in degrees if degree > 1 or name == "data")


def _time(seconds: float) -> str:
    return time_words(seconds) if seconds > 0 else "0 s"


def _calls_table(result: dict[str, dict[str, Any]]) -> Table:
    headings = ("|communication of", "calls", "least", "median", "largest", "total", "<by")
    rows = []
    for purpose, values in result.items():
        calls, *sizes, algorithms = values.values()
        many = len(algorithms) > 1
        by = "; ".join(f"{name} ({count})" if many else name for name, count in algorithms.items())
        rows.append((purpose, str(calls), *(binary_bytes(size, 3) for size in sizes), by))
    return table(headings, rows)


def show_comparison(cases: list[Case], title: str) -> Iterator[Any]:
    """Yield a table of cases, the fastest for each number of GPUs in bold, and the meaning of its columns."""
    unit = "samples/s" if cases[0].iteration.workload else "iterations/s"
    headings = (
        "GPUs", "|fabric", "|collective", "iteration", unit, "a GPU", "exposed", "x ring", "x free",
        "<bound by",
    )  # fmt: skip
    made = table(headings, title=title)
    for column, case in enumerate(cases):
        alike = [other for other in cases if other.gpus == case.gpus]
        real = [other for other in alike if other.collective != "zero"]
        best = bool(real) and case is min(real, key=lambda other: other.iteration.seconds)
        throughput, (what, fraction) = case.iteration.samples_per_second, case.iteration.most_critical
        cells = (
            str(case.gpus) if case is alike[0] else "",
            case.label,
            case.collective + (" *" if best and len(real) > 1 else ""),
            time_words(case.iteration.seconds),
            rate(throughput),
            rate(throughput / case.gpus),
            _time(case.iteration.exposed_seconds),
            f"{case.ratio_to_ring:.3f}",
            f"{case.ratio_to_free:.3f}",
            f"{COMPUTATION.get(what, what)}, {fraction:.0%}",
        )
        style = "bold" if best and len(real) > 1 else ""
        last = column + 1 == len(cases) or cases[column + 1].gpus != case.gpus
        made.add_row(*(Text(cell, style=style) for cell in cells), end_section=last)
    _fit(made, console().width)
    yield made
    yield (
        "x ring: throughput over that of rings on an ideal switch of the same bandwidth a GPU; x free: over "
        "that\nwith free communication; bound by: share of the critical path; *: the fastest"
    )


def _fit(made: Table, width: int) -> None:
    """Fit a table of `show_comparison` to ``width`` characters, without cutting words if possible."""
    texts = [max(cell_len(str(cell)) for cell in column.cells) for column in made.columns]
    widths = [max(text, cell_len(str(of.header))) for text, of in zip(texts, made.columns, strict=True)]
    if sum(widths) + 3 * len(widths) - 1 <= width:
        return
    made.padding = (0, 1, 0, 0)
    capacity = width - 2 * len(widths)
    # Columns are narrowed in this order: bound, throughput, fabric, collective; their texts then wrap.
    longest_word = max(cell_len(word) for cell in made.columns[-1].cells for word in str(cell).split())
    for number, least in ((-1, max(longest_word, 8)), (4, max(texts[4], 10)), (1, 8), (2, 12)):
        widths[number] = max(min(widths[number], least), widths[number] - max(0, sum(widths) - capacity))
    for column, own in zip(made.columns, widths, strict=True):
        column.width, column.no_wrap = own, False


def rate(value: float) -> str:
    """Return a rate per second as text, without prefix below a million."""
    return significant(value) if value < 999_999.5 else amount(value)
