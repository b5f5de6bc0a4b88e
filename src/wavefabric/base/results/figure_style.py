"""Style all figures: colours that any colour vision distinguishes, markers, Matplotlib settings, new axes.

Matplotlib is imported when a figure is drawn; figures are made without pyplot and need no display.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
else:
    Axes = Figure = Any  # only annotations use them

# Okabe and Ito's colours, distinguishable with any colour vision. Curves also differ by marker.
BLUE, ORANGE, GREEN, PURPLE, SKY, RED = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"
COLOURS = (BLUE, RED, GREEN, PURPLE, ORANGE, SKY)
MARKERS = "osD^vP"
INK, GREY, BAND = "#222222", "#6b6b6b", "#eef2f6"
STYLE: Any = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 26,
    "axes.titley": 1.0,  # nothing above the axes that a title must avoid: skips the search
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": "#d5d9de",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
}


def plain_text(text: str) -> str:
    """Return text with its dollar signs escaped, between which Matplotlib would read a formula."""
    return str(text).replace("$", r"\$")


def style(**more: Any) -> Any:
    """Return a context in which Matplotlib uses the settings of `STYLE`, and those in ``more``."""
    import matplotlib as mpl

    return mpl.rc_context({**STYLE, **more})  # type: ignore[arg-type]  # more keys than its stub lists


def new_axes(width: float, height: float) -> Any:
    """Return the axes of a new figure of ``width`` × ``height`` inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained").add_subplot()
