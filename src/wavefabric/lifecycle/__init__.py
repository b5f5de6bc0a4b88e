"""What a run of fibre and one of ultrasound share: memory check, agreement of ranks, status, checkpoints.

May import `exchange`, `device`, `results`, `files` and `system`; the solvers import it.
"""
