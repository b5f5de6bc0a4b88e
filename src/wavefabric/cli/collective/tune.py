"""Implement `wavefabric collective tune`, which finds the fastest algorithm for each size."""

import math
from pathlib import Path
from typing import Any

from wavefabric.base.errors import InputError
from wavefabric.cli.collective.algorithm import FABRIC_HELP
from wavefabric.cli.common.files import PICTURES, load_fabric
from wavefabric.cli.common.options import OutputOptions, changed, option, options, refuse
from wavefabric.cli.common.parse import FACTOR_HELP, optional_sizes, parse_list
from wavefabric.cli.common.progress import make_progress
from wavefabric.cli.common.rank_session import MeasureOptions, start_ranks
from wavefabric.cli.common.show import conclude
from wavefabric.collectives.tuning import save_tuning
from wavefabric.fabric.execution import tune_report
from wavefabric.fabric.execution.run_schedule import fabric_of_ranks
from wavefabric.fabric.execution.tune import WITHIN, TuningSearch, tune
from wavefabric.runtime.exchange.launch import environment
from wavefabric.runtime.exchange.transports import TRANSPORTS

_BOTH = ("all-reduce", "all-gather")


@options()
class TuneOptions(OutputOptions):
    """Options of the collectives and sizes to tune, and of the output files."""

    collective: list[str] | None = option(
        "{wavefabric.collectives.conditions:COLLECTIVES}; may be given again. "
        "[default: all-reduce and all-gather]"
    )
    sizes: list[str] | None = option(
        "Bytes of the whole array: least:most, or with commas between; may be given again. K, M, G: 2^10, … "
        "[default: 4K:1G; measured 64K:1G, on CPUs 64K:4M]",
        "--sizes",
        "--size",
    )
    factor: int | None = option(FACTOR_HELP)
    fabric: str | None = option(FABRIC_HELP, "--fabric", "-f")
    model: str = option(
        "Of predictions: auto, {wavefabric.fabric.cost_models.cost:COST_MODELS}.",
        default="auto",
        also=("auto",),
    )
    within: float | None = option(
        f"Measure what is predicted within this factor of the fastest. [default: {WITHIN:g} with --fabric]",
        limits=(1, math.inf),
        allowed="from 1",
    )
    dtype: str = option(
        "Of what is measured: {wavefabric.fabric.execution.timed_schedule:EXACT}.", default="float32"
    )
    output: Path | None = option("Tuning (JSON).", "--output", "-o", endings=(".json",))
    plot: Path | None = option("Picture: time over size, and which is fastest where.", endings=PICTURES)


@options()
class TuneRankOptions(MeasureOptions):
    """Options of the ranks that measure; ``--transports none`` only predicts."""

    transports: str = option(
        f"{', '.join(list(TRANSPORTS)[:0:-1])}, comma between, all, or none: predict alone.",
        "--transports",
        "--transport",
        default="all",
    )


def command(options: TuneOptions, who: TuneRankOptions) -> None:
    """Find the fastest algorithm and radix for each size, predicted for a fabric or measured by ranks.

    Measured times decide. With --fabric and --ranks what is predicted to be slow is not measured. On P2P copy
    engines and both protocols of kernels are timed; --model kernel predicts these two.

    Examples:

    wavefabric collective tune --fabric lightpath:8x8 -o light.json --plot light.png

    wavefabric collective tune --ranks 4 --collective all-reduce --sizes 64K:16M -o mine.json

    mpiexec -n 4 wavefabric collective tune --fabric measured.toml -o mine.json
    """
    names, fabric = parse_list(who.transports), options.fabric
    sizes = sorted(
        {size for text in options.sizes or [None] for size in optional_sizes(text, options.factor)}
    )
    if "none" in names and len(names) > 1:
        raise InputError(f"--transports: {who.transports} given; allowed: none, or transports")
    count = max(environment.ranks(), who.ranks or 1)
    measured = names != ["none"] and count > 1
    if not measured and environment.rank() > 0:
        return
    if fabric is None:
        if not measured:
            allowed = "one to predict for, or --ranks 2 or more to measure"
            raise InputError(f"--fabric: none given; allowed: {allowed}")
        refuse(changed(options, "model", "within"), "without --fabric", "with one")
    inputs: dict[str, Any] = {
        "collectives": options.collective or _BOTH,
        "sizes": sizes,
        "fabric": None if fabric is None else load_fabric(fabric),
        "model": options.model,
    }
    if not measured:
        unused = changed(options, "within", "dtype") | changed(
            who, "placement", "device", "threads", "repeats"
        )
        refuse(unused, "where nothing is measured", "with --ranks 2 or more")
        _conclude(tune(**inputs, count=who.ranks, progress=make_progress(options.as_json)), options)
        return
    fabric_of_ranks(inputs["fabric"], count)  # refused before any rank starts
    ranks = start_ranks(who, options.as_json)
    inputs |= {"dtype": options.dtype, "repeats": who.repeats, "progress": make_progress(options.as_json)}
    result = tune(**inputs, ranks=ranks, within=WITHIN if options.within is None else options.within)
    if ranks.rank == 0:
        _conclude(result, options)


def _conclude(result: TuningSearch, options: TuneOptions) -> None:
    """Write the tuning and its picture, if asked for, and print the result."""
    written = []
    if options.output is not None:
        written.append(save_tuning(options.output, result.tuning, options.force))
    if options.plot is not None:
        written.append(tune_report.plot(result, options.plot))
    conclude(options.as_json, tune_report.facts(result), written, tune_report.table(result))
