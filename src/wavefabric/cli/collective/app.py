"""The commands of `wavefabric collective`."""

from wavefabric.cli.collective import compile, cost, draw, export, make, run, tune, verify
from wavefabric.cli.common.options import Group, register

app = Group()
for module in (make, verify, cost, compile, draw, export, run, tune):
    name = module.__name__.rpartition(".")[2]
    register(app, name, module.command, all_ranks=module in (run, tune))
