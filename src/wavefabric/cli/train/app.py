"""The commands of `wavefabric train`; ``simulate`` is the one that a model's name alone means."""

import typer

from wavefabric.cli.common.options import grouped, register
from wavefabric.cli.train import measure, models, simulate

app = typer.Typer(subcommand_metavar="| COMMAND [ARGS]...")
app.callback()(grouped(simulate.command, all_ranks=False))  # which help shows
register(app, "simulate", simulate.command, hidden=True)
register(app, "models", models.command)
register(app, "measure", measure.command)
