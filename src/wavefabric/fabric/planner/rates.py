"""Reads device files: how fast a GPU or CPU runs the parts of a step, from `wavefabric bench solver-rates`.

``h200`` comes with the package and was measured. The other devices of the package scale the times of ``h200``
by a factor and stand for machines used in papers.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt

from wavefabric.base.errors import InputError, not_one_of, show
from wavefabric.base.files.input import naming, parse_json, parse_toml, read_text
from wavefabric.base.files.validation_errors import checked
from wavefabric.fabric.io.tables import Bytes, Seconds
from wavefabric.fabric.planner.modelled_stages import kernel_runs

DEVICES = Path(__file__).parent / "devices"
#: Fields that each kernel of the fused ultrasound step reads or writes; used if a device lacks kernel times.
FIELDS = {
    "y_transform": 2, "y_gradient": 5, "z_gradient": 3, "z_divergence": 2, "z_scale": 2.5, "x_velocity": 12,
    "x_density": 7, "x_pressure": 10, "x_forward": 2,
}  # fmt: skip
#: Kernels that only lossy media run, with a kernel along the same axis that every medium runs.
_LIKE = {"z_scale": "z_divergence", "x_pressure": "x_density"}
#: Bytes of shared memory per block on an H100 or H200; decides which transform lengths have kernels.
_BLOCK_MEMORY = 232448

Pairs = list[tuple[float, float]]
_Times = Annotated[list[tuple[PositiveFloat, PositiveFloat]], Field(min_length=1), AfterValidator(sorted)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class StepRow(_Table):
    """Holds the measured time of a whole ultrasound step."""

    precision: str
    medium: str
    stages: str
    shape: tuple[PositiveInt, PositiveInt, PositiveInt]
    ms: PositiveFloat


class PackingTable(_Table):
    """Holds B/s of packing and unpacking whole planes or rows, some points of every row, or half spectra."""

    planes: float = Field(gt=0)
    points: float = Field(gt=0)
    spectrum: float = Field(gt=0)


class RatesTable(_Table):
    """Describes the JSON file that `wavefabric bench solver-rates` writes; kernel times are in ps."""

    memory_bytes: int = Field(gt=0)
    copy_bytes_per_second: float = Field(gt=0)
    pack_bytes_per_second: PackingTable
    launch_seconds: float = Field(ge=0)
    kernels: dict[str, dict[str, dict[str, _Times]]] = Field(default_factory=dict)
    steps: list[StepRow] = Field(default_factory=list)
    linear: dict[str, _Times] = Field(default_factory=dict)
    kerr: dict[str, dict[str, dict[str, dict[str, _Times]]]] = Field(default_factory=dict)
    machine: dict[str, Any] = Field(default_factory=dict)


class ScaledTable(_Table, extra="forbid"):
    """Describes a device file that scales the times of another device by a known ratio."""

    name: str
    source: str = ""
    based_on: str
    times: float = Field(gt=0, le=1e6)
    memory: Bytes
    launch: Seconds | None = None


@dataclass(frozen=True)
class SolverRates:
    """Computes the times of kernels on one device: measured times in ``tables``, multiplied by ``factor``.

    Memory checks accept this object in place of a `wavefabric.runtime.device.Device`.
    """

    label: str
    tables: RatesTable = field(repr=False)
    factor: float = 1.0
    memory_bytes: int = 0
    source: str = ""
    #: Attributes that a `Device` has too.
    name: str = "cuda:0"
    threads: int = 1
    block_memory: int = _BLOCK_MEMORY
    _kernels: dict[tuple, float] = field(default_factory=dict, init=False, repr=False, compare=False)

    def memory(self) -> tuple[int, int]:
        """Return free and total memory in bytes."""
        return self.memory_bytes, self.memory_bytes

    @property
    def launch(self) -> float:
        """Return the time in s between two kernels of a CUDA graph."""
        return self.tables.launch_seconds

    def pack(self, nbytes: float, kind: str) -> float:
        """Return the time in s to pack or unpack ``nbytes``; ``kind`` is a field of `PackingTable`."""
        return self.launch + self.factor * nbytes / getattr(self.tables.pack_bytes_per_second, kind)

    def copy(self, nbytes: float) -> float:
        """Return the time in s in which the memory reads or writes ``nbytes``."""
        return self.factor * nbytes / self.tables.copy_bytes_per_second

    # --- Ultrasound ----------------------------------------------------------------------------------

    def kernel(self, name: str, precision: str, medium: str, shape: Sequence[int], points: int) -> float:
        """Return the time in s per point of one run of the fused kernel ``name``; of a transform, per field.

        ``shape`` is the transformed grid (Nx, Ny, Nz), ``points`` the number of points on this device.
        """
        key = name, precision, medium, tuple(shape), points
        if key not in self._kernels:
            if name in self._timed(precision, medium):
                seconds = self._kernel(name, precision, medium, shape)
                if pairs := self._ratios.get((precision, medium)):
                    # Below the fewest timed points the time stays constant, because launches dominate.
                    seconds *= _between(pairs, points) * max(1.0, pairs[0][0] / points)
            else:
                whole = sum(count * FIELDS[each] for each, count in _runs(medium).items())
                seconds = self.step(precision, medium, "fused", shape) * FIELDS[name] / whole
            self._kernels[key] = seconds
        return self._kernels[key]

    def _timed(self, precision: str, medium: str) -> set[str]:
        """Return the names of measured kernels; empty unless all kernels of a step were measured."""
        names = self.tables.kernels.get(precision, {}).get(medium, {}).keys()
        return set(names) if names >= _runs(medium).keys() else set()

    def _kernel(self, name: str, precision: str, medium: str, shape: Sequence[int]) -> float:
        """Return the time in s per point of a kernel, for the grid's length along the kernel's axis.

        A kernel is timed at few lengths; its ratio to a similar kernel timed at more lengths is interpolated.
        """
        times, length = self.tables.kernels[precision][medium][name], shape["xyz".index(name[0])]
        most = _LIKE.get(name, name)
        media = (timed for kernels in self.tables.kernels.values() for timed in kernels.values())
        like = max((timed[most] for timed in media if most in timed), key=len)
        ratios = [(n, ps / _between(like, n)) for n, ps in times]
        return self.factor * 1e-12 * _between(like, length) * _between(ratios, length)

    @cached_property
    def _ratios(self) -> dict[tuple[str, str], Pairs]:
        """Return a dictionary from (precision, medium) to corrections of kernel times for small grids.

        A correction is (points, time of a whole step ÷ time of its kernels). Kernels were timed on large
        grids, which fill the device.
        """
        ratios: dict[tuple[str, str], Pairs] = {}
        for row in self.tables.steps:
            if row.stages == "fused" and self._timed(row.precision, row.medium):
                how = row.precision, row.medium, row.shape
                kernels = sum(count * self._kernel(name, *how) for name, count in _runs(row.medium).items())
                points = math.prod(row.shape)
                taken = self.factor * row.ms * 1e-3 / points
                ratios.setdefault((row.precision, row.medium), []).append((points, taken / kernels))
        return {key: sorted(pairs) for key, pairs in ratios.items()}

    def step(self, precision: str, medium: str, stages: str, shape: Sequence[int]) -> float:
        """Return seconds per point of a whole step, from the timed grid most like ``shape`` (Nx, Ny, Nz)."""
        rows = [r for r in self.tables.steps if r.precision == precision and r.stages == stages]
        rows = [r for r in rows if r.medium == medium] or rows
        if not rows:
            raise InputError(f"device: {self.label} has no {stages} ultrasound step in {precision} precision")

        def unlike(row: StepRow) -> float:
            return sum(abs(math.log(a / b)) for a, b in zip(row.shape, shape, strict=True))

        nearest = min(map(unlike, rows))
        rates = [r.ms / math.prod(r.shape) for r in rows if unlike(r) <= nearest + 1e-9]
        return self.factor * 1e-3 * min(rates)

    # --- Fibre ---------------------------------------------------------------------------------------

    def linear(self, precision: str, samples: int, rows: int) -> float:
        """Return the time in s of the linear propagation of ``rows`` rows of ``samples`` samples."""
        if precision not in self.tables.linear:
            raise InputError(f"device: {self.label} has no linear propagation in {precision} precision")
        each = self.factor * 1e-12 * _between(self.tables.linear[precision], samples)
        return (1 if samples <= 4096 else 3) * self.launch + each * samples * rows

    def kerr(self, operator: str, precision: str, form: str, cut: str, rows: int) -> float:
        """Return the time in s per complex number of a Kerr operator on ``rows`` rows.

        ``form``: of the coupling, dense or factored; ``cut``: ``one`` kernel, or ``split`` at exchanges.
        """
        try:
            times = self.tables.kerr[precision][operator][form][cut]
        except KeyError:
            actual = f"no Kerr operator {operator} ({form}, {cut}) in {precision} precision"
            raise InputError(f"device: {self.label} has {actual}") from None
        return self.factor * 1e-12 * _between(times, rows)


def _runs(medium: str) -> Mapping[str, float]:
    """Return `kernel_runs` for a ``medium``: no fractional Laplacians if homogeneous, else two."""
    return kernel_runs(0 if medium == "homogeneous" else 2)


def _between(pairs: Pairs, at: float) -> float:
    """Interpolate ``pairs`` (length, value) at length ``at``, linearly in log(length); constant outside."""
    lengths, values = zip(*pairs, strict=True)
    return float(np.interp(math.log(at), np.log(lengths), values))


#: Names of the device files that come with the package.
DEVICE_NAMES = tuple(sorted(path.stem for path in DEVICES.iterdir() if path.suffix in (".json", ".toml")))


def load_rates(text: str | Path) -> SolverRates:
    """Load the times of a device: a name of `DEVICE_NAMES`, or a file of ``wavefabric bench solver-rates``.

    A TOML file that scales another device is accepted too::

        name = "v100"
        based_on = "h200"
        times = 4.1              # how many times as long everything takes
        memory = "32 GB"
        source = "origin of the factor"
        launch = "5 us"          # optional, between two kernels

    Raises `InputError` with a one-line message that names the key, the value given and the allowed values.

    Examples
    --------
    >>> from wavefabric.fabric.planner import load_rates
    >>> rates = load_rates("h200")
    >>> f"{1e3 * rates.linear('double', 2**21, 30):.1f} ms"
    '1.8 ms'
    """
    name = str(text)
    if isinstance(text, str) and name in DEVICE_NAMES:
        path = next(path for path in DEVICES.iterdir() if path.stem == name)
    else:
        path = Path(text)
        if path.suffix not in (".json", ".toml"):
            raise InputError(f"device: {not_one_of(name, DEVICE_NAMES, 'a JSON or TOML file')}")
    content = read_text(path, "device")
    with naming(path):
        if path.suffix == ".toml":
            return _scaled(checked(ScaledTable, parse_toml(content, "device")))
        parsed = parse_json(content, "device", allowed="that of wavefabric bench solver-rates")
        tables = checked(RatesTable, parsed)
    machine = tables.machine
    cpu, threads = machine.get("device") == "cpu", machine.get("threads")
    threads = threads if isinstance(threads, int) else 1
    kind = {"name": "cpu", "block_memory": 0, "threads": threads} if cpu else {}
    chip = machine.get("gpu") or machine.get("cpu")
    source = f"measured on {chip or 'unknown'} with wavefabric {machine.get('wavefabric', '?')}"
    label = path.stem if path.parent == DEVICES else chip or path.stem
    return SolverRates(str(label), tables, 1.0, tables.memory_bytes, source, **kind)


def _scaled(table: ScaledTable) -> SolverRates:
    if table.based_on.endswith(".toml"):
        allowed = f"a JSON file, {', '.join(DEVICE_NAMES)}"
        raise InputError(f"based_on: {show(table.based_on)} given; allowed: {allowed}")
    base = load_rates(table.based_on)
    tables = base.tables
    if table.launch is not None:
        tables = tables.model_copy(update={"launch_seconds": table.launch})
    factor = base.factor * table.times
    changed = {"label": table.name, "tables": tables, "factor": factor, "memory_bytes": int(table.memory)}
    return replace(base, **changed, source=table.source)
