"""Algorithms of collective operations: each function makes a schedule, one module a family.

They use the schedule and the conditions above them; `collectives.registry` names them.
May import `schedule`, `conditions`, `structure` and `arguments`.
"""
