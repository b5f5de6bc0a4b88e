"""Table 1 and figure 3 of Brehler et al.: T_K/T_1 over the number of ranks K."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

sys.path.append(str(Path(__file__).resolve().parents[2]))

from papers.common import Json, Output, Plot, run, show
from wavefabric.bench.suite.fibre_over_ranks import PAPER, combine, plot, table

__all__ = ["PAPER", "combine", "main", "plot", "table"]


def main(
    source: Annotated[
        list[Path],
        typer.Option("--from", help="JSON of `wavefabric bench fibre-scaling`; to be repeated."),
    ],
    as_json: Json = False,
    output: Output = None,
    plot: Plot = None,
) -> None:
    """Table 1 and figure 3 of the paper, from results of `wavefabric bench fibre-scaling -o FOLDER`."""
    show(__name__, combine(source), as_json, output, plot)


if __name__ == "__main__":
    run(main)
