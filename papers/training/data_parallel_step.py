"""A data-parallel training step on the GPUs of this machine, beside the simulated one.

The network is a perceptron of many layers in TF32, without biases, trained by plain gradient descent. Every
layer's gradient is all-reduced by NCCL as soon as it is there, while the backward pass goes on.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2]))

from papers.common import Json, Output, Plot, run, show, start_ranks
from wavefabric.base.errors import InputError
from wavefabric.base.results.figure_style import BLUE, GREY
from wavefabric.cli.common.options import option
from wavefabric.cli.common.show import status_line
from wavefabric.collectives import build
from wavefabric.fabric import load
from wavefabric.fabric.execution import report
from wavefabric.fabric.execution.timing import Ranks, machine, timed
from wavefabric.runtime.device import get_device
from wavefabric.training.communication.times import Communication
from wavefabric.training.gpu.device_file import load_device
from wavefabric.training.gpu.device_model import DeviceModel
from wavefabric.training.gpu.operator_times import measure
from wavefabric.training.gpu.precision import PRECISIONS
from wavefabric.training.iteration.simulate import simulate
from wavefabric.training.iteration.workload import Workload
from wavefabric.training.models.graph import ModelGraph
from wavefabric.training.models.layers import GraphBuilder
from wavefabric.training.strategies.strategy import uniform

_RATE = 1e-3  # of learning; small, so that nothing overflows


def network(blocks: int, width: int, inner: int, rows: int) -> ModelGraph:
    """Layers from ``width`` to ``inner`` features and back, ReLU after each but the last, and a mean square.

    A sample is one row of the input; each GPU has ``rows`` of them.
    """
    graph, source = GraphBuilder(), (width,)
    sizes = layer_sizes(blocks, width, inner)
    for number, (_, features) in enumerate(sizes):
        source = graph.linear(f"linear {number}", source, features, bias=False)
        if number < len(sizes) - 1:
            source = graph.function(f"relu {number}", source, "relu")
    graph.add("loss", "elementwise", [source], (1,), elements=3.0 * width, flops=2.0 * width, backward=1.0)
    return ModelGraph("perceptron", tuple(graph.layers), "row", rows, "sgd")


def layer_sizes(blocks: int, width: int, inner: int) -> list[tuple[int, int]]:
    """Features before and after each linear layer."""
    return list(pairwise([width, *[inner, width] * blocks]))


def predicted(model: ModelGraph, gpus: int, gpu: DeviceModel, fabric: Communication) -> dict[str, float]:
    """Simulated ms of a step on a fabric, and with free communication."""
    iteration = simulate(Workload(model, uniform(model, gpus), gpu, PRECISIONS["tf32"]), fabric)
    return {"step": iteration.seconds * 1e3, "without communication": iteration.free_seconds * 1e3}


# --- PyTorch -------------------------------------------------------------------------------------------


def torch_times(gpus: int, case: dict[str, int], repeats: int) -> dict[str, float]:
    """Measured ms of a step, with and without its all-reduces, by PyTorch on so many GPUs."""
    import torch

    result = torch.cuda.device_count()
    if result < gpus:
        raise InputError(f"--ranks: {gpus} given; allowed: up to {result}, the GPUs that PyTorch finds")
    with tempfile.TemporaryDirectory() as folder:
        arguments = (gpus, case, repeats, folder)
        torch.multiprocessing.spawn(_torch_rank, arguments, nprocs=gpus)
        return json.loads((Path(folder) / "times.json").read_text("utf-8"))


def _torch_rank(rank: int, gpus: int, case: dict[str, int], repeats: int, folder: str) -> None:
    """One process of `torch_times`; the first writes the times."""
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(rank)
    torch.backends.cuda.matmul.allow_tf32 = True
    dist.init_process_group("nccl", init_method=f"file://{folder}/meet", rank=rank, world_size=gpus)
    layers: list[Any] = []
    for before, after in layer_sizes(case["blocks"], case["width"], case["inner"]):
        layers += [torch.nn.Linear(before, after, bias=False), torch.nn.ReLU()]
    net = torch.nn.Sequential(*layers[:-1]).cuda()
    inputs, targets = (torch.randn(case["rows"], case["width"], device="cuda") for _ in range(2))
    reductions: list[tuple[Any, Any]] = []
    communicate = True

    def reduce(parameter) -> None:
        work = dist.all_reduce(parameter.grad, async_op=True) if communicate else None
        reductions.append((parameter, work))

    for parameter in net.parameters():
        parameter.register_post_accumulate_grad_hook(reduce)

    def step() -> None:
        torch.nn.functional.mse_loss(net(inputs), targets).backward()
        with torch.no_grad():
            for parameter, work in reductions:
                if work is not None:
                    work.wait()
                parameter.add_(parameter.grad, alpha=-_RATE / gpus)
                parameter.grad = None
        reductions.clear()

    def seconds(steps: int) -> float:
        dist.barrier()
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
        slowest = torch.tensor((time.perf_counter() - begun) / steps, device="cuda")
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        return float(slowest)

    times = {}
    for communicate in (True, False):
        seconds(5)
        key = "step" if communicate else "without communication"
        times[key] = 1e3 * statistics.median(seconds(10) for _ in range(repeats))
    if rank == 0:
        (Path(folder) / "times.json").write_text(json.dumps(times), encoding="utf-8")
    dist.destroy_process_group()


# --- The same without PyTorch --------------------------------------------------------------------------


class Perceptron:
    """The network's forward and backward pass by hand, on any device, and its all-reduces between ranks.

    ``comm`` is a communicator of `runtime.exchange`; the gradients of layer i are ``gradients[i]``.
    """

    def __init__(self, comm, case: dict[str, int]):
        self.device, self.ranks = comm.device, comm.size
        self.products = self.device.kernels("wavefabric.runtime.device.products")
        sizes, rows = layer_sizes(case["blocks"], case["width"], case["inner"]), case["rows"]
        scales = [np.float32(before**-0.5) for before, _ in sizes]
        self.weights = [self._random(after, before) for before, after in sizes]
        for weight, scale in zip(self.weights, scales, strict=True):
            weight *= scale
        flat = [comm.allocate((before * after,), np.float32) for before, after in sizes]
        self.gradients = [g.reshape(after, before) for g, (before, after) in zip(flat, sizes, strict=True)]
        self.reductions = [_reduction(comm, gradient) for gradient in flat]
        self.linear, self.relu = (
            [self.device.empty((rows, after), np.float32) for _, after in sizes] for _ in range(2)
        )
        self.inputs, self.targets = self._random(rows, case["width"]), self._random(rows, case["width"])
        self.seeds = [self.device.empty((rows, features), np.float32) for _, features in sizes]

    def _random(self, rows: int, columns: int):
        return self.products.random_matrix((rows, columns), "tf32")

    def step(self, communicate: bool = True) -> None:
        """Forward, backward with all-reduces as gradients come, update."""
        last = len(self.weights) - 1
        self.forward()
        for i in range(last, -1, -1):
            self.backward(i)
            if communicate:
                self.reductions[i][0]()
        for i in range(last, -1, -1):
            if communicate:
                self.reductions[i][1]()
            self.device.xp.subtract(self.weights[i], self.gradients[i], out=self.weights[i])

    def forward(self) -> None:
        """All layers, and the difference to the targets times the rate of learning."""
        xp, hidden = self.device.xp, self.inputs
        for weight, linear, relu in zip(self.weights, self.linear, self.relu, strict=True):
            self.products.multiply(hidden, weight, linear, "tf32", transpose_b=True)
            if weight is not self.weights[-1]:
                hidden = xp.maximum(linear, np.float32(0), out=relu)
        seed = xp.subtract(self.linear[-1], self.targets, out=self.seeds[-1])
        seed *= np.float32(2 * _RATE / (self.ranks * seed.size))

    def backward(self, i: int) -> None:
        """The gradient of layer i's weights, and of what it was given, up to its ReLU."""
        xp, hidden = self.device.xp, self.relu[i - 1] if i else self.inputs
        self.products.multiply(self.seeds[i], hidden, self.gradients[i], "tf32", transpose_a=True)
        if i:
            self.products.multiply(self.seeds[i], self.weights[i], self.seeds[i - 1], "tf32")
            xp.multiply(self.seeds[i - 1], hidden > 0, out=self.seeds[i - 1])


def _reduction(comm, gradient) -> tuple[Callable[[], None], Callable[[], None]]:
    """How an all-reduce begins and ends: NCCL's own, or elsewhere a ring at once."""
    if comm.transport == "nccl":
        work: Any = comm.own_collective("all-reduce", [gradient])
        return work.start, work.wait
    exchange = comm.bind(build("ring", "all-reduce", comm.size, gradient.size), {"data": gradient})
    return exchange.start, exchange.finish


def own_times(ranks: Ranks, case: dict[str, int], repeats: int) -> dict[str, float]:
    """Measured ms of a step, with and without its all-reduces, by wavefabric's kernels; on all ranks."""
    name = "nccl" if ranks.on_gpu else "mpi"
    comm, why = ranks.open(name)
    if comm is None:
        raise InputError(f"--without-torch: {name} cannot be used ({why}); allowed: where it can")
    net = Perceptron(comm, case)
    choices = {"step": True, "without communication": False}
    return {key: timed(ranks, partial(net.step, on), repeats)["ms"] for key, on in choices.items()}


# --- Result --------------------------------------------------------------------------------------------


def table(result: dict[str, Any]) -> list:
    """Measured and simulated times."""
    rows = [
        (row["what"], f"{row['measured_ms']:.3f}", f"{row['simulated_ms']:.3f}", f"{row['ratio']:.3f}")
        for row in result["rows"]
    ]
    case, by = result["case"], result["by"]
    title = f"{result['ranks']} GPUs, {by}: {2 * case['blocks']} layers of {case['width']} x {case['inner']}"
    columns = ("<", "measured, ms", "simulated, ms", "simulated / measured")
    return [report.table(title, columns, rows, f"{case['rows']} rows a GPU, TF32; {result['fabric']}")]


def plot(result: dict[str, Any], path: Path) -> None:
    """Measured and simulated times as bars."""
    with report.figure(path, (5, 3)) as figure:
        axes = figure.subplots()
        for number, (key, colour) in enumerate((("measured_ms", GREY), ("simulated_ms", BLUE))):
            at = [position + 0.35 * number for position in range(len(result["rows"]))]
            axes.bar(at, [row[key] for row in result["rows"]], 0.33, color=colour, label=key.split("_")[0])
        axes.set_xticks([0.18, 1.18], [row["what"] for row in result["rows"]])
        axes.set_ylabel("ms")
        axes.legend()


def main(
    fabric: Annotated[str, option("Fabric (TOML) from `wavefabric fabric measure --ranks 2`.")],
    gpu: Annotated[str | None, option("Device model (TOML). [default: measured here]")] = None,
    collective: Annotated[str, option("Algorithm of the simulation.")] = "ring",
    ranks: Annotated[int, option("GPUs.")] = 2,
    blocks: Annotated[int, option("Pairs of layers.")] = 8,
    width: Annotated[int, option("Features between pairs.")] = 2048,
    inner: Annotated[int, option("Features inside a pair.")] = 8192,
    rows: Annotated[int, option("Rows of the input on each GPU.")] = 2048,
    repeats: Annotated[int, option("Samples of each time; medians count.")] = 7,
    overlap_slowdown: Annotated[float, option("Simulated: computation during calls, times as long.")] = 1.0,
    without_torch: Annotated[bool, option("The same by wavefabric's kernels and communicators.")] = False,
    as_json: Json = False,
    output: Output = None,
    plot: Plot = None,
) -> None:
    """A data-parallel step on the GPUs of this machine, beside the simulated one."""
    case = {"blocks": blocks, "width": width, "inner": inner, "rows": rows}
    _check({"ranks": ranks, **case, "repeats": repeats}, without_torch)
    calls = Communication(load(fabric), collective)
    if calls.fabric.ranks < ranks:
        raise InputError(f"--ranks: {ranks} given; allowed: up to {calls.fabric.ranks}, those of {fabric}")
    times = load_device(gpu) if gpu else None
    if without_torch:
        start_ranks(ranks, None)
        all_ranks = Ranks(("mpi",))
        device, measured = all_ranks.device, own_times(all_ranks, case, repeats)
        if all_ranks.rank:
            return
    else:
        device = get_device("cuda")
        measured = torch_times(ranks, case, repeats)
    model = network(blocks, width, inner, rows)
    with status_line(as_json) as say:
        times = times or measure(model, rows, "tf32", device, say=say)
    simulated = predicted(model, ranks, replace(times, overlap_slowdown=overlap_slowdown), calls)
    lines = [
        {"what": what, "measured_ms": ms, "simulated_ms": simulated[what], "ratio": simulated[what] / ms}
        for what, ms in measured.items()
    ]
    by = "wavefabric" if without_torch else "PyTorch"
    result = {"benchmark": "data_parallel_step", "ranks": ranks, "by": by, "case": case, "rows": lines}
    result |= {"fabric": calls.description, "device_model": times.source, "machine": machine(device)}
    show(__name__, result, as_json, output, plot)


def _check(numbers: dict[str, int], without_torch: bool) -> None:
    for key, value in numbers.items():
        least = 2 if key == "ranks" else 1
        if value < least:
            raise InputError(f"--{key}: {value} given; allowed: {least} or more")
    if not without_torch and find_spec("torch") is None:
        raise InputError("torch: PyTorch is not installed; allowed: where it is, or --without-torch")


if __name__ == "__main__":
    run(main)
