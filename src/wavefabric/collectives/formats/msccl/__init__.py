"""Convert schedules to MSCCL's XML (thread blocks and steps) and back; check limits, deadlocks and races.

May import `collectives`, `files` and `errors`; nothing but `cli` imports it.
"""
