"""Orders of calls on one photonic fabric (LUMORPH, appendix C): iteration times of BERT-large on 64 GPUs."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

from papers.common import command, run
from papers.lumorph.training import fabric, loaded
from wavefabric.base.results.figure_style import BLUE, GREEN, GREY, ORANGE
from wavefabric.fabric.execution import report
from wavefabric.training.gpu.device_file import load_device
from wavefabric.training.gpu.precision import PRECISIONS
from wavefabric.training.iteration.simulate import Iteration, simulate
from wavefabric.training.iteration.tasks import Workload
from wavefabric.training.models.graph import ModelGraph
from wavefabric.training.strategies.strategy import LayerLayout, Strategy, uniform

_MODEL, _RANKS, _SERIES = "bert-large", 64, "Lumorph-4"
#: Sequences of an iteration: the recipe's.
_BATCH = 256
_LOOKS = {
    "batched": (BLUE, "batches, when ready"),
    "boundaries": (GREEN, "batches, at layer boundaries"),
    "in-order": (ORANGE, "one by one, when ready"),
    "end": (GREY, "one by one, at the end"),
}


def strategies(model: ModelGraph) -> dict[str, Strategy]:
    """By name; each divides the same 256 sequences among 64 GPUs. Ends: embeddings and heads."""
    wide = {
        layer.name: LayerLayout(_RANKS) for layer in model.layers if layer.block in ("embeddings", "heads")
    }
    return {
        "data 64": uniform(model, _RANKS, batch=_BATCH),
        "tensor 4 × data 16": uniform(model, _RANKS, tensor=4, batch=_BATCH),
        "tensor 4 × data 16,\nends data 64": uniform(model, _RANKS, tensor=4, batch=_BATCH, layers=wide),
        "pipeline 4 × data 16": uniform(model, _RANKS, pipeline=4, microbatches=16, batch=_BATCH),
        "pipeline 4 × tensor 4 × data 4": uniform(
            model, _RANKS, pipeline=4, tensor=4, microbatches=16, batch=_BATCH
        ),
    }


def figure(say=lambda line: None) -> dict[str, Any]:
    """Iterations by strategy and policy.

    Returns
    -------
    dict
        ``rows``: for each strategy and policy ``seconds``, ``free_seconds`` (with free communication),
        ``exposed`` (their difference), ``calls`` by purpose, ``batches``, of which ``several`` have more
        than one call, and ``largest``, the most calls of one.
    """
    model, rows = loaded(_MODEL), []
    device = load_device("a100")
    for name, strategy in strategies(model).items():
        for policy in _LOOKS:
            say(f"{name}, {policy}")
            work = Workload(model, strategy, device, PRECISIONS["tf32"])
            one = simulate(work, fabric(_SERIES, _RANKS), policy)
            rows.append({
                "strategy": name.replace("\n", " "),
                "policy": policy,
                "seconds": one.seconds,
                "free_seconds": one.free_seconds,
                "exposed": one.exposed_seconds,
                "calls": {purpose: count for purpose, (count, _) in one.communication().items()},
                **_batches(one),
            })  # fmt: skip
    return {"benchmark": "co_scheduling", "model": _MODEL, "gpus": _RANKS, "rows": rows}


def _batches(one: Iteration) -> dict[str, int]:
    """The controller executes one batch after the other: calls of a batch begin together."""
    calls = [task for task, call in enumerate(one.graph.call) if call is not None]
    together = Counter(float(one.timeline.begin[task]) for task in calls).values()
    return {
        "batches": len(together),
        "several": sum(count > 1 for count in together),
        "largest": max(together),
    }


def table(result: dict[str, Any]) -> list:
    """Time of an iteration, and what batches there are."""
    rows = [
        (
            *(one["strategy"], one["policy"]),
            *(f"{1e3 * one[key]:.2f}" for key in ("seconds", "exposed")),
            *(str(one["calls"].get(purpose, 0)) for purpose in ("gradients", "tensor", "layer-to-layer")),
            *(str(one[key]) for key in ("several", "largest")),
        )
        for one in result["rows"]
    ]
    headings = ("<strategy", "<policy", "ms", "exposed", "gradients", "tensor", "layers", "batches", "most")
    title = "BERT-large, 256 sequences, 64 GPUs, LIGHTPATH, Lumorph-4"
    caption = "calls by purpose; batches of several calls, and the most calls of one"
    return [report.table(title, headings, rows, caption)]


def plot(result: dict[str, Any], path: Path) -> None:
    """Exposed communication by strategy, a bar for each policy."""
    names = list(strategies(loaded(_MODEL)))
    with report.figure(path, (8.6, 5.2), grid="x", style={"legend.fontsize": 8.5}) as drawn:
        axes = drawn.subplots()
        for number, (policy, (colour, label)) in enumerate(_LOOKS.items()):
            mine = [one for one in result["rows"] if one["policy"] == policy]
            positions = [position + 0.2 * (number - 1.5) for position in range(len(mine))]
            values = [1e3 * one["exposed"] for one in mine]
            axes.barh(positions, values, height=0.18, color=colour, label=label)
            for position, value, one in zip(positions, values, mine, strict=True):
                text = f" {1e3 * one['seconds']:.1f} ms"
                axes.text(value, position, text, va="center", fontsize=7.5)
        report.name_bars(axes, names)
        axes.set_xlabel("exposed communication (ms); beside the bars: the iteration")
        axes.set_title("BERT-large on 64 GPUs of LIGHTPATH, by order of calls")
        drawn.legend(loc="outside lower center", ncols=4, columnspacing=1.2, handlelength=1.2)


main = command(__name__, figure)

if __name__ == "__main__":
    run(main)
