"""How long a GPU takes for one operator: a roofline with an efficiency for each class, or measured times."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import exp, inf, log, sqrt
from typing import Annotated

from pydantic import Field, StrictStr

from wavefabric.errors import InputError, choice, show
from wavefabric.fabric.io.tables import Bandwidth, Bytes, Name, Seconds
from wavefabric.training.models.graph import MATRIX_OPERATORS, OPERATORS

#: Arithmetic that a device has a peak for.
ARITHMETIC = ("fp32", "tf32", "bf16")

#: Shares of the peak FLOP/s and of the memory bandwidth that a large operator reaches.
#:
#: Products: cuBLAS reaches 70 to 85 % of the peak of an A100 or V100, 60 to 75 % of an H100's, and models as
#: a whole 52 % (Megatron-LM, arXiv:2104.04473). Convolutions: cuDNN reaches about half. Attention: 50 to 73 %
#: forward on an A100 (FlashAttention-2, arXiv:2307.08691). Streaming: copies reach
#: about 90 % of the bandwidth (BabelStream), kernels of frameworks 80 %, those that reduce less, gathers of
#: rows half.
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
#: The same of an H100 and H200 where it differs. Products: the best of many shapes reaches 86.9 % of the peak
#: of an A100, 80.3 % of an H100 (github.com/stas00/ml-engineering, compute/accelerator): 0.75 · 80.3/86.9.
#: Attention: 35 to 40 % (FlashAttention-2).
HOPPER = {"matmul": (0.69, 0.80), "attention": (0.375, 0.70)}

# What files may hold, numbers with their units.
Amount = Annotated[float, "", Field(strict=True, ge=0, lt=1e30)]


@dataclass(frozen=True)
class MeasuredTime:
    """One operator that was timed: its FLOPs, bytes read and written, and seconds."""

    operator: Name
    arithmetic: Name
    flops: Amount
    bytes: Amount
    seconds: float


@dataclass(frozen=True)
class DeviceModel:
    """A GPU as the simulation sees it.

    Parameters
    ----------
    name : str
    peak : mapping of str to float
        FLOP/s of each of `ARITHMETIC`.
    bandwidth : float
        Of the memory, B/s.
    memory : float
        B.
    launch : float
        s that each operator takes besides its work.
    efficiency : mapping of str to (float, float)
        For each operator the shares of the peak and of the bandwidth that large ones reach.
    half_flops : float
        FLOPs of a matrix product that reaches half of its share; 0: all reach it. See `filling`.
    measured : tuple of MeasuredTime
        Times that go before the roofline; the arithmetic of operators that are no matrix products is fp32.
    source : str
        Where the numbers are from.
    overlap_slowdown : float
        How many times as long computation takes while the GPU communicates, from 1, which presets have: no
        value was measured here. Published: 1.19 on average and up to 1.40 over several GPUs and workloads
        (arXiv:2507.03114).

    Raises
    ------
    InputError
        For numbers out of range, and for an operator without efficiency.
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
        for key in ARITHMETIC:
            _check(f"peak.{key}", self.peak.get(key), positive=True)
        for key in ("bandwidth", "memory"):
            _check(key, getattr(self, key), positive=True)
        for key in ("launch", "half_flops"):
            _check(key, getattr(self, key))
        _check("overlap_slowdown", self.overlap_slowdown, least=1.0)
        for operator in OPERATORS:
            for fraction in self.efficiency.get(operator, (None,)):
                _check(f"efficiency.{operator}", fraction, positive=True, most=1.0)
        seen = set()
        for number, row in enumerate(self.measured):
            _check_row(f"measured[{number}]", row)
            key = row.operator, row.arithmetic, row.flops, row.bytes
            if key in seen:
                raise InputError(f"measured[{number}]: given twice; allowed: each flops and bytes once")
            seen.add(key)

    def seconds(self, operator: str, flops: float, nbytes: float, arithmetic: str) -> float:
        """Time of one operator, s.

        Without measured times `roofline`. With some of this operator and arithmetic: exact at those; between
        them the ratio of measured time to roofline is interpolated, its logarithm linear in that of the
        roofline; beyond them the ratio of the nearest holds.

        Parameters
        ----------
        operator : str
            Of `wavefabric.training.models.graph.OPERATORS`.
        flops, nbytes : float
            FLOPs, and bytes read and written.
        arithmetic : str
            Of `ARITHMETIC`; of matrix products alone, others run at fp32.
        """
        table = self._tables.get((operator, _effective(operator, arithmetic)))
        modelled = self.roofline(operator, flops, nbytes, arithmetic)
        return modelled if table is None else table.seconds(flops, nbytes, modelled)

    def roofline(self, operator: str, flops: float, nbytes: float, arithmetic: str) -> float:
        """The larger of the times for arithmetic and for memory, and the launch, s.

        launch + max((F + `filling`)/(peak e), bytes/(bandwidth m)): Williams, Waterman and Patterson 2009,
        doi:10.1145/1498765.1498785, with the shares e and m of `efficiency`.
        """
        fraction, stream = self.efficiency[operator]
        rate = self.peak[_effective(operator, arithmetic)] * fraction
        work = flops + self.filling(flops) if operator in MATRIX_OPERATORS else flops
        return self.launch + max(work / rate, nbytes / (self.bandwidth * stream))

    def filling(self, flops: float) -> float:
        """FLOPs that a product leaves undone while it does its own, since it does not fill the device.

        √(F F½), so that F/(F + √(F F½)) of the efficiency is reached: half of it at F½. Were tiles of one
        size, a square product too small for all multiprocessors would take the time of one tile, ∝ F^(1/3);
        were any size as good, ∝ F. Libraries choose smaller tiles and split sums, and lie between.
        """
        return sqrt(flops * self.half_flops)

    def scaled(self, factor: float) -> "DeviceModel":
        """The same device with all it does so many times as fast, its memory as large as before."""
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
    """Measured times of one operator and arithmetic: their ratios to the roofline, by the roofline."""

    def __init__(self, device: DeviceModel, rows: list[MeasuredTime]):
        self._exact = {(row.flops, row.bytes): row.seconds for row in rows}
        ratios = defaultdict(list)
        for row in rows:
            modelled = device.roofline(row.operator, row.flops, row.bytes, row.arithmetic)
            ratios[modelled].append(log(row.seconds / modelled))
        self._at = sorted(ratios)
        # Rows may differ in FLOPs and bytes and share a roofline: between rows their mean counts.
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
    arithmetic = ARITHMETIC if row.operator in MATRIX_OPERATORS else ("fp32",)
    for key, allowed in (("operator", OPERATORS), ("arithmetic", arithmetic)):
        choice(f"{where}.{key}", getattr(row, key), allowed)
    for key in ("flops", "bytes"):
        _check(f"{where}.{key}", getattr(row, key))
    _check(f"{where}.seconds", row.seconds, positive=True)
    if not row.flops and not row.bytes:
        raise InputError(f"{where}.bytes: 0 given, and no flops; allowed: one of them above 0")


#: NVIDIA's data sheets: peaks (TFLOP/s, dense), memory (GB, GB/s), multiprocessors, source.
_SHEETS = {
    "a100": ((19.5, 156, 312), (80, 2039), 108, "NVIDIA A100 80GB SXM data sheet, 2021"),
    "h100": ((67, 494.5, 989), (80, 3350), 132, "NVIDIA H100 SXM data sheet, 2023"),
    "h200": ((67, 494.5, 989), (141, 4800), 132, "NVIDIA H200 SXM data sheet, 2024"),
    "v100": ((15.7, 15.7, 125), (32, 900), 80, "NVIDIA V100 SXM2 32GB data sheet, 2018; "
             "tf32 is its fp32, bf16 its fp16"),
}  # fmt: skip
#: GPUs by name. 5 µs a launch: an empty kernel takes 2 to 3 µs, and a framework's call more. Half filled by a
#: square product whose tiles of 128 × 128 occupy half of the multiprocessors.
DEVICES = {
    name: DeviceModel(
        name=name,
        peak={key: value * 1e12 for key, value in zip(ARITHMETIC, peaks, strict=True)},
        bandwidth=bandwidth * 1e9,
        memory=capacity * 1e9,
        launch=5e-6,
        efficiency=EFFICIENCY | (HOPPER if name in ("h100", "h200") else {}),
        half_flops=2 * (128 * sqrt(multiprocessors / 2)) ** 3,
        source=source,
    )
    for name, (peaks, (capacity, bandwidth), multiprocessors, source) in _SHEETS.items()
}
