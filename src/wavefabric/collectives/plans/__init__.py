"""Execution plans: a schedule compiled into instructions that one kernel a rank interprets.

`moves.py` finds what always moves together, makes moves of it and joins those that one pass can do,
`order.py` adds signals and waits, `check.py` proves a plan. Imports what ``collectives`` may. "Execution
plan" is the term of MSCCL++ (arXiv:2504.09014).
"""
