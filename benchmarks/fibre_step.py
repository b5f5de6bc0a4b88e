"""Benchmark ``fibre-step``: what one step costs, against bare FFTs and against a plain RK4IP."""

import contextlib
import gc
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from wavefabric.base.arguments import positive, whole
from wavefabric.base.errors import InputError, choices
from wavefabric.cli.bench.common import calls, percent, rows, silent
from wavefabric.fabric.execution import report, timing
from wavefabric.optics.fibre.fibre import Fibre
from wavefabric.optics.fibre.presets import graded_index_62_5
from wavefabric.optics.propagation.integrators import INTEGRATORS, Integrator
from wavefabric.optics.propagation.operators import FibreOperators
from wavefabric.optics.signal.transmitter import Transmitter
from wavefabric.optics.signal.wdm import WdmGrid
from wavefabric.runtime.device import Device, get_device

#: Field rows and log2 of the samples a row, by kind of device.
CASES = {"cpu": ((2, 17), (30, 15)), "cuda": ((30, 21),)}
DTYPES = {"double": np.complex128, "single": np.complex64}
_SAMPLES_PER_SYMBOL = 128


@dataclass(frozen=True)
class FibreStepOptions:
    """Options of `run`; see there."""

    cases: Sequence[tuple[int, int]] = ()
    precisions: Sequence[str] = ("double", "single")
    integrators: Sequence[str] = ("rk4ip", "strang")
    step: float = 100.0
    repeats: int = 15
    error_steps: int = 100
    plain: bool = True

    def __post_init__(self):
        for field_rows, log2_n in self.cases:
            _groups(field_rows)
            if not 8 <= log2_n <= 26:
                raise InputError(f"case: 2^{log2_n} samples given; allowed: 2^8 to 2^26")
        choices("precision", self.precisions, DTYPES)
        choices("integrators", self.integrators, INTEGRATORS)
        positive(self.step, "m", "step")
        whole("repeats", self.repeats, 1)
        whole("error-steps", self.error_steps, 0)


def run(
    device: str | Device = "auto",
    threads: int | None = None,
    progress: Callable[[str], object] = silent,
    **options: Any,
) -> dict[str, Any]:
    """Time one step of each integrator and look at where the time goes.

    The field is the signal of Brehler et al., section 6 (60 DP-QPSK channels, 4.096 THz), in the first
    mode groups of the 62.5 µm fibre. A step is run as a propagation runs it: on a GPU a captured graph.

    ``options`` are those of `FibreStepOptions`. Cases are (rows, log2 of samples), two rows for each mode of
    groups 1 to g: 2, 6, 12, 20, 30, … 240; by default `CASES`. ``step`` (m) changes the error, not the time.
    After ``error_steps`` steps complex64 is compared with complex128 (0: not). ``plain`` also times the plain
    RK4IP, of about ten fields of memory.

    Gives ``copy_bytes_per_second`` and ``cases``, each with ``eight_ffts``, ``plain`` and ``integrators``
    (times in ms, ``fft_share``, ``passes``, ``bytes_allocated``, ``peak_fields``, …), and ``machine``.
    """
    request = FibreStepOptions(**options)
    device = get_device(device, threads)
    progress("copy bandwidth")
    bandwidth = timing.copy_bandwidth(device)
    cases = []
    for field_rows, log2_n in request.cases or CASES["cpu" if device.name == "cpu" else "cuda"]:
        for precision in request.precisions:
            shape = field_rows, 1 << log2_n, np.dtype(DTYPES[precision])
            cases.append(_Case(device, shape, request, bandwidth, progress).run())
    return {
        "benchmark": "fibre-step",
        "step_m": request.step,
        "repeats": request.repeats,
        "copy_bytes_per_second": bandwidth,
        "cases": cases,
        "machine": timing.machine(device),
    }


def _groups(rows: int) -> int:
    """Mode groups whose modes have so many rows."""
    known = {groups * (groups + 1): groups for groups in range(1, 16)}
    if rows not in known:
        allowed = ", ".join(map(str, known))
        raise InputError(f"case: {rows} rows given; allowed (two rows per mode, whole groups): {allowed}")
    return known[rows]


class PlainRK4IP:
    """RK4IP, eq. (6a–f) of Brehler et al. after Hult 2007 (doi 10.1109/JLT.2007.909373), line by line.

    NumPy and SciPy's FFT (all threads of the device) on a CPU, CuPy and its cuFFT on a GPU. κ is dense,
    one line for every field row; every line of the scheme makes new arrays. ``h`` is the step in m.
    """

    def __init__(self, device: Device, fibre: Fibre, n: int, sample_rate: float, dtype, h: float):
        self.device, self.h = device, h
        dtype = np.dtype(dtype)
        if dtype not in (np.dtype(np.complex64), np.dtype(np.complex128)):
            raise InputError(f"dtype: {dtype} given; allowed: complex64, complex128")
        if n < 1 or not sample_rate > 0 or not h > 0:
            raise InputError(f"n, sample_rate, h: {n}, {sample_rate}, {h} given; all must be positive")
        omega = 2 * np.pi * np.fft.fftfreq(n, 1 / sample_rate)
        half = device.empty((fibre.rows, n), dtype)
        for row in range(fibre.rows):
            alpha, (b1, b2, b3, b4) = fibre.alpha[row // 2], fibre.beta[row // 2]
            L = -alpha / 2 + 1j * (-b1 * omega + b2 * omega**2 / 2 - b3 * omega**3 / 6 + b4 * omega**4 / 24)
            half[row] = device.asarray(np.exp(h / 2 * L).astype(dtype))
        self.half = half
        real = np.float32 if dtype == np.complex64 else np.float64
        self.gamma_kappa = device.asarray((fibre.gamma * fibre.kappa_rows()).astype(real))

    def linear(self, A):
        """exp(h/2 L̂) A, a new array of A's shape (2M, N)."""
        return self.device.ifft(self.half * self.device.fft(A))

    def nonlinear(self, A):
        """h N̂(A) A = i h γ Σ_b κ_ab |A_b|² A_a, a new array of A's shape (2M, N)."""
        power = A.real**2 + A.imag**2
        return (1j * self.h) * (self.gamma_kappa @ power) * A

    def step(self, A):
        """A(z + h) from A(z), shape (2M, N), √W; a new array."""
        A_I = self.linear(A)  # (6a)
        k1 = self.linear(self.nonlinear(A))  # (6b)
        k2 = self.nonlinear(A_I + k1 / 2)  # (6c)
        k3 = self.nonlinear(A_I + k2 / 2)  # (6d)
        k4 = self.nonlinear(self.linear(A_I + k3))  # (6e)
        return self.linear(A_I + k1 / 6 + k2 / 3 + k3 / 3) + k4 / 6  # (6f)


class _Case:
    """One field shape and precision."""

    def __init__(
        self, device: Device, shape: tuple[int, int, np.dtype], options: FibreStepOptions, bandwidth, say
    ):
        self.device, (rows, self.n, self.dtype) = device, shape
        self.options, self.h, self.bandwidth, self.say = options, options.step, bandwidth, say
        self.fibre = graded_index_62_5(_groups(rows))
        self.grid = WdmGrid.between(191.95e12, 194.9e12, 50e9, 32e9, _SAMPLES_PER_SYMBOL, self.n // 128)
        self.transmitter = Transmitter(self.grid, "qpsk", 0.1, 10**-3.1)
        self.bytes = rows * self.n * self.dtype.itemsize
        self.name = f"{rows} x 2^{self.n.bit_length() - 1} {self.dtype}"

    def run(self) -> dict[str, Any]:
        self.say(f"{self.name}: eight FFTs")
        eight, plain = timing.summary(self.eight_ffts()), None
        if self.options.plain:
            self.say(f"{self.name}: plain RK4IP")
            plain = timing.summary(self.plain())
            plain["passes"] = self.passes(plain["ms"])
        lines = []
        for name in self.options.integrators:
            self.say(f"{self.name}: {name}")
            line = self.integrator(name, eight["ms"])
            if plain:
                line["times_faster_than_plain"] = plain["ms"] / line["ms"]
                if name == "rk4ip":
                    line["difference_from_plain"] = self.difference_from_plain()
            if (steps := self.options.error_steps) and self.dtype == np.complex64:
                self.say(f"{self.name}: {name}, error of {steps} steps")
                line["error_steps"] = steps
                line["error_against_complex128"] = self.single_error(name, steps)
            lines.append(line)
        return {
            "rows": self.fibre.rows,
            "samples": self.n,
            "dtype": str(self.dtype),
            "field_bytes": self.bytes,
            "eight_ffts": eight | {"passes": self.passes(eight["ms"])},
            "plain": plain,
            "integrators": lines,
        }

    def passes(self, ms: float) -> float:
        """Reads or writes of the whole field that the memory could do in the same time."""
        return ms * 1e-3 * self.bandwidth / self.bytes

    def field(self):
        A = self.device.empty((self.fibre.rows, self.n), self.dtype)
        self.transmitter.fill(self.device, A, modes=self.fibre.modes)
        return A

    def eight_ffts(self) -> list[float]:
        """Four pairs of bare in-place transforms of all rows; their growth by N is undone off the clock."""
        A, rows = self.field(), self.fibre.rows
        plan = self.device.row_fft(rows, self.n, self.dtype)

        def pairs() -> None:
            for _ in range(4):
                plan.forward(A)
                plan.backward(A)

        def shrink() -> None:
            A.__imul__(float(self.n) ** -4)

        pairs()
        shrink()
        work = self.device.graph(pairs)
        return timing.milliseconds(self.device, work, self.options.repeats, between=shrink)

    def plain(self) -> list[float]:
        peer, A = self.peer(), self.field()

        def step() -> None:
            nonlocal A
            A = peer.step(A)

        return timing.milliseconds(self.device, step, self.options.repeats)

    def peer(self) -> PlainRK4IP:
        return PlainRK4IP(self.device, self.fibre, self.n, self.grid.sample_rate, self.dtype, self.h)

    def ready(self, name: str, dtype=None) -> tuple[FibreOperators, Integrator]:
        """An integrator, and the operators that it has prepared its step with."""
        shape = self.n, self.grid.sample_rate
        operators = FibreOperators(self.device, self.fibre, *shape, dtype or self.dtype)
        integrator = INTEGRATORS[name](operators)
        operators.prepare(*integrator.lengths(self.h))
        return operators, integrator

    def integrator(self, name: str, eight_ms: float) -> dict[str, Any]:
        (operators, integrator), A = self.ready(name), self.field()
        integrator.begin(A, self.h)
        # As FixedStep does: one step as written, then its replay.
        before = dict(vars(operators.counts))
        integrator.step(A, self.h)
        cost = {name: count - before[name] for name, count in vars(operators.counts).items()}
        graph = operators.graph(lambda: integrator.step(A, self.h), integrator.kernels_alone)
        each = calls(self.device, graph, 5)
        line: dict[str, Any] = {"name": name}
        line |= timing.summary(timing.milliseconds(self.device, graph, self.options.repeats, each))
        with allocations(self.device) as step:
            graph()
        finite = bool(np.isfinite(operators.energy(A)).all())
        del operators, integrator, A, graph
        gc.collect()
        with allocations(self.device) as whole:
            operators, integrator = self.ready(name)
            A = operators.empty()
            A[...] = 0
            integrator.advance(A, self.h)
        fft_ms = eight_ms * cost["ffts"] / 8
        return line | {
            "ffts": cost["ffts"],
            "exchanges": cost["exchanges"],
            "fft_ms": fft_ms,
            "fft_share": fft_ms / line["ms"],
            "passes": self.passes(line["ms"]),
            "times_eight_ffts": line["ms"] / eight_ms,
            "bytes_allocated": step.peak,
            "bytes_kept": step.kept,
            "peak_fields": whole.peak / self.bytes,
            "finite": finite,
        }

    def difference_from_plain(self, steps: int = 3) -> float:
        """Relative L2 difference between this package's RK4IP and the plain one."""
        peer, A, B = self.peer(), self.field(), self.field()
        self.ready("rk4ip")[1].advance(A, self.h, steps)
        for _ in range(steps):
            B = peer.step(B)
        return relative_error(self.device, A, B)

    def single_error(self, name: str, steps: int) -> float:
        """Relative L2 error of complex64 arithmetic after so many steps from the same rounded field."""
        out = []
        for dtype in (np.complex64, np.complex128):
            operators, integrator = self.ready(name, dtype)
            A = operators.empty()
            A[...] = self.field()
            integrator.advance(A, self.h, steps)
            out.append(A)
            del operators, integrator
        return relative_error(self.device, *out)


@contextlib.contextmanager
def allocations(device: Device) -> Iterator[SimpleNamespace]:
    """Watch what the block allocates: bytes at the ``peak``, bytes ``kept``.

    On a CPU buffers inside kernels and SciPy's FFT stay unseen; on a GPU what is given back inside the block.
    """
    seen = SimpleNamespace(peak=0, kept=0)
    gc.collect()
    device.synchronize()
    if device.name != "cpu":
        before = device.memory()[0]
        yield seen
        device.synchronize()
        seen.kept = seen.peak = max(0, before - device.memory()[0])
        return
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        yield seen
        now, peak = tracemalloc.get_traced_memory()
        seen.kept, seen.peak = max(0, now - before), max(0, peak - before)
    finally:
        tracemalloc.stop()


def relative_error(device: Device, A, B) -> float:
    """‖A − B‖₂/‖B‖₂ of two fields of the same shape, row by row in double precision."""
    xp = device.xp
    difference = size = 0.0
    for a, b in zip(A, B, strict=True):
        b = b.astype(np.complex128)
        d = a.astype(np.complex128) - b
        difference += float(xp.vdot(d, d).real)
        size += float(xp.vdot(b, b).real)
    return (difference / size) ** 0.5 if size else float("nan")


def table(result: dict[str, Any]) -> list:
    """A table a case, and one of the errors of complex64."""
    cases = [case | {"log2_n": case["samples"].bit_length() - 1} for case in result["cases"]]
    tables = [_cost_table(case, result["copy_bytes_per_second"]) for case in cases]
    lines = [case | line for case in cases for line in case["integrators"] if "error_steps" in line]
    if lines:
        for line in lines:
            line["each"] = line["error_against_complex128"] / line["error_steps"]
        title = f"complex64 against complex128, steps of {result['step_m']:g} m"
        columns = ("<case", "<integrator", "steps", "relative error", "a step")
        numbers = "{error_steps}", "{error_against_complex128:.2e}", "{each:.1e}"
        tables.append(report.table(title, columns, rows(lines, "{rows} x 2^{log2_n}", "{name}", *numbers)))
    return tables


def _cost_table(case: dict[str, Any], bandwidth: float) -> Any:
    eight, plain = case["eight_ffts"], case["plain"]
    ms, passes, times = "{ms:.3g}", "{passes:.1f}", "{times_eight_ffts:.2f}"
    lines = rows([eight], "eight bare FFTs", ms, "8", "100 %", passes, "1.00", *"---")
    if plain:
        plain = plain | {"times_eight_ffts": plain["ms"] / eight["ms"]}
        lines += rows([plain], "plain RK4IP", ms, "8", "-", passes, times, "1.00", *"--")
    for line in case["integrators"]:
        fraction, faster = percent(line["fft_share"]), "{times_faster_than_plain:.2f}" if plain else "-"
        costs = faster, "{bytes_allocated} B", "{peak_fields:.2f}"
        lines += rows([line], "{name}", ms, "{ffts}", fraction, passes, times, *costs)
    return report.table(
        f"{case['rows']} rows x 2^{case['log2_n']} {case['dtype']}, "
        f"{case['field_bytes'] / 2**20:.1f} MiB a field; copy {bandwidth / 1e9:.1f} GB/s (read + write)",
        ("<", "ms", "FFTs", "FFT share", "passes", "x 8 FFTs", "plain /", "allocated", "fields"),
        lines,
        "passes: reads or writes of the whole field that the memory could do in that time",
    )


def plot(result: dict[str, Any], path: str | Path) -> None:
    """Draw a bar a step: its transforms and the rest; bare FFTs and plain RK4IP for comparison."""
    panels = []
    for case in result["cases"]:
        bars = [("eight bare FFTs", case["eight_ffts"]["ms"], 0.0)]
        bars += [(line["name"], line["fft_ms"], line["ms"]) for line in case["integrators"]]
        if case["plain"]:
            bars.append(("plain RK4IP", 0.0, case["plain"]["ms"]))
        log2_n = case["samples"].bit_length() - 1
        panels.append((f"{case['rows']} rows × 2$^{{{log2_n}}}$ {case['dtype']}", bars))
    report.step_bars(path, panels, "its FFTs alone")
