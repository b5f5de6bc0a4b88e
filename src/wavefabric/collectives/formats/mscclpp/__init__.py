"""MSCCL++'s execution plans (JSON): schedules as operations of thread blocks, and back; replayed and proved.

May import `collectives`, `files` and `errors`; nothing but `cli` imports it.
"""
