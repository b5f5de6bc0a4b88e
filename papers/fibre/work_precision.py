"""Work–precision diagram of all integrators: error against FFTs, exchanges and time."""

from __future__ import annotations

import itertools
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.fibre_step import relative_error
from papers.common import DeviceName, Json, Output, Plot, Threads, run, show
from wavefabric.base.errors import InputError
from wavefabric.base.results.figure_style import COLOURS, GREY, MARKERS
from wavefabric.cli.common.options import option
from wavefabric.cli.common.parse import parse_list
from wavefabric.cli.common.show import status_line
from wavefabric.fabric.execution import report, timing
from wavefabric.optics.fibre.fibre import Fibre
from wavefabric.optics.fibre.presets import graded_index_62_5
from wavefabric.optics.propagation.integrators import INTEGRATORS
from wavefabric.optics.propagation.operators import FibreOperators, OperationCounts
from wavefabric.optics.propagation.step_size import make_control
from wavefabric.optics.signal.transmitter import Transmitter
from wavefabric.optics.signal.wdm import WdmGrid
from wavefabric.runtime.device import Device, get_device


@dataclass
class Case:
    """A start field on the device, (2M, N) complex128 in √W, and what it travels through.

    ``length`` in m, ``sample_rate`` in Hz; ``steps`` is the coarsest number of steps; ``smooth`` says
    that the first term of the error rules, so that an order shows.
    """

    title: str
    fibre: Fibre
    field: Any
    sample_rate: float
    length: float
    steps: int
    smooth: bool


def pulses(device: Device) -> Case:
    """Gaussian pulses of 8 to 13 ps, 0.3 to 0.55 W at the peak of a row, in three modes over 4 km.

    About 4 rad of nonlinear phase and one dispersion length: the spectrum stays so narrow that the
    first term of the error rules from long steps on.
    """
    fibre = graded_index_62_5(2)
    n, rate = 1024, 1.024e12
    t = (np.arange(n) - n / 2) / rate
    field = np.empty((fibre.rows, n), np.complex128)
    for row in range(fibre.rows):
        width, centre, shift = (8 + row) * 1e-12, (row - 2.5) * 4e-12, (row - 2.5) * 2e9
        pulse = np.exp(-0.5 * ((t - centre) / width) ** 2 + 2j * np.pi * shift * t)
        field[row] = np.sqrt(0.3 + 0.05 * row) * pulse
    title = f"Pulses: {fibre.modes} modes, smooth"
    return Case(title, fibre, device.asarray(field), rate, 4e3, 16, smooth=True)


def wdm(device: Device) -> Case:
    """6 modes of groups 1 to 3, 9 DP-QPSK channels on 50 GHz, −1 dBm each, 2^8 symbols, over 20 km.

    A fixed step h makes four-wave mixing of mismatch 2π/h resonant, which the fibre does not. The error
    falls about as h until h is below 2π/(|β₂|(2πB)²) = 36 m (B = 0.435 THz, the occupied band), and
    by the order of the method only from there on; inside the band, from about 4 times that.
    """
    fibre = graded_index_62_5(3)
    grid = WdmGrid.centred(193.4e12, 50e9, 9, 32e9, 32, 256)
    field = device.empty((fibre.rows, grid.samples), np.complex128)
    Transmitter(grid, "qpsk", 0.1, 10**-3.1).fill(device, field, modes=fibre.modes)
    title = f"WDM: {fibre.modes} modes, {grid.channels} channels"
    return Case(title, fibre, field, grid.sample_rate, 20e3, 40, smooth=False)


CASES = {"pulses": pulses, "wdm": wdm}

#: Errors between which an order shows: above round-off and reference, below where h is too long.
_ORDER_BELOW = 1e-3
_FLOOR = 3e-11


def compare(
    cases: Sequence[str] = ("pulses", "wdm"),
    points: int = 6,
    tolerances: Sequence[float] = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7),
    phases: Sequence[float] = (0.1, 0.03, 0.01, 0.003, 0.001),
    device: str = "auto",
    threads: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Error of every integrator against its FFTs, exchanges and time.

    Parameters
    ----------
    cases : sequence of {"pulses", "wdm"}
        Smooth, and as a link has them.
    points : int
        Fixed steps of each integrator, each half of the one before; at least 3.
    tolerances : sequence of float
        Relative local errors for ``erk43ip`` under error control.
    phases : sequence of float
        Largest nonlinear phases a step, rad, for ``strang`` under phase control.
    device : str
    threads : int, optional
        CPU threads.
    progress : callable, optional
        Called with a line about what is being measured.

    Returns
    -------
    dict
        JSON-serialisable: ``cases``, each with ``reference`` (steps, own error) and ``curves``: ``name``,
        ``control``, measured ``order`` (fixed steps of a smooth case, else None), and ``points`` (``h``
        in m, ``tolerance`` or ``max_phase``, relative L2 ``error``, ``slope`` of the error since the point
        before, ``steps``, ``rejected``, ``ffts``, ``exchanges``, ``seconds``); and ``machine``.

    Raises
    ------
    InputError
        If an option is not allowed.
    """
    for name in cases:
        if name not in CASES:
            raise InputError(f"case: {name!r} is unknown; allowed: {', '.join(CASES)}")
    if not 3 <= points <= 12:
        raise InputError(f"points: {points} given; allowed: 3 to 12")
    for key, values in (("tolerances", tolerances), ("phases", phases)):
        for value in values:
            if not (value > 0 and math.isfinite(value)):
                raise InputError(f"{key}: {value} given; allowed: positive numbers")
    chip = get_device(device, threads)
    say = progress or (lambda line: None)
    results = []
    for name in cases:
        say(f"{name}: reference")
        results.append(_Runs(chip, CASES[name](chip), points, say).run(name, tolerances, phases))
    return {"benchmark": "work_precision", "cases": results, "machine": timing.machine(chip)}


class _Runs:
    """All runs of one case; they share the operators and one field."""

    def __init__(self, device: Device, case: Case, points: int, say):
        self.device, self.case, self.points, self.say = device, case, points, say
        shape = case.field.shape
        self.operators = FibreOperators(device, case.fibre, shape[1], case.sample_rate, case.field.dtype)
        self.A, self.start = self.operators.empty(), case.field
        # The finest run of the best integrator, and its half: their difference is the reference's error.
        most = case.steps * 2 ** (points - 1)
        fine = max(2 * most // 3, case.steps)
        _, self.reference = self._once("blanes_moan", 2 * fine)
        check, _ = self._once("blanes_moan", fine)
        self.about = {"integrator": "blanes_moan", "steps": 2 * fine, "error_estimate": check["error"] / 15}

    def run(self, name: str, tolerances, phases) -> dict[str, Any]:
        case = self.case
        curves = []
        for integrator, kind in INTEGRATORS.items():
            if kind.adaptive:  # With fixed steps it is rk4ip.
                continue
            self.say(f"{name}: {integrator}")
            points = [self._timed(integrator, n) for n in self._counts(integrator)]
            for before, point in itertools.pairwise(points):
                fall, shorter = before["error"] / point["error"], before["h"] / point["h"]
                point["slope"] = math.log(fall) / math.log(shorter)
            order = None
            if case.smooth:
                order = measured_order([p["h"] for p in points], [p["error"] for p in points])
            curves.append({"name": integrator, "control": "step", "order": order, "points": points})
        for integrator, control, values in (
            ("erk43ip", "tolerance", tolerances),
            ("strang", "max_phase", phases),
        ):
            if values:
                self.say(f"{name}: {integrator} by {control}")
                points = [self._timed(integrator, **{control: value}) for value in values]
                curves.append({"name": integrator, "control": control, "order": None, "points": points})
        return {
            "name": name,
            "title": case.title,
            "rows": case.field.shape[0],
            "samples": case.field.shape[1],
            "length_m": case.length,
            "reference": self.about,
            "curves": curves,
        }

    def _counts(self, integrator: str) -> list[int]:
        """Steps of the fixed runs: fewer for who does more in a step, so that the costs compare."""
        fraction = {"rk4ip": 2, "blanes_moan": 3}.get(integrator, 1)
        return [max(1, self.case.steps // fraction) * 2**k for k in range(self.points)]

    def _once(self, integrator: str, steps: int):
        """Error and cost of one run, and the field at the end."""
        point, control = self._point(integrator, steps)
        self._propagate(control, point)
        if not hasattr(self, "reference"):
            return point, self.A.copy()
        point["error"] = relative_error(self.device, self.A, self.reference)
        return point, self.A

    def _point(self, integrator: str, steps: int | None = None, **control):
        if steps is not None:
            control = {"step": self.case.length / steps}
        kind = INTEGRATORS[integrator](self.operators)
        if steps is not None:
            self.operators.prepare(*kind.lengths(self.case.length / steps))
        return dict(control), make_control(kind, **control)

    def _timed(self, integrator: str, steps: int | None = None, **options) -> dict[str, Any]:
        point, control = self._point(integrator, steps, **options)
        self._propagate(control, point)
        point["error"] = relative_error(self.device, self.A, self.reference)
        spent, again = 0.0, dict[str, Any]()
        for _ in range(5):  # The first run compiles kernels and warms up; on a GPU it captures the graph.
            if spent > 0.5:
                break
            self._propagate(control, again)
            spent += again["seconds"]
            point["seconds"] = min(point["seconds"], again["seconds"])
        point["h"] = self.case.length / point["steps"]
        return point

    def _propagate(self, control, point: dict[str, Any]) -> None:
        self.A[...] = self.start
        vars(self.operators.counts).update(vars(OperationCounts()))
        state: dict[str, Any] = {"z": 0.0, "done": 0}
        self.device.synchronize()
        begun = time.perf_counter()
        while state["z"] < self.case.length:
            for _ in control.advance(self.A, self.case.length, state, 1 << 30):
                pass
        self.device.synchronize()
        point["seconds"] = time.perf_counter() - begun
        point |= vars(self.operators.counts)


def measured_order(h: Sequence[float], error: Sequence[float]) -> float | None:
    """Slope of log error over log h between the finest two steps whose errors show one, None if none do.

    Parameters
    ----------
    h : sequence of float
        Steps, m, descending.
    error : sequence of float
        Relative errors of the same runs.
    """
    usable = [(a, b) for a, b in zip(h, error, strict=True) if _FLOOR < b < _ORDER_BELOW]
    if len(usable) < 2:
        return None
    (h0, e0), (h1, e1) = usable[-2:]
    return math.log(e0 / e1) / math.log(h0 / h1)


def table(result: dict[str, Any]) -> list:
    """A table a case: cost and error of every run."""
    return [_table(case) for case in result["cases"]]


def _table(case: dict[str, Any]) -> Any:
    reference = case["reference"]
    lines = report.table(
        case["title"],
        ("<integrator", "order", "h (m)", "steps", "FFTs", "exchanges", "ms", "error", "slope"),
        (),
        f"error: relative L2 after {case['length_m'] / 1e3:g} km against {reference['integrator']} with "
        f"{reference['steps']} steps (whose own error is about {reference['error_estimate']:.0e})",
    )
    for curve in case["curves"]:
        order = "-" if curve["order"] is None else f"{curve['order']:.2f}"
        for k, point in enumerate(curve["points"]):
            rejected = f" (+{point['rejected']})" if point["rejected"] else ""
            lines.add_row(
                *((_label(curve), order) if k == 0 else ("", "")),
                f"{point['h']:.4g}",
                f"{point['steps']}{rejected}",
                str(point["ffts"]),
                str(point["exchanges"]),
                f"{point['seconds'] * 1e3:.4g}",
                f"{point['error']:.2e}",
                f"{point['slope']:.2f}" if "slope" in point else "",
                end_section=k == len(curve["points"]) - 1,
            )
    return lines


def _label(curve: dict[str, Any]) -> str:
    return curve["name"] + {"step": "", "tolerance": ", tolerance", "max_phase": ", phase"}[curve["control"]]


_AXES = (("ffts", "FFTs of all rows"), ("exchanges", "exchanges"), ("seconds", "time (s)"))


def plot(result: dict[str, Any], path: Path) -> None:
    """Error against FFTs, exchanges and time, a row of panels a case, lines named at the right edge."""
    cases = result["cases"]
    with report.figure(path, (11.2, 0.5 + 3.9 * len(cases)), style={"axes.spines.left": True}) as figure:
        panels = figure.subplots(len(cases), 3, squeeze=False, sharey="row")
        for row, case in zip(panels, cases, strict=True):
            errors = [p["error"] for c in case["curves"] for p in c["points"]]
            for axes, (key, name) in zip(row, _AXES, strict=True):
                ends = []
                for curve, colour, marker, line in _styles(case["curves"]):
                    x, y = ([p[k] for p in curve["points"]] for k in (key, "error"))
                    fill = "white" if line != "-" else colour
                    axes.loglog(x, y, marker=marker, ls=line, color=colour, ms=4.5, lw=1.4, mfc=fill)
                    ends.append((x[-1], y[-1], _label(curve) + _order(curve), colour))
                axes.set_xlabel(name)
                axes.set_ylim(min(errors) / 3, max(min(e, 1.0) for e in errors) * 3)
                axes.minorticks_off()
                if axes is row[-1]:
                    _name_lines(axes, ends)
            row[0].set_ylabel("relative error")
            row[0].set_title(case["title"])
            km, samples = case["length_m"] / 1e3, case["samples"]
            row[1].set_title(f"{km:g} km, {case['rows']} × {samples} samples", fontweight="normal")


def _order(curve: dict[str, Any]) -> str:
    return "" if curve["order"] is None else f" ({curve['order']:.2f})"


def _styles(curves: list[dict]):
    """A colour and a marker for each integrator; dashes and hollow markers for its controlled steps."""
    names = list(dict.fromkeys(curve["name"] for curve in curves))
    for curve in curves:
        k = names.index(curve["name"])
        line = "-" if curve["control"] == "step" else "--"
        yield curve, COLOURS[k] if k < len(COLOURS) else GREY, MARKERS[k % len(MARKERS)], line


def _name_lines(axes, ends: list[tuple[float, float, str, str]]) -> None:
    """Names right of the panel, as high as the lines' ends but moved apart, joined to them."""
    bottom, top = np.log10(axes.get_ylim())
    heights = (np.log10([end[1] for end in ends]) - bottom) / (top - bottom)
    order = np.argsort(heights)
    gap = 0.075
    placed = heights[order].clip(0.02, 0.98)
    for _ in range(200):  # Push neighbours apart until none overlap.
        for i in range(len(placed) - 1):
            lack = gap - (placed[i + 1] - placed[i])
            if lack > 1e-6:
                placed[i] -= lack / 2
                placed[i + 1] += lack / 2
        placed += max(0.0, 0.02 - placed[0])
        placed -= max(0.0, placed[-1] - 0.98)
    for height, k in zip(placed, order, strict=True):
        x, y, text, colour = ends[k]
        axes.annotate(
            text,
            xy=(x, y),
            xytext=(1.05, height),
            textcoords=axes.transAxes,
            va="center",
            fontsize=9,
            color=colour,
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "lw": 0.5, "alpha": 0.6, "shrinkB": 3},
        )


def main(
    case: Annotated[str, option("pulses (smooth), wdm, or both.")] = "both",
    points: Annotated[int, option("Step sizes an integrator, each half the last.")] = 6,
    tolerances: Annotated[
        str, option("Of erk43ip, comma between; none: leave out.")
    ] = "1e-3,1e-4,1e-5,1e-6,1e-7",
    phases: Annotated[
        str, option("rad, of strang by phase, comma between; none: leave out.")
    ] = "0.1,0.03,0.01,0.003,0.001",
    device: DeviceName = "auto",
    threads: Threads = None,
    as_json: Json = False,
    output: Output = None,
    plot: Plot = None,
) -> None:
    """Work-precision diagram of all integrators: error against FFTs, exchanges and time."""
    with status_line(as_json) as say:
        result = compare(
            ("pulses", "wdm") if case == "both" else (case,),
            points,
            _numbers(tolerances, "--tolerances"),
            _numbers(phases, "--phases"),
            device,
            threads,
            say,
        )
    show(__name__, result, as_json, output, plot)


def _numbers(text: str, key: str) -> list[float]:
    if text.strip() == "none":
        return []
    try:
        return [float(word) for word in parse_list(text)]
    except ValueError:
        raise InputError(f"{key}: {text!r} given; allowed: numbers with a comma between, or none") from None


if __name__ == "__main__":
    run(main)
