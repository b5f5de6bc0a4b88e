"""Published training runs beside the same runs simulated: speeds, their ratio, and why they differ.

No number here was fitted to a run: see `published_run.LINKS` and `wavefabric.training.gpu.device_model`.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

from papers.common import command, ratio_axes, run
from papers.training.published_models import gpt, llama
from papers.training.published_rows import RUNS
from papers.training.published_run import LINKS, Run
from wavefabric.base.errors import InputError
from wavefabric.base.results.figure_style import BLUE, GREY
from wavefabric.cli.common.options import option
from wavefabric.fabric.electrical.fabric import Fabric, Link
from wavefabric.fabric.execution import report
from wavefabric.training.communication.times import Communication
from wavefabric.training.gpu.device_file import load_device
from wavefabric.training.gpu.precision import PRECISIONS
from wavefabric.training.iteration.memory import strategy_needs
from wavefabric.training.iteration.simulate import Iteration, simulate
from wavefabric.training.iteration.workload import Workload
from wavefabric.training.models import load_model
from wavefabric.training.models.graph import ModelGraph
from wavefabric.training.search.chain import serial_seconds
from wavefabric.training.strategies.strategy_text import parse_strategy

Chosen = Annotated[
    str | None, option("Simulate only runs whose names contain one of these (commas between).")
]


def graph(one: Run) -> ModelGraph:
    """The network of a run."""
    if one.model:
        model = load_model(one.model, tokens=one.tokens)
        layers = (
            replace(layer, flops=layer.flops / (1 + (layer.operator == "attention")))
            for layer in model.layers
        )
        return replace(model, layers=tuple(layers))
    size = (one.size[0], one.size[1], one.size[2])
    if len(one.size) > 3:
        return llama(one.name, size, one.tokens, one.vocabulary, *one.size[3:])
    return gpt(one.name, size, one.tokens, one.vocabulary, one.fused)


def workload(one: Run) -> Workload:
    """Model, strategy, GPUs and precision."""
    model, device = graph(one), load_device(one.device)
    if one.memory:
        device = replace(device, memory=one.memory[0], bandwidth=one.memory[1])
    data = parse_strategy(one.strategy, model, one.gpus, batch=one.batch).data
    result = None
    for microbatch in (one.microbatch,) if one.microbatch else (4, 2, 1):
        words = f"{one.strategy},microbatches:{one.batch // (data * microbatch)}"
        strategy = parse_strategy(words, model, one.gpus, batch=one.batch)
        result = Workload(model, strategy, device, PRECISIONS[one.precision])
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
    return Communication(nodes(one.gpus, inside, one.node, step, one.domain), "ring")


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


def nodes(gpus: int, inside: float, outside: float, step: float, domain: int = 8) -> Fabric:
    """Nodes of up to ``domain`` GPUs on a switch each, joined by a switch that never blocks; B/s one way.

    ``step``: s that a step of a ring takes besides.
    """
    names = tuple(f"GPU{i}" for i in range(gpus))
    local = [f"node{i}" for i in range(-(-gpus // domain))]
    joined = [(gpu, local[i // domain], inside, "nvlink") for i, gpu in enumerate(names)]
    joined += [(node, "network", outside, "network") for node in local] if len(local) > 1 else []
    links = [Link(*pair, rate, kind=kind) for a, b, rate, kind in joined for pair in ((a, b), (b, a))]
    switches = (*local, "network") if len(local) > 1 else tuple(local)
    return Fabric(f"{len(local)} nodes", names, switches, tuple(links), alpha=step)


def figure(say=lambda line: None, runs: Chosen = None) -> dict[str, Any]:
    """Published runs beside simulated ones.

    Parameters
    ----------
    runs : str or None
        Words of names with commas between: only runs whose names contain one are simulated, and others are
        as in the results beside this script if they are there.

    Returns
    -------
    dict
        ``runs``: for each ``name``, ``gpus``, ``unit``, ``published``, ``simulated`` (None where it is
        refused, with the ``refusal``), ``ratio`` of speeds, simulated over published, ``free_ratio`` (with
        free communication), ``serial_ratio`` (of sharded runs, with nothing hidden), the settings,
        ``utilisation`` (model FLOPs utilisation), ``exposed`` (share of the time that communication adds),
        ``bubble``, ``source``, ``reason``.
    """
    kept: dict[tuple[str, int], dict[str, Any]] = {}
    if runs is not None:
        earlier = json.loads(Path(__file__).with_suffix(".json").read_text())["runs"]
        words = runs.split(",")
        kept = {
            (one["name"], one["gpus"]): one
            for one in earlier
            if not any(word in one["name"] for word in words)
        }
    compared = [
        kept[one.name, one.gpus] | _settings(one) if (one.name, one.gpus) in kept else _compared(one, say)
        for one in RUNS
    ]
    return {"benchmark": "published_runs", "runs": compared}


def _settings(one: Run) -> dict[str, Any]:
    keys = (
        "name",
        "gpus",
        "unit",
        "published",
        "batch",
        "microbatch",
        "strategy",
        "device",
        "precision",
        "source",
        "reason",
    )
    return {key: getattr(one, key) for key in keys}


def _compared(one: Run, say) -> dict[str, Any]:
    say(one.name)
    result = _settings(one)
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
        setting = f"{one['precision']}, {one['strategy']}; {one['batch']} in {one['microbatch'] or 'largest'}"
        rows.append((one["name"], str(one["gpus"]), setting, *cells, *more))
    words = "<run|GPUs|<precision, strategy; batch in microbatches|simulated|published|<unit"
    words += "|ratio|free|serial|MFU|exposed|bubble"
    headings = tuple(words.split("|"))
    why = [(one["name"], one["refusal"] or one["reason"], one["source"]) for one in result["runs"]]
    return [
        report.table("published training runs, and shares of the simulated iteration", headings, rows),
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
        ratio_axes(axes, names, (0.6, 5), (0.7, 0.85, 1, 1.15, 1.5, 2, 3, 4))
        axes.set_xlabel("simulated speed over published")
        axes.legend(loc="lower right", fontsize=7)


main = command(__name__, figure)

if __name__ == "__main__":
    run(main)
