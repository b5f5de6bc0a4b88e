"""Write movies: the frames of one Matplotlib figure as a GIF, or as MP4 if ffmpeg is installed."""

import shutil
from collections.abc import Iterable
from pathlib import Path
from subprocess import CalledProcessError

from wavefabric.base.errors import ensure
from wavefabric.base.files.output import replacing
from wavefabric.base.results.figure_style import Figure
from wavefabric.base.system.progress import Progress

#: Largest default number of frames.
MOST_FRAMES = 200


def write_movie(
    figure: Figure, frames: Iterable, count: int, target: Path, fps: int, progress: Progress | None = None
) -> Path:
    """Write ``figure`` once for each of the ``count`` items of ``frames``, which change it as they are made.

    The layout is that of the first drawing in all frames. The file is written whole or not at all.
    `InputError`: another ending than .gif or .mp4, no ffmpeg, ``fps`` not from 1 to 100, no space.
    """
    from matplotlib.animation import FFMpegWriter, PillowWriter

    kind, progress = target.suffix.lower(), progress or Progress()
    ensure(1 <= fps <= 100, "--fps", f"{fps} given", "1 to 100")
    ensure(kind in (".gif", ".mp4"), "--output", f"{target} for a movie", ".gif, .mp4")
    absent = kind == ".mp4" and shutil.which("ffmpeg") is None
    ensure(not absent, "--output", ".mp4 needs ffmpeg, which is not installed", ".gif")
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # the layout stays the same in all frames
    writer = PillowWriter(fps=fps) if kind == ".gif" else FFMpegWriter(fps=fps)
    with replacing(target, "--output") as unfinished:
        named = unfinished.with_name(f"{unfinished.name}{kind}")  # the writer needs the ending
        progress.start(count, "frames")
        try:
            with writer.saving(figure, str(named), dpi=100):
                for number, _ in enumerate(frames):
                    writer.grab_frame()
                    progress.update(number + 1)
            named.replace(unfinished)
        except CalledProcessError as error:
            raise OSError(f"{kind[1:]}: {error}") from None
        finally:
            progress.finish()
            named.unlink(missing_ok=True)
    return target
