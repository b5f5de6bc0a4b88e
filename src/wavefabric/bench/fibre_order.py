"""Benchmark ``fibre-order``: work–precision of all integrators, on smooth pulses and on a WDM signal."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from wavefabric.bench.order_cases import CASES, Case
from wavefabric.device import Device, get_device
from wavefabric.errors import InputError
from wavefabric.execution import measure
from wavefabric.optics.propagation.integrators import INTEGRATORS
from wavefabric.optics.propagation.operators import FibreOperators, OperationCounts
from wavefabric.optics.propagation.step_size import make_control

#: Errors between which an order is told: above round-off and reference, below where h is too long.
_ORDER_BELOW = 1e-3
_FLOOR = 3e-11


def run(
    cases: Sequence[str] = ("pulses", "wdm"),
    points: int = 6,
    tolerances: Sequence[float] = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7),
    phases: Sequence[float] = (0.1, 0.03, 0.01, 0.003, 0.001),
    device: str | Device = "auto",
    threads: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Error of every integrator against its FFTs, exchanges and time.

    Parameters
    ----------
    cases : sequence of {"pulses", "wdm"}
        See `wavefabric.bench.order_cases`.
    points : int
        Fixed steps of each integrator, each half of the one before; at least 3.
    tolerances : sequence of float
        Relative local errors for ``erk43ip`` under error control.
    phases : sequence of float
        Largest nonlinear phases a step, rad, for ``strang`` under phase control.
    device : str or Device
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
    place = get_device(device, threads) if isinstance(device, str) else device
    say = progress or (lambda line: None)
    found = []
    for name in cases:
        say(f"{name}: reference")
        found.append(_Bench(place, CASES[name](place), points, say).run(name, tolerances, phases))
    return {"benchmark": "fibre-order", "cases": found, "machine": measure.machine(place)}


class _Bench:
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
        share = {"rk4ip": 2, "blanes_moan": 3}.get(integrator, 1)
        return [max(1, self.case.steps // share) * 2**k for k in range(self.points)]

    def _once(self, integrator: str, steps: int):
        """Error and cost of one run, and the field at the end."""
        point, control = self._point(integrator, steps)
        self._propagate(control, point)
        if not hasattr(self, "reference"):
            return point, self.A.copy()
        point["error"] = measure.relative_error(self.device, self.A, self.reference)
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
        point["error"] = measure.relative_error(self.device, self.A, self.reference)
        spent, again = point["seconds"], dict[str, Any]()
        for _ in range(5):  # The first run also warms up; on a GPU it captures the graph.
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
    """Slope of log error over log h between the finest two steps whose errors tell one, None if none do.

    Parameters
    ----------
    h : sequence of float
        Steps, m, descending.
    error : sequence of float
        Relative errors of the same runs.
    """
    told = [(a, b) for a, b in zip(h, error, strict=True) if _FLOOR < b < _ORDER_BELOW]
    if len(told) < 2:
        return None
    (h0, e0), (h1, e1) = told[-2:]
    return math.log(e0 / e1) / math.log(h0 / h1)


def table(result: dict[str, Any]) -> list:
    """The result of `run` as one `rich.table.Table` for each case."""
    from rich.table import Table

    tables = []
    for case in result["cases"]:
        lines = Table(
            title=case["title"],
            caption=f"error: relative L2 after {case['length_m'] / 1e3:g} km against "
            f"{case['reference']['integrator']} with {case['reference']['steps']} steps "
            f"(whose own error is about {case['reference']['error_estimate']:.0e})",
        )
        lines.add_column("integrator")
        for heading in ("order", "h (m)", "steps", "FFTs", "exchanges", "ms", "error", "slope"):
            lines.add_column(heading, justify="right")
        for curve in case["curves"]:
            for k, point in enumerate(curve["points"]):
                order = curve["order"]
                rejected = f" (+{point['rejected']})" if point["rejected"] else ""
                lines.add_row(
                    _label(curve) if k == 0 else "",
                    (f"{order:.2f}" if order is not None else "-") if k == 0 else "",
                    f"{point['h']:.4g}",
                    f"{point['steps']}{rejected}",
                    str(point["ffts"]),
                    str(point["exchanges"]),
                    f"{point['seconds'] * 1e3:.4g}",
                    f"{point['error']:.2e}",
                    f"{point['slope']:.2f}" if "slope" in point else "",
                    end_section=k == len(curve["points"]) - 1,
                )
        tables.append(lines)
    return tables


def _label(curve: dict[str, Any]) -> str:
    return curve["name"] + {"step": "", "tolerance": ", tolerance", "max_phase": ", phase"}[curve["control"]]


def plot(result: dict[str, Any], path: str | Path) -> list[Path]:
    """Draw three panels a case: error against FFTs, exchanges and time; each line named at its end.

    Parameters
    ----------
    result : dict
        From `run`.
    path : str or Path
        Image file; its ending picks the format.

    Returns
    -------
    list of Path
        What was written.
    """
    from wavefabric.bench.order_plot import draw

    draw(result, path, _label)
    return [Path(path)]
