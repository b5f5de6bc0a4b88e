"""The commands of `wavefabric train`; ``simulate`` is the one that a model's name alone means."""

import typer

from wavefabric.cli.common.options import register
from wavefabric.cli.train import measure, models, simulate

app = typer.Typer()
register(app, "simulate", simulate.command)
register(app, "models", models.command)
register(app, "measure", measure.command)
