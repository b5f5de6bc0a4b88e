"""Small models, and a fabric with a latency and a rate, for tests of strategies and of the search."""

from math import log2

from wavefabric.training.models.graph import Layer, ModelGraph


def chain(*splits, features=64, flops=1e9, batch=8, experts=0):
    """Layers one after the other, each a block, with splits as given."""
    layers = []
    for number, split in enumerate(splits):
        layers.append(
            Layer(
                f"l{number}", "matmul", (layers[-1].name,) if layers else (), (features,),
                flops=flops * (1 + number % 3), parameters=10**6 * (1 + number % 2), elements=3e4,
                saved=2e4, split=split, block=f"b{number}", experts=experts if number == 1 else 0,
            )
        )  # fmt: skip
    return ModelGraph("chain", tuple(layers), batch=batch)


def tables(features=16):
    """Two embedding tables and what takes both."""
    layers = [
        Layer(f"table {k}", "embedding", (), (features,), parameters=10**6, split="column", block="tables")
        for k in range(2)
    ]
    top = Layer("top", "matmul", ("table 0", "table 1"), (1,), flops=1e10, parameters=1000, split="none")
    return ModelGraph("tables", (*layers, top), batch=8)


class AffineTimes:
    """Calls take a latency for each doubling of the group and a time for each byte."""

    def __init__(self, latency=1e-5, rate=1e-10, concurrent=True):
        self.latency, self.rate, self.concurrent = latency, rate, concurrent

    def seconds(self, calls):
        """The slowest call."""
        return max(map(self._one, calls), default=0.0)

    def _one(self, call):
        if call.collective == "messages":
            sent = {}
            for source, _, size in call.messages:
                sent[source] = sent.get(source, 0.0) + size
            return self.latency + self.rate * call.bytes * max(sent.values())
        size = len(call.groups[0])
        passes = 2 if call.collective == "all-reduce" else 1
        return passes * (self.latency * log2(size) + self.rate * call.bytes * (size - 1) / size)
