"""What a simulation recorded, as users think of it: [x, y, z], one row a point."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.acoustics.grid import Grid
from wavefabric.acoustics.problem import Cuboids, Problem, Recording
from wavefabric.acoustics.recording.sinks import Report
from wavefabric.results.file import Data, ResultWriter
from wavefabric.results.provenance import provenance

_QUANTITIES = {
    "p": ("Pa", "pressure"),
    "u": ("m/s", "particle velocity"),
    "I": ("W/m^2", "acoustic intensity"),
}
_KINDS = {
    "rms": "root mean square over time",
    "max": "largest over time",
    "min": "smallest over time",
    "avg": "mean over time",
    "max_all": "largest over time, whole domain",
    "min_all": "smallest over time, whole domain",
    "final": "after the last step, whole domain",
    "staggered": "at each time step, half a spacing and half a step off the pressure",
    "non_staggered": "at each time step, brought to the pressure's points",
}


class Results(Mapping[str, Any]):
    """Recorded arrays by name: ``results["p"]``, ``results["ux_max"]``, ``results["p_final"]``.

    Attributes
    ----------
    time : ndarray, shape (rows,)
        Time of each sample of a series, s. The first time step is t = 0.
    report : Report
        What the run cost.
    grid : Grid
        Where it was.

    Notes
    -----
    A time series has the shape (points, rows), a statistic (points,); the points of a mask are in the order
    of Fortran, x fastest, as in MATLAB. With boxes, each is a list with one array a box: (Cx, Cy[, Cz],
    rows) or (Cx, Cy[, Cz]). A whole-domain quantity (``*_all``, ``*_final``) has the grid's shape, without
    a PML that is outside. All are views of what the solver wrote. Under ``mpiexec`` every rank has them all,
    and `save` writes on rank 0 alone.
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
        self._writes = writes
        self._dt = problem.dt
        self.time = np.arange(recording.start, max(problem.steps, recording.start)) * problem.dt
        self._arrays = {name: self._view(name, array, recording.where) for name, array in arrays.items()}

    def _view(self, name: str, array: np.ndarray, where: Any) -> Any:
        if name.endswith(("_all", "_final")):
            return self.grid.from_memory(array)
        if not isinstance(where, Cuboids):
            return array.T
        shapes = where.shapes()
        ends = np.cumsum([np.prod(shape) for shape in shapes])[:-1]
        boxes = []
        for shape, part in zip(shapes, np.split(array, ends, axis=-1), strict=True):
            # (…, points) -> (…, Cz, Cy, Cx) -> (Cx, Cy, Cz, …)
            box = part.reshape(*array.shape[:-1], *shape).transpose()
            boxes.append(box[:, :, 0] if self.grid.dimensions == 2 else box)
        return boxes

    def __getitem__(self, name: str) -> Any:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __repr__(self) -> str:
        return f"Results({', '.join(self)}; {self.time.size} rows of {self._dt:.4g} s)"

    def save(self, path: str | Path, force: bool = False) -> Path:
        """Write an HDF5 result file with units and provenance; read it with `wavefabric.results`.

        Raises
        ------
        InputError
            If the file exists (without `force`) or cannot be written.
        """
        return self.write(ResultWriter(path, force)) if self._writes else Path(path)

    def write(self, writer: ResultWriter) -> Path:
        """Write with a writer that was made, and checked its file, before the run."""
        grid = {
            "shape": Data(np.array(self.grid.shape), "", "points along x, y(, z)"),
            "spacing": Data(np.array(self.grid.spacing), "m", "distance of points along x, y(, z)"),
            "pml_size": Data(np.array(self.grid.pml_size), "", "points of the PML on each side"),
            "pml_inside": Data(self.grid.pml_inside, "", "the PML lies within the grid"),
            "dt": Data(self._dt, "s", "time step"),
        }
        recorded: dict[str, Any] = {}
        for name, value in self.items():
            unit, text = describe(name)
            if isinstance(value, list):
                recorded[name] = {str(i): Data(box, unit, f"{text}, box {i}") for i, box in enumerate(value)}
            else:
                recorded[name] = Data(value, unit, text)
        contents = {
            "grid": grid,
            "time": Data(self.time, "s", "time of each sample of a series"),
            "recorded": recorded,
            "cost": _cost(self.report),
        }
        return writer.write(contents, attributes=provenance(device=self.report.device))


def _cost(report: Report) -> dict[str, Any]:
    seconds = {name: Data(value, "s", f"wall time of {name}") for name, value in report.seconds.items()}
    shared = {
        "transport": Data(report.transport, "", "how the processes exchanged fields"),
        "decomposition": Data(report.decomposition, "", "how they shared the grid"),
    }
    return {
        "seconds": seconds,
        "steps": Data(report.total_steps, "", "time steps"),
        "ranks": Data(report.ranks, "", "processes that shared the grid"),
        **(shared if report.ranks > 1 else {}),
        "peak_memory": Data(report.peak_bytes, "byte", "largest memory in use"),
    }


def describe(name: str) -> tuple[str, str]:
    """SI unit and meaning of a recorded quantity, ``ux_max`` or ``p/1``."""
    quantity, _, kind = name.partition("/")[0].partition("_")
    unit, text = _QUANTITIES[quantity[0]]
    along = f" along {quantity[1]}" if len(quantity) > 1 else ""
    return unit, f"{text}{along} {_KINDS.get(kind, 'at each time step')}"
