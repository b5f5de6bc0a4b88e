"""The commands of `wavefabric collective`."""

from __future__ import annotations

import typer

from wavefabric.cli.collective import cost, draw, export, make, run, verify
from wavefabric.cli.common.options import Command

app = typer.Typer()
commands = {"make": make, "verify": verify, "cost": cost, "draw": draw, "export": export, "run": run}
for name, module in commands.items():
    app.command(name, cls=Command)(module.command)
