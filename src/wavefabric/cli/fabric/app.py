"""The commands of `wavefabric fabric`."""

from wavefabric.cli.common.options import Group, register
from wavefabric.cli.fabric import measured_fabric, routes, show

app = Group()
register(app, "show", show.command)
register(app, "routes", routes.command)
register(app, "measure", measured_fabric.command, all_ranks=True)
