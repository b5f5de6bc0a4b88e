"""Draws fields of two results side by side, with their difference."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from wavefabric.acoustics.pictures.fields import add_colour_bar, show_image
from wavefabric.acoustics.pictures.plot_recorded import colours_of
from wavefabric.base.errors import ensure
from wavefabric.base.results.compare import Difference, absolute_difference, common_values
from wavefabric.base.results.export import spacing_of
from wavefabric.base.results.figure_style import Figure, plain_text, style
from wavefabric.base.results.file import Result

#: Largest number of fields in a picture.
_MOST = 4


def compared_fields(first: Result, second: Result, differences: Sequence[Difference]) -> Figure:
    """Draw the fields that differ most: of each the first, the second, and second − first, with axes in mm.

    A 3-D field is cut perpendicular to z, through the largest difference. `InputError`: there is no field.
    """
    from matplotlib.figure import Figure

    fields = [each for each in differences if each.points and first.attrs(each.quantity)]
    fields = [each for each in fields if len(first.shape(each.quantity)) in (2, 3)]
    fields = [each for each in fields if spacing_of(first, each.quantity) is not None]
    ensure(fields, "--output", "the results have no common field over x, y(, z)", "without --output")
    fields = sorted(fields, key=lambda each: -each.largest)[:_MOST]
    with style(**{"axes.titlepad": 6, "axes.grid": False}):
        figure = Figure(figsize=(13, 3.7 * len(fields)), layout="constrained")
        rows: Any = figure.subplots(len(fields), 3, squeeze=False)
        for row, field in zip(rows, fields, strict=True):
            _draw(row, first, second, field)
    return figure


def _draw(row: Any, first: Result, second: Result, field: Difference) -> None:
    values = common_values(first, second, field.quantity)
    assert values is not None  # points are common
    a, b, (x, y, *z) = values
    title = field.quantity
    if z:
        cut = int(np.unravel_index(absolute_difference(a, b).argmax(), a.shape)[2])
        a, b, title = a[..., cut], b[..., cut], f"{title}, z = {z[0][cut] * 1e3:.3g} mm"
    difference = np.asarray(b, float) - a
    titles = f"{title}\n{first.path.name}", second.path.name, "second − first"
    low, high = min(a.min(), b.min()), max(a.max(), b.max())
    largest = float(np.abs(difference).max())
    scales = colours_of(float(low), float(high)), colours_of(-largest, largest)
    for axes, picture, text, colours in zip(
        row, (a, b, difference), titles, (scales[0], *scales), strict=True
    ):
        image = show_image(
            axes, picture.T, x * 1e3, y * 1e3, interpolation="nearest", aspect="equal", **colours
        )
        axes.set(xlabel="x (mm)", ylabel="y (mm)")
        axes.set_title(plain_text(text), fontsize=10)
        add_colour_bar(image, axes, field.units, shrink=0.75)
