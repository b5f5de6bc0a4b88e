"""The commands of `wavefabric fabric`."""

from __future__ import annotations

import typer

from wavefabric.cli.common.options import Command
from wavefabric.cli.fabric import measure, routes, show

app = typer.Typer()
for name, module in (("show", show), ("routes", routes), ("measure", measure)):
    app.command(name, cls=Command)(module.command)
