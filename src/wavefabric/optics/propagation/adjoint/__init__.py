"""The exact gradient of a propagation of fixed steps: `operators` (of a step and their adjoints), `steps` (of
each integrator), `gradient` (a whole propagation). On top of ``propagation`` and ``lifecycle.reversal``."""
