"""Small models, strategies and fabrics whose times are whole numbers, so that sums have no round-off."""

from dataclasses import dataclass

from hypothesis import strategies as st

from wavefabric.training.gpu.precision import PRECISIONS
from wavefabric.training.iteration.workload import Workload
from wavefabric.training.models.graph import Layer, ModelGraph
from wavefabric.training.strategies.strategy import LayerLayout, Strategy, cut_stages


class WholeDevice:
    """A layer takes as many seconds as its FLOPs say, whoever shares it; an update as `update` says."""

    overlap_slowdown = 1.0

    def __init__(self, update=0.0):
        self.update = update

    def check_arithmetic(self, key, arithmetic):
        """All are there."""

    def seconds(self, operator, flops, nbytes, arithmetic):
        return float(-(-flops // 1)) if arithmetic != "fp32" else self.update


@dataclass
class PlainFabric:
    """A call takes its latency and its bytes' time, rounded up; a batch as long as the longest of it."""

    latency: float = 0.0
    byte: float = 0.0
    concurrent: bool = True

    def seconds(self, calls):
        return max(self.latency + -(-self.byte * self.moved(call) // 1) for call in calls)

    @staticmethod
    def moved(call):
        return call.bytes * (sum(m[2] for m in call.messages) if call.messages else 1)


def layer(name, inputs=(), seconds=1.0, parameters=0, output=(8,), operator="matmul", **numbers):
    """A layer of so many seconds forward, of one sample on one GPU, and twice as many backward."""
    return Layer(
        name, operator, tuple(inputs), output, flops=float(seconds), parameters=parameters, **numbers
    )


def chain(seconds, parameters=0, **numbers):
    """Layers one after the other."""
    layers = [
        layer(f"l{n}", (f"l{n - 1}",) if n else (), s, parameters, **numbers) for n, s in enumerate(seconds)
    ]
    return ModelGraph("chain", tuple(layers))


def workload(model, strategy, update=0.0):
    return Workload(model, strategy, WholeDevice(update), PRECISIONS["bf16"])


@st.composite
def models(draw):
    """Any graph of up to nine layers, each with up to three inputs."""
    count = draw(st.integers(1, 9))
    block = 0
    layers = []
    for number in range(count):
        some = st.lists(st.integers(0, max(0, number - 1)), unique=True, max_size=3 if number else 0)
        inputs = tuple(f"l{n}" for n in draw(some))
        block += draw(st.integers(0, 1))
        layers.append(
            layer(
                f"l{number}",
                inputs,
                draw(st.integers(1, 5)),
                draw(st.sampled_from((0, 0, 64, 640))),
                split=draw(st.sampled_from(("none", "column", "row", "local"))),
                experts=draw(st.sampled_from((0, 0, 0, 4))),
                block=f"b{block}",
                backward=draw(st.sampled_from((1.0, 2.0, 3.0))),
            )
        )
    return ModelGraph("random", tuple(layers))


@st.composite
def workloads(draw):
    """A random model with a layout of its own for each layer."""
    model = draw(models())
    stages = draw(st.integers(1, min(3, len(model.blocks))))
    gpus = draw(st.sampled_from((1, 2, 4, 8)))
    microbatches = draw(st.integers(1, 4))
    layouts = []
    for one in model.layers:
        tensor = draw(st.sampled_from([t for t in (1, 2, 4, 8) if t <= gpus]))
        expert = draw(st.sampled_from((1, 2, 4))) if one.experts else 1
        data = gpus // tensor
        layouts.append(LayerLayout(data, tensor, expert if data % expert == 0 else 1))
    strategy = Strategy(
        gpus * stages,
        8 * microbatches,
        microbatches,
        cut_stages(model, stages),
        tuple(layouts),
        zero=draw(st.sampled_from([0, 1, 2, 3])),
        bucket=draw(st.sampled_from((0.0, 200.0, 1e9))),
        recompute=draw(st.booleans()),
        sequence=draw(st.booleans()),
    )
    return workload(model, strategy, update=float(draw(st.integers(0, 2))))
