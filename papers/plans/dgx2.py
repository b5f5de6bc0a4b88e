"""Figures 2 and 3 of the SC19 poster: local against global gradients on a DGX-2, and weak scaling."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

from papers.common import command, run
from papers.lumorph.panels import draw_panels
from papers.plans import machines
from papers.plans.machines import step, times, words
from wavefabric.acoustics.decomposition.decompose import block_grids
from wavefabric.base.results.figure_style import BLUE, ORANGE, RED

GPUS, COLOURS = (1, 2, 4, 8, 16), (BLUE, RED, ORANGE)
DOMAINS = ((512, 512, 512), (512, 512, 1024), (1024, 1024, 1024), (256, 256, 256))
#: Cuts of growing rank, as in figure 3, and points a side of a GPU's block.
CUTS, BLOCKS = ((1, 1, 1), (1, 1, 2), (1, 2, 2), (2, 2, 2), (2, 2, 4)), (128, 256, 384)
#: B/s between sockets of Broadwell CPUs, as NCCL assumes (``BDW_QPI_BW`` of its ``topo.h``).
_SLOW_QPI = 6e9
#: What the poster says, and why ours differ.
NOTES = [
    "gradients: the poster within 30 %. Two transforms of three passes through memory; local: an overlap is",
    "packed, sent, unpacked; global: two transposes by peer copies; packed: and packed, as our code does",
    "256³ points on 16 GPUs: overlaps of 16 make blocks 2.25 times as large",
    "faster: V100 over P40; the poster 3 for 8, 2.1 for one. What QPI reaches decides: slow is NCCL's 6 GB/s",
    "16 over 8 V100: the poster 2, for large domains; here twice the points take as long",
]


def gradient(domain, gpus: int, kind: str, machine: str = "DGX-2", packing: bool = False) -> float:
    """ms of a pair of 3-D transforms with its exchanges, in the fastest cut.

    ``packing``: global transposes are packed and unpacked.
    """
    cuts = [cut for cut in block_grids(gpus) if kind == "local" or cut[0] == 1] if gpus > 1 else CUTS[:1]
    return 1e3 * min(_gradient(step(machine, domain, cut, kind=kind), kind, packing) for cut in cuts)


def _gradient(one, kind: str, packing: bool) -> float:
    local = kind == "local"
    points = one.points if local else math.prod(one.partition.shape) / one.partition.ranks
    transforms = one.rates.copy(2 * 3 * 2 * points * one.item)
    if one.exchange is None:
        return transforms
    # A step packs for six fields, or for 14 transforms.
    packed = one.times().pack / (6 if local else 14 / 2) if local or packing else 0.0
    exchanges = (1, one.item) if local else (2, 2 * one.item)
    return transforms + packed + exchanges[0] * one.exchange.seconds(one.schedule, exchanges[1])


def tables(say=lambda line: None) -> dict[str, Any]:
    """``gradients``: ms, ``ratio`` global over local; ``weak``: ms, ``faster`` (P40 over V100), by GPUs."""
    gradients, weak = [], []
    for machine, domain in [*(("DGX-2", domain) for domain in DOMAINS), ("P40", DOMAINS[0])]:
        for gpus in GPUS if machine == "DGX-2" else GPUS[:-1]:
            say(f"{machine}, {words(domain)}, {gpus} GPUs")
            local, whole = (gradient(domain, gpus, kind, machine) for kind in ("local", "global"))
            packed = gradient(domain, gpus, "global", machine, True) / local
            case = {"machine": machine, "domain": words(domain), "gpus": gpus, "local": local}
            gradients.append(case | {"global": whole, "ratio": whole / local, "packed": packed})
    for block, (gpus, cut) in [(b, each) for b in BLOCKS for each in zip(GPUS, CUTS, strict=True)]:
        shape = [block * blocks for blocks in cut]
        ms = {m: times(step(m, shape, cut))["step"] for m in ("DGX-2", "P40") if gpus <= 8 or m == "DGX-2"}
        if gpus <= 8:
            slow = times(step("P40", shape, cut, qpi=_SLOW_QPI))["step"]
            ms |= {"faster": ms["P40"] / ms["DGX-2"], "slow_qpi": slow / ms["DGX-2"]}
        weak.append({"block": block, "gpus": gpus} | ms)
    return {"benchmark": "dgx2", "gradients": gradients, "weak": weak, "notes": NOTES}


def table(result: dict[str, Any]) -> list:
    """Gradients and weak scaling."""
    columns = {"<machine": "{machine}", "<domain": "{domain}", "GPUs": "{gpus}", "local, ms": "{local:.2f}"}
    columns |= {"global, ms": "{global:.2f}", "global/local": "{ratio:.2f}", "packed": "{packed:.2f}"}
    scaling = {"<block": "{block}³", "GPUs": "{gpus}", "V100, ms": "{DGX-2:.1f}"}
    both = scaling | {"P40, ms": "{P40:.1f}", "faster": "{faster:.2f}", "slow QPI": "{slow_qpi:.2f}"}
    few, all16 = ([w for w in result["weak"] if ("P40" in w) == there] for there in (True, False))
    return [
        machines.table("gradient, overlap 16", columns, result["gradients"]),
        machines.table("weak scaling, overlap 16", both, few),
        machines.table("weak scaling, 16 V100", scaling, all16),
        machines.notes(result),
    ]


def plot(result: dict[str, Any], path: Path) -> None:
    """Speed-ups of gradients over one GPU, and weak scaling."""
    draw_panels(path, [lambda a: _gradients(a, result), lambda a: _weak(a, result)], width=4.6)


def _gradients(axes, result: dict[str, Any]) -> None:
    lines = []
    for number, colour in enumerate(COLOURS):
        mine = result["gradients"][5 * number : 5 * number + 5]
        for kind, style in (("local", "o-"), ("global", "s--"))[: 1 if number else 2]:
            speed = [mine[0][kind] / each[kind] for each in mine]
            name = mine[0]["domain"] if kind == "local" else "all domains"
            lines.append((f"{name}, {kind}", speed, style, colour))
    machines.curves(axes, GPUS, lines, "gradient on a DGX-2, overlap 16", "speed-up over one GPU")
    axes.set(xlabel="GPUs")


def _weak(axes, result: dict[str, Any]) -> None:
    lines = []
    for block, colour in zip(BLOCKS, COLOURS, strict=True):
        for machine, style in (("DGX-2", "o-"), ("P40", "s--")):
            ms = [w[machine] for w in result["weak"] if w["block"] == block and machine in w]
            lines.append((f"{block}³ a GPU, {machine}", ms, style, colour))
    machines.curves(axes, GPUS, lines, "weak scaling, overlap 16", "time of one step (ms)")
    axes.set(xlabel="GPUs", yscale="log", ylim=(0.4, None))
    axes.legend(ncols=2, loc="lower center")


main = command(__name__, tables)

if __name__ == "__main__":
    run(main)
