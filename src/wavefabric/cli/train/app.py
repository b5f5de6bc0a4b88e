"""The commands of `wavefabric train`; ``simulate`` is the one that a model's name alone means."""

from wavefabric.cli.common.options import Group, make_command, register
from wavefabric.cli.train import models, simulate

_simulate = make_command("simulate", simulate.command, hidden=True)
#: Its help is that of the command which a model's name alone means.
app = Group(params=_simulate.params, help=_simulate.help, subcommand_metavar="| COMMAND [ARGS]...")
app.default = "simulate"
app.add_command(_simulate)
register(app, "models", models.list_models)
register(app, "measure", models.measure_model)
