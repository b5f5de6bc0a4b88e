"""Draws movies of light along z: the power over time, or the spectrum, of one spatial mode or of all."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.base.arguments import field_array, numbers, positive, whole
from wavefabric.base.errors import InputError, choice, ensure
from wavefabric.base.files.hdf5 import reading
from wavefabric.base.results import read_result
from wavefabric.base.results.figure_style import BLUE, new_axes, style
from wavefabric.base.results.movie_file import check_movie, write_movie
from wavefabric.base.system.progress import Progress

#: For each quantity: labels of the axes, and the power, relative to the largest, where the picture ends.
_QUANTITIES = {
    "power": ("time (ps)", "power (W)", 1e-3),
    "spectrum": ("frequency offset (THz)", "spectrum (dB of the largest)", 1e-4),
}
#: Largest number of points of a curve; a point is the maximum of neighbouring samples if there are more.
_POINTS = 4096


class PulseMovie:
    """Describes a movie of fields at several positions along a fibre, for example those of `propagate`.

    >>> out, report, fields = propagate(field, fibre, "2 km", sample_rate=rate, step="10 m", at=positions)
    >>> PulseMovie(fields, positions, rate).draw("pulse.gif")

    ``fields`` are arrays (2M, N) in √W, ``positions`` in m, ``sample_rate`` in Hz, numbers or text with a
    unit. ``quantity`` is ``"power"`` (W, over time) or ``"spectrum"`` (dB, over the optical frequency from
    the centre); ``mode`` a spatial mode, from 1, or None for the sum of all. Pictures end where the power is
    low in all frames. `InputError` if an argument does not fit, or there is no light.
    """

    def __init__(
        self,
        fields: Iterable,
        positions: Any,
        sample_rate: float | str,
        quantity: str = "power",
        mode: int | None = None,
    ):
        choice("quantity", quantity, tuple(_QUANTITIES))
        self.positions = np.atleast_1d(numbers(positions, "m", "positions"))
        rate, curves = positive(sample_rate, "Hz", "sample_rate"), []
        for field in fields:
            curves.append(_powers(np.asarray(field_array(field)), quantity, mode))
        shapes = {curve.shape for curve in curves}
        ensure(len(shapes) == 1, "fields", f"{len(shapes)} different lengths", "one number of samples")
        actual = f"shape {self.positions.shape} given for {len(curves)} fields"
        ensure(self.positions.shape == (len(curves),), "positions", actual, "one for each field")
        (samples,) = shapes.pop()
        starts = np.unique(np.linspace(0, samples, _POINTS + 1).astype(int)[:-1])
        power = np.maximum.reduceat(np.stack(curves), starts, axis=1)
        top = float(power.max())
        ensure(0 < top < np.inf, "fields", f"the largest power is {top:g} W", "light, of finite power")
        if quantity == "power":
            grid = (starts - samples // 2) / rate * 1e12
        else:  # the highest bin of NumPy's transform is the lowest optical frequency
            grid = (starts - (samples - 1) // 2) * (rate / samples) / 1e12
        self.labels, self.mode = _QUANTITIES[quantity][:2], mode
        lit = np.flatnonzero((power > _QUANTITIES[quantity][2] * top).any(axis=0))
        inside = slice(max(0, lit[0] - 1), lit[-1] + 2)
        #: Horizontal axis in ps or THz, (points,), and the curve of each frame, (frames, points), W or dB.
        self.grid, self.curves = grid[inside], power[:, inside]
        if quantity == "spectrum":
            self.curves = 10 * np.log10(np.maximum(self.curves / top, 1e-30))

    @classmethod
    def of_snapshots(cls, path: str | Path, quantity: str = "power", mode: int | None = None) -> PulseMovie:
        """Create the movie of the snapshots (``output.snapshots``) that lie beside the result file ``path``.

        `InputError` if there are fewer than two, or they belong to different runs.
        """
        choice("--movie", quantity, tuple(_QUANTITIES))
        path = Path(path)
        names = path.parent.glob(f"{glob.escape(path.stem)}-*km.h5")
        files = [each for each in map(read_result, sorted(names)) if "distance_m" in each.attrs()]
        files.sort(key=lambda each: each.attrs()["distance_m"])
        actual, allowed = f"{len(files)} snapshots beside {path}", "two or more (output.snapshots of a run)"
        ensure(len(files) > 1, "--movie", actual, allowed)
        runs = {each.attrs().get("fingerprint") for each in files}
        ensure(len(runs) == 1, "--movie", f"snapshots of {len(runs)} runs beside {path}", "those of one run")
        with reading(path):
            rate = read_result(path).attrs("signal")["sample_rate_Hz"]
        fields = (each["field"] for each in files)
        return cls(fields, [each.attrs()["distance_m"] for each in files], float(rate), quantity, mode)

    def draw(self, target: str | Path, fps: int = 20, progress: Progress | None = None) -> Path:
        """Draw the movie as ``.gif``, or ``.mp4`` if ffmpeg is installed; titles have mode and position.

        Axes are the same in all frames. `InputError` as `check_movie`, or if the file cannot be written.
        """
        target = Path(target)
        check_movie(target, fps)
        units = {"km": 1e3, "m": 1.0, "mm": 1e-3}
        unit = next((name for name, size in units.items() if self.positions.max() >= size), "mm")
        with style(**{"axes.titlepad": 8}):
            axes = new_axes(6.4, 4.0)
            (line,) = axes.plot(self.grid, self.curves[0], color=BLUE, linewidth=1.2)
            top, power = self.curves.max(), self.labels[1].startswith("power")
            axes.set(xlabel=self.labels[0], ylabel=self.labels[1], xlim=self.grid[[0, -1]])
            axes.set_ylim(*((0, 1.05 * top) if power else (-40, 2)))
            name = "all modes" if self.mode is None else f"mode {self.mode}"
            axes.set_title(name)

            def frames() -> Iterator[None]:
                for position, curve in zip(self.positions / units[unit], self.curves, strict=True):
                    line.set_ydata(curve)
                    axes.set_title(f"{name}, z = {position:.3f} {unit}")
                    yield

            return write_movie(axes.figure, frames(), len(self.curves), target, fps, progress)


def _powers(field: np.ndarray, quantity: str, mode: int | None) -> np.ndarray:
    """Return the power (W) of a mode over time, or of each bin of its spectrum by optical frequency, (N,)."""
    if field.ndim != 2 or field.shape[0] % 2 or not field.size:
        raise InputError(f"fields: shape {field.shape} given; allowed: (2 modes, N), two rows per mode")
    rows = field
    if mode is not None:
        first = 2 * whole("mode", mode, 1, field.shape[0] // 2) - 2
        rows = field[first : first + 2]
    total = np.zeros(field.shape[1])
    for row in rows:
        row = row if quantity == "power" else np.fft.fftshift(np.fft.fft(row, norm="forward"))[::-1]
        total += np.abs(row) ** 2
    return total
