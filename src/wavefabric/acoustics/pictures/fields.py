"""Pictures of acoustic fields: a plane in colour with decibel contours and outlines of the medium; profiles.

Matplotlib is imported when a figure is drawn, with the Agg backend, so that no display is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wavefabric.acoustics.grid import Grid
from wavefabric.errors import InputError
from wavefabric.results.plots import BLUE, GREY, INK, ORANGE, RED, STYLE
from wavefabric.units import quantity, show

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LINES = ({"color": BLUE}, {"color": RED}, {"color": ORANGE}, {"color": INK})


def plane(field: Any, grid: Grid, normal: str = "y", at: float | str = 0.0) -> np.ndarray:
    """The grid plane of a field that is nearest to a place.

    Parameters
    ----------
    field : array_like, grid's shape
        Values.
    grid : Grid
        Where they are; in 2-D the plane is the field itself.
    normal : str
        ``"x"``, ``"y"`` or ``"z"``: the axis across the plane.
    at : float or str
        Coordinate along it, m.

    Returns
    -------
    ndarray, 2-D

    Raises
    ------
    InputError
        If the shape, the axis or the place does not fit the grid.
    """
    values = np.asarray(field)
    if values.shape != grid.shape:
        raise InputError(f"field: has the shape {values.shape}; allowed: {grid.shape}, the grid's")
    if grid.dimensions == 2:
        return values
    axis = _axis(normal, "xyz", "normal")
    where, place = grid.coordinates[axis], quantity(at, "m", "at")
    if not where[0] <= place <= where[-1]:
        raise InputError(f"at: {show(at)}; allowed: {where[0]:g} to {where[-1]:g} m, inside the grid")
    return np.take(values, int(np.argmin(np.abs(where - place))), axis)


def plot_field(
    field: Any,
    grid: Grid,
    *,
    normal: str = "y",
    at: float | str = 0.0,
    horizontal: str | None = None,
    outlines: Any = None,
    contours_db: Sequence[float] = (-3, -6),
    contours_in: Any = None,
    peak: float | None = None,
    origin: Sequence[float] | None = None,
    title: str = "",
    label: str = "peak pressure (MPa)",
    scale: float = 1e-6,
    axes: Axes | None = None,
    path: str | Path | None = None,
) -> Figure:
    """Draw a plane of a positive field, such as ``p_max_all``.

    Parameters
    ----------
    field : array_like, grid's shape
        Pa.
    grid : Grid
        Where.
    normal, at
        Which plane of a 3-D grid, as in `plane`.
    horizontal : str, optional
        The axis that goes to the right; the longer one by default.
    outlines : array_like, grid's shape, optional
        Lines are drawn where neighbouring values differ: a medium's sound speed, or labels of tissue.
    contours_db : sequence of float
        Contours, dB below the peak; none if empty.
    contours_in : array_like of bool, grid's shape, optional
        They are drawn here only, such as behind a skull; everywhere by default.
    peak : float, optional
        What 0 dB is and where the colours end, Pa; the largest value in the plane by default.
    origin : sequence of float, optional
        What the axes count from, m, one an axis of the grid; its own origin by default.
    title, label : str
        Above the picture and beside its colour bar.
    scale : float
        Times the field is what the colour bar shows.
    axes : matplotlib Axes, optional
        Draw here; a figure of its own by default.
    path : str or Path, optional
        Save the figure (160 dots per inch).

    Returns
    -------
    Figure

    Raises
    ------
    InputError
        If something does not fit the grid, or there is nothing to draw.
    """
    names = "xy" if grid.dimensions == 2 else "xyz".replace(normal, "")
    values = plane(field, grid, normal, at).astype(float) * scale
    if not np.isfinite(values).all():
        raise InputError("field: has values that are not finite; allowed: finite numbers")
    top = float(values.max()) if peak is None else peak * scale
    if not top > 0:
        raise InputError("field: has no value above 0; allowed: a positive field, such as p_max_all")
    zero = np.zeros(grid.dimensions) if origin is None else np.asarray(origin, float)
    if zero.shape != (grid.dimensions,):
        raise InputError(f"origin: {show(origin)}; allowed: {grid.dimensions} numbers, m")
    axis = {name: "xyz".index(name) for name in names}
    extent = {name: (grid.coordinates[i] - zero[i]) * 1e3 for name, i in axis.items()}
    right = max(names, key=lambda name: np.ptp(extent[name])) if horizontal is None else horizontal
    right = names[_axis(right, names, "horizontal")]
    up = names.replace(right, "")
    turn = names[0] == right  # Rows go up, columns to the right.
    values = values.T if turn else values

    with _style():
        axes = axes if axes is not None else _figure(extent[right], extent[up])
        edges = [_edges(extent[name]) for name in (right, up)]
        picture = axes.imshow(
            values,
            cmap="magma",
            vmin=0,
            vmax=top,
            origin="lower",
            extent=(edges[0][0], edges[0][-1], edges[1][0], edges[1][-1]),
            interpolation="bilinear",
        )
        over = "max" if values.max() > top * 1.001 else "neither"
        bar = axes.figure.colorbar(picture, ax=axes, pad=0.015, fraction=0.05, aspect=28, extend=over)
        bar.set_label(label)
        bar.outline.set_visible(False)  # type: ignore[operator]
        if outlines is not None:
            inside = plane(outlines, grid, normal, at)
            _outline(axes, inside.T if turn else inside, edges)
        if len(contours_db):
            shown = values
            if contours_in is not None:
                inside = plane(contours_in, grid, normal, at)
                shown = np.ma.masked_where(~(inside.T if turn else inside).astype(bool), values)
            _contours(axes, extent[right], extent[up], shown, top, contours_db)
        axes.set(xlabel=f"{right} (mm)", ylabel=f"{up} (mm)", aspect="equal")
        axes.set(xlim=edges[0][[0, -1]], ylim=edges[1][[0, -1]])
        axes.grid(False)
        axes.set_title(title, pad=8)
    return _done(axes, path)


def plot_profiles(
    position: Any,
    profiles: Mapping[str, Any],
    *,
    shaded: Mapping[str, tuple[float, float]] | None = None,
    dashed: Sequence[str] = (),
    title: str = "",
    xlabel: str = "distance (mm)",
    ylabel: str = "peak pressure (MPa)",
    scale: float = 1e-6,
    axes: Axes | None = None,
    path: str | Path | None = None,
) -> Figure:
    """Draw values along a line.

    Parameters
    ----------
    position : array_like, shape (points,)
        m.
    profiles : mapping of str to array_like, shape (points,)
        Label to values, Pa; NaN leaves a gap.
    shaded : mapping of str to (float, float), optional
        Label to a range of positions, m, such as a layer of tissue.
    dashed : sequence of str
        Labels of profiles to be drawn dashed and on top, such as a closed form.
    title, xlabel, ylabel, scale, axes, path
        As in `plot_field`.

    Raises
    ------
    InputError
        If a profile does not have the positions' length.
    """
    where = np.asarray(position, float) * 1e3
    for name, values in profiles.items():
        if np.shape(values) != where.shape:
            raise InputError(
                f"profiles[{show(name)}]: has the shape {np.shape(values)}; allowed: {where.shape}"
            )
    with _style():
        axes = axes if axes is not None else _figure(where, None)
        for k, (name, (first, last)) in enumerate((shaded or {}).items()):
            axes.axvspan(
                first * 1e3, last * 1e3, color=GREY, alpha=0.30 - 0.12 * (k % 2), linewidth=0, zorder=0
            )
            axes.annotate(
                name,
                ((first + last) * 500, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(0, 3),
                textcoords="offset points",
                ha="center",
                va="bottom",
                fontsize=8,
                color=GREY,
            )
        for k, (name, values) in enumerate(profiles.items()):
            thin = {"linestyle": (0, (4, 2.5)), "linewidth": 1.2, "color": INK, "zorder": 5}
            style = thin if name in dashed else {"linewidth": 2, **_LINES[k % len(_LINES)]}
            axes.plot(where, np.asarray(values, float) * scale, label=name, **style)
        axes.set(xlabel=xlabel, ylabel=ylabel, xlim=(where[0], where[-1]))
        axes.set_ylim(bottom=0)
        axes.legend(loc="best")
        axes.set_title(title, pad=18 if shaded else 8)
    return _done(axes, path)


# --- Parts -------------------------------------------------------------------------------------------


def _style() -> Any:
    import matplotlib as mpl

    return mpl.rc_context(STYLE)


def _figure(right: np.ndarray, up: np.ndarray | None) -> Axes:
    """Axes of a figure of their own, as high as the picture asks for."""
    from matplotlib.figure import Figure

    ratio = 0.45 if up is None else float(np.clip(np.ptp(up) / np.ptp(right), 0.25, 1.2))
    return Figure(figsize=(7.6, 6.2 * ratio + 1.1), layout="constrained").add_subplot()


def _done(axes: Axes, path: str | Path | None) -> Figure:
    figure: Any = axes.figure
    if path is not None:
        try:
            figure.savefig(path, dpi=160)
        except OSError as error:
            raise InputError(f"path: {path} cannot be written ({error.strerror})") from None
    return figure


def _axis(name: Any, names: str, key: str) -> int:
    if not isinstance(name, str) or len(name) != 1 or name not in names:
        raise InputError(f"{key}: {show(name)}; allowed: {', '.join(names)}")
    return names.index(name)


def _edges(middles: np.ndarray) -> np.ndarray:
    half = (middles[1] - middles[0]) / 2
    return np.append(middles - half, middles[-1] + half)


def _outline(axes: Axes, values: np.ndarray, edges: list[np.ndarray]) -> None:
    """Lines between grid cells that differ."""
    from matplotlib.collections import LineCollection

    x, y = edges
    rows, columns = np.nonzero(values[:, 1:] != values[:, :-1])
    upright = np.stack([x[columns + 1], y[rows], x[columns + 1], y[rows + 1]], axis=1)
    rows, columns = np.nonzero(values[1:] != values[:-1])
    level = np.stack([x[columns], y[rows + 1], x[columns + 1], y[rows + 1]], axis=1)
    lines = np.concatenate([upright, level]).reshape(-1, 2, 2)
    axes.add_collection(LineCollection(list(lines), colors="#9be7ff", linewidths=0.8, alpha=0.75))


def _contours(
    axes: Axes, x: np.ndarray, y: np.ndarray, values: np.ndarray, top: float, levels: Sequence[float]
) -> None:
    levels = sorted(level for level in set(levels))
    if levels[-1] >= 0:
        raise InputError(f"contours_db: {levels[-1]:g} dB; allowed: below 0")
    heights = [top * 10 ** (level / 20) for level in levels]
    drawn = [(h, level) for h, level in zip(heights, levels, strict=True) if values.min() < h < values.max()]
    if not drawn:
        return
    styles = ["solid", "dashed", "dotted"]
    chosen = [styles[(len(drawn) - 1 - k) % 3] for k in range(len(drawn))]
    axes.contour(x, y, values, [h for h, _ in drawn], colors="white", linewidths=1.1, linestyles=chosen)
    for (_, level), style in reversed(list(zip(drawn, chosen, strict=True))):
        axes.plot(
            [], [], color="white", linewidth=1.1, linestyle=style, label=f"{level:g} dB".replace("-", "−")
        )
    axes.legend(
        loc="upper right",
        labelcolor="white",
        facecolor="black",
        framealpha=0.55,
        frameon=True,
        edgecolor="none",
    )
