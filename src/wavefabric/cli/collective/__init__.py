"""Commands of `wavefabric collective`: make, verify, cost, draw, export and run schedules.

There is one module per command, imported only when the command is called; no other command imports them.
"""
