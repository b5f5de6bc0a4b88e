"""Define the commands of `wavefabric train`; a model's name without a command means ``simulate``."""

from wavefabric.cli.common.options import Group, make_command, register
from wavefabric.cli.train import models, simulate

_simulate = make_command("simulate", simulate.command, hidden=True)
#: The group has the help and the options of ``simulate``, the command for a model's name.
app = Group(params=_simulate.params, help=_simulate.help, subcommand_metavar="| COMMAND [ARGS]...")
app.default = "simulate"
app.add_command(_simulate)
register(app, "models", models.list_models)
register(app, "measure", models.measure_model)
