"""Implement `wavefabric fabric measure`, which writes the measured fabric between ranks as a TOML file."""

from pathlib import Path

from wavefabric.base.errors import InputError
from wavefabric.base.files.output import write_text
from wavefabric.cli.common.options import OutputOptions, option, options
from wavefabric.cli.common.parse import FACTOR_HELP, optional_sizes
from wavefabric.cli.common.rank_session import MeasureOptions, show_measurement, start_ranks
from wavefabric.cli.common.show import print_written, status_line
from wavefabric.fabric.execution import measure_fabric as module


@options()
class FabricOptions(OutputOptions):
    """Options of the messages to measure, and of the fabric file."""

    sizes: str | None = option("Bytes of a message: least:most, or with commas between.")
    factor: int | None = option(FACTOR_HELP)
    residual: float = option(
        "No file is written where a fit is off by more than so many percent.",
        default=75.0,
        limits=(1e-9, 1e6),
        allowed="percent above 0",
    )
    name: str = option("Of the fabric.", default="measured")
    output: Path | None = option("Fabric (TOML).", "--output", "-o", endings=(".toml",))


def command(options: FabricOptions, who: MeasureOptions) -> None:
    """Measure latency and bandwidth between all ranks, and what they share; write a fabric.

    Nothing is written where a time is further from its fitted line than --residual, or times do not grow with
    bytes: something else was running, or the sizes are too small.

    Example: wavefabric fabric measure --ranks 4 -o mine.toml
    """
    output, residual = options.output, options.residual
    sizes = optional_sizes(options.sizes, options.factor)
    ranks = start_ranks(who, options.as_json)
    with status_line(options.as_json or ranks.rank > 0) as say:
        result = module.run(ranks, sizes, who.repeats, options.name, say, residual / 100)
    if ranks.rank == 0:
        show_measurement(module, result, options.as_json, None, False)
    if output is None:
        return
    if result["fabric"] is None:
        fault = "none could be used, so there is no fabric"
        raise InputError(f"--transport: {fault}; allowed: see the reasons")
    if misfits := result["cases"][0]["misfits"]:
        more = f" (and {len(misfits) - 1} more)" if len(misfits) > 1 else ""
        allowed = f"residuals to {residual:g} % (--residual) of times that grow; measure again in quiet"
        raise InputError(f"--output: {output} not written: {misfits[0]}{more}; allowed: {allowed}")
    if ranks.rank == 0:
        write_text(output, result["fabric"], "--output", options.force)
        if not options.as_json:
            print_written([output])
