"""`wavefabric fabric`: fabrics shown and imported, routes over them, and links measured."""

from __future__ import annotations

import typer

from wavefabric.cli.common.options import Command
from wavefabric.cli.fabric import measure, routes, show

_HELP = "Fabrics between GPUs: show, import, route and measure them."


def register(app: typer.Typer) -> None:
    """Add ``fabric`` to the command."""
    group = typer.Typer(no_args_is_help=True, help=_HELP)
    for name, module in (("show", show), ("routes", routes), ("measure", measure)):
        group.command(name, cls=Command)(module.command)
    app.add_typer(group, name="fabric")
