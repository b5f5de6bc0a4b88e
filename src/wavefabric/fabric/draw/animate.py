"""A circuit plan in motion: an animated picture (GIF) or a page (HTML)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wavefabric.errors import InputError
from wavefabric.fabric.draw import photonic
from wavefabric.fabric.draw.scene import Scene
from wavefabric.system.progress import Progress, Silent

if TYPE_CHECKING:
    from PIL.Image import Image

#: Pictures of an animation, at most; of one round, at most and at least.
MOST, ROUND_MOST, ROUND_LEAST = 180, 18, 4
#: ms that a picture stands, a finished round, and the end.
_STEP, _REST, _LAST = 60, 420, 2500


def steps_of(rounds: int) -> int:
    """Pictures of a round."""
    return int(np.clip(MOST // max(rounds, 1), ROUND_LEAST, ROUND_MOST))


def gif(scene: Scene, path: Path, progress: Progress | None = None, width: float = 8.0) -> Path:
    """Write an animated GIF.

    Parameters
    ----------
    scene : Scene
        With no more than 45 frames, or the file grows large.
    path : Path
        Written as it is: whoever calls sees to names and what is there already.
    progress : Progress, optional
        Counts pictures.
    width : float
        Of the pictures, in units of 100 pixels.

    Raises
    ------
    InputError
        If there is no round to show.
    """
    if not scene.frames:
        raise InputError(f"schedule: {scene.title} sends nothing; allowed: a schedule with circuits to draw")
    steps = steps_of(len(scene.frames))
    progress = progress or Silent()
    progress.start(len(scene.frames) * steps, "pictures")
    stage = _Stage(scene, width)
    pictures, lasting = [], []
    for number, now in enumerate(scene.frames):
        stage.begin(now)
        for step in range(steps):
            pictures.append(stage.picture(now, (step + 1) / steps, pulses=step < steps - 1))
            lasting.append(_STEP if step < steps - 1 else _REST)
            progress.update(number * steps + step + 1)
    lasting[-1] = _LAST
    palette = _palette(pictures)
    indexed = [p.quantize(palette=palette, dither=0) for p in pictures]
    indexed[0].save(path, "GIF", save_all=True, append_images=indexed[1:], duration=lasting, loop=0)
    return path


def _palette(pictures: list[Image]) -> Image:
    """One palette for all pictures, from a few of them."""
    from PIL import Image

    chosen = [pictures[i] for i in sorted({int(k) for k in np.linspace(0, len(pictures) - 1, 6)})]
    wide, high = chosen[0].size
    sheet = Image.new("RGB", (wide, high * len(chosen)))
    for k, each in enumerate(chosen):
        sheet.paste(each, (0, k * high))
    # What is rare but matters gets its place: wavelengths, levels.
    for column in range(wide):
        tint = photonic.hue(column / wide) if column % 2 else photonic.level_colour(column / wide)
        sheet.paste(tint, (column, 0, column + 1, high // 2))
    return sheet.quantize(colors=255, method=Image.Quantize.MEDIANCUT)


class _Stage:
    """A canvas whose background is drawn once."""

    def __init__(self, scene: Scene, width: float):
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        left, top, right, bottom = scene.box
        ratio = (right - left) / (bottom - top)
        wide = max(width * min(1.0, ratio**0.5 * 0.95), 6.6)
        panel = wide - 0.3
        high = panel / ratio
        tall = high + 1.35
        self._scene, self._tall, self._wide = scene, tall, wide
        self._figure = figure = Figure(figsize=(wide, tall), dpi=100, facecolor=photonic.NIGHT)
        self._canvas = FigureCanvasAgg(figure)
        x = 0.2 / wide
        words: dict[str, Any] = {"va": "center", "color": photonic.TEXT}
        figure.text(x, 1 - 0.24 / tall, scene.title, fontsize=13, fontweight="bold", **words)
        figure.text(x, 1 - 0.48 / tall, scene.subtitle, fontsize=8.5, va="center", color=photonic.DIM)
        self._axes = figure.add_axes((0.15 / wide, 0.42 / tall, panel / wide, high / tall))
        photonic.wafers(self._axes, scene)
        strip = figure.add_axes((x, 0.08 / tall, 6.2 / wide, 0.26 / tall))
        photonic.legend(strip, scene)
        self._line = figure.add_axes((x, 1 - 0.88 / tall, 1 - 2 * x, 0.30 / tall))
        self._line.set(xlim=(0, 1), ylim=(0, 1))
        self._line.axis("off")
        self._canvas.draw()
        self._empty = self._background = self._canvas.copy_from_bbox(figure.bbox)

    def begin(self, now) -> None:
        """Draw what stays as it is during a round."""
        self._canvas.restore_region(self._empty)
        self._draw(self._axes, photonic.circuits(self._axes, now))
        self._background = self._canvas.copy_from_bbox(self._figure.bbox)

    def _draw(self, axes, made: list) -> None:
        for artist in sorted(made, key=lambda a: a.get_zorder()):
            axes.draw_artist(artist)
        for artist in made:
            artist.remove()

    def picture(self, now, share: float, pulses: bool) -> Image:
        from PIL import Image

        self._canvas.restore_region(self._background)
        made = photonic.tiles(self._axes, self._scene, now.before + (now.after - now.before) * share)
        if pulses:
            made += photonic.pulses(self._axes, now, share)
        self._draw(self._axes, made)
        self._draw(self._line, self._words(now, share))
        return Image.fromarray(np.asarray(self._canvas.buffer_rgba())[..., :3].copy())

    def _words(self, now, share: float) -> list:
        words: dict[str, Any] = {"va": "center", "fontsize": 10.5, "color": photonic.TEXT}
        time = photonic.clock(now, share)
        made = [self._line.text(0, 0.55, f"{now.title}   ·   {now.note}", **words)]
        made.append(self._line.text(1, 0.55, time, ha="right", fontweight="bold", **words))
        return made
