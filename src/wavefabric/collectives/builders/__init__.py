"""Build schedules of collective operations: one function per algorithm, one module per family.

Builders use the schedule and the conditions of the parent package; `collectives.registry` names them. May
import `schedule`, `conditions`, `structure` and `arguments`.
"""
