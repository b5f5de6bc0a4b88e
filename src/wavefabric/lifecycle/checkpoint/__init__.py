"""The checkpoint of a run: `file` (one file), `manifest` (the files of all ranks), `when` (a run's saves)."""
