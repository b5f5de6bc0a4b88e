"""Implement `wavefabric transcranial`, which simulates focus and heating from a CT, transducer and target."""

import math
import warnings
from functools import partial
from pathlib import Path
from typing import Any

from wavefabric.acoustics.transcranial.ct import content_warnings, read_ct
from wavefabric.acoustics.transcranial.page import draw_page
from wavefabric.acoustics.transcranial.phantom import synthetic_head
from wavefabric.acoustics.transcranial.plan import UNCHECKED, plan_sonication
from wavefabric.acoustics.transcranial.sonication import Sonication
from wavefabric.base.errors import InputError
from wavefabric.base.files.output import check_output
from wavefabric.cli.common.decomposition import GridRankOptions, traffic
from wavefabric.cli.common.options import argument, option, options
from wavefabric.cli.common.progress import naming_no_resume, running
from wavefabric.cli.common.show import conclude
from wavefabric.cli.run_options import SimulationOptions
from wavefabric.collectives import Schedule
from wavefabric.runtime.exchange.launch import environment
from wavefabric.runtime.lifecycle.checkpoint.file import checkpoint_path
from wavefabric.runtime.lifecycle.checkpoint.run_checkpoint import Checkpoints

#: Argument that selects the synthetic head instead of a file of a CT.
SYNTHETIC = "synthetic"


def _point(name: str, text: str) -> tuple[float, ...]:
    """Parse the option ``--name``, ``X,Y,Z`` in mm; return the coordinates in m."""
    try:
        numbers = tuple(float(word) * 1e-3 for word in text.split(","))
    except ValueError:
        numbers = ()
    if len(numbers) != 3 or not all(map(math.isfinite, numbers)):
        actual = f"{text} given" if text else "is missing"
        raise InputError(f"--{name}: {actual}; allowed: X,Y,Z in mm, such as 0,-95,10")
    return numbers


@options()
class SonicationOptions:
    """Options of the transducer and its sonication."""

    position: Any = option(
        "Apex of the transducer in the CT's world, X,Y,Z in mm.", default="", read=partial(_point, "position")
    )
    target: Any = option("Where it aims, X,Y,Z in mm.", default="", read=partial(_point, "target"))
    frequency: str = option("Frequency.", default="500 kHz")
    diameter: str = option("Diameter of the aperture.", default="64 mm")
    radius: str | None = option("Radius of curvature. [default: the distance to the target]")
    elements: int = option("1: a bowl. More: an array of discs on it.", default=1)
    element_diameter: str | None = option("Diameter of a disc. [default: half of the bowl is covered]")
    pressure: str = option("Pressure at the surface.", default="60 kPa")
    correction: str = option(
        "Phases of an array: {wavefabric.acoustics.transcranial.sonication:CORRECTIONS}.",
        default="time_reversal",
    )
    points_per_wavelength: float = option("Grid points per wavelength in water.", default=6.0)
    behind: str = option("How far the grid reaches beyond the target.", default="30 mm")
    duty_cycle: float = option("Part of the time that it sends.", default=0.1)
    on: float = option("Sonication, s.", default=30.0)
    off: float = option("Cooling, s.", default=30.0)


@options()
class PlanOptions(SimulationOptions):
    """Options of the CT of the head, the output files and the simulations."""

    ct: str = argument(f"CT of a head: .nii, .nii.gz, .npy, or {SYNTHETIC}: one is made.")
    output: Path = option("Result file (HDF5).", "--output", "-o", default=Path("transcranial.h5"))
    plot: bool = option("Draw the page of pictures, beside the result.", "--plot/--no-plot", default=True)
    spacing: str | None = option("Distance of voxels, of a CT as .npy.")
    orientation: str | None = option("Where x, y, z of a CT go that does not say it, such as RAS or LPS.")
    precision: str = option("{wavefabric.acoustics.run_settings:PRECISIONS}.", default="single")


@naming_no_resume()
def command(sonication: SonicationOptions, options: PlanOptions, ranks: GridRankOptions) -> None:
    """Simulate a sonication through a skull: pressure, focus, temperature and thermal dose.

    The same command again goes on where a killed one stopped.
    """
    ranks = ranks.checked(options.device, options.threads)
    planned, shared = Sonication(**vars(sonication)), ranks.shared()
    picture = options.output.with_suffix(".png")
    inputs = [] if options.ct == SYNTHETIC else [Path(options.ct)]
    saved = checkpoint_path(options.output)
    if environment.rank() == 0:
        check_output(options.output, options.force, "--output", inputs=inputs)
        if options.plot:
            check_output(picture, options.force, "--output", inputs=inputs)

    def schedule() -> Schedule:
        return traffic(planned.grid.total_shape, ranks.count, shared)

    with running(ranks, schedule, saved, schedule, options.silent) as (comm, progress):
        head = read_ct(options.ct, options.spacing, options.orientation) if inputs else synthetic_head("1 mm")
        for line in content_warnings(head.values) if environment.rank() == 0 else ():
            warnings.warn(line, stacklevel=1)
        plan = plan_sonication(
            head,
            planned,
            **{name: getattr(options, name) for name in ("output", "force", "threads", "precision")},
            device=options.device or "auto",
            comm=comm,
            decomposition=shared,
            progress=progress,
            checkpoint=Checkpoints(saved, resume=not options.no_resume),
        )
    if environment.rank() > 0:
        return
    written = [options.output]
    if options.plot:
        written.append(draw_page(plan, picture))
    figures, shape = plan.figures(), " x ".join(map(str, planned.grid.total_shape))
    keyed = {name: {"value": value, "unit": unit} for name, (value, unit) in figures.items()}
    lines = [f"{shape} points of {planned.grid.spacing[0] * 1e3:.3g} mm"]
    lines += [f"{name:<45}{value:.4g} {unit}".rstrip() for name, (value, unit) in figures.items()]
    lines += [UNCHECKED, f"wrote {' and '.join(map(str, written))}"]
    if options.as_json or not options.quiet:
        conclude(options.as_json, {"output": options.output, "figures": keyed}, shown=lines)
