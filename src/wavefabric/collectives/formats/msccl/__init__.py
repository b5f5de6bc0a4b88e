"""MSCCL's XML: schedules as thread blocks and steps, and back; limits, deadlocks and races checked.

May import `collectives`, `files` and `errors`; nothing but `cli` imports it.
"""
