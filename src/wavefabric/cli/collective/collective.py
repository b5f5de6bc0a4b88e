"""`wavefabric collective`: schedules made, proved, costed, drawn, exported and run."""

from __future__ import annotations

import typer

from wavefabric.cli.collective import cost, draw, export, make, run, verify

collective = typer.Typer(
    no_args_is_help=True,
    help="Schedules of collective operations: make, verify, cost, draw, export and run them.",
)


def register(app: typer.Typer) -> None:
    """Add ``collective`` to the command."""
    collective.command("make")(make.command)
    collective.command("verify")(verify.command)
    collective.command("cost")(cost.command)
    collective.command("draw")(draw.command)
    collective.command("export")(export.command)
    collective.command("run")(run.command)
    app.add_typer(collective, name="collective")
