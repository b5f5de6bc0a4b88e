"""The commands of `wavefabric collective`."""

from __future__ import annotations

import typer

from wavefabric.cli.collective import cost, draw, export, make, run, verify
from wavefabric.cli.common.options import register

app = typer.Typer()
for module in (make, verify, cost, draw, export, run):
    register(app, module.__name__.rpartition(".")[2], module.command)
