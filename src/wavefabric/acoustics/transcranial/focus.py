"""Measures a focal field: peak, widths, volume, intensities, mechanical index."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from wavefabric.acoustics.exposure import mean_intensity, mechanical_index
from wavefabric.acoustics.grid import Grid
from wavefabric.acoustics.medium import Medium
from wavefabric.base.arguments import real, typed
from wavefabric.base.errors import require
from wavefabric.runtime.device.user_arrays import real_array


@dataclass(frozen=True)
class Focus:
    """Holds measures of a focal field; NaN if unknown. A radial width is measured across the axis."""

    pressure: float  # largest amplitude, Pa
    position: tuple[float, ...]  # peak, m, in the grid's coordinates
    widths_3db: tuple[float, ...]  # full widths along each axis through the peak, m; NaN: beyond the grid
    widths_6db: tuple[float, ...]
    volume: float  # connected region above −6 dB, m³; in 2-D m²
    volume_unit: str
    isppa: float  # spatial-peak pulse-average intensity, p²/(2ρc) at the largest amplitude, W/cm²
    ispta: float  # spatial-peak temporal-average intensity: I_SPPA times the duty cycle, W/cm²
    mechanical_index: float

    def lines(self) -> list[str]:
        """Return a line of text for each known measure, with its unit."""

        def mm(lengths: tuple[float, ...]) -> str:
            return ", ".join("–" if math.isnan(one) else f"{one * 1e3:.4g}" for one in lengths) + " mm"

        power = {"m": 1, "m²": 2, "m³": 3}[self.volume_unit]
        figures = {
            "peak pressure": f"{self.pressure * 1e-6:.4g} MPa",
            "at": mm(self.position),
            "width at −3 dB": mm(self.widths_3db),
            "width at −6 dB": mm(self.widths_6db),
            "region above −6 dB": f"{self.volume * 1e3**power:.4g} m{self.volume_unit}",
            "I_SPPA": f"{self.isppa:.4g} W/cm²",
            "I_SPTA": f"{self.ispta:.4g} W/cm²",
            "mechanical index": f"{self.mechanical_index:.4g}",
        }
        return [f"{name:<20}{text}" for name, text in figures.items() if not text.startswith("nan")]


@typed
def focus_of(
    amplitude: Any,
    grid: Grid,
    *,
    inside: Any = None,
    medium: Medium | None = None,
    frequency: float | str | None = None,
    duty_cycle: float = 1.0,
    derating_depth: float | str = 0.0,
) -> Focus:
    """Measure a focal field, an ``amplitude`` in Pa of the grid's shape.

    The peak and its region are searched ``inside`` a mask, such as the brain. The intensities need ``medium``
    and ``duty_cycle`` (0 to 1), the mechanical index ``frequency`` and ``derating_depth``
    (`mechanical_index`); for a nonlinear field give the peak rarefactional pressure. `InputError`: another
    shape, nothing above 0 inside, a number out of range.

    The peak is the vertex of parabolas through the largest value and its neighbours. Widths are measured on
    the grid lines through that value, interpolated linearly. A cell at the edge of the −6 dB region counts in
    part, by its value and the gradient there. Errors are of the second order in the spacing.
    """
    field, duty = real_array(amplitude, "amplitude"), real(duty_cycle, "duty_cycle")
    require(field.shape == grid.shape, "amplitude.shape", field.shape, f"{grid.shape}, the grid's")
    require(0 <= duty <= 1, "duty_cycle", duty_cycle, "from 0 to 1")
    mask = None if inside is None else grid.mask(inside, "inside")
    within = field if mask is None else np.where(mask, field, 0)
    peak = tuple(int(i) for i in np.unravel_index(np.argmax(within), field.shape))
    right = 0 < within[peak] < math.inf
    require(right, "amplitude", f"at most {within[peak]} inside", "finite values, some above 0")
    position, widths, pressure = [], [], float(field[peak])
    for axis, i in enumerate(peak):
        line = np.asarray(field[(*peak[:axis], slice(None), *peak[axis + 1 :])], float)
        if grid.axisymmetric and axis == 1:
            line, i = np.concatenate([line[:0:-1], line]), i + line.size - 1
        shift, rise, steps = _peak_along(line, i)
        position.append(float(grid.coordinates[axis][peak[axis]] + shift * grid.spacing[axis]))
        widths.append([count * grid.spacing[axis] for count in steps])
        pressure += rise
    intensity = math.nan
    if medium is not None:
        local = [medium.density, medium.sound_speed]
        shapes = {np.shape(value) for value in local}
        require(shapes <= {(), grid.shape}, "medium", [*shapes], f"numbers, arrays of the shape {grid.shape}")
        local = [np.broadcast_to(value, grid.shape)[peak] for value in local]
        intensity = float(mean_intensity(pressure, *map(float, local))) * 1e-4
    index = math.nan if frequency is None else mechanical_index(pressure, frequency, depth=derating_depth)
    volume = _volume(field, grid, mask, peak, pressure * 10 ** (-6 / 20))
    unit = "m³" if grid.axisymmetric else ("m", "m²", "m³")[grid.dimensions - 1]
    low, high = zip(*widths, strict=True)
    return Focus(pressure, tuple(position), low, high, volume, unit, intensity, intensity * duty, index)


def _peak_along(line: np.ndarray, i: int) -> tuple[float, float, list[float]]:
    """Fit a parabola to the value of a line at index ``i`` and its two neighbours; measure the peak there.

    Return the offset of the vertex from ``i``, in grid steps, its rise above the value at ``i``, and the full
    widths of the line 3 and 6 dB below the vertex, in grid steps.
    """
    shift = rise = 0.0
    if 0 < i < line.size - 1 and line[i] >= max(line[i - 1], line[i + 1]):  # not at the edge of grid or mask
        slope, bend = (line[i + 1] - line[i - 1]) / 2, line[i - 1] - 2 * line[i] + line[i + 1]
        shift, rise = (-slope / bend, -(slope**2) / (2 * bend)) if bend < 0 else (0.0, 0.0)
    widths = []
    for decibels in (3, 6):
        level, width = (line[i] + rise) * 10 ** (-decibels / 20), 0.0
        for side in (line[i:], line[i::-1]):
            k = int(np.argmax(side < level))  # first value below; 0 if none is
            width += k - 1 + (side[k - 1] - level) / (side[k - 1] - side[k]) if k else math.nan
        widths.append(float(width))
    return float(shift), float(rise), widths


def _volume(field: np.ndarray, grid: Grid, mask: np.ndarray | None, peak: tuple, level: float) -> float:
    """Return the volume of the region above ``level`` that is connected to point ``peak``."""
    from scipy.ndimage import binary_dilation, label

    above = field >= level if mask is None else (field >= level) & mask
    # Labels and gradients need only the box around all points above, and two points more on each side.
    box = tuple(slice(max(0, points.min() - 2), points.max() + 3) for points in np.nonzero(above))
    labels = np.empty(above[box].shape, np.int32)
    label(above[box], output=labels)
    region = labels == labels[tuple(i - part.start for i, part in zip(peak, box, strict=True))]
    region = binary_dilation(region) if mask is None else binary_dilation(region) & mask[box]
    part = np.asarray(field[box], float)
    square = np.sum([np.gradient(part, axis=axis) ** 2 for axis in range(part.ndim)], axis=0)
    fraction = np.clip(0.5 + (part - level) / np.sqrt(np.maximum(square, 1e-300)), 0, 1) * region
    if not grid.axisymmetric:
        return float(fraction.sum() * math.prod(grid.spacing))
    radius = np.arange(box[1].start, box[1].start + part.shape[1])
    rings = np.where(radius == 0, np.pi / 4, 2 * np.pi * radius)  # areas in units of spacing²
    return float((fraction @ rings).sum() * grid.spacing[0] * grid.spacing[1] ** 2)
