"""`wavefabric bench lumorph`: the figures of the LUMORPH paper."""

from __future__ import annotations

from typing import Annotated

import typer

from wavefabric.cli.bench.show import Json, Output, Plot
from wavefabric.cli.common.measure import show_measurement
from wavefabric.cli.common.parse import parse_list
from wavefabric.cli.common.show import Status


def register(bench: typer.Typer) -> None:
    """Add the benchmark to ``bench``."""
    bench.command("lumorph")(lumorph)


def lumorph(
    figures: Annotated[
        str,
        typer.Option("--figures", help="3, 5, 6, 7, 8, radix, baselines, comma between, or all."),
    ] = "all",
    seeds: Annotated[
        int, typer.Option("--seeds", help="Draws of random routes, for figures 5 and 6.")
    ] = 1000,
    as_json: Json = False,
    output: Output = None,
    plot: Plot = None,
) -> None:
    """Figures of the LUMORPH paper (photonic interconnect), recomputed; other radices and baselines."""
    from wavefabric.bench import lumorph as module

    chosen = module.FIGURES if figures == "all" else parse_list(figures)
    with Status(as_json) as say:
        result = module.run(chosen, seeds, say)
    show_measurement(module, result, as_json, output, plot)
