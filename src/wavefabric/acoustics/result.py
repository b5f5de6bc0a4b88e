"""Holds the recorded quantities of a simulation in the user's order: [x, y, z], one row per point."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.acoustics.grid import Grid
from wavefabric.acoustics.problem import Cuboids, Problem, Recording, split
from wavefabric.acoustics.recording.quantities import describe, is_field, is_tone
from wavefabric.acoustics.recording.sinks import Report
from wavefabric.base.results.file import Data, ResultWriter
from wavefabric.base.results.provenance import provenance
from wavefabric.runtime.device.user_arrays import host_array


class Results(dict[str, Any]):
    """Holds recorded arrays by name: ``results["p"]``, ``results["ux_max"]``, ``results["p_final"]``.

    Attributes
    ----------
    time : ndarray, shape (rows,)
        Time of each sample of a series, s. The first time step is t = 0.
    report : Report
        Cost of the run.
    grid : Grid
        Grid of the simulation.
    frequencies : ndarray, shape (frequencies,)
        Frequencies of amplitudes and phases, Hz.
    writes : bool
        Whether this rank writes files.

    Notes
    -----
    A time series has the shape (points, rows), a statistic (points,); the points of a mask are in Fortran
    order, x fastest, as in MATLAB. With boxes, each quantity is a list with one array per box:
    (Cx[, Cy[, Cz]], rows) or (Cx[, Cy[, Cz]]). A whole-domain quantity (``*_all``, ``*_final``) has the
    grid's shape, without a PML outside. An amplitude or phase has the shape (frequencies, …), or one list
    of boxes per frequency. Amplitudes and phases are copies, all other arrays views of the solver's output.
    With ``on_gpu`` of `simulate` they are arrays on the GPU.
    Under ``mpiexec`` every rank has all arrays, and only rank 0 writes in `save`.
    """

    def __init__(
        self,
        arrays: Mapping[str, np.ndarray],
        problem: Problem,
        recording: Recording,
        grid: Grid,
        report: Report,
        *,
        writes: bool = True,
    ):
        self.grid = grid
        self.report = report
        self.writes = writes
        self._dt = problem.dt
        self._points, self._total = recording.where, problem.shape
        self.frequencies = np.array(recording.frequencies)
        self.time = np.arange(recording.start, max(problem.steps, recording.start)) * problem.dt
        super().__init__((name, self._view(name, array)) for name, array in arrays.items())

    def _view(self, name: str, array: np.ndarray) -> Any:
        view = self.grid.from_memory if is_field(name) else self._at_sensor
        if not is_tone(name):
            return view(array)
        each = [view(one) for one in array]
        return each if isinstance(each[0], list) else np.stack(each)

    def _at_sensor(self, array: np.ndarray) -> Any:
        points = self._points
        if not isinstance(points, Cuboids):
            return array.T
        dims = self.grid.dimensions
        # (…, points) -> (…, Cz, Cy, Cx) -> (Cx, Cy, Cz, …)
        boxes = (box.transpose() for box in split(array, points.shapes()))
        return [box[(slice(None),) * dims + (0,) * (3 - dims)] for box in boxes]

    def __repr__(self) -> str:
        return f"Results({', '.join(self)}; {self.time.size} rows of {self._dt:.4g} s)"

    def save(self, path: str | Path, force: bool = False) -> Path:
        """Write an HDF5 result file with units and provenance; read it with `wavefabric.base.results`.

        `InputError`: the file exists (without ``force``) or cannot be written.
        """
        return self.write(ResultWriter(path, force)) if self.writes else Path(path)

    def write(self, writer: ResultWriter) -> Path:
        """Write the results with ``writer``, created before the run to check that the file can be written."""
        grid = {
            "shape": Data(np.array(self.grid.shape), "", "points along x, y(, z)", ("axis",)),
            "spacing": Data(
                np.array(self.grid.spacing), "m", "distance of points along x, y(, z)", ("axis",)
            ),
            "pml_size": Data(np.array(self.grid.pml_size), "", "points of the PML on each side", ("axis",)),
            "pml_inside": Data(self.grid.pml_inside, "", "the PML lies within the grid"),
            "axisymmetric": Data(self.grid.axisymmetric, "", "y is the radius, from the axis on"),
            "dt": Data(self._dt, "s", "time step"),
        }
        axes, recorded = "xyz"[: self.grid.dimensions], dict[str, Any]()
        for name, value in self.items():
            unit, text = describe(name)

            def data(array: Any, box: int | None = None, name=name, unit=unit, text=text) -> Data:
                kind = "" if box is None else f", box {box}"
                dims = ("point",) if box is None else tuple(f"{axis}_box{box}" for axis in axes)
                dims = tuple(axes) if is_field(name) else dims
                array = host_array(array)
                return Data(array, unit, text + kind, (*dims, "time")[: array.ndim])

            if is_tone(name):
                # A group with one array, or one group of boxes, per frequency.
                recorded[name] = {
                    str(i): {str(j): data(box, j) for j, box in enumerate(one)}
                    if isinstance(one, list)
                    else data(one)
                    for i, one in enumerate(value)
                }
            elif isinstance(value, list):
                recorded[name] = {str(i): data(box, i) for i, box in enumerate(value)}
            else:
                recorded[name] = data(value)
        contents: dict[str, Any] = {
            **axes_of(self.grid, self._points),
            "grid": grid,
            "time": Data(self.time, "s", "time of each sample of a series", ("time",)),
            "recorded": recorded,
            "cost": _cost(self.report),
        }
        if positions := _positions(self._points, self._total, self.grid):
            contents["sensor"] = positions
        if self.frequencies.size:
            described = "of amplitudes and phases, in their order"
            contents["frequencies"] = Data(self.frequencies, "Hz", described, ("frequencies",))
        return writer.write(contents, attributes=provenance(device=self.report.device))


def axes_of(grid: Grid, sensor: Any = None) -> dict[str, Data]:
    """Return the coordinates of the grid points along each axis, and of the points of a sensor's boxes."""
    names = "xyz"[: grid.dimensions]
    parts = {name: (0, n) for name, n in zip(names, grid.shape, strict=True)}
    if isinstance(sensor, Cuboids):
        corners = np.stack([sensor.first - grid.margin, sensor.last - grid.margin + 1], -1).tolist()
        parts |= {f"{name}_box{i}": box[k] for i, box in enumerate(corners) for k, name in enumerate(names)}
    result = {}
    for name, ends in parts.items():
        axis = names.index(name[0])
        values = (np.arange(*ends) - grid.origin[axis]) * grid.spacing[axis]
        result[name] = Data(values, "m", f"coordinates along {name.replace('_box', ' of box ')}", (name,))
    return result


def _positions(points: Any, total: tuple[int, int, int], grid: Grid) -> dict[str, Data]:
    """Return a dictionary with the positions of a sensor's boxes or mask points; empty for other sensors.

    The positions are 0-based, and do not count the points of an added PML: corners of boxes, or flat indices
    of points.
    """
    if isinstance(points, Cuboids):
        boxes = (np.stack([points.first, points.last], 1) - grid.margin)[..., : grid.dimensions]
        described = "first and last point of each along x, y(, z), from 0"
        return {"boxes": Data(boxes, "", described, ("box", "end", "axis"))}
    if not isinstance(points, np.ndarray):
        return {}
    index = np.array(np.unravel_index(points, total, order="F")) - np.array(grid.margin)[:, None]
    numbers = np.ravel_multi_index(tuple(index[: grid.dimensions]), grid.shape, order="F")
    described = "points of the mask by number in the grid, x fastest, from 0"
    return {"points": Data(numbers, "", described, ("point",))}


def _cost(report: Report) -> dict[str, Any]:
    cost = {
        "seconds": {name: Data(s, "s", f"wall time of {name}") for name, s in report.seconds.items()},
        "steps": Data(report.total_steps, "", "time steps"),
        "ranks": Data(report.ranks, "", "processes that shared the grid"),
        "step": Data(report.step_seconds, "s", "a step when the first ones are over; 0: too few"),
        "peak_memory": Data(report.peak_bytes, "byte", "largest memory in use"),
        "gpu_memory": Data(report.device_bytes, "byte", "memory of the GPU in use; 0: a CPU"),
    }
    if report.ranks > 1:
        cost["transport"] = Data(report.transport, "", "how the processes exchanged fields")
        cost["decomposition"] = Data(report.decomposition, "", "how they shared the grid")
    return cost
