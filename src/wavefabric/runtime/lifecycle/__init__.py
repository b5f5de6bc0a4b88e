"""Share what fibre and ultrasound runs need: memory check, agreement of ranks, status, checkpoints.

May import `exchange`, `device`, `results`, `files` and `system`; the solvers import it.
"""
