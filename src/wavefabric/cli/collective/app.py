"""The commands of `wavefabric collective`."""

from __future__ import annotations

import typer

from wavefabric.cli.collective import cost, draw, export, make, run, tune, verify
from wavefabric.cli.common.options import register

app = typer.Typer()
register(app, "make", make.command)
register(app, "verify", verify.command)
register(app, "cost", cost.command)
register(app, "draw", draw.command)
register(app, "export", export.command)
register(app, "run", run.command, all_ranks=True)
register(app, "tune", tune.command, all_ranks=True)
