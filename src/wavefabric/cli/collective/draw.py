"""Implement `wavefabric collective draw`: a schedule on its fabric as picture, animation or page."""

from pathlib import Path

from wavefabric.base.errors import InputError
from wavefabric.cli.collective import algorithm as source
from wavefabric.cli.collective.setting import DrawnCircuitOptions, make_setting, order_text
from wavefabric.cli.common.options import changed, option, options, refuse
from wavefabric.cli.common.parse import parse_size
from wavefabric.cli.common.progress import make_progress
from wavefabric.cli.common.show import conclude
from wavefabric.fabric import PhotonicFabric
from wavefabric.fabric.cost_models.cost import cost
from wavefabric.fabric.draw import pictures
from wavefabric.fabric.photonic.check import check_plan


@options()
class DrawOptions(source.ScheduleOptions):
    """Options of the picture, animation or page."""

    bytes: int | None = option(
        "Of the whole array, for times. [default: 64M; of a recorded step its own]", read=parse_size
    )
    rounds: int | None = option("Draw so many rounds at most. [default: 12, gif 40, html all]", limits=(1,))
    output: Path | None = option(
        "Picture (.png .svg .pdf), animation (.gif), page (.html).",
        "--output",
        "-o",
        endings=pictures.ENDINGS,
    )
    quiet: bool = option("No progress bar.", "--quiet", "-q", default=False)


def command(
    algorithm: source.RankedAlgorithmOptions, circuit: DrawnCircuitOptions, request: DrawOptions
) -> None:
    """Draw a schedule on its fabric: circuits over the tiles, or loads of links and when each transfer runs.

    Examples:

    wavefabric collective draw recursive all-reduce --fabric lightpath:4x8 -o rounds.gif

    wavefabric collective draw best.json --circuits best.circuits.json -o best.html

    wavefabric collective draw ring all-reduce --fabric dgx-1 --bytes 64M -o ring.png
    """
    output, most = request.output, request.rounds
    if output is None:
        raise InputError("--output: none given; allowed: a name that ends in .png, .svg, .pdf, .gif or .html")
    setting = make_setting(circuit)
    pictures.check_ending(output, setting.fabric)
    if not isinstance(setting.fabric, PhotonicFabric):
        refuse(changed(request, "rounds"), f"with electrical {setting.fabric.name}", "with photonic ones")
    schedule = source.schedule_from(request.words, algorithm, setting.fabric)
    array_bytes = request.bytes or source.own_bytes([schedule]) or 64 << 20
    element_bytes = array_bytes / source.whole_array(schedule)
    ordered, gpus = setting.in_order(schedule, element_bytes, "flow")
    progress = make_progress(request.quiet or request.as_json)
    try:
        if isinstance(ordered, PhotonicFabric):
            plan = setting.plan_circuits(schedule)
            check_plan(plan, schedule)
            options = {"plan": plan, "incremental": circuit.incremental}
            price = cost(schedule, ordered, element_bytes, "photonic", **options)
            how = {"most": most, "progress": progress, "force": request.force}
            path = pictures.draw_circuits(schedule, plan, output, price, **how)
        else:
            price = cost(schedule, ordered, element_bytes, "flow")
            path = pictures.draw_flow(schedule, ordered, element_bytes, output, price, force=request.force)
    finally:
        progress.finish()
    facts = {"schedule": schedule.name, "fabric": setting.fabric.name, "seconds": price.seconds}
    lines = [] if gpus is None else [f"order: rank 0, 1, … is GPU {order_text(gpus)}"]
    conclude(request.as_json, {**facts, "order": gpus}, [path], lines)
