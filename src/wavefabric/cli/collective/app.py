"""The commands of `wavefabric collective`."""

import typer

from wavefabric.cli.collective import compile, cost, draw, export, make, run, tune, verify
from wavefabric.cli.common.options import register

app = typer.Typer()
register(app, "make", make.command)
register(app, "verify", verify.command)
register(app, "cost", cost.command)
register(app, "compile", compile.command)
register(app, "draw", draw.command)
register(app, "export", export.command)
register(app, "run", run.command, all_ranks=True)
register(app, "tune", tune.command, all_ranks=True)
