"""Compile a schedule into an execution plan: instructions that one kernel per rank interprets.

`moves.py` cuts transfers into pieces, compiles them to moves and merges moves that one pass can do;
`order.py` adds signals and waits; `check.py` verifies a plan. May import what ``collectives`` may import.
"Execution plan" is the term of MSCCL++ (arXiv:2504.09014).
"""
