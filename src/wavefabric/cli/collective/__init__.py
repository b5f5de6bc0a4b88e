"""`wavefabric collective`: schedules made, proved, costed, drawn, exported and run."""

from __future__ import annotations

import typer

from wavefabric.cli.collective import cost, draw, export, make, run, verify
from wavefabric.cli.common.options import Command

_HELP = "Schedules of collective operations: make, verify, cost, draw, export and run them."


def register(app: typer.Typer) -> None:
    """Add ``collective`` to the command."""
    group = typer.Typer(no_args_is_help=True, help=_HELP)
    commands = {"make": make, "verify": verify, "cost": cost, "draw": draw, "export": export, "run": run}
    for name, module in commands.items():
        group.command(name, cls=Command)(module.command)
    app.add_typer(group, name="collective")
