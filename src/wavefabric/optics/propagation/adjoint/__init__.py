"""The exact gradient of a propagation: `operators` and `steps` with their adjoints, `gradient` of all steps."""
