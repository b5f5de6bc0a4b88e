"""The commands of `wavefabric fabric`."""

import typer

from wavefabric.cli.common.options import register
from wavefabric.cli.fabric import measured_fabric, routes, show

app = typer.Typer()
register(app, "show", show.command)
register(app, "routes", routes.command)
register(app, "measure", measured_fabric.command, all_ranks=True)
