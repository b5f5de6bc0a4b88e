"""Draws movies of a plane in which a sensor recorded time series.

The sensor is a box one point thick, or a mask whose points fill such a box.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from wavefabric.acoustics.pictures.fields import add_colour_bar, show_image
from wavefabric.acoustics.pictures.plot_recorded import colours_of, scale_of
from wavefabric.acoustics.pictures.recorded import RecordedFile
from wavefabric.base.errors import ensure
from wavefabric.base.results.figure_style import new_axes, style
from wavefabric.base.results.movie_file import MOST_FRAMES, write_movie
from wavefabric.base.system.progress import Progress
from wavefabric.base.units import show

#: Number of values read at once.
_BLOCK = 1 << 22


class Movie:
    """Describes a movie of the recorded quantity ``name`` in a plane: axes, frames and times of frames.

    ``every`` is the number of time steps from frame to frame; the default gives at most 200 frames.
    `InputError`: the quantity is missing, or is not a time series in a plane.
    """

    def __init__(self, file: RecordedFile, name: str, every: int | None = None):
        allowed = ", ".join(each for each, item in file.items.items() if item.kind == "series")
        matches = [each for each in file.items if name in (each, each.partition("/")[0])]
        actual = f"{show(name)} {'is no time series of' if matches else 'is not in'} {file.path}"
        right = matches and file.items[matches[0]].kind == "series"
        ensure(right, "--movie", actual, allowed or "none there")
        ensure(len(matches) == 1, "--movie", f"{name} has {len(matches)} boxes", ", ".join(matches))
        self.item = item = file.items[matches[0]]
        (shape, first), self._samples = item.box_of_series(), item.size[1]
        self._box = shape
        axes = [axis for axis, n in enumerate(shape) if n > 1]
        actual = f"{item.name} was recorded at {' x '.join(map(str, shape)) or 'single points'}"
        allowed = "a box that is one point thick in one direction, such as "
        allowed += "Sensor.boxes(((0, 0, 32), (63, 63, 32))), or a mask of its points"
        ensure(len(axes) == 2, "--movie", actual, allowed)
        #: The two axes of the plane (0 for x), the points along each, and their coordinates, ``millimetres``.
        self.axes, self.shape = axes, tuple(shape[axis] for axis in axes)
        start = [0] * len(shape)
        if first is not None:
            start = [int(n) - file.origin(axis) for axis, n in enumerate(first)]
        self.millimetres = [(start[a] + np.arange(shape[a])) * file.spacing[a] * 1e3 for a in axes]
        #: Labels of the axes; the title has the position of the plane if the file contains it.
        self.labels = [f"{'xyz'[axis]} {'in the box ' * (first is None)}(mm)" for axis in axes]
        flat = [] if first is None else [axis for axis in range(len(start)) if axis not in axes]
        positions = (f", {'xyz'[a]} = {start[a] * file.spacing[a] * 1e3:.4g} mm" for a in flat)
        self.title = "".join((item.name, *positions)).replace("-", "−")
        self.every = max(1, math.ceil(self._samples / MOST_FRAMES)) if every is None else every
        ensure(self.every >= 1, "--every", f"{every} given", "a whole number from 1")
        self.steps = np.arange(0, self._samples, self.every)
        self.times = item.first_time() + self.steps * file.dt

    def frames(self) -> Iterator[np.ndarray]:
        """Yield the values of each frame, [first axis, second axis]; only some frames are read at once."""
        count = max(1, _BLOCK // math.prod(self.shape))
        for first in range(0, self.steps.size, count):
            yield from self.item.samples_of_box(self._box, self.steps[first : first + count])

    def top(self) -> float:
        """Return the largest value of the colour scale: twice the median of the frames' peaks.

        So a single frame with a high peak does not make the other frames pale. Frames with a peak below 1 %
        of the largest peak do not count, and the result is at most the largest peak.
        """
        peaks = np.array([np.max(np.abs(frame)) for frame in self.frames()])
        largest = float(peaks.max())
        if not math.isfinite(largest):
            raise self.item.fault("has values that are not finite")
        loud = peaks[peaks > 0.01 * largest]
        return min(largest, 2 * float(np.median(loud))) if loud.size else 0.0


def draw_movie(movie: Movie, target: Path, fps: int = 20, progress: Progress | None = None) -> Path:
    """Draw a movie as ``.gif``, or ``.mp4`` if ffmpeg is installed; the file is written whole or not at all.

    Colours are symmetric about zero and the same in all frames. `InputError` as `write_movie`.
    """
    top = movie.top()
    factor, label, _ = scale_of(movie.item, top)
    x, y = movie.millimetres
    with style(**{"axes.titlepad": 8, "axes.grid": False}):
        axes = new_axes(6.4, 6.4 * min(1.4, max(0.5, float(np.ptp(y) / np.ptp(x)))))
        colours = colours_of(-top * factor, top * factor)
        image = show_image(axes, np.zeros(movie.shape[::-1]), x, y, **colours)
        add_colour_bar(image, axes, label)
        axes.set(xlabel=movie.labels[0], ylabel=movie.labels[1], aspect="equal")
        axes.set_title(movie.title)

        def frames() -> Iterator[None]:
            for moment, frame in zip(movie.times, movie.frames(), strict=True):
                image.set_array(frame.T * factor)
                axes.set_title(f"{movie.title}, t = {moment * 1e6:.2f} µs")
                yield

        return write_movie(axes.figure, frames(), movie.steps.size, target, fps, progress)
