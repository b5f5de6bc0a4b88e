"""Save and load checkpoints of a run: `file` is one file, `run_checkpoint` saves those of all ranks.

After Ctrl-C the `run.py` of each solver saves one.
"""
