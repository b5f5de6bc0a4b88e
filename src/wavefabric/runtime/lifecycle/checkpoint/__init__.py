"""Save and load checkpoints of a run: `file` (one file), `when` (saves of a run, the files of all ranks)."""
