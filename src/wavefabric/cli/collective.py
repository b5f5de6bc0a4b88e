"""`wavefabric collective`: schedules made, proved, costed, drawn, exported and run."""

from __future__ import annotations

import typer

from wavefabric.cli import (
    collective_cost,
    collective_draw,
    collective_export,
    collective_make,
    collective_run,
    collective_verify,
)

collective = typer.Typer(
    no_args_is_help=True,
    help="Schedules of collective operations: make, verify, cost, draw, export and run them.",
)


def register(app: typer.Typer) -> None:
    """Add ``collective`` to the command."""
    collective.command("make")(collective_make.command)
    collective.command("verify")(collective_verify.command)
    collective.command("cost")(collective_cost.command)
    collective.command("draw")(collective_draw.command)
    collective.command("export")(collective_export.command)
    collective.command("run")(collective_run.command)
    app.add_typer(collective, name="collective")
