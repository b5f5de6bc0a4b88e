"""Draws a circuit plan as an animated picture (GIF)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from wavefabric.base.system.progress import Progress
from wavefabric.fabric.draw import style, wafers
from wavefabric.fabric.draw.circuit_geometry import Frame, Scene

if TYPE_CHECKING:
    from PIL.Image import Image

#: Largest number of pictures in an animation; largest and smallest number per round.
MOST, ROUND_MOST, ROUND_LEAST = 180, 18, 4
#: Display time in ms of a picture, of a finished round, and of the end.
_STEP, _REST, _LAST = 60, 420, 2500


def gif(scene: Scene, path: Path, progress: Progress | None = None) -> None:
    """Write an animated GIF of the circuits of a scene, which has at least one frame."""
    steps = int(np.clip(MOST // len(scene.frames), ROUND_LEAST, ROUND_MOST))
    progress = progress or Progress()
    progress.start(len(scene.frames) * steps, "pictures")
    canvas = _Canvas(scene)
    pictures, durations = [], []
    for number, now in enumerate(scene.frames):
        canvas.begin(now)
        for step in range(steps):
            pictures.append(canvas.picture(now, (step + 1) / steps, pulses=step < steps - 1))
            durations.append(_STEP if step < steps - 1 else _REST)
            progress.update(number * steps + step + 1)
    durations[-1] = _LAST
    palette = _palette(pictures)
    indexed = [p.quantize(palette=palette, dither=0) for p in pictures]
    indexed[0].save(path, "GIF", save_all=True, append_images=indexed[1:], duration=durations, loop=0)


def _palette(pictures: list[Image]) -> Image:
    """Return one palette of colours for all pictures, computed from a few of them."""
    from PIL import Image

    chosen = [pictures[int(k)] for k in np.unique(np.linspace(0, len(pictures) - 1, 6).astype(int))]
    wide, high = chosen[0].size
    sheet = Image.new("RGB", (wide, high * len(chosen)))
    for k, each in enumerate(chosen):
        sheet.paste(each, (0, k * high))
    # Add colours that are rare but important: wavelengths, levels.
    for column in range(wide):
        fraction = column / wide
        colour = style.wavelength_colour(fraction) if column % 2 else style.level_colour(fraction)
        sheet.paste(colour, (column, 0, column + 1, high // 2))
    return sheet.quantize(colors=255, method=Image.Quantize.MEDIANCUT)


class _Canvas:
    """Draws the pictures of an animation on a background that is drawn only once."""

    def __init__(self, scene: Scene):
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        self._scene = scene
        self._figure, (self._axes,) = wafers.circuit_panels(scene, [("", "")])
        self._figure.set_dpi(100)
        self._canvas = FigureCanvasAgg(self._figure)
        wide, tall = self._figure.get_size_inches()
        box = 0.25 / wide, 1 - 1.04 / tall, 1 - 0.5 / wide, 0.30 / tall
        self._line = style.legend_axes(self._figure, box, width=1)
        self._canvas.draw()
        self._empty = self._background = self._canvas.copy_from_bbox(self._figure.bbox)

    def begin(self, now: Frame) -> None:
        """Draw the circuits of frame ``now`` into the background, which all pictures of the frame share."""
        self._canvas.restore_region(self._empty)
        self._draw(self._axes, wafers.circuits(self._axes, now))
        self._background = self._canvas.copy_from_bbox(self._figure.bbox)

    def picture(self, now: Frame, fraction: float, pulses: bool) -> Image:
        from PIL import Image

        self._canvas.restore_region(self._background)
        artists = wafers.tiles(self._axes, self._scene, now.before + (now.after - now.before) * fraction)
        if pulses:
            artists += wafers.pulses(self._axes, now, fraction)
        self._draw(self._axes, artists)
        time, words = wafers.clock(now, fraction), f"{now.title}   ·   {now.note}"
        left = style.label(self._line, 0, 5.5, words, 10.5, ha="left")
        right = style.label(self._line, 1, 5.5, time, 10.5, ha="right", fontweight="bold")
        self._draw(self._line, [left, right])
        return Image.fromarray(np.asarray(self._canvas.buffer_rgba())[..., :3].copy())

    def _draw(self, axes, artists: list) -> None:
        for artist in sorted(artists, key=lambda a: a.get_zorder()):
            axes.draw_artist(artist)
        for artist in artists:
            artist.remove()
