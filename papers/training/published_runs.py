"""Published training runs beside the same runs simulated: speeds, their ratio, and why they differ.

No number here was fitted to a run: see `published_rows.LINKS` and `wavefabric.training.gpu.device_model`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

from papers.common import command, run
from papers.training.published_models import gpt, llama
from papers.training.published_rows import LINKS, RUNS, Run
from wavefabric.base.errors import InputError
from wavefabric.base.results.figure_style import BLUE, GREY
from wavefabric.fabric.electrical.fabric import Fabric, Link
from wavefabric.fabric.execution import report
from wavefabric.training.communication.times import Communication
from wavefabric.training.gpu.device_file import load_device
from wavefabric.training.gpu.precision import PRECISIONS
from wavefabric.training.iteration.memory import strategy_needs
from wavefabric.training.iteration.simulate import Iteration, simulate
from wavefabric.training.iteration.workload import Workload
from wavefabric.training.models.graph import ModelGraph
from wavefabric.training.search.chain import serial_seconds
from wavefabric.training.strategies.strategy_text import parse_strategy

_A_NODE = 8


def graph(one: Run) -> ModelGraph:
    """The network of a run."""
    size = (one.size[0], one.size[1], one.size[2])
    if len(one.size) > 3:
        return llama(one.name, size, one.tokens, one.vocabulary, *one.size[3:])
    return gpt(one.name, size, one.tokens, one.vocabulary, one.fused)


def workload(one: Run) -> Workload:
    """Model, strategy, GPUs and precision."""
    model, device = graph(one), load_device(one.device)
    data = parse_strategy(one.strategy, model, one.gpus, batch=one.batch).data
    result = None
    for microbatch in (one.microbatch,) if one.microbatch else (4, 2, 1):
        words = f"{one.strategy},microbatches:{one.batch // (data * microbatch)}"
        strategy = parse_strategy(words, model, one.gpus, batch=one.batch)
        result = Workload(model, strategy, device, PRECISIONS["bf16"])
        if max(need.total for need in strategy_needs(result)) <= device.memory:
            break
    assert result is not None
    return result


def simulated(one: Run) -> Iteration:
    """One iteration, with rings for all calls, as NCCL has them."""
    return simulate(workload(one), communication(one), one.policy)


def communication(one: Run) -> Communication:
    """Calls by rings between and inside the nodes of a run."""
    inside, step = LINKS[one.device]
    return Communication(nodes(one.gpus, inside, one.node, step), "ring")


def flops(one: Run) -> float:
    """Of an iteration as Megatron counts: 72 B s l h² (1 + s/6h + V/12lh), recomputed 96 (1 + s/6h + V/16lh).

    Of a Llama 6 for each token and parameter, and 12 l h s for each token's attention.
    """
    blocks, width, *_ = one.size
    tokens = float(one.batch * one.tokens)
    if len(one.size) > 3:
        return tokens * (6 * graph(one).parameters + 12 * blocks * width * one.tokens)
    passes = 4 if one.unit == "TFLOP/s" else 3
    rest = 1 + one.tokens / (6 * width) + one.vocabulary / (4 * passes * blocks * width)
    return 24 * passes * tokens * blocks * width**2 * rest


def value(one: Run, seconds: float) -> float:
    """The simulated speed or time in the run's unit."""
    if one.unit == "s":
        return seconds
    if one.unit == "tokens/s":
        return one.batch * one.tokens / (seconds * one.gpus)
    return flops(one) / (seconds * one.gpus * 1e12)


def nodes(gpus: int, inside: float, outside: float, step: float) -> Fabric:
    """Nodes of up to eight GPUs on a switch each, joined by a switch that never blocks; B/s one way.

    ``step``: s that a step of a ring takes besides.
    """
    names = tuple(f"GPU{i}" for i in range(gpus))
    local = [f"node{i}" for i in range(-(-gpus // _A_NODE))]
    joined = [(gpu, local[i // _A_NODE], inside, "nvlink") for i, gpu in enumerate(names)]
    joined += [(node, "network", outside, "network") for node in local] if len(local) > 1 else []
    links = [Link(*pair, rate, kind=kind) for a, b, rate, kind in joined for pair in ((a, b), (b, a))]
    switches = (*local, "network") if len(local) > 1 else tuple(local)
    return Fabric(f"{len(local)} nodes", names, switches, tuple(links), alpha=step)


def figure(say=lambda line: None) -> dict[str, Any]:
    """Published runs beside simulated ones.

    Returns
    -------
    dict
        ``runs``: for each ``name``, ``gpus``, ``unit``, ``published``, ``simulated`` (None where it is
        refused, with the ``refusal``), ``ratio`` of speeds, simulated over published, ``free_ratio`` (with
        free communication), ``serial_ratio`` (of sharded runs, with nothing hidden), the settings,
        ``utilisation`` (model FLOPs utilisation), ``exposed`` (share of the time that communication adds),
        ``bubble``, ``source``, ``reason``.
    """
    return {"benchmark": "published_runs", "runs": [_compared(one, say) for one in RUNS]}


def _compared(one: Run, say) -> dict[str, Any]:
    say(one.name)
    keys = (
        "name",
        "gpus",
        "unit",
        "published",
        "batch",
        "microbatch",
        "strategy",
        "device",
        "source",
        "reason",
    )
    result: dict[str, Any] = {key: getattr(one, key) for key in keys}
    try:
        iteration = simulated(one)
    except InputError as error:
        nothing = dict.fromkeys(("simulated", "ratio", "free_ratio", "utilisation", "exposed", "bubble"))
        return result | nothing | {"refusal": str(error)}
    made = value(one, iteration.seconds)
    ratio = one.published / made if one.unit == "s" else made / one.published
    return result | {
        "simulated": made,
        "ratio": ratio,
        "serial_ratio": _serial_ratio(one, ratio * iteration.seconds),
        "free_ratio": ratio * iteration.seconds / iteration.free_seconds,
        "utilisation": iteration.model_flops_utilisation,
        "exposed": iteration.exposed_seconds / iteration.seconds,
        "bubble": iteration.bubble,
        "refusal": "",
    }


def _serial_ratio(one: Run, published_seconds: float) -> float | None:
    """Of sharded runs the ratio if nothing overlapped: all computation and all calls one after the other."""
    if "sharded" not in one.strategy:
        return None
    return published_seconds / serial_seconds(workload(one), communication(one))


def table(result: dict[str, Any]) -> list:
    """Speeds and ratios; why; where from."""
    rows = []
    for one in result["runs"]:
        got = one["simulated"] is not None
        value = f"{one['simulated']:.4g}" if got else "refused"
        cells = [value, f"{one['published']:.4g}", one["unit"]]
        more = [f"{one[key]:.2f}" if got else "" for key in ("ratio", "free_ratio")]
        more.append(f"{one['serial_ratio']:.2f}" if one.get("serial_ratio") else "")
        more += [f"{one[key]:.0%}" if got else "" for key in ("utilisation", "exposed", "bubble")]
        setting = f"{one['strategy']}; {one['batch']} in {one['microbatch'] or 'largest'}"
        rows.append((one["name"], str(one["gpus"]), setting, *cells, *more))
    words = (
        "<run|GPUs|<strategy; batch in microbatches|simulated|published|<unit|ratio|free|serial|MFU|exposed"
    )
    words += "|bubble"
    headings = tuple(words.split("|"))
    why = [(one["name"], one["refusal"] or one["reason"], one["source"]) for one in result["runs"]]
    return [
        report.table("published training runs, bf16, and shares of the simulated iteration", headings, rows),
        report.table("why they differ", ("<run", "<reason", "<published in"), why, wrap=True),
    ]


def plot(result: dict[str, Any], path: Path) -> None:
    """Ratios of speeds as points, with those of free communication, and the 15 % that is aimed at."""
    runs = [one for one in result["runs"] if one["ratio"] is not None][::-1]
    with report.figure(path, (7.2, 0.19 * len(runs) + 0.9)) as drawn:
        axes = drawn.subplots()
        names = [f"{one['name']}, {one['gpus']} GPUs" for one in runs]
        axes.axvspan(0.85, 1.15, color=GREY, alpha=0.2, linewidth=0)
        axes.axvline(1, color=GREY, linewidth=1)
        for row, one in enumerate(runs):
            axes.plot([one["ratio"], one["free_ratio"]], [row, row], color=GREY, linewidth=1)
        axes.plot(
            [one["free_ratio"] for one in runs], range(len(runs)), "|", color=GREY, label="free communication"
        )
        axes.plot(
            [one["ratio"] for one in runs], range(len(runs)), "o", color=BLUE, markersize=4, label="simulated"
        )
        axes.set_yticks(range(len(runs)), names, fontsize=7)
        axes.set_ylim(-1, len(runs))
        axes.set_xscale("log")
        axes.set_xlim(0.6, 5)
        ticks = (0.7, 0.85, 1, 1.15, 1.5, 2, 3, 4)
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        axes.set_xlabel("simulated speed over published")
        axes.legend(loc="lower right", fontsize=7)


main = command(__name__, figure)

if __name__ == "__main__":
    run(main)
