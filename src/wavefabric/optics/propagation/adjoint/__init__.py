"""The exact gradient of a propagation: `steps` and operators with their adjoints; `gradient` of all steps."""
