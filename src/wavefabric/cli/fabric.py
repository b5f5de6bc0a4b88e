"""`wavefabric fabric`: fabrics shown, routes over them, and links measured."""

from __future__ import annotations

import typer

from wavefabric.cli import fabric_measure, fabric_routes, fabric_show

fabric = typer.Typer(no_args_is_help=True, help="Fabrics between GPUs: show, import, route and measure them.")


def register(app: typer.Typer) -> None:
    """Add ``fabric`` to the command."""
    fabric.command("show")(fabric_show.command)
    fabric.command("routes")(fabric_routes.command)
    fabric.command("measure")(fabric_measure.command)
    app.add_typer(fabric, name="fabric")
