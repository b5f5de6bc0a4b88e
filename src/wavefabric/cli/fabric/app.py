"""The commands of `wavefabric fabric`."""

from __future__ import annotations

import typer

from wavefabric.cli.common.options import register
from wavefabric.cli.fabric import measure, routes, show

app = typer.Typer()
for module in (show, routes, measure):
    register(app, module.__name__.rpartition(".")[2], module.command)
