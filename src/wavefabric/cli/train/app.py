"""The commands of `wavefabric train`; ``simulate`` is the one that a model's name alone means."""

import typer

from wavefabric.cli.common.options import grouped, register
from wavefabric.cli.train import models, simulate

app = typer.Typer(subcommand_metavar="| COMMAND [ARGS]...")
app.callback()(grouped(simulate.command, all_ranks=False))  # which help shows
register(app, "simulate", simulate.command, hidden=True)
register(app, "models", models.list_models)
register(app, "measure", models.measure_model)
