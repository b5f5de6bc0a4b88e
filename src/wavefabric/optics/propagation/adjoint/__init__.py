"""The exact gradient of a propagation: `operators`, `steps` and their adjoints; `gradient` of all steps."""
