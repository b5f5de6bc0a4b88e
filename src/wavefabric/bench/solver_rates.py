"""Benchmark ``solver-rates``: how fast this device runs each part of a step, for `wavefabric plan`.

Times are per point of the grid, or per complex number of the field, by what they depend on: a kernel of the
fused ultrasound step by the length of its axis, linear propagation by the length of a row, a Kerr operator
by the number of rows.
"""

import gc
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.acoustics.choose_stages import make_stages
from wavefabric.acoustics.fused.axis_kernels_cuda import AxisKernels, longest_axes
from wavefabric.acoustics.run_settings import PRECISIONS
from wavefabric.acoustics.solver.step import Step
from wavefabric.bench.common import Triple, calls, check_range, check_words, silent
from wavefabric.bench.fibre_scaling import EXCHANGES, first_modes
from wavefabric.bench.fibre_step import DTYPES
from wavefabric.bench.ultrasound_cases import ALL_MEDIA
from wavefabric.bench.ultrasound_ranks import Stepper, light_problem
from wavefabric.device import Device, get_device
from wavefabric.exchange import solo
from wavefabric.execution import report, timing
from wavefabric.optics.propagation.operators import FibreOperators
from wavefabric.optics.propagation.operators_ranks import ExchangeOptions, rank_operators
from wavefabric.optics.propagation.rank_modes import RankModes

#: Points along an axis: products of 2, 3, 5 and 7, close to one another where grids are.
LENGTHS = (
    64, 96, 128, 160, 192, 216, 240, 256, 288, 320, 360, 384, 420, 448, 480, 486, 490, 500, 512, 540, 576,
    600, 640, 672, 720, 768, 800, 864, 900, 960, 972, 1000, 1024, 1080, 1152, 1200, 1280, 1344, 1440, 1536,
    1728, 1920, 2048,
)  # fmt: skip
#: Of each kind of medium every so many of these: kernels along y and z do not depend on it.
_EVERY = {"homogeneous": 1, "heterogeneous": 3, "tissues": 3}
#: Cubes that whole steps are timed of: fused (small ones show what launches cost), and plain.
_CUBES = {"cpu": ((48, 96, 128), (96,)), "cuda": ((64, 96, 128, 192, 256, 512), (128, 256, 512))}
_MOST_MODES = 120
#: Rows that Kerr operators are timed with.
_ROWS = {"cpu": (2, 12, 30), "cuda": (2, 6, 12, 30, 60, 120, 240)}
#: log2 of: points of a grid whose kernels are timed, numbers of a field, samples of the longest row.
_POINTS, _NUMBERS, _LONGEST = 27, {"cpu": 18, "cuda": 26}, {"cpu": 16, "cuda": 23}
#: Points along x and y of planes that are packed.
_PLANE = {"cpu": 128, "cuda": 512}
_SAMPLE_RATE, _STEP, _AMPLITUDE = 4.096e12, 10.0, 1e-3
_SAMPLE_MS = 20.0


@dataclass(frozen=True)
class SolverRatesOptions:
    """Options of `run`."""

    media: Sequence[str] = ALL_MEDIA
    precisions: Sequence[str] = ("single", "double")
    repeats: int = 3

    def __post_init__(self):
        check_words("medium", self.media, ALL_MEDIA)
        check_words("precision", self.precisions, PRECISIONS)
        check_range("repeats", self.repeats, 1)


def run(
    device: str | Device = "auto",
    threads: int | None = None,
    progress: Callable[[str], object] = silent,
    **options: Any,
) -> dict[str, Any]:
    """Time the parts of steps of both simulators.

    ``options`` are those of `SolverRatesOptions`. Gives, with times in ps, lengths in points:

    - ``kernels``: of precision, medium and kernel of the fused ultrasound step (GPU) pairs of length and
      time a point; of ``y_transform``, ``z_divergence``, ``z_scale`` and ``x_forward`` for one field;
    - ``steps``: whole ultrasound steps, with precision, medium, stages, shape and ``ms``;
    - ``linear``: of each precision pairs of samples a row and time a complex number;
    - ``kerr``: of precision, operator, form (dense or factored), ``one`` or ``split`` pairs of rows and time
      a complex number;
    - ``copy_bytes_per_second``; ``pack_bytes_per_second``: of planes, of 16 points of every row, of spectra;
      ``memory_bytes``; ``launch_seconds`` of a kernel that has nothing to do.
    """
    request = SolverRatesOptions(**options)
    device = get_device(device, threads) if isinstance(device, str) else device
    launch, kernels = _launch(device, request.repeats), {}
    if device.name != "cpu":
        for precision, medium in itertools.product(request.precisions, request.media):
            thinned = _EVERY[medium] * (1 if precision == "single" else 3)
            times = _kernels(device, medium, precision, LENGTHS[::thinned], request.repeats, progress)
            kernels.setdefault(precision, {})[medium] = times
    return {
        "benchmark": "solver-rates",
        "memory_bytes": device.memory()[1],
        "copy_bytes_per_second": timing.copy_bandwidth(device),
        "pack_bytes_per_second": _packing(device, request.repeats),
        "kernels": kernels,
        "steps": list(_steps(device, request, progress)),
        "launch_seconds": launch,
        "linear": {
            each: _linear(device, each, request.repeats, launch, progress) for each in request.precisions
        },
        "kerr": {each: _kerr(device, each, request.repeats, progress) for each in request.precisions},
        "machine": timing.machine(device),
    }


# --- Ultrasound ------------------------------------------------------------------------------------------


def grids(lengths: Sequence[int], dtype, points: int) -> list[Triple]:
    """Grids of about so many points, in which each length is once along each axis."""
    most_x, most_y, most_z = longest_axes(dtype)
    left = [n for n in lengths if n <= most_z]
    shapes = []
    for x, y in zip(lengths, reversed([n for n in lengths if n <= most_y]), strict=False):
        z = min(left, key=lambda n, area=x * y: abs(math.log2(n * area / points))) if left else lengths[0]
        left = [n for n in left if n != z]
        if x <= most_x:
            shapes.append((x, y, z))
    return shapes


@contextmanager
def _launches() -> Iterator[list[tuple]]:
    """The launches of fused kernels within, with what they were called with."""
    original, seen = AxisKernels._launch, []

    def launch(self, name, grid, *arguments):
        seen.append((name, grid, lambda: original(self, name, grid, *arguments)))
        original(self, name, grid, *arguments)

    AxisKernels._launch = launch
    try:
        yield seen
    finally:
        AxisKernels._launch = original


def _kernels(device, medium, precision, lengths, repeats, progress) -> dict[str, list[list[float]]]:
    dtype, times = np.dtype(PRECISIONS[precision]), {}
    for shape in grids(lengths, dtype, 1 << _POINTS):
        progress(f"{medium}, {precision}: kernels of {report.shape_words(shape)}")
        stages = make_stages(device, light_problem(medium, shape), dtype)
        step = Step(stages)
        with _launches() as seen:
            step.advance(stages.sources.active(100))
            stages.transform_pressure()
        each: dict[str, list[float]] = {}
        for name, grid, launch in seen:
            # Kernels of several spectra count for one.
            layers = grid[2] if name in ("y_transform", "z_divergence", "z_scale") else 1
            taken = min(timing.milliseconds(device, launch, repeats, 5)) / layers
            each.setdefault(name, []).append(taken * 1e9 / math.prod(shape))
        for name, all_times in each.items():
            length = shape["xyz".index(name[0])]
            times.setdefault(name, []).append([length, float(f"{sum(all_times) / len(all_times):.4g}")])
        del stages, step, seen
        gc.collect()
    return {name: sorted(pairs) for name, pairs in times.items()}


def _packing(device: Device, repeats: int) -> dict[str, float]:
    """Bytes that are packed, or unpacked, a second: planes, 16 points of every row, half of a spectrum."""
    kernels, n = device.kernels("wavefabric.exchange.pack"), _PLANE["cpu" if device.name == "cpu" else "cuda"]
    z, y, x = (slice(0, n // 4), slice(0, n), slice(0, n))
    boxes = {
        "planes": (slice(16, 32), y, x, np.float32, 3),
        "points": (z, y, slice(16, 32), np.float32, 3),
        "spectrum": (z, slice(0, n // 2), x, np.complex64, 1),
    }
    rates = {}
    for name, (*box, dtype, count) in boxes.items():
        fields = [device.zeros((n // 4, n, n), dtype) for _ in range(count)]
        table = kernels.make_table(device, [tuple(box)], count)
        buffer = device.zeros((count * math.prod(s.stop - s.start for s in box),), dtype)

        def work(fields=fields, table=table, buffer=buffer) -> None:
            kernels.pack(buffer, fields, table)
            kernels.unpack(buffer, fields, table, None)

        ms = min(timing.milliseconds(device, work, repeats, calls(device, work, _SAMPLE_MS)))
        rates[name] = float(f"{2 * buffer.nbytes / ms * 1e3:.4g}")
    return rates


def _steps(device: Device, request: SolverRatesOptions, progress) -> Iterator[dict[str, Any]]:
    fused, plain = _CUBES["cpu" if device.name == "cpu" else "cuda"]
    for precision, medium in itertools.product(request.precisions, request.media):
        for stages, n in [("fused", n) for n in fused] + [("plain", n) for n in plain]:
            progress(f"{medium}, {precision}: {stages} step of {n}³")
            problem, dtype = light_problem(medium, (n,) * 3), np.dtype(PRECISIONS[precision])
            work = Stepper(make_stages(device, problem, dtype, stages == "plain"))
            number = calls(device, work, _SAMPLE_MS)
            ms = min(timing.milliseconds(device, work, request.repeats, number))
            facts = {"precision": precision, "medium": medium, "stages": stages}
            yield facts | {"shape": [n] * 3, "ms": float(f"{ms:.4g}")}
            del work
            gc.collect()


# --- Fibre -----------------------------------------------------------------------------------------------


def _field(device: Device, rows: int, n: int, dtype):
    A = device.empty((rows, n), dtype)
    A[...] = _AMPLITUDE
    return A


def _timed(device: Device, work: Callable[[], Any], numbers: int, repeats: int) -> float:
    """ps a complex number."""
    ms = min(timing.milliseconds(device, work, repeats, calls(device, work, _SAMPLE_MS)))
    return float(f"{ms * 1e9 / numbers:.4g}")


def _launch(device: Device, repeats: int) -> float:
    """s of a kernel in a graph that has almost nothing to do."""
    if device.name == "cpu":
        return 0.0
    A = _field(device, 2, 256, np.complex64)

    def work() -> None:
        for _ in range(100):
            A.__imul__(1.0)

    work = device.graph(work)
    return float(f"{min(timing.milliseconds(device, work, repeats, 20)) * 1e-5:.3g}")


def _linear(device: Device, precision: str, repeats: int, launch: float, progress) -> list[list[float]]:
    kind, dtype = "cpu" if device.name == "cpu" else "cuda", np.dtype(DTYPES[precision])
    pairs = []
    for log2_n in range(10, _LONGEST[kind] + 1):
        progress(f"{precision}: linear propagation of 2^{log2_n} samples")
        n = 1 << log2_n
        fibre = first_modes(min(_MOST_MODES, max(1, (1 << _NUMBERS[kind]) // n // 2)))
        operators = FibreOperators(device, fibre, n, _SAMPLE_RATE, dtype)
        operators.prepare(_STEP)
        A = _field(device, fibre.rows, n, dtype)
        work = device.graph(lambda operators=operators, A=A: operators.linear(A, _STEP))
        launches = (1 if n <= 4096 else 3) * launch * 1e12 / A.size
        pairs.append([n, max(0.01, round(_timed(device, work, A.size, repeats) - launches, 3))])
        del operators, A, work
    return pairs


def _kerr(device: Device, precision: str, repeats: int, progress) -> dict[str, Any]:
    kind, dtype = "cpu" if device.name == "cpu" else "cuda", np.dtype(DTYPES[precision])
    table: dict[str, Any] = {}
    variants: Any = itertools.product(_ROWS[kind], EXCHANGES, ("one", "split"))
    for rows, form, cut in variants:
        progress(f"{precision}: Kerr operators of {rows} rows, {form}, {cut}")
        fibre, n = first_modes(rows // 2), 1 << (_NUMBERS[kind] - math.ceil(math.log2(rows)))
        shape = device, fibre, n, _SAMPLE_RATE, dtype
        operators: Any
        if cut == "one":
            operators = FibreOperators(*shape, kerr=form)
        else:
            options = ExchangeOptions(form)
            modes = RankModes((0, rows // 2))
            operators = rank_operators(solo(device), *shape[1:], modes, "auto", options)
        A, K = (_field(device, rows, n, dtype) for _ in range(2))
        rates = [operators.empty_rates() for _ in range(2)]
        operators.kerr_phase_rate(A, rates[1])
        works = {
            "rk4ip_middle": lambda o=operators, A=A, K=K: o.rk4ip_middle(A, K, _STEP),
            "rk4ip_last": lambda o=operators, A=A, K=K: o.rk4ip_last(A, K, _STEP),
            "rotate": lambda o=operators, A=A: o.kerr_rotate(A, _STEP),
            "rotate_rk4": lambda o=operators, A=A: o.kerr_rotate_rk4(A, _STEP),
            "phase_rate": lambda o=operators, A=A, r=rates: o.kerr_phase_rate(A, r[0]),
            "rotate_mean": lambda o=operators, A=A, K=K, r=rates: o.rotate_mean(K, A, *r, _STEP),
        }
        for name, work in works.items():
            work()
            repeated = operators.graph(work)
            pairs = table.setdefault(name, {}).setdefault(form, {}).setdefault(cut, [])
            pairs.append([rows, _timed(device, repeated, A.size, repeats)])
        del operators, A, K, rates, works
        gc.collect()
    return table


# --- Output ----------------------------------------------------------------------------------------------


def table(result: dict[str, Any]) -> list:
    """A table of whole steps; the rest is for `wavefabric plan`."""
    lines = [
        (f"{s['medium']}, {s['precision']}, {s['stages']}", report.shape_words(s["shape"]), f"{s['ms']:.3g}")
        for s in result["steps"]
    ]
    return [report.table("ultrasound steps", ("<", "grid", "ms"), lines, "kernels and operators: JSON")]


def plot(result: dict[str, Any], path: str | Path) -> None:
    """Draw time a point over the length of the axis, of each kernel, or of steps where there are none."""
    with report.figure(path, (8.4, 4.4), "both") as figure:
        axes = figure.subplots()
        kernels = next(iter(next(iter(result["kernels"].values()), {}).values()), {})
        steps = [(s["shape"][0], s["ms"] * 1e9 / math.prod(s["shape"])) for s in result["steps"]]
        for number, (name, pairs) in enumerate((kernels or {"steps": steps}).items()):
            axes.plot(*zip(*pairs, strict=True), label=name, **report.look(number))
        axes.set(xlabel="points along its axis", ylabel="ps a point", xscale="log", yscale="log")
        figure.legend(loc="outside right upper", fontsize=8)
