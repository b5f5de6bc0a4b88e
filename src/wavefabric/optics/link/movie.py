"""Draws movies of light along z: the power over time, or the spectrum, of one spatial mode or of all."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.base.arguments import field_array, numbers, positive, whole
from wavefabric.base.errors import choice, ensure, require
from wavefabric.base.files.hdf5 import reading
from wavefabric.base.results import read_result
from wavefabric.base.results.figure_style import BLUE, new_axes, style
from wavefabric.base.results.movie_file import write_movie
from wavefabric.base.system.progress import Progress

#: Labels of the axes for each quantity, and the power, relative to the largest, where its picture ends.
_QUANTITIES = {
    "power": ("time (ps)", "power (W)", 1e-3),
    "spectrum": ("frequency offset (THz)", "spectrum (dB of the largest)", 1e-4),
}


class PulseMovie:
    """Describes a movie of fields at several positions along a fibre, such as those of `propagate`.

    >>> out, report, fields = propagate(field, fibre, "2 km", sample_rate=rate, step="10 m", at=positions)
    >>> PulseMovie(fields, positions, rate).draw("pulse.gif")

    ``fields`` are arrays (2M, N) in √W. ``quantity`` is ``"power"`` (W, over time) or ``"spectrum"`` (dB,
    over the optical frequency relative to the centre); ``mode`` is a spatial mode, from 1, or None for the
    sum of all. Pictures end where the power is low in all frames. `InputError` if an argument does not fit.
    """

    def __init__(
        self, fields: Iterable, positions: Any, sample_rate: Any, quantity: str = "power", mode: Any = None
    ):
        choice("quantity", quantity, tuple(_QUANTITIES))
        *self.labels, lowest = _QUANTITIES[quantity]
        #: Positions of the frames, m.
        self.positions, self.mode = np.atleast_1d(numbers(positions, "m", "positions")), mode
        rate = positive(sample_rate, "Hz", "sample_rate")
        require(np.iterable(fields), "fields", fields, "arrays (2M, N), one for each position")
        powers = [_power(np.asarray(field_array(field)), quantity, mode) for field in fields]
        lengths = {power.size for power in powers}
        actual = f"{len(powers)} given, of {len(lengths)} lengths, for {self.positions.size} positions"
        right = len(lengths) == 1 and self.positions.shape == (len(powers),)
        ensure(right, "fields", actual, "one for each position, all of one length")
        power, samples = np.stack(powers), powers[0].size
        top = float(power.max())
        ensure(0 < top < np.inf, "fields", f"the largest power is {top:g} W", "light, of finite power")
        lit = np.flatnonzero((power > lowest * top).any(axis=0))
        inside, timed = slice(max(0, lit[0] - 1), lit[-1] + 2), quantity == "power"
        # The highest bin of NumPy's transform is the lowest optical frequency.
        unit, first = (1e12 / rate, samples // 2) if timed else (rate / samples / 1e12, (samples - 1) // 2)
        power = power[:, inside]
        #: Horizontal axis in ps or THz, (points,), and the curve of each frame in W or dB, (frames, points).
        self.x = (np.arange(samples)[inside] - first) * unit
        self.curves = power if timed else 10 * np.log10(np.maximum(power / top, 1e-30))

    @classmethod
    def of_snapshots(cls, path: str | Path, quantity: str = "power", mode: int | None = None) -> PulseMovie:
        """Create the movie of a run's snapshots (``output.snapshots``), which lie beside its result ``path``.

        `InputError` if there are fewer than two, or they belong to different runs.
        """
        choice("--movie", quantity, tuple(_QUANTITIES))
        path = Path(path)
        names = path.parent.glob(f"{glob.escape(path.stem)}-*km.h5")
        files = [each for each in map(read_result, names) if "distance_m" in each.attrs()]
        files.sort(key=lambda each: each.attrs()["distance_m"])
        runs = {each.attrs().get("fingerprint") for each in files}
        actual = f"{len(files)} snapshots of {len(runs)} runs beside {path}"
        allowed = "two or more of one run (output.snapshots)"
        ensure(len(files) > 1 and len(runs) == 1, "--movie", actual, allowed)
        with reading(path):
            rate = float(read_result(path).attrs("signal")["sample_rate_Hz"])
        positions = [each.attrs()["distance_m"] for each in files]
        return cls((each["field"] for each in files), positions, rate, quantity, mode)

    def draw(self, target: str | Path, fps: int = 20, progress: Progress | None = None) -> Path:
        """Draw the movie as ``.gif``, or ``.mp4`` if ffmpeg is installed; titles have mode and position.

        Axes are the same in all frames. `InputError` as `write_movie`.
        """
        target, top = Path(target), float(self.curves.max())
        units = {"km": 1e3, "m": 1.0, "mm": 1e-3}
        unit = next((name for name, size in units.items() if self.positions.max() >= size), "mm")
        name = "all modes" if self.mode is None else f"mode {self.mode}"
        with style(**{"axes.titlepad": 8}):
            axes = new_axes(6.4, 4.0)
            (line,) = axes.plot(self.x, self.curves[0], color=BLUE, linewidth=1.2)
            axes.set(xlabel=self.labels[0], ylabel=self.labels[1], title=name, xlim=self.x[[0, -1]])
            axes.set_ylim(*((0, 1.05 * top) if top > 0 else (-40, 2)))

            def frames() -> Iterator[None]:
                for position, curve in zip(self.positions / units[unit], self.curves, strict=True):
                    line.set_ydata(curve)
                    axes.set_title(f"{name}, z = {position:.3f} {unit}")
                    yield

            return write_movie(axes.figure, frames(), len(self.curves), target, fps, progress)


def _power(field: np.ndarray, quantity: str, mode: int | None) -> np.ndarray:
    """Return the power (W) of a mode at each instant, or in each bin by ascending optical frequency, (N,)."""
    right = field.ndim == 2 and field.size and field.shape[0] % 2 == 0
    ensure(right, "fields", f"shape {field.shape} given", "(2M, N), two rows per mode")
    if mode is not None:
        first = 2 * whole("mode", mode, 1, len(field) // 2) - 2
        field = field[first : first + 2]
    if quantity == "spectrum":
        field = np.fft.fftshift(np.fft.fft(field, norm="forward"), axes=1)[:, ::-1]
    return (np.abs(field) ** 2).sum(axis=0)
