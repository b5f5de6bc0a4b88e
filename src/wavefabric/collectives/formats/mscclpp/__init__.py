"""Convert schedules to MSCCL++'s execution plans (JSON) and back; plans are replayed and verified.

May import `collectives`, `files` and `errors`; nothing but `cli` imports it.
"""
