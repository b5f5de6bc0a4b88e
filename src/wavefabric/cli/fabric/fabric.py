"""`wavefabric fabric`: fabrics shown, routes over them, and links measured."""

from __future__ import annotations

import typer

from wavefabric.cli.fabric import measure, routes, show

fabric = typer.Typer(no_args_is_help=True, help="Fabrics between GPUs: show, import, route and measure them.")


def register(app: typer.Typer) -> None:
    """Add ``fabric`` to the command."""
    fabric.command("show")(show.command)
    fabric.command("routes")(routes.command)
    fabric.command("measure")(measure.command)
    app.add_typer(fabric, name="fabric")
