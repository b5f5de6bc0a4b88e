"""Save and load checkpoints: `file` handles one file, `run_checkpoint` the files of all ranks of a run.

The `run.py` of each solver also saves a checkpoint after Ctrl-C.
"""
