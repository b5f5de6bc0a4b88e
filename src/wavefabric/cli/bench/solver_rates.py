"""Benchmark ``solver-rates``: how fast this device runs each part of a step, for `wavefabric plan`.

Times are per point of the grid, or per complex number of the field, as a function of: the length of the axis
for a kernel of the fused ultrasound step, the length of a row for linear propagation, the number of rows for
a Kerr operator.
"""

import gc
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.acoustics.choose_stages import make_stages
from wavefabric.acoustics.fused.axis_blocks import longest_axes
from wavefabric.acoustics.run_settings import PRECISIONS
from wavefabric.acoustics.solver.step import Step
from wavefabric.base.arguments import whole
from wavefabric.base.errors import choices
from wavefabric.cli.bench.common import Triple, calls, rows, silent
from wavefabric.cli.bench.ultrasound_cases import ALL_MEDIA, Stepper, light_problem
from wavefabric.fabric.execution import report, timing
from wavefabric.optics.fibre.fibre import Fibre
from wavefabric.optics.fibre.presets import graded_index_62_5
from wavefabric.optics.propagation.operators import FibreOperators
from wavefabric.optics.propagation.operators_ranks import ExchangeOptions, rank_operators
from wavefabric.optics.propagation.rank_modes import RankModes
from wavefabric.runtime.device import Device, get_device
from wavefabric.runtime.exchange import solo

#: Data types of the fibre's fields.
_FIELDS = {"double": np.dtype(np.complex128), "single": np.dtype(np.complex64)}
#: Points along an axis: products of 2, 3, 5 and 7, denser at common grid sizes.
LENGTHS = (
    64, 96, 128, 160, 192, 216, 240, 256, 288, 320, 360, 384, 420, 448, 480, 486, 490, 500, 512, 540, 576,
    600, 640, 672, 720, 768, 800, 864, 900, 960, 972, 1000, 1024, 1080, 1152, 1200, 1280, 1344, 1440, 1536,
    1728, 1920, 2048,
)  # fmt: skip
#: By medium, n if only every n-th length is timed: kernels along y and z do not depend on the medium.
_EVERY = {"homogeneous": 1, "heterogeneous": 3, "tissues": 3}
#: Cubes for timing whole steps: fused (small ones show the cost of launches), and plain.
_CUBES = {"cpu": ((48, 96, 128), (96,)), "cuda": ((64, 96, 128, 192, 256, 512), (128, 256, 512))}
_MOST_MODES = 120
#: Numbers of rows for timing Kerr operators.
_ROWS = {"cpu": (2, 12, 30), "cuda": (2, 6, 12, 30, 60, 120, 240)}
#: log2 of: points of a grid for timing kernels, numbers of a field, samples of the longest row.
_POINTS, _NUMBERS, _LONGEST = 27, {"cpu": 18, "cuda": 26}, {"cpu": 16, "cuda": 23}
#: Points along x and y of planes that are packed.
_PLANE = {"cpu": 128, "cuda": 512}
_SAMPLE_RATE, _STEP, _AMPLITUDE = 4.096e12, 10.0, 1e-3
_SAMPLE_MS = 20.0


def first_modes(modes: int) -> Fibre:
    """Return the 62.5 µm fibre with its first ``modes`` modes only; the last group may be incomplete."""
    groups = next(g for g in range(1, 16) if g * (g + 1) // 2 >= modes)
    whole = graded_index_62_5(groups)
    by_mode = {name: getattr(whole, name)[:modes] for name in ("labels", "groups", "alpha", "beta", "a_eff")}
    return replace(whole, **by_mode)


def run(
    device: str | Device = "auto",
    threads: int | None = None,
    progress: Callable[[str], object] = silent,
    media: Sequence[str] = ALL_MEDIA,
    precisions: Sequence[str] = ("single", "double"),
    repeats: int = 3,
) -> dict[str, Any]:
    """Time the parts of ultrasound steps and of fibre steps on one device.

    Returns, with times in ps, lengths in points:

    - ``kernels``: by precision, medium and kernel of the fused ultrasound step (GPU), pairs of axis length
      and time per point; for ``y_transform``, ``z_divergence``, ``z_scale`` and ``x_forward`` for one field;
    - ``steps``: whole ultrasound steps, with precision, medium, stages, shape and ``ms``;
    - ``linear``: by precision, pairs of samples per row and time per complex number;
    - ``kerr``: by precision, operator, form (dense or factored), and modes on ``one`` rank or ``split`` among
      ranks, pairs of rows and time per complex number;
    - ``copy_bytes_per_second``; ``pack_bytes_per_second``: of planes, of 16 points of every row, of spectra;
      ``memory_bytes``; ``launch_seconds`` of a kernel that has nothing to do.
    """
    choices("medium", media, ALL_MEDIA)
    choices("precision", precisions, PRECISIONS)
    whole("repeats", repeats, 1)
    device = get_device(device, threads)
    bench, kernels = _Bench(device, repeats, progress), {}
    cases = list(itertools.product(precisions, media))
    for precision, medium in cases if device.name != "cpu" else ():
        kernels.setdefault(precision, {})[medium] = bench.kernels(medium, precision)
    return {
        "benchmark": "solver-rates",
        "memory_bytes": device.memory()[1],
        "copy_bytes_per_second": timing.copy_bandwidth(device),
        "pack_bytes_per_second": bench.packing(),
        "kernels": kernels,
        "steps": [step for case in cases for step in bench.steps(*case)],
        "launch_seconds": bench.launch,
        "linear": {precision: bench.linear(precision) for precision in precisions},
        "kerr": {precision: bench.kerr(precision) for precision in precisions},
        "machine": timing.machine(device),
    }


def grids(lengths: Sequence[int], dtype, points: int) -> list[Triple]:
    """Return shapes of grids of about ``points`` points; each of ``lengths`` occurs once along each axis."""
    most_x, most_y, most_z = longest_axes(dtype)
    unused = [n for n in lengths if n <= most_z]
    shapes = []
    for x, y in zip(lengths, reversed([n for n in lengths if n <= most_y]), strict=False):
        z = min(unused, key=lambda n, area=x * y: abs(math.log2(n * area / points))) if unused else lengths[0]
        unused = [n for n in unused if n != z]
        if x <= 2 * most_x:
            shapes.append((x, y, z))
    return shapes


class _Bench:
    """Measures times on one device, as the minimum of ``repeats`` samples."""

    def __init__(self, device: Device, repeats: int, progress: Callable[[str], object]):
        self.device, self.repeats, self.progress = device, repeats, progress
        self.kind = "cpu" if device.name == "cpu" else "cuda"
        #: Time in s of a kernel in a graph that has almost nothing to do: the cost of a launch.
        self.launch = 0.0 if self.kind == "cpu" else self._launch()

    def ms(self, work: Callable[[], Any], each: int = 0) -> float:
        """Return the time of a call of ``work`` in ms: the least of several samples.

        ``each``: calls per sample, 0 for as many as needed.
        """
        each = each or calls(self.device, work, _SAMPLE_MS)
        return min(timing.milliseconds(self.device, work, self.repeats, each))

    def field(self, rows: int, n: int, dtype) -> Any:
        """Return a weak, constant fibre field of ``rows`` rows of ``n`` samples."""
        A = self.device.empty((rows, n), dtype)
        A[...] = _AMPLITUDE
        return A

    def _launch(self) -> float:
        A = self.field(2, 256, np.complex64)

        def work() -> None:
            for _ in range(100):
                A.__imul__(1.0)

        return _short(self.ms(self.device.graph(work), 20) * 1e-5, 3)

    def kernels(self, medium: str, precision: str) -> dict[str, list[list[float]]]:
        """Return, for each kernel of the fused ultrasound step, pairs [axis length, ps per point]."""
        dtype, times = np.dtype(PRECISIONS[precision]), {}
        lengths = LENGTHS[:: _EVERY[medium] * (1 if precision == "single" else 3)]
        for shape in grids(lengths, dtype, 1 << _POINTS):
            self.progress(f"{medium}, {precision}: kernels of {report.shape_words(shape)}")
            stages = make_stages(self.device, light_problem(medium, shape), dtype)
            layout: Any = stages.layout
            layout.plane_kernels.launches = launches = []
            Step(stages).advance(stages.sources.active(100))
            stages.transform_pressure()
            layout.plane_kernels.launches = None
            each: dict[str, list[float]] = {}
            for name, grid, launch in launches:
                # Kernels on several spectra are counted per spectrum.
                layers = grid[2] if name in ("y_transform", "z_divergence", "z_scale") else 1
                each.setdefault(name, []).append(self.ms(launch, 5) / layers * 1e9 / math.prod(shape))
            for name, all_times in each.items():
                pair = [shape["xyz".index(name[0])], _short(sum(all_times) / len(all_times))]
                times.setdefault(name, []).append(pair)
            del stages, layout, launches, launch
            gc.collect()
        return {name: sorted(pairs) for name, pairs in times.items()}

    def packing(self) -> dict[str, float]:
        """Return packing and unpacking rates, B/s: planes, 16 points of every row, half of a spectrum."""
        kernels, n = self.device.kernels("wavefabric.runtime.exchange.pack"), _PLANE[self.kind]
        z, y, x = (slice(0, n // 4), slice(0, n), slice(0, n))
        boxes = {
            "planes": (slice(16, 32), y, x, np.float32, 3),
            "points": (z, y, slice(16, 32), np.float32, 3),
            "spectrum": (z, slice(0, n // 2), x, np.complex64, 1),
        }
        rates = {}
        for name, (*box, dtype, count) in boxes.items():
            fields = [self.device.zeros((n // 4, n, n), dtype) for _ in range(count)]
            table = kernels.make_table(self.device, [tuple(box)], count)
            buffer = self.device.zeros((count * math.prod(s.stop - s.start for s in box),), dtype)

            def work(fields=fields, table=table, buffer=buffer) -> None:
                kernels.pack(buffer, fields, table)
                kernels.unpack(buffer, fields, table, None)

            rates[name] = _short(2 * buffer.nbytes / self.ms(work) * 1e3)
        return rates

    def steps(self, precision: str, medium: str) -> Iterator[dict[str, Any]]:
        """Measure complete ultrasound time steps; yield a row for each grid and form of stages."""
        fused, plain = _CUBES[self.kind]
        for stages, n in [("fused", n) for n in fused] + [("plain", n) for n in plain]:
            self.progress(f"{medium}, {precision}: {stages} step of {n}³")
            problem, dtype = light_problem(medium, (n,) * 3), np.dtype(PRECISIONS[precision])
            ms = self.ms(Stepper(make_stages(self.device, problem, dtype, stages == "plain")))
            facts = {"precision": precision, "medium": medium, "stages": stages}
            yield facts | {"shape": [n] * 3, "ms": _short(ms)}
            gc.collect()

    def linear(self, precision: str) -> list[list[float]]:
        """Return pairs [samples per row, ps per complex number] of linear propagation, without launches."""
        pairs = []
        for n in (1 << log2_n for log2_n in range(10, _LONGEST[self.kind] + 1)):
            self.progress(f"{precision}: linear propagation of {n} samples")
            fibre = first_modes(min(_MOST_MODES, max(1, (1 << _NUMBERS[self.kind]) // n // 2)))
            operators = FibreOperators(self.device, fibre, n, _SAMPLE_RATE, _FIELDS[precision])
            operators.prepare(_STEP)
            A = self.field(fibre.rows, n, operators.dtype)
            work = self.device.graph(partial(operators.linear, A, _STEP))
            launches = (1 if n <= 4096 else 3) * self.launch * 1e12 / A.size
            pairs.append([n, max(0.01, round(_short(self.ms(work) * 1e9 / A.size) - launches, 3))])
            del operators, A, work
        return pairs

    def kerr(self, precision: str) -> dict[str, Any]:
        """Return pairs [rows, ps per complex number] by Kerr operator, form, and ``one`` or ``split``.

        *One*: all modes are on one rank; *split*: they are split among ranks. Forms are dense and factored.
        """
        dtype, table = _FIELDS[precision], dict[str, Any]()
        cases: Any = itertools.product(_ROWS[self.kind], ("dense", "factored"), ("one", "split"))
        for count, form, cut in cases:
            self.progress(f"{precision}: Kerr operators of {count} rows, {form}, {cut}")
            n = 1 << (_NUMBERS[self.kind] - math.ceil(math.log2(count)))
            field = first_modes(count // 2), n, _SAMPLE_RATE, dtype
            how = RankModes((0, count // 2)), "auto", ExchangeOptions(form)
            o: Any = rank_operators(solo(self.device), *field, *how)
            o = FibreOperators(self.device, *field, kerr=form) if cut == "one" else o
            A, K, rate, new = *(self.field(count, n, dtype) for _ in "AK"), o.empty_rates(), o.empty_rates()
            o.kerr_phase_rate(A, rate)
            works = {
                "rk4ip_middle": partial(o.rk4ip_middle, A, K, _STEP),
                "rk4ip_last": partial(o.rk4ip_last, A, K, _STEP),
                "rotate": partial(o.kerr_rotate, A, _STEP),
                "rotate_rk4": partial(o.kerr_rotate_rk4, A, _STEP),
                "phase_rate": partial(o.kerr_phase_rate, A, new),
                "rotate_mean": partial(o.rotate_mean, K, A, new, rate, _STEP),
            }
            for name, work in works.items():
                work()
                pair = [count, _short(self.ms(o.graph(work)) * 1e9 / A.size)]
                table.setdefault(name, {}).setdefault(form, {}).setdefault(cut, []).append(pair)
            del o, A, K, rate, new, works, work
            gc.collect()
        return table


def _short(value: float, digits: int = 4) -> float:
    return float(f"{value:.{digits}g}")


def table(result: dict[str, Any]) -> list:
    """Return a table of whole steps; the other times are for `wavefabric plan`."""
    lines = rows(result["steps"], "{medium}, {precision}, {stages}", "{shape[0]}³", "{ms:.3g}")
    return [report.table("ultrasound steps", ("<", "grid", "ms"), lines, "kernels and operators: JSON")]


def plot(result: dict[str, Any], path: str | Path) -> None:
    """Draw the time per point of each kernel over axis length, or of whole steps without kernels."""
    with report.figure(path, (8.4, 4.4), "both") as figure:
        axes = figure.subplots()
        kernels = next(iter(next(iter(result["kernels"].values()), {}).values()), {})
        steps = [(s["shape"][0], s["ms"] * 1e9 / math.prod(s["shape"])) for s in result["steps"]]
        for number, (name, pairs) in enumerate((kernels or {"steps": steps}).items()):
            axes.plot(*zip(*pairs, strict=True), label=name, **report.look(number))
        axes.set(xlabel="points along its axis", ylabel="ps per point", xscale="log", yscale="log")
        figure.legend(loc="outside right upper", fontsize=8)
