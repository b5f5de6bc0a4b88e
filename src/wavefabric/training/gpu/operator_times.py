"""Measure how long the operators of a model take on this machine's GPU or CPU; return a device model.

Linear layers are measured as matrix products (cuBLAS or NumPy), convolutions as equivalent products,
attention as one product and a copy of the bytes, embeddings as gathers of rows. For all other operators a
copy of as many bytes as the operator reads and writes is measured.
"""

import statistics
from collections.abc import Callable
from math import ceil, prod
from typing import NamedTuple

import numpy as np

from wavefabric.base.arguments import whole
from wavefabric.base.errors import InputError, choice
from wavefabric.fabric.execution.timing import milliseconds
from wavefabric.runtime.device import Device
from wavefabric.training.gpu.device_model import ARITHMETIC, MATRIX_OPERATORS, DeviceModel, MeasuredTime
from wavefabric.training.gpu.precision import PRECISIONS
from wavefabric.training.gpu.work import Work, backward_work, forward_work, update_work
from wavefabric.training.models.graph import OPERATORS, Layer, ModelGraph

#: Duration of one timing sample in s, long enough to warm up a GPU as in training; maximum calls per sample.
_SAMPLE, _MOST_CALLS = 2e-2, 1000
#: Matrix side to measure the peak, and bytes read and written to measure the bandwidth: CPU and GPU.
_SIDE = {"cpu": 512, "cuda": 4096}
_COPY = {"cpu": 1 << 26, "cuda": 1 << 30}


class _Case(NamedTuple):
    """An operator to time: the forward or backward pass of ``layer``, or an update if ``layer`` is None."""

    work: Work
    layer: Layer | None
    backward: bool = False


def measure(
    model: ModelGraph,
    samples: int,
    arithmetic: str,
    device: Device,
    *,
    repeats: int = 5,
    name: str = "measured",
    say: Callable[[str], None] = lambda line: None,
) -> DeviceModel:
    """Measure each distinct operator of a model's iteration on one GPU, without tensor parallelism.

    Each time is the median of several samples, each of many consecutive calls, after a warm-up. Operands that
    fit into a cache stay there. A CPU does all arithmetic in fp32.

    Parameters
    ----------
    model : ModelGraph
        The model; outputs of convolutions are (channels, height, width), of other layers (…, features).
    samples : int
        Samples per microbatch on one GPU.
    arithmetic : str
        One of `wavefabric.training.gpu.device_model.ARITHMETIC`; also selects the precision of that name.
    device : Device
        Device to measure, from `wavefabric.runtime.device.get_device`.
    repeats : int
        Timing samples per operator.
    say : callable
        Called with a line of text before each measurement.

    Returns
    -------
    DeviceModel
        Peaks from large square products, bandwidth from a large copy, launch time from a small copy, and a
        measured time for each distinct operator, FLOPs and bytes.

    Raises
    ------
    InputError
        If ``samples`` or ``repeats`` is below 1, ``arithmetic`` unknown, or an operator exceeds the memory.
    """
    whole("samples", samples, 1)
    whole("repeats", repeats, 1)
    choice("arithmetic", arithmetic, ARITHMETIC)
    cases = _cases(model, samples, arithmetic)
    bench = _Bench(device, repeats)
    for case in cases.values():
        _check_fits(device, case, samples, arithmetic)
    say("peak and bandwidth")
    kind = "cpu" if device.name == "cpu" else "cuda"
    side, copied = _SIDE[kind], _COPY[kind]
    peak = {key: 2 * side**3 / bench.product(side, side, side, key) for key in ARITHMETIC}
    launch = bench.copy(4096)
    rows = []
    for number, ((operator, run, flops, nbytes), case) in enumerate(cases.items()):
        say(f"{number + 1} of {len(cases)}: {case.layer.name if case.layer else 'update'}")
        rows.append(MeasuredTime(operator, run, flops, nbytes, bench.seconds(case, samples, arithmetic)))
    return DeviceModel(
        name=name,
        peak=peak,
        bandwidth=copied / bench.copy(copied),
        memory=float(device.memory()[1]),
        launch=launch,
        efficiency=dict.fromkeys(OPERATORS, (1.0, 1.0)),
        measured=tuple(rows),
        source=f"{model.name}, {samples} samples, {arithmetic}, measured on {device.name}",
    )


def product_shape(layer: Layer, samples: int) -> tuple[int, int, int]:
    """Return the sizes (m, n, k) of a matrix product with the FLOPs of a layer's forward pass.

    The product is of matrices of shapes (m, k) and (k, n). n is the number of features per position (channels
    of a convolution), m the number of positions of all samples; k follows from the FLOPs. All heads of an
    attention form one product.
    """
    features = layer.output[0] if layer.operator == "convolution" else layer.output[-1]
    positions = samples * prod(layer.output) // features
    return positions, features, max(1, round(layer.flops * samples / (2 * positions * features)))


def _cases(model: ModelGraph, samples: int, arithmetic: str) -> dict[tuple, _Case]:
    """Return a dictionary from (operator, arithmetic, FLOPs, bytes) to each distinct operator to measure."""
    precision = PRECISIONS[arithmetic]
    cases: dict[tuple, _Case] = {}
    for layer in model.layers:
        for case in (
            _Case(forward_work(layer, samples, 1, precision), layer),
            _Case(backward_work(layer, samples, 1, precision), layer, True),
            _Case(update_work(layer.parameters, model.optimizer, precision), None),
        ):
            operator, flops, nbytes = case.work
            run = arithmetic if operator in MATRIX_OPERATORS else "fp32"
            if flops or nbytes:
                cases.setdefault((operator, run, flops, nbytes), case)
    return cases


def _check_fits(device: Device, case: _Case, samples: int, arithmetic: str) -> None:
    """Raise `InputError` if measuring ``case`` needs more than 90 % of the free memory of the device."""
    needed, layer = case.work.nbytes, case.layer
    if layer is not None and layer.operator in MATRIX_OPERATORS and layer.flops:
        m, n, k = product_shape(layer, samples)
        needed = (m * n + n * k + m * k) * PRECISIONS[arithmetic].activation
    elif layer is not None and layer.operator == "embedding":
        needed += 4 * layer.parameters
    free = device.memory()[0]
    if needed > 0.9 * free:
        raise InputError(
            f"samples: {samples} given, {layer.name if layer else 'the update'} needs {needed / 1e9:.3g} GB; "
            f"allowed: what fits in {0.9 * free / 1e9:.3g} GB, free on {device.name}"
        )


class _Bench:
    """Runs operators on a device and times them."""

    def __init__(self, device: Device, repeats: int):
        self._device, self._repeats = device, repeats
        self._products = device.kernels("wavefabric.runtime.device.products")

    def seconds(self, case: _Case, samples: int, arithmetic: str) -> float:
        """Return the time in s of ``case``: the pass of a layer, or an update of parameters."""
        layer, nbytes = case.layer, case.work.nbytes
        if layer is not None and layer.operator in MATRIX_OPERATORS and layer.flops:
            copied = self.copy(nbytes) if layer.operator == "attention" else 0.0
            return copied + self._products_of(layer, case.backward, samples, arithmetic)
        if layer is not None and layer.operator == "embedding" and layer.parameters:
            return self.gather(nbytes, layer)
        return self.copy(nbytes)

    def _products_of(self, layer: Layer, backward: bool, samples: int, arithmetic: str) -> float:
        m, n, k = product_shape(layer, samples)
        if not backward:
            return self.product(m, n, k, arithmetic, transpose_b=True)
        # The gradient of the weights takes as many FLOPs as the forward pass, the inputs' gradient the rest.
        time = self.product(n, k, m, arithmetic, transpose_a=True) * min(1.0, layer.backward)
        if layer.backward > 1:
            time += self.product(m, k, n, arithmetic) * (layer.backward - 1)
        return time

    def product(
        self, m: int, n: int, k: int, arithmetic: str, transpose_a: bool = False, transpose_b: bool = False
    ) -> float:
        """Return the time in s of a product of random matrices of shapes (m, k) and (k, n)."""
        products = self._products
        a = products.random_matrix((k, m) if transpose_a else (m, k), arithmetic)
        b = products.random_matrix((n, k) if transpose_b else (k, n), arithmetic)
        out = self._device.empty((m, n), a.dtype)
        return self._time(lambda: products.multiply(a, b, out, arithmetic, transpose_a, transpose_b))

    def copy(self, nbytes: float) -> float:
        """Return the time in s to read half of ``nbytes`` and write the other half."""
        xp, count = self._device.xp, max(1, ceil(nbytes / 8))
        source, target = (self._device.zeros((count,), np.float32) for _ in range(2))
        return self._time(lambda: xp.add(source, np.float32(1), out=target))

    def gather(self, nbytes: float, layer: Layer) -> float:
        """Return the time in s to copy random table rows of ``layer``; ``nbytes``: bytes read and written."""
        xp, width = self._device.xp, min(layer.output[-1], layer.parameters)
        table = self._device.zeros((layer.parameters // width, width), np.float32)
        count = max(1, ceil(nbytes / (8 * width)))
        rows = self._device.asarray(np.random.default_rng(0).integers(0, table.shape[0], count))
        target = self._device.empty((count, width), np.float32)
        return self._time(lambda: xp.take(table, rows, axis=0, out=target))

    def _time(self, work: Callable[[], object]) -> float:
        """Return the median time in s of a call of ``work``, over samples of up to 1000 calls in 20 ms."""
        once = min(milliseconds(self._device, work, 2)) * 1e-3
        each = max(1, min(_MOST_CALLS, ceil(_SAMPLE / max(once, 1e-7))))
        return statistics.median(milliseconds(self._device, work, self._repeats, each)) * 1e-3
