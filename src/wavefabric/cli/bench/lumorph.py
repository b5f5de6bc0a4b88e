"""`wavefabric bench lumorph`: the figures of the LUMORPH paper."""

from __future__ import annotations

from typing import Annotated

import typer

from wavefabric.cli.bench.show import Json, Output, Plot, Status, show, words


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

    chosen = module.FIGURES if figures == "all" else words(figures)
    with Status(as_json) as say:
        result = module.run(chosen, seeds, say)
    show(module, result, as_json, output, plot)
