"""Model how long a GPU takes for an operator: a roofline with an efficiency per class, or measured times."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import exp, inf, log, sqrt
from typing import Annotated

from pydantic import Field, StrictStr

from wavefabric.base.errors import InputError, choice, show
from wavefabric.fabric.io.tables import Bandwidth, Bytes, Name, Seconds
from wavefabric.training.models.graph import MATRIX_OPERATORS, OPERATORS

#: Number formats for which a device has a peak.
ARITHMETIC = ("fp32", "tf32", "bf16")
#: Number formats of 8 bits, for which only some devices have a peak.
EIGHT_BIT = ("fp8", "mxfp8")

#: Fractions of the peak FLOP/s and of the memory bandwidth that a large operator reaches.
#:
#: Products: cuBLAS reaches 70 to 85 % of the peak of an A100 or V100, 60 to 75 % of an H100's, and models as
#: a whole 52 % (Megatron-LM, arXiv:2104.04473). Convolutions: cuDNN reaches about half. Attention: 50 to 73 %
#: forward on an A100 (FlashAttention-2, arXiv:2307.08691). Streaming: copies reach
#: about 90 % of the bandwidth (BabelStream), kernels of frameworks 80 %, reductions less, row gathers half.
EFFICIENCY = {
    "matmul": (0.75, 0.80),
    "convolution": (0.55, 0.70),
    "attention": (0.45, 0.70),
    "embedding": (0.25, 0.50),
    "normalisation": (0.25, 0.65),
    "elementwise": (0.25, 0.80),
    "pooling": (0.25, 0.65),
    "softmax": (0.25, 0.65),
}
#: Fractions that differ from `EFFICIENCY`. Products: the best of many shapes reaches 86.9 % of the peak of an
#: A100, 80.3 of an H100's, 77.6 of a B200's, 72.9 of a GB200's; in FP8 70.9 (H100), 73.4 (H200), 76.3 and
#: 72.3 % (github.com/stas00/ml-engineering, compute/accelerator): 0.75 of these over 86.9. MXFP8 as FP8,
#: since no measurement was found. Attention on Hopper: 35 to 40 % (FlashAttention-2); on Blackwell as on an
#: A100: cuDNN 9.13 reaches 55 % forward (1605 TFLOP/s of FlashAttention-4 over 1.3,
#: together.ai/blog/flashattention-4).
_H100 = {"matmul": (0.69, 0.80), "attention": (0.375, 0.70), "fp8": (0.61, 0.80)}
DIFFERENT = {
    "h100": _H100,
    "h200": _H100 | {"fp8": (0.63, 0.80)},
    "b200": {"matmul": (0.67, 0.80), "fp8": (0.66, 0.80), "mxfp8": (0.66, 0.80)},
    "gb200": {"matmul": (0.63, 0.80), "fp8": (0.62, 0.80), "mxfp8": (0.62, 0.80)},
}

# The type of a number without unit in device files.
Amount = Annotated[float, "", Field(strict=True, ge=0, lt=1e30)]


@dataclass(frozen=True)
class MeasuredTime:
    """A measured operator: its FLOPs, bytes read and written, and time in s."""

    operator: Name
    arithmetic: Name
    flops: Amount
    bytes: Amount
    seconds: float


@dataclass(frozen=True)
class DeviceModel:
    """Describes the speed and memory of a GPU for the simulation.

    Parameters
    ----------
    peak : mapping of str to float
        Peak FLOP/s for each of `ARITHMETIC`, and for those of `EIGHT_BIT` that the device has.
    bandwidth : float
        Memory bandwidth, B/s.
    memory : float
        Memory capacity, B.
    launch : float
        Fixed time per operator in s, added to the time of the work.
    efficiency : mapping of str to (float, float)
        Fractions of peak and bandwidth that large operators of each class reach; by the name of a format of
        `EIGHT_BIT`, those of products in it, if they differ.
    half_flops : float
        FLOPs of a matrix product that reaches half of the efficiency (`filling`). 0: products of every size
        reach the full efficiency.
    measured : tuple of MeasuredTime
        Measured times, preferred to the roofline; in fp32 for operators that are not matrix products.
    source : str
        Source of the numbers.
    overlap_slowdown : float
        Factor, at least 1, by which computation slows down while the GPU communicates; 1 in the presets.
        Published: 1.19 on average, up to 1.40 (arXiv:2507.03114). Measured on two H200s: 1.29 to 1.65
        (docs/training.md).

    Raises
    ------
    InputError
        If a number is out of range or an operator has no efficiency.
    """

    name: Name
    peak: Mapping[str, float] = field(hash=False)
    bandwidth: Bandwidth
    memory: Bytes
    launch: Seconds
    efficiency: Mapping[str, tuple[float, float]] = field(default_factory=EFFICIENCY.copy, hash=False)
    half_flops: Amount = 0.0
    measured: tuple[MeasuredTime, ...] = field(default=(), hash=False)
    source: StrictStr = ""
    overlap_slowdown: Annotated[float, Field(strict=True, ge=1, le=100)] = 1.0

    def __post_init__(self):
        for key in (*ARITHMETIC, *(key for key in EIGHT_BIT if key in self.peak)):
            _check(f"peak.{key}", self.peak.get(key), positive=True)
        for key in ("bandwidth", "memory"):
            _check(key, getattr(self, key), positive=True)
        for key in ("launch", "half_flops"):
            _check(key, getattr(self, key))
        _check("overlap_slowdown", self.overlap_slowdown, least=1.0)
        for operator in (*OPERATORS, *(key for key in EIGHT_BIT if key in self.efficiency)):
            for fraction in self.efficiency.get(operator, (None,)):
                _check(f"efficiency.{operator}", fraction, positive=True, most=1.0)
        seen = set()
        for number, row in enumerate(self.measured):
            _check_row(f"measured[{number}]", row)
            key = row.operator, row.arithmetic, row.flops, row.bytes
            if key in seen:
                raise InputError(f"measured[{number}]: given twice; allowed: each flops and bytes once")
            seen.add(key)

    def check_arithmetic(self, key: str, arithmetic: str) -> None:
        """Raise an `InputError` that begins with ``key`` if the device has no peak for ``arithmetic``."""
        allowed = [name for name in (*ARITHMETIC, *EIGHT_BIT) if name in self.peak]
        if arithmetic not in allowed:
            raise InputError(f"{key}: {arithmetic} given; allowed: {', '.join(allowed)} on {self.name}")

    def seconds(self, operator: str, flops: float, nbytes: float, arithmetic: str) -> float:
        """Return the time of one operator in s.

        Without measured times for this operator and arithmetic, the time is `roofline`. If exactly this work
        was measured, the time is the measured one. Otherwise the ratio of measured time to roofline time is
        interpolated between measurements: the logarithm of the ratio over the logarithm of the roofline time.
        Outside the measured range the nearest ratio applies.

        Parameters
        ----------
        operator : str
            One of `wavefabric.training.models.graph.OPERATORS`.
        flops, nbytes : float
            FLOPs, and bytes read and written.
        arithmetic : str
            One of `ARITHMETIC` or `EIGHT_BIT`; used only for matrix products, other operators run in fp32.
        """
        table = self._tables.get((operator, _effective(operator, arithmetic)))
        modelled = self.roofline(operator, flops, nbytes, arithmetic)
        return modelled if table is None else table.seconds(flops, nbytes, modelled)

    def roofline(self, operator: str, flops: float, nbytes: float, arithmetic: str) -> float:
        """Return the roofline time in s: the longer of arithmetic and memory time, plus the launch time.

        With F = ``flops`` (plus `filling` for matrix products), and e and m the fractions of peak and
        bandwidth that `efficiency` states, the time is launch + max(F/(peak e), bytes/(bandwidth m)).
        Williams, Waterman and Patterson 2009, doi:10.1145/1498765.1498785.
        """
        effective = _effective(operator, arithmetic)
        fraction, stream = self.efficiency.get(effective, self.efficiency[operator])
        rate = self.peak[effective] * fraction
        work = flops + self.filling(flops) if operator in MATRIX_OPERATORS else flops
        return self.launch + max(work / rate, nbytes / (self.bandwidth * stream))

    def filling(self, flops: float) -> float:
        """Return the FLOPs that a matrix product loses because it does not fill the device.

        With F = ``flops`` and F½ = ``half_flops``, the loss is √(F F½). The product thus reaches
        F/(F + √(F F½)) of the efficiency, which is half at F = F½, and the time of small products is ∝ √F.
        This lies between two limits for square products that are too small for all multiprocessors: with
        tiles of one size, the time is that of one tile, ∝ F^(1/3); if any tile size were equally good, ∝ F.
        Libraries lie between the two, because they choose smaller tiles and split sums.
        """
        return sqrt(flops * self.half_flops)

    def scaled(self, factor: float) -> "DeviceModel":
        """Return this device with everything ``factor`` times as fast and the same memory capacity."""
        _check("factor", factor, positive=True)
        return replace(
            self,
            name=f"{self.name} x {factor:g}",
            peak={key: value * factor for key, value in self.peak.items()},
            bandwidth=self.bandwidth * factor,
            launch=self.launch / factor,
            measured=tuple(replace(row, seconds=row.seconds / factor) for row in self.measured),
        )

    @cached_property
    def _tables(self) -> "dict[tuple[str, str], _Table]":
        rows = defaultdict(list)
        for row in self.measured:
            rows[row.operator, row.arithmetic].append(row)
        return {key: _Table(self, some) for key, some in rows.items()}


class _Table:
    """Holds measured times of one operator in one number format, and their ratios to roofline times."""

    def __init__(self, device: DeviceModel, rows: list[MeasuredTime]):
        self._exact = {(row.flops, row.bytes): row.seconds for row in rows}
        ratios = defaultdict(list)
        for row in rows:
            modelled = device.roofline(row.operator, row.flops, row.bytes, row.arithmetic)
            ratios[modelled].append(log(row.seconds / modelled))
        self._at = sorted(ratios)
        # Rows with different FLOPs and bytes may have equal roofline times; interpolation uses their mean.
        self._logs = [sum(ratios[at]) / len(ratios[at]) for at in self._at]

    def seconds(self, flops: float, nbytes: float, modelled: float) -> float:
        exact = self._exact.get((flops, nbytes))
        if exact is not None:
            return exact
        after = bisect_left(self._at, modelled)
        if after in (0, len(self._at)):
            return modelled * exp(self._logs[min(after, len(self._at) - 1)])
        (low, high), (a, b) = self._at[after - 1 : after + 1], self._logs[after - 1 : after + 1]
        return modelled * exp(a + (b - a) * log(modelled / low) / log(high / low))


def _effective(operator: str, arithmetic: str) -> str:
    return arithmetic if operator in MATRIX_OPERATORS else "fp32"


def _check(key: str, value: object, positive: bool = False, most: float = inf, least: float = 0.0) -> None:
    number = isinstance(value, int | float) and least <= value <= most and value != inf
    if not number or (positive and value == 0):
        words, upto = "above 0" if positive else f"from {least:g}", "" if most == inf else f", up to {most:g}"
        raise InputError(f"{key}: {show(value)} given; allowed: a number {words}{upto}")


def _check_row(where: str, row: MeasuredTime) -> None:
    arithmetic = (*ARITHMETIC, *EIGHT_BIT) if row.operator in MATRIX_OPERATORS else ("fp32",)
    for key, allowed in (("operator", OPERATORS), ("arithmetic", arithmetic)):
        choice(f"{where}.{key}", getattr(row, key), allowed)
    for key in ("flops", "bytes"):
        _check(f"{where}.{key}", getattr(row, key))
    _check(f"{where}.seconds", row.seconds, positive=True)
    if not row.flops and not row.bytes:
        raise InputError(f"{where}.bytes: 0 given, and no flops; allowed: one of them above 0")


#: NVIDIA's data sheets: peaks (TFLOP/s, dense) by `ARITHMETIC` and `EIGHT_BIT`, memory (GB, GB/s),
#: multiprocessors, source.
_SHEETS = {
    "a100": ((19.5, 156, 312), (80, 2039), 108, "NVIDIA A100 80GB SXM data sheet, 2021"),
    "h100": ((67, 494.5, 989, 1979), (80, 3350), 132, "NVIDIA H100 SXM data sheet, 2023"),
    "h200": ((67, 494.5, 989, 1979), (141, 4800), 132, "NVIDIA H200 SXM data sheet, 2024"),
    "b200": ((75, 1100, 2250, 4500, 4500), (180, 7700), 148, "NVIDIA Blackwell data sheet, 2025: HGX B200"),
    "gb200": ((80, 1250, 2500, 5000, 5000), (186, 8000), 148, "NVIDIA Blackwell data sheet, 2025: a GPU of a "
              "GB200 NVL72"),
    "v100": ((15.7, 15.7, 125), (32, 900), 80, "NVIDIA V100 SXM2 32GB data sheet, 2018; "
             "tf32 is its fp32, bf16 its fp16"),
}  # fmt: skip
#: GPUs by name. ``launch`` is 5 µs: an empty kernel takes 2 to 3 µs, a framework's call more. ``half_flops``
#: is for a square product whose tiles of 128 × 128 occupy half of the multiprocessors.
DEVICES = {
    name: DeviceModel(
        name=name,
        peak={key: value * 1e12 for key, value in zip((*ARITHMETIC, *EIGHT_BIT), peaks, strict=False)},
        bandwidth=bandwidth * 1e9,
        memory=capacity * 1e9,
        launch=5e-6,
        efficiency=EFFICIENCY | DIFFERENT.get(name, {}),
        half_flops=2 * (128 * sqrt(multiprocessors / 2)) ** 3,
        source=source,
    )
    for name, (peaks, (capacity, bandwidth), multiprocessors, source) in _SHEETS.items()
}
