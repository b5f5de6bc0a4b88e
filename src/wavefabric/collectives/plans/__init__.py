"""Execution plans: a schedule compiled into instructions that one kernel a rank interprets.

`pieces.py` finds what always moves together, `moves.py` makes moves and joins those that one pass can do,
`order.py` adds signals and waits, `check.py` proves a plan with `check_values.py`. Imports what
``collectives`` may. "Execution plan" is the term of MSCCL++ (arXiv:2504.09014).
"""
